import { CircleAlert, Loader } from 'lucide-react';
import type { ReactNode } from 'react';
import { cn } from '../lib/cn';
import { t } from '../lib/i18n';
import { errorText } from '../lib/query';
import { Button } from './button';

/** Page is the frame of a room: a heading with its actions, and a body that scrolls. */
export function Page({
  title,
  actions,
  children,
  narrow,
}: {
  title: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  narrow?: boolean;
}) {
  return (
    <div className="flex h-full min-h-0 flex-col">
      <header className="flex min-h-12 flex-wrap items-center gap-2 border-b py-1.5 pr-3 pl-4 room-header">
        <h1 className="min-w-52 flex-1 truncate text-base font-semibold">{title}</h1>
        {actions}
      </header>
      <div className="min-h-0 flex-1 overflow-y-auto" tabIndex={-1}>
        <div className={cn('p-4', narrow && 'mx-auto max-w-3xl')}>{children}</div>
      </div>
    </div>
  );
}

export function Spinner({ label = t('Loading') }: { label?: string }) {
  return (
    <span role="status" className="inline-flex items-center gap-2 text-sm text-soft">
      <Loader size={16} className="animate-spin" aria-hidden />
      {label}…
    </span>
  );
}

/** Empty teaches what would be here, and how it gets there. */
export function Empty({ icon, title, children, action }: { icon?: ReactNode; title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-2 px-4 py-12 text-center">
      <span className="text-soft" aria-hidden>{icon}</span>
      <p className="font-medium">{title}</p>
      {children && <p className="text-sm text-soft">{children}</p>}
      {action && <div className="mt-2">{action}</div>}
    </div>
  );
}

export function Failure({ error, retry }: { error: unknown; retry?: (() => void) | undefined }) {
  return (
    <div role="alert" className="flex flex-wrap items-center gap-3 rounded-lg border border-bad/40 bg-bad-soft px-3 py-2 text-sm text-bad">
      <CircleAlert size={16} className="shrink-0" aria-hidden />
      <span className="min-w-0 flex-1 break-words">{errorText(error)}</span>
      {retry && <Button small onClick={retry}>{t('Try again')}</Button>}
    </div>
  );
}

/** Loaded shows the data of a query, or that it loads, or why it failed, or `empty` when there is none. */
export function Loaded<Data>({
  query,
  empty,
  isEmpty,
  children,
}: {
  query: { data: Data | undefined; error: unknown; refetch: () => unknown };
  empty?: ReactNode;
  isEmpty?: (data: Data) => boolean;
  children: (data: Data) => ReactNode;
}) {
  const { data, error } = query;
  if (data === undefined)
    return error ? (
      <Failure error={error} retry={() => void query.refetch()} />
    ) : (
      <div className="p-4">
        <Spinner />
      </div>
    );
  if (empty !== undefined && (isEmpty ? isEmpty(data) : Array.isArray(data) && data.length === 0)) return empty;
  return children(data);
}

/** More loads the next page of a list. */
export function More({ pages }: { pages: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown } }) {
  if (!pages.hasNextPage) return null;
  return (
    <div className="flex justify-center p-3">
      <Button small busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
        {t('Show more')}
      </Button>
    </div>
  );
}

const tones = {
  neutral: 'bg-hover text-soft',
  good: 'bg-good-soft text-good',
  bad: 'bg-bad-soft text-bad',
  warn: 'bg-warn-soft text-warn',
  accent: 'bg-accent-soft text-accent',
};
export type Tone = keyof typeof tones;

/** Badge is a short state. */
export function Badge({ tone = 'neutral', children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span className={cn('inline-flex items-center gap-1 rounded px-1.5 py-px text-xs font-medium whitespace-nowrap', tones[tone])}>
      {children}
    </span>
  );
}

export function Card({ children, className }: { children: ReactNode; className?: string }) {
  return <section className={cn('rounded-lg border bg-raised', className)}>{children}</section>;
}
