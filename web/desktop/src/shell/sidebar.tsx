import { useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import type { Schemas } from '@everloop/sdk';
import {
  CircleHelp,
  Ellipsis,
  LogOut,
  Monitor,
  Moon,
  PanelLeft,
  Pencil,
  Pin,
  PinOff,
  Plus,
  Search,
  Sun,
  Trash2,
  TriangleAlert,
} from 'lucide-react';
import { useDeferredValue, useEffect, useRef, useState } from 'react';
import { signOut, useAuth } from '../lib/auth';
import { cn } from '../lib/cn';
import { ago } from '../lib/format';
import { t } from '../lib/i18n';
import { api, useAction, usePages } from '../lib/query';
import { setTheme, useTheme } from '../lib/theme';
import { rooms } from '../rooms';
import { IconButton } from '../ui/button';
import { FormDialog } from '../ui/dialog';
import { Field, Input } from '../ui/field';
import { Menu } from '../ui/menu';
import { Failure, Spinner } from '../ui/page';

type Item = Schemas['SessionSummary'];

export function Sidebar({ onHide }: { onHide: () => void }) {
  const [text, setText] = useState('');
  const q = useDeferredValue(text.trim());
  const sessions = usePages(
    ['sessions', { q }],
    (page, signal) => api().listSessions({ query: { ...page, ...(q ? { q } : {}) }, signal }),
    40,
  );
  const auth = useAuth();
  const administrator = auth.status === 'in' && auth.me.administrator;
  const [changing, setChanging] = useState<{ what: 'rename' | 'delete'; item: Item }>();
  useRefresh(sessions.items);

  return (
    <aside aria-label={t('Sidebar')} className="flex h-full flex-col border-r bg-panel">
      <div className="flex h-12 items-center gap-1 px-2">
        <IconButton label={t('Hide the sidebar (Ctrl+B)')} onClick={onHide}>
          <PanelLeft size={18} />
        </IconButton>
        <span className="flex-1 px-1 font-semibold">Everloop</span>
        <Link
          to="/"
          aria-label={t('New session')}
          title={t('New session')}
          className="inline-flex size-8 items-center justify-center rounded-md text-soft hover:bg-hover hover:text-ink"
        >
          <Plus size={18} />
        </Link>
      </div>
      <label className="relative mx-2 mb-1 block">
        <span className="sr-only">{t('Search sessions and their messages')}</span>
        <Search size={15} className="absolute top-2 left-2.5 text-soft" aria-hidden />
        <Input type="search" value={text} onChange={(event) => setText(event.target.value)} placeholder={t('Search')} className="pl-8" />
      </label>
      <nav aria-label={t('Sessions')} className="min-h-0 flex-1 overflow-y-auto px-2 py-1">
        {sessions.items === undefined &&
          (sessions.error ? (
            <Failure error={sessions.error} retry={() => void sessions.refetch()} />
          ) : (
            <div className="p-2">
              <Spinner />
            </div>
          ))}
        {sessions.items?.length === 0 && (
          <p className="px-2 py-6 text-center text-sm text-soft">
            {q ? t('No session has this text.') : t('No sessions yet. Write a first message to begin one.')}
          </p>
        )}
        <ul className="space-y-px">
          {sessions.items?.map((item) => (
            <SessionItem key={item.id} item={item} change={(what) => setChanging({ what, item })} />
          ))}
        </ul>
        {sessions.hasNextPage && <Tail reached={() => void sessions.fetchNextPage()} loading={sessions.isFetchingNextPage} />}
      </nav>
      <Rooms administrator={administrator} />
      <Account />
      {changing?.what === 'rename' && <Rename item={changing.item} done={() => setChanging(undefined)} />}
      {changing?.what === 'delete' && <Delete item={changing.item} done={() => setChanging(undefined)} />}
    </aside>
  );
}

// The list is read again while something runs, and when the window is looked at again.
function useRefresh(items: Item[] | undefined): void {
  const client = useQueryClient();
  const active = items?.some((one) => one.status === 'running') ?? false;
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void client.invalidateQueries({ queryKey: ['sessions'] });
    }, active ? 4000 : 20_000);
    return () => clearInterval(timer);
  }, [active, client]);
}

function SessionItem({ item, change }: { item: Item; change: (what: 'rename' | 'delete') => void }) {
  const { sessionId } = useParams({ strict: false }) as { sessionId?: string };
  const pin = useAction((pinned: boolean) => api().pinSession(item.id, { pinned }), { refresh: [['sessions']] });
  const name = item.intent || t('New session');
  return (
    <li className={cn('group relative flex items-center rounded-md hover:bg-hover', sessionId === item.id && 'bg-hover')}>
      <Link
        to="/s/$sessionId"
        params={{ sessionId: item.id }}
        aria-current={sessionId === item.id ? 'page' : undefined}
        className="flex min-w-0 flex-1 items-center gap-2 rounded-md py-1.5 pl-2"
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
    </li>
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

function Tail({ reached, loading }: { reached: () => void; loading: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  const call = useRef(reached);
  call.current = reached;
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) call.current();
    }, { rootMargin: '300px' });
    if (place.current) observer.observe(place.current);
    return () => observer.disconnect();
  }, [loading]);
  return <div ref={place} className="p-2">{loading && <Spinner />}</div>;
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
          {t('“{name}”, its messages and its files are removed for good. What runs in it is stopped.', {
            name: item.intent || t('New session'),
          })}
        </>
      }
    />
  );
}

function Rooms({ administrator }: { administrator: boolean }) {
  const shown = rooms.filter((room) => room.nav && (!room.nav.admin || administrator));
  if (shown.length === 0) return null;
  return (
    <nav aria-label={t('Rooms')} className="max-h-[45%] overflow-y-auto border-t px-2 py-1.5">
      <ul>
        {shown.map(
          ({ path, nav }) =>
            nav && (
              <li key={path}>
                <Link
                  to={path}
                  className="flex items-center gap-2 rounded-md px-2 py-1 text-soft hover:bg-hover hover:text-ink"
                  activeProps={{ className: 'bg-hover text-ink' }}
                >
                  <nav.icon size={16} className="shrink-0" />
                  {nav.label}
                  {nav.badge && <nav.badge />}
                </Link>
              </li>
            ),
        )}
      </ul>
    </nav>
  );
}

function Account() {
  const auth = useAuth();
  const theme = useTheme();
  if (auth.status !== 'in') return null;
  const { me } = auth;
  return (
    <div className="flex items-center gap-1 border-t p-2">
      <span className="min-w-0 flex-1 truncate px-1 text-soft" dir="auto" title={me.email || me.username}>
        {me.name || me.username}
      </span>
      <Menu
        trigger={
          <IconButton label={t('Theme')}>
            {theme === 'dark' ? <Moon size={16} /> : theme === 'light' ? <Sun size={16} /> : <Monitor size={16} />}
          </IconButton>
        }
        items={[
          { label: t('System'), icon: <Monitor size={15} />, run: () => setTheme('system'), checked: theme === 'system' },
          { label: t('Light'), icon: <Sun size={15} />, run: () => setTheme('light'), checked: theme === 'light' },
          { label: t('Dark'), icon: <Moon size={15} />, run: () => setTheme('dark'), checked: theme === 'dark' },
        ]}
      />
      <IconButton label={t('Sign out')} onClick={() => void signOut()}>
        <LogOut size={16} />
      </IconButton>
    </div>
  );
}
