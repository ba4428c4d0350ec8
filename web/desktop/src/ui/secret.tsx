import { t } from '../lib/i18n';
import { Button } from './button';
import { CopyButton } from './code';
import { Dialog } from './dialog';

/** SecretDialog shows what the service gives only once. */
export function SecretDialog({ title, secret, note = t('Copy it now. It is not shown again.'), label = t('Secret'), close }: {
  title: string; secret: string; note?: string; label?: string; close: () => void;
}) {
  return (
    <Dialog open onOpenChange={close} title={title} description={note}>
      <div className="flex items-center gap-2 rounded-md border bg-panel px-3 py-2">
        <code aria-label={label} role="textbox" aria-readonly tabIndex={0} className="code min-w-0 flex-1 break-all">
          {secret}
        </code>
        <CopyButton text={secret} label={t('Copy')} />
      </div>
      <div className="mt-4 flex justify-end">
        <Button look="primary" onClick={close}>
          {t('Done|verb')}
        </Button>
      </div>
    </Dialog>
  );
}
