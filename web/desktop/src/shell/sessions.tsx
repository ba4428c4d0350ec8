import { useQueries, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import type { Schemas } from '@everloop/sdk';
import { defaultRangeExtractor, type Range, useVirtualizer } from '@tanstack/react-virtual';
import { CircleHelp, Ellipsis, Pencil, Pin, PinOff, Trash2, TriangleAlert } from 'lucide-react';
import { useCallback, useEffect, useRef, useState } from 'react';
import { cn } from '../lib/cn';
import { ago } from '../lib/format';
import { t } from '../lib/i18n';
import { api, useAction } from '../lib/query';
import { IconButton } from '../ui/button';
import { FormDialog } from '../ui/dialog';
import { Field, Input } from '../ui/field';
import { Menu } from '../ui/menu';
import { Failure, Spinner } from '../ui/page';

type Item = Schemas['SessionSummary'];

interface Change {
  what: 'rename' | 'delete';
  item: Item;
}

const pageSize = 40;
const rowHeight = 33;
const list = ['sessions', 'list'] as const;

// pageOf reads one page of the list. The pages of a list are separate queries: only those that are shown are read again.
const pageOf = (q: string, number: number) => ({
  queryKey: [...list, q, number],
  queryFn: ({ signal }: { signal: AbortSignal }) =>
    api().listSessions({ query: { offset: number * pageSize, limit: pageSize, ...(q ? { q } : {}) }, signal }),
});

/** SessionList shows the sessions, of which only those in view are in the page, and only their pages are read. */
export function SessionList({ q }: { q: string }) {
  const box = useRef<HTMLElement>(null);
  const [changing, setChanging] = useState<Change>();
  const [focused, setFocused] = useState<number>();
  const first = useQuery(pageOf(q, 0));
  const total = first.data?.total ?? 0;
  const virtual = useVirtualizer({
    count: total,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    gap: 1,
    paddingStart: 4,
    paddingEnd: 4,
    overscan: 10,
    // The row that has the focus, or whose menu is open, stays in the page when it is scrolled out of view.
    rangeExtractor: useCallback((range: Range) => {
      const shown = defaultRangeExtractor(range);
      if (focused === undefined || focused >= range.count || shown.includes(focused)) return shown;
      return [...shown, focused].sort((a, b) => a - b);
    }, [focused]),
    useFlushSync: false,
  });
  const rows = virtual.getVirtualItems();
  const numbers = [...new Set(rows.map((row) => Math.floor(row.index / pageSize)))].filter((number) => number > 0);
  const others = useQueries({ queries: numbers.map((number) => pageOf(q, number)) });
  const pages = new Map([[0, first.data], ...numbers.map((number, index) => [number, others[index]?.data] as const)]);
  useRefresh([...pages.values()].some((page) => page?.items.some((one) => one.status === 'running')));

  // Two pages that were read at different times can have the same session.
  const seen = new Set<string>();
  const keyOf = (item: Item | undefined, index: number): string => {
    if (!item || seen.has(item.id)) return String(index);
    seen.add(item.id);
    return item.id;
  };

  return (
    <nav ref={box} aria-label={t('Sessions')} className="min-h-0 flex-1 overflow-y-auto px-2">
      {!first.data &&
        (first.error ? (
          <Failure error={first.error} retry={() => void first.refetch()} />
        ) : (
          <div className="p-2">
            <Spinner />
          </div>
        ))}
      {first.data && total === 0 && (
        <p className="px-2 py-6 text-center text-sm text-soft">
          {q ? t('No sessions contain this text.') : t('No sessions yet. Write a first message to start one.')}
        </p>
      )}
      {total > 0 && (
        <ul className="relative" style={{ height: virtual.getTotalSize() }}>
          {rows.map(({ index, start, size }) => {
            const item = pages.get(Math.floor(index / pageSize))?.items[index % pageSize];
            return (
              <li
                key={keyOf(item, index)}
                aria-setsize={total}
                aria-posinset={index + 1}
                aria-busy={!item}
                className="absolute inset-x-0"
                style={{ top: start, height: size }}
                onFocus={() => setFocused(index)}
              >
                {item ? (
                  <SessionItem item={item} change={(what) => setChanging({ what, item })} />
                ) : (
                  <span className="mx-2 mt-2.5 block h-3 rounded bg-hover" />
                )}
              </li>
            );
          })}
        </ul>
      )}
      {changing?.what === 'rename' && <Rename item={changing.item} done={() => setChanging(undefined)} />}
      {changing?.what === 'delete' && <Delete item={changing.item} done={() => setChanging(undefined)} />}
    </nav>
  );
}

// The pages that are shown are read again while something runs, and now and then otherwise; others when they are shown again.
function useRefresh(active: boolean): void {
  const client = useQueryClient();
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void client.invalidateQueries({ queryKey: list }, { cancelRefetch: false });
    }, active ? 4000 : 20_000);
    return () => clearInterval(timer);
  }, [active, client]);
}

function SessionItem({ item, change }: { item: Item; change: (what: Change['what']) => void }) {
  const { sessionId } = useParams({ strict: false }) as { sessionId?: string };
  const pin = useAction((pinned: boolean) => api().pinSession(item.id, { pinned }), { refresh: [['sessions']] });
  const name = item.intent || t('New session');
  return (
    <div className={cn('group relative flex h-full items-center rounded-md hover:bg-hover', sessionId === item.id && 'bg-hover')}>
      <Link
        to="/s/$sessionId"
        params={{ sessionId: item.id }}
        aria-current={sessionId === item.id ? 'page' : undefined}
        className="flex min-w-0 flex-1 items-center gap-2 self-stretch rounded-md pl-2"
      >
        <Mark item={item} />
        <span className="min-w-0 flex-1 truncate" dir="auto" title={name}>
          {name}
        </span>
      </Link>
      {item.is_pinned && (
        <Pin size={12} className="mx-1 shrink-0 text-soft group-focus-within:hidden group-hover:hidden" aria-label={t('pinned')} />
      )}
      <span className="pr-2 pl-1 text-xs text-soft group-focus-within:hidden group-hover:hidden">{ago(item.updated_at)}</span>
      <span className="hidden pr-1 group-focus-within:block group-hover:block has-data-[state=open]:block">
        <Menu
          trigger={
            <IconButton label={t('Actions of {name}', { name })} small>
              <Ellipsis size={16} />
            </IconButton>
          }
          items={[
            item.is_pinned
              ? { label: t('Unpin'), icon: <PinOff size={15} />, run: () => pin.mutate(false) }
              : { label: t('Pin'), icon: <Pin size={15} />, run: () => pin.mutate(true) },
            { label: t('Rename'), icon: <Pencil size={15} />, run: () => change('rename') },
            null,
            { label: t('Delete'), icon: <Trash2 size={15} />, danger: true, run: () => change('delete') },
          ]}
        />
      </span>
    </div>
  );
}

/** Mark says by a sign and a text whether a session runs, waits for a person, or has failed. */
function Mark({ item }: { item: Item }) {
  if (item.status === 'running') {
    return (
      <span role="img" aria-label={t('running')} title={t('running')} className="size-2 shrink-0 animate-pulse rounded-full bg-accent" />
    );
  }
  if (item.status === 'waiting_for_input')
    return <CircleHelp size={14} className="-mx-[3px] shrink-0 text-warn" aria-label={t('waits for your answer')} />;
  if (item.status === 'failed') return <TriangleAlert size={14} className="-mx-[3px] shrink-0 text-bad" aria-label={t('failed')} />;
  return <span className="size-2 shrink-0" />;
}

function Rename({ item, done }: { item: Item; done: () => void }) {
  const [name, setName] = useState(item.intent);
  const rename = useAction(() => api().updateSession(item.id, { intent: name.trim() }), { refresh: [['sessions'], ['session', item.id]] });
  return (
    <FormDialog open onOpenChange={done} title={t('Rename the session')} confirm={t('Rename')} submit={() => rename.mutateAsync()}>
      <Field label={t('Name')}>
        {(ids) => <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} required autoFocus maxLength={500} />}
      </Field>
    </FormDialog>
  );
}

function Delete({ item, done }: { item: Item; done: () => void }) {
  const navigate = useNavigate();
  const { sessionId } = useParams({ strict: false }) as { sessionId?: string };
  const remove = useAction(() => api().deleteSession(item.id), { done: t('The session was deleted.'), refresh: [['sessions']] });
  const submit = async () => {
    await remove.mutateAsync();
    if (sessionId === item.id) await navigate({ to: '/' });
  };
  return (
    <FormDialog
      open
      onOpenChange={done}
      danger
      title={t('Delete the session?')}
      confirm={t('Delete')}
      submit={submit}
      description={
        <>
          {t('Permanently deletes “{name}”, its messages and its files. Running work in it is stopped.', {
            name: item.intent || t('New session'),
          })}
        </>
      }
    />
  );
}
