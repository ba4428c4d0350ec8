import { type ComponentProps, type ReactNode, useId } from 'react';
import { cn } from '../lib/cn';

const box = 'w-full rounded-md border border-line-strong bg-bg px-2.5 text-sm text-ink disabled:opacity-50';

export function Input({ className, ...rest }: ComponentProps<'input'>) {
  return <input className={cn(box, 'h-8', className)} {...rest} />;
}

export function Area({ className, ...rest }: ComponentProps<'textarea'>) {
  return <textarea className={cn(box, 'min-h-20 py-1.5', className)} {...rest} />;
}

/** Select is the system's own: it works everywhere, and with the keyboard. */
export function Select({ className, ...rest }: ComponentProps<'select'>) {
  return <select className={cn(box, 'h-8 pr-1', className)} {...rest} />;
}

/** Field puts a label and a hint to an input, which gets the ids. */
export function Field({
  label,
  hint,
  error,
  children,
}: {
  label: string;
  hint?: ReactNode;
  error?: string | undefined;
  children: (ids: { id: string; 'aria-describedby': string | undefined; 'aria-invalid': boolean }) => ReactNode;
}) {
  const id = useId();
  const note = error ?? hint;
  return (
    <div className="space-y-1">
      <label htmlFor={id} className="block text-sm font-medium">
        {label}
      </label>
      {children({ id, 'aria-describedby': note ? `${id}-note` : undefined, 'aria-invalid': error !== undefined })}
      {note && (
        <p id={`${id}-note`} className={cn('text-xs', error ? 'text-bad' : 'text-soft')}>
          {note}
        </p>
      )}
    </div>
  );
}

export function Check({ label, hint, className, ...rest }: Omit<ComponentProps<'input'>, 'type'> & { label: ReactNode; hint?: ReactNode }) {
  return (
    <label className={cn('flex items-start gap-2 text-sm', className)}>
      <input type="checkbox" className="mt-1 size-3.5 accent-(--accent)" {...rest} />
      <span>{label}{hint && <span className="block text-xs text-soft">{hint}</span>}</span>
    </label>
  );
}
