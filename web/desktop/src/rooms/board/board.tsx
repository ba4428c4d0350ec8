import type { Schemas } from '@everloop/sdk';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { Bot, CircleHelp, Ellipsis, Plus, Trash2, User, Users } from 'lucide-react';
import { type DragEvent, type KeyboardEvent, useDeferredValue, useEffect, useRef, useState } from 'react';
import { cn } from '../../lib/cn';
import { t } from '../../lib/i18n';
import { api, errorText, invalidate, useAction } from '../../lib/query';
import { word } from '../../lib/words';
import { Button, IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Input } from '../../ui/field';
import { Menu } from '../../ui/menu';
import { Badge, Loaded, type Tone } from '../../ui/page';
import { toast } from '../../ui/toast';
import { Crumbs } from '../unattended/pieces';
import { useWorkspace } from './data';
import { Members } from './members';
import { NewIssue } from './new-issue';
import { type Columns, columnsOf, type Issue, moved, type Place, placeOf, type Status, statuses, statusNames, stepped } from './place';

const perColumn = 100;
const priorityTones: Record<Issue['priority'], Tone> = { urgent: 'bad', high: 'warn', medium: 'neutral', low: 'neutral', none: 'neutral' };

/** Held is an issue that the keyboard moves: where it would be put. */
interface Held {
  issue: Issue;
  at: Place;
}

/** Board has the issues of a workspace in columns. They are moved by dragging, by the keyboard, or by their menu. */
export default function Board() {
  const { workspaceId: id } = useParams({ strict: false }) as { workspaceId: string };
  const navigate = useNavigate();
  const client = useQueryClient();
  const workspace = useWorkspace(id);
  const [text, setText] = useState('');
  const q = useDeferredValue(text.trim());
  const key = ['board', id, 'groups', { q }];
  const board = useQuery({
    queryKey: key,
    refetchInterval: 6000,
    queryFn: ({ signal }) =>
      api().groupIssues(id, { query: { group_by: 'status', sort: 'position', limit: perColumn, ...(q ? { q } : {}) }, signal }),
  });
  const [making, setMaking] = useState<Status>();
  const [members, setMembers] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const [held, setHeld] = useState<Held>();
  const [dragged, setDragged] = useState<Issue>();
  const dragging = useRef<Issue>(undefined); // known at once, before the board is drawn again
  const [over, setOver] = useState<Place>();
  const [said, setSaid] = useState('');
  const columns = board.data && columnsOf(board.data.groups);
  const writable = workspace.data !== undefined && workspace.data.role !== 'viewer';
  const administers = workspace.data?.role === 'owner' || workspace.data?.role === 'admin';
  const remove = useAction(() => api().deleteProdWorkspace(id), {
    done: t('The workspace was deleted.'),
    refresh: [['board', 'workspaces']],
  });

  // The move is shown at once, and taken back when the service refuses it.
  const put = async (issue: Issue, to: Place) => {
    if (!columns) return;
    const from = placeOf(columns, issue.id);
    if (from && from.status === to.status && from.index === to.index) return;
    const next = moved(columns, issue, to);
    const placed = next[to.status][to.index];
    await client.cancelQueries({ queryKey: key });
    const before = client.getQueryData(key);
    client.setQueryData<Schemas['IssueGroups']>(
      key,
      (was) =>
        was && {
          ...was,
          groups: statuses
            .filter((status) => next[status].length > 0 || was.groups.some((group) => group.key.id === status))
            .map((status) => {
              const group = was.groups.find((one) => one.key.id === status);
              const change = next[status].length - (group?.items.length ?? 0);
              return {
                ...(group ?? { id: status, key: { id: status, name: status, type: 'status' } }),
                items: next[status],
                total: (group?.total ?? 0) + change,
              } as Schemas['IssueGroup'];
            }),
        },
    );
    try {
      await api().updateIssue(id, issue.id, {
        position: placed?.position ?? 0,
        ...(from?.status === to.status ? {} : { status: to.status }),
      });
    } catch (error) {
      client.setQueryData(key, before);
      toast(errorText(error), 'bad');
    }
    await invalidate(client, ['board', id]);
  };

  // An issue that is held is left where it was when the focus goes elsewhere.
  const heldId = held?.issue.id;
  useEffect(() => {
    if (heldId === undefined) return undefined;
    const left = (event: FocusEvent) => { if ((event.target as HTMLElement).dataset.issue !== heldId) setHeld(undefined); };
    document.addEventListener('focusin', left);
    return () => document.removeEventListener('focusin', left);
  }, [heldId]);

  const shown = columns && held ? moved(columns, held.issue, held.at) : columns;
  const say = (issue: Issue, at: Place) =>
    setSaid(t('{issue}: {column}, position {place}.', { issue: issue.identifier, column: statusNames[at.status], place: at.index + 1 }));
  const keys = (event: KeyboardEvent, issue: Issue) => {
    if (!columns || !writable || event.altKey || event.ctrlKey || event.metaKey) return;
    if (held) {
      if (event.key === 'ArrowUp' || event.key === 'ArrowDown' || event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
        event.preventDefault();
        const at = stepped(columns, held.issue.id, held.at, event.key);
        setHeld({ ...held, at });
        say(held.issue, at);
      } else if (event.key === ' ' || event.key === 'Enter') {
        event.preventDefault();
        setHeld(undefined);
        setSaid(t('{issue} was dropped in {column}.', { issue: held.issue.identifier, column: statusNames[held.at.status] }));
        void put(held.issue, held.at);
      } else if (event.key === 'Escape') {
        event.preventDefault();
        setHeld(undefined);
        setSaid(t('{issue} was not moved.', { issue: held.issue.identifier }));
      }
      return;
    }
    if (event.key === ' ') {
      event.preventDefault();
      const at = placeOf(columns, issue.id);
      if (!at) return;
      setHeld({ issue, at });
      setSaid(
        t('{issue} is picked up. Move it with the arrow keys, drop it with space, or cancel with Escape.', {
          issue: issue.identifier,
        }),
      );
    }
  };
  const drag = (issue: Issue | undefined) => {
    dragging.current = issue;
    setDragged(issue);
    if (!issue) setOver(undefined);
  };
  const drop = (status: Status, index: number) => {
    const issue = dragging.current;
    drag(undefined);
    const from = columns && issue && placeOf(columns, issue.id);
    if (issue && from) void put(issue, { status, index: from.status === status && from.index < index ? index - 1 : index });
  };

  return (
    <div className="flex h-full min-h-0 flex-col">
      <header className="room-header flex min-h-12 flex-wrap items-center gap-2 border-b py-1.5 pr-3 pl-4">
        <h1 className="min-w-32 flex-1 text-base font-semibold">
          <Crumbs to="/board" label={t('Board')}>
            {workspace.data?.name ?? '…'}
          </Crumbs>
        </h1>
        <label className="w-40 max-sm:order-last max-sm:w-full">
          <span className="sr-only">{t('Search issues')}</span>
          <Input type="search" placeholder={t('Search issues')} value={text} onChange={(event) => setText(event.target.value)} />
        </label>
        {writable && (
          <Button small look="primary" onClick={() => setMaking('todo')}>
            <Plus size={14} aria-hidden />
            {t('New issue')}
          </Button>
        )}
        <Menu
          trigger={
            <IconButton label={t('Actions of the workspace')}>
              <Ellipsis size={16} />
            </IconButton>
          }
          items={[
            { label: t('Members and squads'), icon: <Users size={15} />, run: () => setMembers(true) },
            ...(workspace.data?.role === 'owner'
              ? [null, { label: t('Delete the workspace'), icon: <Trash2 size={15} />, danger: true, run: () => setDeleting(true) }]
              : []),
          ]}
        />
      </header>
      <p className="sr-only" role="status" aria-live="assertive">
        {said}
      </p>
      <p id="board-keys" className="sr-only">
        {t('Press space to pick the issue up and move it with the arrow keys, Enter to open it.')}
      </p>
      <div className="min-h-0 flex-1">
        <Loaded query={board}>
          {(data) => (
            <div role="group" aria-label={t('Columns')} className="flex h-full snap-x scroll-px-3 gap-3 overflow-x-auto p-3">
              {shown &&
                statuses.map((status) => (
                  <Column
                    key={status}
                    status={status}
                    issues={shown[status]}
                    total={data.groups.find((group) => group.key.id === status)?.total ?? 0}
                    {...(writable ? { add: () => setMaking(status) } : {})}
                    over={dragged && over?.status === status ? over.index : undefined}
                    onOver={(index) => {
                      if (dragging.current && (over?.status !== status || over.index !== index)) setOver({ status, index });
                    }}
                    onDrop={(index) => drop(status, index)}
                  >
                    {(issue, index) => (
                      <Card
                        key={issue.id}
                        workspace={id}
                        issue={issue}
                        writable={writable}
                        held={held?.issue.id === issue.id}
                        dragging={dragged?.id === issue.id}
                        onKeys={keys}
                        drag={drag}
                        dragEnd={() => drag(undefined)}
                        move={(to) => void put(issue, { status: to, index: (columns as Columns)[to].length })}
                        index={index}
                        moveBy={(by) => void put(issue, { status: issue.status, index: Math.max(0, index + by) })}
                      />
                    )}
                  </Column>
                ))}
            </div>
          )}
        </Loaded>
      </div>
      {making && <NewIssue workspace={id} status={making} close={() => setMaking(undefined)} />}
      {members && <Members workspace={id} administers={administers} close={() => setMembers(false)} />}
      <FormDialog
        open={deleting}
        onOpenChange={() => setDeleting(false)}
        danger
        title={t('Delete the workspace?')}
        confirm={t('Delete')}
        description={t('Permanently deletes “{name}”, its issues and their comments. The sessions of the agents stay.', {
          name: workspace.data?.name ?? '',
        })}
        submit={async () => {
          await remove.mutateAsync();
          await navigate({ to: '/board' });
        }}
      />
    </div>
  );
}

function Column({
  status,
  issues,
  total,
  add,
  over,
  onOver,
  onDrop,
  children,
}: {
  status: Status;
  issues: Issue[];
  total: number;
  add?: () => void;
  over: number | undefined;
  onOver: (index: number) => void;
  onDrop: (index: number) => void;
  children: (issue: Issue, index: number) => React.ReactNode;
}) {
  const list = useRef<HTMLUListElement>(null);
  // Which card the pointer is above, by the middles of the cards.
  const above = (event: DragEvent): number => {
    event.preventDefault();
    const cards = [...(list.current?.children ?? [])].filter((one) => one.hasAttribute('data-card'));
    const index = cards.findIndex((card) => {
      const box = card.getBoundingClientRect();
      return event.clientY < box.top + box.height / 2;
    });
    return index < 0 ? cards.length : index;
  };
  const line = <li key="line" aria-hidden className="h-0.5 shrink-0 rounded bg-accent" />;
  return (
    <section
      aria-label={statusNames[status]}
      onDragOver={(event) => onOver(above(event))}
      onDrop={(event) => onDrop(above(event))}
      className="flex h-full w-68 shrink-0 snap-start flex-col rounded-lg bg-panel max-sm:w-[82vw]"
    >
      <div className="flex items-center gap-2 px-3 pt-2 pb-1">
        <h2 className="text-sm font-semibold">{statusNames[status]}</h2>
        <span className="text-xs text-soft tabular-nums">{total}</span>
        <span className="flex-1" />
        {add && (
          <IconButton small label={t('New issue in {column}', { column: statusNames[status] })} onClick={add}>
            <Plus size={15} />
          </IconButton>
        )}
      </div>
      <ul ref={list} className="flex min-h-0 flex-1 flex-col gap-2 overflow-y-auto px-2 pb-2" tabIndex={-1}>
        {issues.flatMap((issue, index) => [over === index && line, children(issue, index)])}
        {over === issues.length && line}
        {issues.length === 0 && over === undefined && <li className="px-2 py-3 text-center text-xs text-soft">{t('No issues')}</li>}
        {total > issues.length && issues.length >= perColumn && (
          <li className="px-2 py-2 text-center text-xs text-soft">{t('{count} more: use the search', { count: total - issues.length })}</li>
        )}
      </ul>
    </section>
  );
}

const assigneeIcons = { agent: Bot, squad: Users, member: User };

function Card({
  workspace,
  issue,
  writable,
  held,
  dragging,
  onKeys,
  drag,
  dragEnd,
  move,
  moveBy,
  index,
}: {
  workspace: string;
  issue: Issue;
  writable: boolean;
  held: boolean;
  dragging: boolean;
  onKeys: (event: KeyboardEvent, issue: Issue) => void;
  drag: (issue: Issue) => void;
  dragEnd: () => void;
  move: (to: Status) => void;
  moveBy: (by: number) => void;
  index: number;
}) {
  const link = useRef<HTMLAnchorElement>(null);
  const place = `${issue.status} ${index}`;
  // Between two columns the card is another element: the focus follows it.
  useEffect(() => {
    if (!held) return;
    link.current?.focus();
    link.current?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [held, place]);
  const Icon = issue.assignee_type ? assigneeIcons[issue.assignee_type] : undefined;
  return (
    <li
      data-card
      draggable={writable}
      onDragStart={(event) => {
        event.dataTransfer.effectAllowed = 'move';
        event.dataTransfer.setData('text/plain', issue.identifier);
        drag(issue);
      }}
      onDragEnd={dragEnd}
      className={cn(
        'group relative rounded-md border bg-raised p-2.5 shadow-xs hover:border-line-strong',
        held && 'border-accent ring-2 ring-accent',
        dragging && 'opacity-50',
        writable && 'cursor-grab',
      )}
    >
      <div className="flex items-center gap-1.5 text-xs text-soft">
        <span>{issue.identifier}</span>
        {issue.priority !== 'none' && <Badge tone={priorityTones[issue.priority]}>{word(issue.priority)}</Badge>}
        <span className="flex-1" />
        {issue.active_run &&
          (issue.active_run.status === 'waiting' ? (
            <span className="inline-flex items-center gap-1 text-warn">
              <CircleHelp size={13} aria-hidden />
              {t('waits')}
            </span>
          ) : (
            <span className="inline-flex items-center gap-1.5 text-accent">
              <span className="size-2 animate-pulse rounded-full bg-accent" aria-hidden />
              {issue.active_run.status === 'queued' ? t('queued') : t('works')}
            </span>
          ))}
        {writable && (
          <span className="relative z-10 -my-1 -mr-1">
            <Menu
              trigger={
                <IconButton small label={t('Move {issue}', { issue: issue.identifier })}>
                  <Ellipsis size={15} />
                </IconButton>
              }
              items={[
                { label: t('Up'), run: () => moveBy(-1) },
                { label: t('Down'), run: () => moveBy(1) },
                null,
                ...statuses
                  .filter((one) => one !== issue.status)
                  .map((one) => ({ label: t('To {column}', { column: statusNames[one] }), run: () => move(one) })),
              ]}
            />
          </span>
        )}
      </div>
      <Link
        ref={link}
        to="/board/$workspaceId/$issueId"
        params={{ workspaceId: workspace, issueId: issue.id }}
        draggable={false}
        dir="auto"
        onKeyDown={(event) => onKeys(event, issue)}
        data-issue={issue.id}
        aria-describedby={writable ? 'board-keys' : undefined}
        className="mt-0.5 block text-sm font-medium break-words after:absolute after:inset-0"
      >
        {issue.title}
      </Link>
      {(issue.assignee || issue.labels.length > 0) && (
        <div className="mt-1.5 flex flex-wrap items-center gap-1.5 text-xs text-soft">
          {issue.assignee && Icon && (
            <span className="inline-flex min-w-0 items-center gap-1">
              <Icon size={13} className="shrink-0" aria-hidden />
              <span className="truncate">{issue.assignee.name}</span>
            </span>
          )}
          {issue.labels.map((label) => (
            <Badge key={label}>{label}</Badge>
          ))}
        </div>
      )}
    </li>
  );
}
