import { t } from '../lib/i18n';
import { Dialog } from '../ui/dialog';
import { shortcuts } from './shortcuts';

/** Help lists the shortcuts. */
export default function Help({ close }: { close: () => void }) {
  return (
    <Dialog open onOpenChange={close} title={t('Help')} description={t('Keyboard shortcuts; Cmd instead of Ctrl on a Mac.')}>
      <div className="space-y-4">
        <p className="text-sm">
          <a href="/docs" target="_blank" rel="noopener noreferrer" className="text-accent underline underline-offset-2">
            {t('Documentation')}
          </a>
        </p>
        {shortcuts.map(({ group, items }) => (
          <section key={group} aria-label={group}>
            <h3 className="mb-1 text-sm font-semibold">{group}</h3>
            <dl className="divide-y rounded-lg border text-sm">
              {items.map(({ keys, text }) => (
                <div key={text} className="flex items-center gap-3 px-3 py-1.5">
                  <dt className="order-last flex shrink-0 gap-1">
                    {keys.map((key) => (
                      <kbd key={key} className="rounded border bg-panel px-1.5 py-px font-sans text-xs">
                        {key}
                      </kbd>
                    ))}
                  </dt>
                  <dd className="min-w-0 flex-1">{text}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
