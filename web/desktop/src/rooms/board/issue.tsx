import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { ChevronRight, Pencil, Play, Square } from 'lucide-react';
import { useState } from 'react';
import { compact, cost, dateTime, duration } from '../../lib/format';
import { t } from '../../lib/i18n';
import { answering, questionOf, useInbox } from '../../lib/inbox';
import { api, useAction } from '../../lib/query';
import { word } from '../../lib/words';
import { Button } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Area, Check, Field, Input, Select } from '../../ui/field';
import { Prose } from '../../ui/markdown';
import { Loaded } from '../../ui/page';
import { QuestionForm } from '../chat/questions';
import { linesOf, Section, SessionLink, State, usageText } from '../unattended/pieces';
import { AssigneeSelect } from './assignee';
import { type Candidate, candidateKey, useWorkspace } from './data';
import { type Issue, priorities, type Status, statuses, statusNames } from './place';
import { Timeline } from './timeline';

type Run = Schemas['IssueRun'];

const openRuns = ['queued', 'dispatched', 'running', 'waiting'];

/** IssueRoom is one issue: what it is about, what happened, and the runs of agents on it. */
export default function IssueRoom() {
  const { workspaceId: workspace, issueId: id } = useParams({ strict: false }) as { workspaceId: string; issueId: string };
  const board = useWorkspace(workspace);
  const issue = useQuery({
    queryKey: ['board', workspace, 'issue', id], queryFn: ({ signal }) => api().getIssue(workspace, id, { signal }),
    refetchInterval: ({ state }) => (state.data?.active_run ? 2500 : 8000),
  });
  const writable = board.data !== undefined && board.data.role !== 'viewer';
  return (
    <div className="flex h-full min-h-0 flex-col">
      <header className="room-header flex min-h-12 items-center gap-1 border-b py-1.5 pr-3 pl-4">
        <Link to="/board" className="shrink-0 text-soft hover:text-ink hover:underline max-sm:hidden">
          {t('Board')}
        </Link>
        <ChevronRight size={14} className="shrink-0 text-soft max-sm:hidden" aria-hidden />
        <Link
          to="/board/$workspaceId"
          params={{ workspaceId: workspace }}
          className="max-w-[40%] truncate text-soft hover:text-ink hover:underline"
        >
          {board.data?.name ?? '…'}
        </Link>
        <ChevronRight size={14} className="shrink-0 text-soft" aria-hidden />
        <span className="min-w-0 truncate font-semibold">{issue.data?.identifier ?? '…'}</span>
      </header>
      <div className="min-h-0 flex-1 overflow-y-auto" tabIndex={-1}>
        <Loaded query={issue}>
          {(found) => (
            <div className="mx-auto grid max-w-5xl gap-6 p-4 lg:grid-cols-[minmax(0,1fr)_18rem] lg:grid-rows-[auto_1fr]">
              <div className="min-w-0 space-y-4">
                <Title workspace={workspace} issue={found} writable={writable} />
                <Open workspace={workspace} issue={found} />
              </div>
              <aside aria-label={t('Facts')} className="min-w-0 space-y-6 lg:row-span-2">
                <Properties workspace={workspace} issue={found} writable={writable} />
                <Runs workspace={workspace} issue={found} writable={writable} />
                <Usage workspace={workspace} issue={found} />
              </aside>
              <div className="min-w-0">
                <Timeline workspace={workspace} issue={found} writable={writable} />
              </div>
            </div>
          )}
        </Loaded>
      </div>
    </div>
  );
}

interface Part {
  workspace: string;
  issue: Issue;
  writable?: boolean;
}

function Title({ workspace, issue, writable }: Part) {
  const [editing, setEditing] = useState(false);
  const [title, setTitle] = useState('');
  const [description, setDescription] = useState('');
  const save = useAction(
    () => api().updateIssue(workspace, issue.id, { title: title.trim(), description, expected_revision: issue.revision }),
    { refresh: [['board', workspace]] },
  );
  const edit = () => {
    setTitle(issue.title);
    setDescription(issue.description);
    setEditing(true);
  };
  return (
    <div>
      <div className="flex items-start gap-2">
        <h1 className="min-w-0 flex-1 text-xl font-semibold break-words" dir="auto">
          {issue.title}
        </h1>
        {writable && (
          <Button small onClick={edit}>
            <Pencil size={14} aria-hidden />
            {t('Edit')}
          </Button>
        )}
      </div>
      <div className="mt-2 text-sm">
        {issue.description ? <Prose text={issue.description} /> : <p className="text-soft">{t('No description.')}</p>}
      </div>
      <FormDialog
        open={editing}
        onOpenChange={setEditing}
        title={t('Edit {name}', { name: issue.identifier })}
        confirm={t('Save')}
        submit={() => save.mutateAsync()}
      >
        <Field label={t('Title')}>
          {(ids) => <Input {...ids} value={title} onChange={(event) => setTitle(event.target.value)} required maxLength={500} dir="auto" />}
        </Field>
        <Field label={t('Description')}>
          {(ids) => <Area {...ids} value={description} onChange={(event) => setDescription(event.target.value)} rows={8} dir="auto" />}
        </Field>
      </FormDialog>
    </div>
  );
}

function Properties({ workspace, issue, writable }: Part) {
  const change = useAction((body: Schemas['IssueChangeBody']) => api().updateIssue(workspace, issue.id, body), {
    refresh: [['board', workspace]],
  });
  const [chosen, setChosen] = useState<Candidate>();
  const [note, setNote] = useState('');
  const [begin, setBegin] = useState(true);
  const [labels, setLabels] = useState<string>();
  const off = !writable || change.isPending;
  const key = candidateKey(issue.assignee_type, issue.assignee_id);
  const assign = (candidate: Candidate | undefined) => {
    if (!candidate) change.mutate({ assignee_type: null, assignee_id: null });
    else if (candidate.type === 'member') change.mutate({ assignee_type: 'member', assignee_id: candidate.id });
    else {
      setNote('');
      setBegin(true);
      setChosen(candidate);
    }
  };
  return (
    <div className="grid grid-cols-2 gap-3 lg:grid-cols-1">
      <Field label={t('Status')}>
        {(ids) => (
          <Select
            {...ids}
            disabled={off}
            value={issue.status}
            onChange={(event) => change.mutate({ status: event.target.value as Status })}
          >
            {statuses.map((one) => (
              <option key={one} value={one}>
                {statusNames[one]}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Field label={t('Assigned to')}>
        {(ids) => <AssigneeSelect workspace={workspace} ids={ids} value={key} disabled={off} change={assign} />}
      </Field>
      <Field label={t('Priority')}>
        {(ids) => (
          <Select
            {...ids}
            disabled={off}
            value={issue.priority}
            onChange={(event) => change.mutate({ priority: event.target.value as Issue['priority'] })}
          >
            {priorities.map((one) => (
              <option key={one} value={one}>
                {word(one)}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Field label={t('Labels')} hint={t('Separated by commas.')}>
        {(ids) => (
          <Input
            {...ids}
            disabled={!writable}
            value={labels ?? issue.labels.join(', ')}
            onChange={(event) => setLabels(event.target.value)}
            onBlur={() => {
              if (labels !== undefined && labels !== issue.labels.join(', '))
                change.mutate({ labels: linesOf(labels.replaceAll(',', '\n')) });
              setLabels(undefined);
            }}
          />
        )}
      </Field>
      <FormDialog
        open={chosen !== undefined}
        onOpenChange={() => setChosen(undefined)}
        title={t('Assign to {name}', { name: chosen?.name ?? '' })}
        confirm={t('Assign')}
        description={t('The agent is sent the title, the description, the comments and your note.')}
        submit={() =>
          change.mutateAsync({
            assignee_type: chosen?.type ?? null,
            assignee_id: chosen?.id ?? null,
            ...(note.trim() ? { handoff_note: note.trim() } : {}),
            ...(begin ? {} : { suppress_run: true }),
          })
        }
      >
        <Field label={t('Note')}>
          {(ids) => <Area {...ids} value={note} onChange={(event) => setNote(event.target.value)} rows={3} dir="auto" />}
        </Field>
        <Check label={t('Begin a run now')} checked={begin} onChange={(event) => setBegin(event.target.checked)} />
      </FormDialog>
    </div>
  );
}

/** Open has the questions of the agent that works, for whom may answer them. */
function Open({ workspace, issue }: Part) {
  const runs = useRuns(workspace, issue);
  const inbox = useInbox(5000);
  const waiting = (runs.data?.items ?? []).filter((run) => run.status === 'waiting').map((run) => run.session_id);
  const items = waiting.length === 0 ? [] : (inbox.data?.items ?? []).filter((one) => waiting.includes(one.session_id));
  return (
    <>
      {items.map((item) => (
        <QuestionForm key={item.question_id} question={questionOf(item)} session={answering([['board', workspace]])} />
      ))}
    </>
  );
}

const useRuns = (workspace: string, issue: Issue) =>
  useQuery({
    queryKey: ['board', workspace, 'issue', issue.id, 'runs'],
    queryFn: ({ signal }) => api().listIssueRuns(workspace, issue.id, { query: { limit: 50 }, signal }),
    refetchInterval: issue.active_run ? 2500 : 15_000,
  });

function Runs({ workspace, issue, writable }: Part) {
  const runs = useRuns(workspace, issue);
  const refresh = [['board', workspace]];
  const [note, setNote] = useState<string>();
  const start = useAction((text: string) => api().startIssueRun(workspace, issue.id, text.trim() ? { handoff_note: text.trim() } : {}), {
    done: t('The run has begun.'),
    refresh,
  });
  const stop = useAction((run: string) => api().cancelIssueRun(workspace, issue.id, run), { done: t('The run was stopped.'), refresh });
  const assigned = issue.assignee_type === 'agent' || issue.assignee_type === 'squad';
  const some = (runs.data?.items.length ?? 0) > 0;
  return (
    <Section
      title={t('Runs')}
      actions={
        writable &&
        assigned &&
        !issue.active_run && (
          <Button small onClick={() => setNote('')}>
            <Play size={14} aria-hidden />
            {some ? t('Retry') : t('Start')}
          </Button>
        )
      }
    >
      <Loaded
        query={runs}
        isEmpty={(data) => data.items.length === 0}
        empty={
          <p className="text-sm text-soft">
            {assigned ? t('The agent has not started.') : t('Assign the issue to an agent to have it worked on.')}
          </p>
        }
      >
        {(data) => (
          <ul className="space-y-2">
            {data.items.map((run) => (
              <RunItem key={run.id} run={run} stop={writable ? () => stop.mutate(run.id) : undefined} />
            ))}
          </ul>
        )}
      </Loaded>
      <FormDialog
        open={note !== undefined}
        onOpenChange={() => setNote(undefined)}
        title={some ? t('Retry') : t('Start a run')}
        confirm={t('Start')}
        submit={() => start.mutateAsync(note ?? '')}
        description={t('The agent continues in its session for this issue.')}
      >
        <Field label={t('Note to the agent')}>
          {(ids) => <Area {...ids} value={note ?? ''} onChange={(event) => setNote(event.target.value)} rows={3} dir="auto" />}
        </Field>
      </FormDialog>
    </Section>
  );
}

function RunItem({ run, stop }: { run: Run; stop: (() => void) | undefined }) {
  const open = openRuns.includes(run.status);
  const took = run.started_at && run.finished_at && duration(new Date(run.finished_at).getTime() - new Date(run.started_at).getTime());
  const used = run.usage.reduce(
    (sum, one) => ({
      input_tokens: sum.input_tokens + one.input_tokens,
      output_tokens: sum.output_tokens + one.output_tokens,
      cost_usd: sum.cost_usd + (one.cost_usd ?? 0),
    }),
    { input_tokens: 0, output_tokens: 0, cost_usd: 0 },
  );
  return (
    <li className="rounded-md border bg-raised px-2.5 py-2 text-sm">
      <div className="flex flex-wrap items-center gap-2">
        <State value={run.status} />
        <span className="text-soft">
          {[word(run.trigger.kind), run.attempt > 1 && t('attempt {attempt} of {most}', { attempt: run.attempt, most: run.max_attempts })]
            .filter(Boolean)
            .join(', ')}
        </span>
        <span className="flex-1" />
        {run.session_id && <SessionLink id={run.session_id} />}
        {open && stop && (
          <Button small onClick={stop}>
            <Square size={12} fill="currentColor" aria-hidden />
            {t('Stop')}
          </Button>
        )}
      </div>
      <p className="mt-0.5 text-xs text-soft">{[dateTime(run.created_at), took, usageText(used)].filter(Boolean).join(' · ')}</p>
      {(run.error ?? run.failure_reason) && <p className="mt-1 break-words text-bad">{run.error ?? run.failure_reason}</p>}
      {run.status === 'cancelled' && run.reason_code && <p className="mt-1 text-soft">{word(run.reason_code)}</p>}
    </li>
  );
}

function Usage({ workspace, issue }: Part) {
  const usage = useQuery({
    queryKey: ['board', workspace, 'issue', issue.id, 'usage'],
    queryFn: ({ signal }) => api().getIssueUsage(workspace, issue.id, { signal }),
    refetchInterval: issue.active_run ? 5000 : false,
  });
  if (!usage.data || usage.data.run_count === 0) return null;
  const { data } = usage;
  return (
    <Section title={t('Usage')}>
      <dl className="grid grid-cols-2 gap-y-1 text-sm">
        <dt className="text-soft">{t('Runs')}</dt>
        <dd>
          {data.run_count}, {duration(data.duration_s * 1000)}
        </dd>
        <dt className="text-soft">{t('Tokens in')}</dt>
        <dd>{compact(data.input_tokens)}</dd>
        <dt className="text-soft">{t('Tokens out')}</dt>
        <dd>{compact(data.output_tokens)}</dd>
        {data.cost_usd > 0 && (
          <>
            <dt className="text-soft">{t('Cost')}</dt>
            <dd>{cost(data.cost_usd)}</dd>
          </>
        )}
        {data.by_model.map((one) => (
          <div key={one.model} className="contents">
            <dt className="truncate text-soft" title={one.model}>
              {one.model}
            </dt>
            <dd>{compact(one.input_tokens + one.output_tokens)}</dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}
