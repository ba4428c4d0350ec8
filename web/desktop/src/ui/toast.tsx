import { X } from 'lucide-react';
import { useSyncExternalStore } from 'react';
import { cn } from '../lib/cn';
import { t } from '../lib/i18n';

interface Toast {
  id: number;
  text: string;
  kind: 'good' | 'bad';
  action?: { label: string; run: () => void } | undefined;
}

let shown: readonly Toast[] = [];
let last = 0;
const listeners = new Set<() => void>();

function set(next: readonly Toast[]): void {
  shown = next;
  for (const listener of listeners) listener();
}

const drop = (id: number) => set(shown.filter((one) => one.id !== id));

/** toast shows a short text for some seconds, errors for longer; `action` offers to undo. */
export function toast(text: string, kind: Toast['kind'] = 'good', action?: Toast['action']): void {
  const id = ++last;
  set([...shown.slice(-3), { id, text, kind, action }]);
  setTimeout(() => drop(id), kind === 'bad' || action ? 10_000 : 4000);
}

/** Toasts is where they appear; screen readers say them. */
export function Toasts() {
  const list = useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, () => shown);
  return (
    <div role="status" aria-live="polite" className="pointer-events-none fixed inset-x-3 bottom-3 z-50 flex flex-col items-end gap-2">
      {list.map((one) => (
        <div
          key={one.id}
          className={cn(
            'pointer-events-auto flex max-w-md items-start gap-3 rounded-lg border px-3 py-2 text-sm shadow-lg',
            one.kind === 'bad' ? 'border-bad/40 bg-bad-soft text-bad' : 'bg-raised',
          )}
        >
          <span className="min-w-0 break-words">{one.text}</span>
          {one.action && (
            <button
              type="button"
              className="shrink-0 font-medium text-accent"
              onClick={() => {
                one.action?.run();
                drop(one.id);
              }}
            >
              {one.action.label}
            </button>
          )}
          <button
            type="button"
            aria-label={t('Dismiss')}
            className="mt-0.5 shrink-0 opacity-70 hover:opacity-100"
            onClick={() => drop(one.id)}
          >
            <X size={14} />
          </button>
        </div>
      ))}
    </div>
  );
}
