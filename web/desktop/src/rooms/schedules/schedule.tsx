import type { Schemas } from '@everloop/sdk';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { CalendarClock, CircleCheck, CircleX, History, Pencil, Play, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { cost, dateTime, duration } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { Code } from '../../ui/code';
import { FormDialog } from '../../ui/dialog';
import { Field, Input } from '../../ui/field';
import { Badge, Empty, Loaded, More, Page } from '../../ui/page';
import { Prose } from '../../ui/markdown';
import { pairsOf } from '../unattended/pairs';
import { Crumbs, Facts, secondsText, Section, SessionLink, State, usageText } from '../unattended/pieces';
import { Preview } from './builder';
import { cronText } from './cron-text';
import { localTime } from './draft';
import { networks } from '../unattended/setup-fields';
import { kinds } from '../unattended/target';
import { TargetLink } from '../unattended/target-fields';
import { outcomeOf, overlaps, reasonOf } from './words';

type Task = Schemas['ScheduledTask'];
type Run = Schemas['ScheduledRun'];

const pageSize = 50;

export default function Schedule() {
  const { taskId: id } = useParams({ strict: false }) as { taskId: string };
  const navigate = useNavigate();
  const task = useQuery({
    queryKey: ['schedules', id],
    queryFn: ({ signal }) => api().getScheduledTask(id, { signal }),
    refetchInterval: 10_000,
  });
  const [deleting, setDeleting] = useState(false);
  const run = useAction(() => api().runScheduledTask(id), {
    done: (made) => (made.status === 'failed' ? t('It did not run: {reason}.', { reason: reasonOf(made) }) : t('The run has begun.')),
    refresh: [['schedules']],
  });
  const remove = useAction(() => api().deleteScheduledTask(id), { done: t('The schedule was deleted.'), refresh: [['schedules', 'list']] });
  const enable = useAction((enabled: boolean) => (enabled ? api().startScheduledTask(id) : api().stopScheduledTask(id)), {
    refresh: [['schedules']],
  });
  return (
    <Page
      title={
        <Crumbs to="/schedules" label={t('Schedules')}>
          {task.data?.title ?? '…'}
        </Crumbs>
      }
      actions={
        task.data && (
          <>
            <Button small busy={run.isPending} onClick={() => run.mutate()}>
              <Play size={14} aria-hidden />
              {t('Run now')}
            </Button>
            <Button small busy={enable.isPending} onClick={() => enable.mutate(!task.data.enabled)}>
              {task.data.enabled ? t('Disable') : t('Enable')}
            </Button>
            <Link
              to="/schedules/$taskId/edit"
              params={{ taskId: id }}
              className="inline-flex h-7 items-center gap-1.5 rounded-md border bg-raised px-2 text-xs font-medium hover:bg-hover"
            >
              <Pencil size={14} aria-hidden />
              {t('Edit')}
            </Link>
            <IconButton small label={t('Delete the schedule')} onClick={() => setDeleting(true)}>
              <Trash2 size={15} />
            </IconButton>
          </>
        )
      }
    >
      <div className="mx-auto max-w-4xl space-y-6">
        <Loaded query={task}>{(found) => <About task={found} />}</Loaded>
        <Runs id={id} start={() => run.mutate()} />
      </div>
      <FormDialog
        open={deleting}
        onOpenChange={() => setDeleting(false)}
        danger
        title={t('Delete the schedule?')}
        confirm={t('Delete')}
        description={t('Its run records are permanently deleted. Its sessions stay, and an active run continues in its session.')}
        submit={async () => {
          await remove.mutateAsync();
          await navigate({ to: '/schedules' });
        }}
      />
    </Page>
  );
}

function About({ task }: { task: Task }) {
  const { question_policy: policy, budget, target } = task;
  const chats = target.kind === 'prompt' || target.kind === 'agent';
  const text = target.description ?? task.prompt;
  return (
    <>
      {task.paused_reason && (
        <p role="alert" className="rounded-lg border border-bad/40 bg-bad-soft px-3 py-2 text-sm text-bad">
          {task.paused_reason}
        </p>
      )}
      <div className="grid gap-4 md:grid-cols-2">
        <div className="space-y-3">
          {task.enabled ? (
            <Preview cron={task.cron} zone={task.timezone} end={task.expires_at} />
          ) : (
            <p className="rounded-md bg-panel px-3 py-2 text-sm">
              <span className="font-medium">{cronText(task.cron, task.cron_text)}</span> <span className="text-soft">· {t('disabled: never due')}</span>
            </p>
          )}
          <Facts
            list={[
              [
                t('Starts'),
                (target.kind === 'dag' || target.kind === 'issue') && <TargetLink key="starts" target={target} label={kinds[target.kind]} />,
              ],
              [t('Inputs'), target.kind === 'dag' && target.inputs && <code key="inputs" className="break-all">{JSON.stringify(target.inputs)}</code>],
              [t('Time zone'), task.timezone],
              [t('Meanwhile'), t('while a run is active: {rule}', { rule: overlaps[task.overlap] })],
              [t('Late'), t('runs start up to {time} late', { time: secondsText(task.catchup_window_s) })],
              [t('Ends'), task.expires_at && dateTime(task.expires_at)],
              [t('Agent'), task.agent_id ?? [task.solution_id, task.biz_role_id].filter(Boolean).join(' / ')],
              [t('Model'), task.model],
              [t('Mode'), task.mode === 'planning' && t('plan')],
              [t('Skills'), task.skills?.join(', ')],
              [t('Environment'), task.env_buckets?.join(', ')],
              [t('Network'), task.network && networks[task.network]],
              [t('Memories'), task.memory_enabled && t('used')],
              [
                t('Permissions'),
                (task.permissions ?? []).length > 0 && plural(task.permissions?.length ?? 0, '{count} rule', '{count} rules'),
              ],
              [t('Session'), task.persistent && t('all runs share one')],
              [
                t('Asks'),
                chats &&
                  (task.skip_confirmations
                    ? t('never')
                    : policy?.timeout_s
                      ? t('decided without you after {time}', { time: secondsText(policy.timeout_s) })
                      : t('in the inbox')),
              ],
              [
                t('Budget'),
                budget &&
                  [
                    budget.max_tokens && plural(budget.max_tokens, '{count} token', '{count} tokens'),
                    budget.max_cost && cost(budget.max_cost),
                  ]
                    .filter(Boolean)
                    .join(', '),
              ],
              [
                t('Failed in a row'),
                task.consecutive_failures > 0 &&
                  (task.pause_on_failure_after > 0
                    ? t('{count} of {most}', { count: task.consecutive_failures, most: task.pause_on_failure_after })
                    : String(task.consecutive_failures)),
              ],
            ]}
          />
        </div>
        {text && (
          <section
            aria-label={target.kind === 'issue' ? t('Description') : t('Prompt')}
            className="max-h-80 overflow-y-auto rounded-lg border px-3 py-2 text-sm"
            tabIndex={0}
          >
            <Prose text={text} />
          </section>
        )}
      </div>
      {Object.keys(task.inputs ?? {}).length > 0 && (
        <Section title={t('Inputs of the prompt')}>
          <Facts list={pairsOf(task.inputs).map(({ name, value }) => [name, <span key={name} className="whitespace-pre-wrap">{value}</span>])} />
        </Section>
      )}
      {(task.files.length > 0 || task.commands.length > 0 || task.output_schema !== null) && (
        <Section title={t('Outcome contract')}>
          <Facts
            list={[
              [
                t('Files'),
                task.files.length > 0 && (
                  <ul>
                    {task.files.map((one) => (
                      <li key={one}>
                        <code>{one}</code>
                      </li>
                    ))}
                  </ul>
                ),
              ],
              [
                t('Commands'),
                task.commands.length > 0 && (
                  <ul>
                    {task.commands.map((one) => (
                      <li key={one}>
                        <code className="break-all">{one}</code>
                      </li>
                    ))}
                  </ul>
                ),
              ],
              [
                t('Schema'),
                task.output_schema !== null && (
                  <details>
                    <summary className="cursor-pointer">{t('of the result')}</summary>
                    <Code text={JSON.stringify(task.output_schema, null, 2)} language="json" />
                  </details>
                ),
              ],
            ]}
          />
        </Section>
      )}
    </>
  );
}

function Runs({ id, start }: { id: string; start: () => void }) {
  const runs = useInfiniteQuery({
    queryKey: ['schedules', id, 'runs'], initialPageParam: 0,
    queryFn: ({ pageParam, signal }) => api().listScheduledRuns(id, { query: { offset: pageParam, limit: pageSize }, signal }),
    getNextPageParam: (last, all) => (last.length === pageSize ? all.length * pageSize : undefined),
    refetchInterval: ({ state }) => (state.data?.pages[0]?.some((run) => run.status === 'running') ? 2500 : 15_000),
  });
  const [filling, setFilling] = useState(false);
  return (
    <Section
      title={t('Runs')}
      actions={
        <Button small onClick={() => setFilling(true)}>
          <History size={14} aria-hidden />
          {t('Backfill')}
        </Button>
      }
    >
      <Loaded
        query={runs}
        isEmpty={(data) => data.pages[0]?.length === 0}
        empty={
          <Empty
            icon={<CalendarClock size={28} />}
            title={t('It has not run yet')}
            action={
              <Button look="primary" onClick={start}>
                <Play size={14} aria-hidden />
                {t('Run now')}
              </Button>
            }
          >
            {t('Each planned time has a record here. When nothing ran, it shows the reason.')}
          </Empty>
        }
      >
        {(data) => (
          <ul className="divide-y rounded-lg border bg-raised">
            {data.pages.flat().map((run) => (
              <RunRow key={run.id} run={run} />
            ))}
          </ul>
        )}
      </Loaded>
      <More pages={runs} />
      {filling && <Backfill id={id} close={() => setFilling(false)} />}
    </Section>
  );
}

// Backfill asks for a period, and runs the planned times in it.
function Backfill({ id, close }: { id: string; close: () => void }) {
  const [from, setFrom] = useState(() => localTime(new Date(new Date().setHours(-24, 0, 0, 0)).toISOString()));
  const [to, setTo] = useState(() => localTime(new Date().toISOString()));
  const fill = useAction(
    () => api().backfillScheduledTask(id, { from: new Date(from).toISOString(), to: new Date(to).toISOString() }),
    {
      done: ({ runs }) => (runs === 0 ? t('The period has no planned times.') : plural(runs, '{count} run starts.', '{count} runs start.')),
      refresh: [['schedules']],
    },
  );
  return (
    <FormDialog
      open
      onOpenChange={close}
      title={t('Backfill')}
      confirm={t('Start the runs')}
      submit={() => fill.mutateAsync()}
      description={t('Runs the planned times of a past period, one after the other, for example after an outage. At most 100.')}
    >
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label={t('From')}>
          {(ids) => <Input {...ids} type="datetime-local" required value={from} onChange={(event) => setFrom(event.target.value)} />}
        </Field>
        <Field label={t('Until')}>
          {(ids) => <Input {...ids} type="datetime-local" required value={to} onChange={(event) => setTo(event.target.value)} />}
        </Field>
      </div>
    </FormDialog>
  );
}

function StartedLink({ started }: { started: NonNullable<Run['started']> }) {
  const look = 'text-accent underline-offset-2 hover:underline';
  if (started.solution_id && started.run_id)
    return (
      <Link to="/dags/$dagId/runs/$runId" params={{ dagId: started.solution_id, runId: started.run_id }} className={look}>
        {t('Run')}
      </Link>
    );
  if (started.workspace_id && started.issue_id)
    return (
      <Link to="/board/$workspaceId/$issueId" params={{ workspaceId: started.workspace_id, issueId: started.issue_id }} className={look}>
        {t('Issue')}
      </Link>
    );
  return null;
}

function RunRow({ run }: { run: Run }) {
  const [open, setOpen] = useState(false);
  const byHand = run.reason_code === 'run_now' || run.reason_code === 'backfilled';
  const reason = byHand && run.status !== 'failed' ? '' : reasonOf(run);
  const ran = run.outcome === 'fired' || run.outcome === 'caught_up';
  return (
    <li className="px-3 py-2 text-sm">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        {ran ? (
          <State value={run.status} />
        ) : (
          <Badge tone={run.outcome === 'blocked' || run.outcome === 'missed' ? 'bad' : 'warn'}>{outcomeOf(run)}</Badge>
        )}
        <time dateTime={run.scheduled_for}>{dateTime(run.scheduled_for)}</time>
        {ran && (
          <span className="text-soft">
            {[
              outcomeOf(run),
              run.drift_ms > 0 && !byHand && t('drift {time}', { time: duration(run.drift_ms) }),
              run.attempt > 1 && t('attempt {attempt}', { attempt: run.attempt }),
            ]
              .filter(Boolean)
              .join(', ')}
          </span>
        )}
        <span className="flex-1" />
        {ran && run.finished_at && (
          <span className="text-xs text-soft">{duration(new Date(run.finished_at).getTime() - new Date(run.triggered_at).getTime())}</span>
        )}
        {usageText(run.usage) && <span className="text-xs text-soft">{usageText(run.usage)}</span>}
        {run.checks.length > 0 && (
          <button type="button" aria-expanded={open} className="text-accent hover:underline" onClick={() => setOpen(!open)}>
            {t('Checks {met}/{count}', { met: run.checks.filter((one) => one.met).length, count: run.checks.length })}
          </button>
        )}
        {run.session_id ? <SessionLink id={run.session_id} /> : run.started && <StartedLink started={run.started} />}
      </div>
      {reason && <p className="mt-0.5 break-words text-soft">{reason}</p>}
      {open && (
        <ul className="mt-2 space-y-1.5">
          {run.checks.map((check, index) => (
            <li key={index}>
              <p className="flex items-start gap-2">
                {check.met ? (
                  <CircleCheck size={15} className="mt-0.5 shrink-0 text-good" aria-label={t('met')} />
                ) : (
                  <CircleX size={15} className="mt-0.5 shrink-0 text-bad" aria-label={t('not met')} />
                )}
                <span className="min-w-0 break-words">
                  {check.kind} <code>{check.subject}</code>
                  {check.reason && <span className="text-bad">: {check.reason}</span>}
                </span>
              </p>
              {check.output && <Code text={check.output} className="mt-1 ml-6" label={t('Output of {title}', { title: check.subject })} />}
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}
