import { X } from 'lucide-react';
import { Dialog as Radix } from 'radix-ui';
import { type FormEvent, type ReactNode, useState } from 'react';
import { cn } from '../lib/cn';
import { t } from '../lib/i18n';
import { Button, IconButton } from './button';

/** Dialog is a window over the page; Escape closes it. */
export function Dialog({ open, onOpenChange, title, description, wide, children }: {
  open: boolean; onOpenChange: (open: boolean) => void; title: string; description?: ReactNode; wide?: boolean; children: ReactNode;
}) {
  return (
    <Radix.Root open={open} onOpenChange={onOpenChange}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-black/40" />
        <Radix.Content
          {...(description === undefined ? { 'aria-describedby': undefined } : {})}
          // Not the first button: its tooltip would open, and take the first Escape.
          onOpenAutoFocus={(event) => {
            event.preventDefault();
            (event.currentTarget as HTMLElement).focus();
          }}
          className={cn(
            'fixed top-1/2 left-1/2 z-40 flex outline-none max-h-[92dvh] w-[calc(100vw-24px)] -translate-x-1/2 -translate-y-1/2 flex-col',
            'rounded-xl border bg-raised shadow-xl',
            wide ? 'max-w-4xl' : 'max-w-lg',
          )}
        >
          <div className="flex items-start gap-3 px-4 pt-3 pb-1">
            <div className="min-w-0 flex-1">
              <Radix.Title className="text-base font-semibold">{title}</Radix.Title>
              {description !== undefined && <Radix.Description className="text-sm text-soft">{description}</Radix.Description>}
            </div>
            <Radix.Close asChild>
              <IconButton label={t('Close')} small>
                <X size={16} />
              </IconButton>
            </Radix.Close>
          </div>
          <div className="min-h-0 flex-1 overflow-y-auto px-4 pt-2 pb-4">{children}</div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** FormDialog is a dialog with one form; it closes when `submit` has worked and shows its error otherwise. */
export function FormDialog({ open, onOpenChange, title, description, confirm, danger, submit, children }: {
  open: boolean; onOpenChange: (open: boolean) => void; title: string; description?: ReactNode; confirm: string; danger?: boolean;
  submit: () => Promise<unknown>; children?: ReactNode;
}) {
  const [busy, setBusy] = useState(false);
  const send = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await submit();
      onOpenChange(false);
    } catch {
      // useAction has shown it.
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title={title} description={description}>
      <form onSubmit={(event) => void send(event)} className="space-y-3">
        {children}
        <div className="flex justify-end gap-2 pt-1">
          <Button onClick={() => onOpenChange(false)}>{t('Cancel')}</Button>
          <Button type="submit" look={danger ? 'danger' : 'primary'} busy={busy}>{confirm}</Button>
        </div>
      </form>
    </Dialog>
  );
}
