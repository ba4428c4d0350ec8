import { DropdownMenu as Radix } from 'radix-ui';
import type { ReactNode } from 'react';
import { cn } from '../lib/cn';
import { t } from '../lib/i18n';

export interface MenuItem {
  label: string;
  icon?: ReactNode;
  run: () => void;
  danger?: boolean;
  disabled?: boolean;
  checked?: boolean;
}

/** Menu opens a list of actions below its trigger. `null` is a line between two groups. */
export function Menu({ trigger, items, align = 'end' }: { trigger: ReactNode; items: (MenuItem | null)[]; align?: 'start' | 'end' }) {
  return (
    <Radix.Root>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="z-50 max-h-96 min-w-44 overflow-y-auto rounded-lg border bg-raised p-1 shadow-lg"
        >
          {items.map((item, index) =>
            item === null ? (
              <Radix.Separator key={index} className="my-1 border-t" />
            ) : (
              <Radix.Item
                key={index}
                disabled={item.disabled ?? false}
                onSelect={item.run}
                className={cn(
                  'flex items-center gap-2 rounded-md px-2 py-1.5 text-sm outline-none select-none data-disabled:opacity-50',
                  'data-highlighted:bg-hover',
                  item.danger && 'text-bad',
                )}
              >
                {item.icon}
                <span className="min-w-0 flex-1 truncate">{item.label}</span>
                {item.checked && <span aria-label={t('chosen')}>✓</span>}
              </Radix.Item>
            ),
          )}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
