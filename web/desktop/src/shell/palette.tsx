import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { BookOpen, Keyboard, LogOut, MessageSquare, Monitor, Moon, Plus, Search, Sun } from 'lucide-react';
import { Dialog as Radix } from 'radix-ui';
import { type ComponentType, type KeyboardEvent, useDeferredValue, useEffect, useId, useRef, useState } from 'react';
import { signOut, useAuth } from '../lib/auth';
import { cn } from '../lib/cn';
import { ago } from '../lib/format';
import { t } from '../lib/i18n';
import { api } from '../lib/query';
import { setTheme } from '../lib/theme';
import { rooms } from '../rooms';
import { matches } from './shortcuts';

interface Entry {
  id: string;
  group: (typeof groups)[number];
  label: string;
  note?: string;
  icon: ComponentType<{ size?: number; className?: string }>;
  run: () => unknown;
}

const groups = ['rooms', 'sessions', 'actions'] as const;
const groupNames = { rooms: t('Rooms'), sessions: t('Sessions'), actions: t('Actions') };

// Parts of rooms that have an address of their own.
const parts: Record<string, readonly (readonly [hash: string, label: string])[]> = {
  '/settings': [
    ['account', t('Account')],
    ['preferences', t('Preferences')],
    ['keys', t('API keys')],
    ['environment', t('Environment')],
  ],
  '/library': [
    ['skills', t('Skills')],
    ['tools', t('Tool servers')],
    ['memories', t('Memories')],
    ['solutions', t('Solutions')],
    ['apps', t('Apps')],
    ['shared', t('Shared')],
    ['tasks', t('Background tasks')],
  ],
  '/admin': [
    ['overview', t('Overview')],
    ['runs', t('Runs')],
    ['users', t('Users')],
    ['audit', t('Audit')],
    ['diagnostics', t('Diagnostics')],
    ['configuration', t('Configuration')],
  ],
};

/** Palette finds sessions, rooms and actions by their names, and sessions by their messages. */
export default function Palette({ close, help }: { close: () => void; help: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const q = useDeferredValue(text.trim());
  const navigate = useNavigate();
  const auth = useAuth();
  const administrator = auth.status === 'in' && auth.me.administrator;
  const list = useRef<HTMLDivElement>(null);
  const id = useId();
  const sessions = useQuery({
    queryKey: ['sessions', 'palette', q],
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => api().listSessions({ query: { limit: 8, ...(q ? { q } : {}) }, signal }),
  });

  const fixed: Entry[] = [
    { id: 'new', group: 'actions', label: t('New session'), icon: Plus, run: () => navigate({ to: '/' }) },
    ...rooms
      .filter((room) => room.nav && (!room.nav.admin || administrator))
      .flatMap(({ path, nav }): Entry[] =>
        nav
          ? [
              { id: path, group: 'rooms', label: nav.label, icon: nav.icon, run: () => navigate({ to: path }) },
              ...(q
                ? (parts[path] ?? []).map(
                    ([hash, label]): Entry => ({
                      id: `${path}#${hash}`,
                      group: 'rooms',
                      label: `${nav.label}: ${label}`,
                      icon: nav.icon,
                      run: () => navigate({ to: path, hash }),
                    }),
                  )
                : []),
            ]
          : [],
      ),
    { id: 'light', group: 'actions', label: t('Theme: light'), icon: Sun, run: () => setTheme('light') },
    { id: 'dark', group: 'actions', label: t('Theme: dark'), icon: Moon, run: () => setTheme('dark') },
    { id: 'system', group: 'actions', label: t('Theme: as the system'), icon: Monitor, run: () => setTheme('system') },
    { id: 'help', group: 'actions', label: t('Help: keyboard shortcuts'), icon: Keyboard, run: help },
    { id: 'docs', group: 'actions', label: t('Documentation'), icon: BookOpen, run: () => window.open('/docs', '_blank', 'noopener') },
    { id: 'out', group: 'actions', label: t('Sign out'), icon: LogOut, run: () => signOut() },
  ];
  const found: Entry[] = (sessions.data?.items ?? [])
    .filter((one) => !sessions.isPlaceholderData || matches(one.intent, q))
    .map((one) => ({
      id: one.id,
      group: 'sessions',
      label: one.intent || t('New session'),
      note: ago(one.updated_at),
      icon: MessageSquare,
      run: () => navigate({ to: '/s/$sessionId', params: { sessionId: one.id } }),
    }));
  const named = fixed.filter((entry) => matches(entry.label, q));
  const all = [...named, ...found];
  const entries = groups.flatMap((group) => all.filter((entry) => entry.group === group));
  const chosen = Math.min(at, Math.max(0, entries.length - 1));

  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [chosen, entries.length]);

  const run = (entry: Entry | undefined) => {
    if (!entry) return;
    close();
    void entry.run();
  };
  const pressed = (event: KeyboardEvent) => {
    const moves: Record<string, number> = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, Home: 0, End: entries.length - 1 };
    const next = moves[event.key];
    if (event.key === 'Enter' && !event.nativeEvent.isComposing) {
      event.preventDefault();
      run(entries[chosen]);
    } else if (next !== undefined && entries.length > 0 && (!['Home', 'End'].includes(event.key) || text === '')) {
      event.preventDefault();
      setAt((next + entries.length) % entries.length);
    }
  };

  return (
    <Radix.Root open onOpenChange={close}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-black/40" />
        <Radix.Content
          aria-describedby={undefined}
          className="fixed top-[10dvh] left-1/2 z-40 flex max-h-[75dvh] w-[calc(100vw-24px)] max-w-xl -translate-x-1/2 flex-col
            overflow-hidden rounded-xl border bg-raised shadow-xl"
        >
          <Radix.Title className="sr-only">{t('Command palette')}</Radix.Title>
          <div className="flex items-center gap-2 border-b px-3">
            <Search size={16} className="shrink-0 text-soft" aria-hidden />
            <input
              role="combobox"
              aria-expanded
              aria-controls={`${id}-list`}
              aria-activedescendant={entries[chosen] ? `${id}-${chosen}` : undefined}
              aria-autocomplete="list"
              aria-label={t('Find sessions, rooms and actions')}
              value={text}
              onChange={(event) => {
                setText(event.target.value);
                setAt(0);
              }}
              onKeyDown={pressed}
              placeholder={t('Find sessions, rooms and actions')}
              autoFocus
              spellCheck={false}
              className="h-11 w-full bg-transparent outline-none"
            />
          </div>
          <div ref={list} id={`${id}-list`} role="listbox" aria-label={t('Results')} className="min-h-0 overflow-y-auto p-1.5">
            {groups.map((group) => {
              const items = entries.map((entry, index) => ({ entry, index })).filter((one) => one.entry.group === group);
              return (
                items.length > 0 && (
                  <div key={group} role="group" aria-labelledby={`${id}-${group}`}>
                    <p id={`${id}-${group}`} className="px-2 pt-2 pb-1 text-xs text-soft">
                      {groupNames[group]}
                    </p>
                    {items.map(({ entry, index }) => (
                      <div
                        key={entry.id}
                        role="option"
                        id={`${id}-${index}`}
                        aria-selected={index === chosen}
                        onMouseMove={(event) => {
                          if (event.movementX || event.movementY) setAt(index);
                        }}
                        onClick={() => run(entry)}
                        className={cn('flex cursor-pointer items-center gap-2.5 rounded-md px-2 py-1.5', index === chosen && 'bg-hover')}
                      >
                        <entry.icon size={15} className="shrink-0 text-soft" />
                        <span className="min-w-0 flex-1 truncate" dir="auto">
                          {entry.label}
                        </span>
                        {entry.note && <span className="text-xs text-soft">{entry.note}</span>}
                      </div>
                    ))}
                  </div>
                )
              );
            })}
          </div>
          {entries.length === 0 && (
            <p role="status" className="px-3 pb-3 text-sm text-soft">
              {t('Nothing has this name.')}
            </p>
          )}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
