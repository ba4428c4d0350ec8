import { plural } from '../../lib/i18n';
import { useInbox } from '../../lib/inbox';

/** InboxBadge is how many questions are open, beside the name of the room. */
export function InboxBadge() {
  const { data } = useInbox(15_000);
  if (!data?.total) return null;
  return (
    <span className="ml-auto rounded-full bg-warn-soft px-1.5 text-xs font-semibold text-warn tabular-nums">
      {data.total > 99 ? '99+' : data.total}<span className="sr-only"> {plural(data.total, 'open question', 'open questions')}</span>
    </span>
  );
}
