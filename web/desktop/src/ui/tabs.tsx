import { useLocation, useNavigate } from '@tanstack/react-router';
import { Tabs as Radix } from 'radix-ui';
import { type ReactNode, useEffect, useRef } from 'react';

export interface Tab {
  id: string;
  label: string;
  content: ReactNode;
}

/** TabbedPage is a room of several parts. The address names the part that is open, so that it can be linked. */
export function TabbedPage({ title, tabs }: { title: string; tabs: Tab[] }) {
  const hash = useLocation({ select: (location) => location.hash });
  const navigate = useNavigate();
  const list = useRef<HTMLDivElement>(null);
  const open = tabs.find((tab) => tab.id === hash)?.id ?? tabs[0]?.id ?? '';
  useEffect(() => {
    void list.current?.querySelector('[data-state="active"]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [open]);
  return (
    <Radix.Root
      value={open}
      onValueChange={(id) => void navigate({ to: '.', hash: id, replace: true, hashScrollIntoView: false })}
      className="flex h-full min-h-0 flex-col"
    >
      <header className="border-b">
        <h1 className="room-header flex min-h-12 items-center pr-3 pl-4 text-base font-semibold">{title}</h1>
        <Radix.List ref={list} aria-label={title} className="flex gap-1 overflow-x-auto px-2">
          {tabs.map((tab) => (
            <Radix.Trigger
              key={tab.id}
              value={tab.id}
              className="-mb-px shrink-0 border-b-2 border-transparent px-2.5 py-1.5 text-sm text-soft hover:text-ink
                focus-visible:-outline-offset-2 data-[state=active]:border-accent data-[state=active]:font-medium
                data-[state=active]:text-ink"
            >
              {tab.label}
            </Radix.Trigger>
          ))}
        </Radix.List>
      </header>
      {tabs.map((tab) => (
        <Radix.Content key={tab.id} value={tab.id} className="min-h-0 flex-1 overflow-y-auto focus-visible:-outline-offset-2">
          <div className="mx-auto max-w-4xl space-y-8 p-4 pb-16">{tab.content}</div>
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}
