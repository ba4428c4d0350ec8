import { Tooltip } from 'radix-ui';
import type { ComponentProps, ReactNode } from 'react';
import { cn } from '../lib/cn';

type Look = 'plain' | 'primary' | 'danger' | 'ghost';

const looks: Record<Look, string> = {
  plain: 'border bg-raised hover:bg-hover',
  primary: 'border border-transparent bg-accent text-accent-ink hover:bg-accent/90',
  danger: 'border border-bad/40 bg-bad-soft text-bad hover:border-bad',
  ghost: 'border border-transparent text-soft hover:bg-hover hover:text-ink',
};

export interface ButtonProps extends ComponentProps<'button'> {
  look?: Look;
  small?: boolean;
  busy?: boolean;
}

export function Button({ look = 'plain', small, busy, className, disabled, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      className={cn(
        'inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap disabled:cursor-default',
        'disabled:opacity-50',
        small ? 'h-7 px-2 text-xs' : 'h-8 px-3 text-sm',
        looks[look],
        className,
      )}
      {...rest}
    />
  );
}

/** IconButton has a picture, whose meaning is its accessible name and its tooltip. */
export function IconButton({
  label,
  children,
  className,
  look = 'ghost',
  small,
  busy,
  disabled,
  ...rest
}: ButtonProps & { label: string; children: ReactNode }) {
  return (
    <Tip text={label}>
      <button
        type="button"
        aria-label={label}
        disabled={disabled || busy}
        aria-busy={busy || undefined}
        className={cn(
          'inline-flex shrink-0 items-center justify-center rounded-md disabled:cursor-default disabled:opacity-40',
          small ? 'size-7' : 'size-8',
          looks[look],
          className,
        )}
        {...rest}
      >
        {children}
      </button>
    </Tip>
  );
}

export function Tip({ text, children }: { text: ReactNode; children: ReactNode }) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content sideOffset={4} collisionPadding={8} className="z-50 max-w-72 rounded-md bg-ink px-2 py-1 text-xs text-bg">
          {text}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}
