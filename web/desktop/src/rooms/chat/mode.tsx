import { ChevronDown, ListChecks, Play } from 'lucide-react';
import { t } from '../../lib/i18n';
import { Menu } from '../../ui/menu';

export type Mode = 'planning' | 'executing';

/** ModeChoice says whether the agent plans or acts, and names its model. */
export function ModeChoice({ value, change, model }: { value: Mode; change: (mode: Mode) => void; model?: string | null | undefined }) {
  return (
    <>
      <Menu
        align="start"
        trigger={
          <button
            type="button"
            className="inline-flex h-8 items-center gap-1.5 rounded-md px-2 text-sm text-soft hover:bg-hover hover:text-ink"
          >
            {value === 'planning' ? <ListChecks size={15} aria-hidden /> : <Play size={14} aria-hidden />}
            {value === 'planning' ? t('Plan') : t('Act')}
            <ChevronDown size={14} aria-hidden />
          </button>
        }
        items={[
          {
            label: t('Act: use tools and change files'),
            icon: <Play size={14} />,
            run: () => change('executing'),
            checked: value === 'executing',
          },
          {
            label: t('Plan: only read, then propose'),
            icon: <ListChecks size={15} />,
            run: () => change('planning'),
            checked: value === 'planning',
          },
        ]}
      />
      {model && <span className="truncate px-1 text-xs text-soft max-sm:hidden">{model}</span>}
    </>
  );
}
