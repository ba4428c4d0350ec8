import type { Schemas } from '@everloop/sdk';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Bot, User } from 'lucide-react';
import { type FormEvent, useState } from 'react';
import { cn } from '../../lib/cn';
import { ago, dateTime } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { word } from '../../lib/words';
import { Button } from '../../ui/button';
import { Area, Field } from '../../ui/field';
import { Prose } from '../../ui/markdown';
import { Failure, More, Spinner } from '../../ui/page';
import { Section } from '../unattended/pieces';
import { useCandidates } from './data';
import { type Issue, type Status, statusNames } from './place';

type Entry = Schemas['TimelineEntry'];

/** Timeline is what happened to an issue, and where comments are written. */
export function Timeline({ workspace, issue, writable }: { workspace: string; issue: Issue; writable: boolean }) {
  const candidates = useCandidates(workspace);
  const entries = useInfiniteQuery({
    queryKey: ['board', workspace, 'issue', issue.id, 'timeline'],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      api().getIssueTimeline(workspace, issue.id, { query: { limit: 100, ...(pageParam ? { before: pageParam } : {}) }, signal }),
    getNextPageParam: (last) => last.before ?? undefined,
    refetchInterval: issue.active_run ? 2500 : 10_000,
  });
  const [comment, setComment] = useState('');
  const say = useAction(() => api().createIssueComment(workspace, issue.id, { content: comment.trim() }), {
    refresh: [['board', workspace]],
  });
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (comment.trim()) await say.mutateAsync().then(() => setComment(''), () => {});
  };
  const name = (entry: Entry): string =>
    entry.actor_type === 'system'
      ? 'Everloop'
      : (candidates.data?.find((one) => one.id === entry.actor_id)?.name ?? (entry.actor_type === 'agent' ? t('Agent') : t('Member')));
  // Pages come newest first, entries of each oldest first.
  const list = entries.data?.pages.toReversed().flatMap((page) => page.items) ?? [];
  return (
    <Section title={t('Timeline')}>
      {entries.data === undefined && (entries.error ? <Failure error={entries.error} retry={() => void entries.refetch()} /> : <Spinner />)}
      <More pages={entries} />
      <ol aria-label={t('What happened')} className="space-y-2.5">
        {list
          .filter((entry) => entry.type !== 'run')
          .map((entry) => (
            <EntryItem
              key={`${entry.type} ${entry.id}`}
              entry={entry}
              name={name(entry)}
              issue={issue}
              nameOf={(id) => candidates.data?.find((one) => one.id === id)?.name}
            />
          ))}
      </ol>
      {writable && (
        <form onSubmit={(event) => void submit(event)} className="space-y-2 pt-2">
          <Field
            label={t('Comment')}
            hint={
              issue.active_run?.status === 'waiting'
                ? t('The agent waits: your comment is its answer.')
                : issue.active_run
                  ? t('The agent gets it after its current turn.')
                  : undefined
            }
          >
            {(ids) => <Area {...ids} value={comment} onChange={(event) => setComment(event.target.value)} rows={3} dir="auto" />}
          </Field>
          <div className="flex justify-end">
            <Button type="submit" look="primary" disabled={!comment.trim()} busy={say.isPending}>
              {t('Comment|verb')}
            </Button>
          </div>
        </form>
      )}
    </Section>
  );
}

function EntryItem({
  entry,
  name,
  issue,
  nameOf,
}: {
  entry: Entry;
  name: string;
  issue: Issue;
  nameOf: (id: string) => string | undefined;
}) {
  const when = (
    <time dateTime={entry.created_at} title={dateTime(entry.created_at)} className="shrink-0 text-xs text-soft">
      {ago(entry.created_at)}
    </time>
  );
  const Icon = entry.actor_type === 'agent' ? Bot : User;
  if (entry.type === 'comment') {
    return (
      <li className={cn('rounded-lg border bg-raised', entry.parent_id && 'ml-6')}>
        <div className="flex items-center gap-2 border-b px-3 py-1.5 text-sm">
          <Icon size={15} className="shrink-0 text-soft" aria-hidden />
          <span className="min-w-0 flex-1 truncate font-medium" dir="auto">
            {name}
          </span>
          {entry.resolved_at && <span className="text-xs text-good">{t('answered')}</span>}
          {when}
        </div>
        <div className="px-3 py-2 text-sm">
          <Prose text={entry.content ?? ''} />
        </div>
      </li>
    );
  }
  return (
    <li className="flex items-baseline gap-2 px-1 text-sm text-soft">
      <span className="min-w-0 flex-1 break-words">
        <span className="text-ink" dir="auto">
          {name}
        </span>{' '}
        {activityText(entry, issue, nameOf)}
      </span>
      {when}
    </li>
  );
}

const shown = (value: unknown): string =>
  typeof value === 'string' ? value : value === null || value === undefined ? '' : JSON.stringify(value);

/** activityText says in words what was changed. */
export function activityText(entry: Entry, issue: Pick<Issue, 'identifier'>, nameOf: (id: string) => string | undefined): string {
  const { from, to } = (entry.details ?? {}) as { from?: unknown; to?: unknown };
  const status = (value: unknown): string => statusNames[shown(value) as Status] ?? shown(value);
  switch (entry.action) {
    case 'created': return t('created {issue}', { issue: issue.identifier });
    case 'status_changed': return t('moved it from {from} to {to}', { from: status(from), to: status(to) });
    case 'priority_changed': return t('set the priority from {from} to {to}', { from: word(shown(from)), to: word(shown(to)) });
    case 'assignee_changed': {
      const id = shown(to).split(':').at(-1) ?? '';
      return to ? t('assigned it to {name}', { name: nameOf(id) ?? t('another assignee') }) : t('took the assignee away');
    }
    case 'title_changed': return t('changed the title to “{title}”', { title: shown(to) });
    case 'description_updated': return t('changed the description');
    case 'due_date_changed': return to ? t('set the due date to {date}', { date: shown(to) }) : t('took the due date away');
    case 'label_changed': return t('changed the labels');
    case 'run_started': return t('began to work');
    case 'run_finished': return to ? t('ended the run: {outcome}', { outcome: word(shown(to)) }) : t('ended the run');
    default: return word(entry.action ?? '');
  }
}
