import { t } from '../../lib/i18n';
import { Tip } from '../../ui/button';

/** tickValues are the values of a tick that a prompt can use. */
export const tickValues = [
  { text: '{{tick.time}}', label: t('planned time') },
  { text: '{{tick.previous}}', label: t('time of the previous run') },
  { text: '{{task.title}}', label: t('title') },
];

/** inserted puts a text at the cursor of an area, in place of what is selected there. */
export function inserted(into: string, text: string, area: HTMLTextAreaElement | null): string {
  const [from, to] = area ? [area.selectionStart, area.selectionEnd] : [into.length, into.length];
  requestAnimationFrame(() => {
    area?.focus();
    area?.setSelectionRange(from + text.length, from + text.length);
  });
  return into.slice(0, from) + text + into.slice(to);
}

/** Insert offers the values that a prompt can use. */
export function Insert({ values, insert }: { values: readonly { text: string; label: string }[]; insert: (text: string) => void }) {
  return (
    <div role="group" aria-label={t('Insert a value')} className="flex flex-wrap items-center gap-1 text-xs">
      <span className="text-soft">{t('Insert:')}</span>
      {values.map(({ text, label }) => (
        <Tip key={text} text={text}>
          <button
            type="button"
            className="min-h-6 max-w-48 truncate rounded border px-1.5 text-soft hover:border-line-strong hover:text-ink"
            onClick={() => insert(text)}
          >
            {label}
          </button>
        </Tip>
      ))}
    </div>
  );
}
