import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Query, Schemas } from '@everloop/sdk';
import { Activity, ExternalLink, RotateCw } from 'lucide-react';
import { useState } from 'react';
import { bytes, dateTime, duration } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { word } from '../../lib/words';
import { Button, IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Field, Select } from '../../ui/field';
import { Badge, Empty, Loaded, More, type Tone } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';
import { useConfiguration } from './overview';
import { temporalRun, temporalUI } from './temporal';
import { waitText } from './waits';

type Run = Schemas['OperatorRun'];
type Filter = Query<'list-runs'>;
type Act = Run['actions'][number];

const kinds = [
  'chat',
  'fork',
  'task',
  'compaction',
  'replay',
  'history',
  'import',
  'archive',
  'deletion',
  'schedule',
  'issue',
  'dag',
] as const;
const statuses = ['running', 'lost', 'completed', 'failed', 'canceled', 'terminated', 'timed_out', 'continued_as_new'] as const;
const tones: Partial<Record<Run['status'], Tone>> = {
  running: 'accent',
  completed: 'good',
  failed: 'bad',
  lost: 'bad',
  timed_out: 'bad',
  terminated: 'warn',
  canceled: 'warn',
};
const acts: Record<Act, { label: string; confirm: string; title: string; text: string; done: string }> = {
  cancel: {
    label: t('Cancel'),
    confirm: t('Cancel the run'),
    title: t('Cancel the run?'),
    text: t('It is cancelled in the same way as by its owner.'),
    done: t('The run is being cancelled.'),
  },
  force_fail: {
    label: t('Force-fail'),
    confirm: t('Force-fail'),
    title: t('Force the run to fail?'),
    text: t('For a run that does not respond: closes it immediately and marks its work as failed.'),
    done: t('The run was closed.'),
  },
  resume: {
    label: t('Resume'),
    confirm: t('Resume'),
    title: t('Resume the run from the database?'),
    text: t('Closes the workflow. A new one continues from the database.'),
    done: t('Another run continues.'),
  },
};

export function Runs() {
  const [filter, setFilter] = useState<Filter>({ status: 'running' });
  const [asking, setAsking] = useState<{ act: Act; run: Run }>();
  const list = useInfiniteQuery({
    queryKey: ['admin', 'runs', filter],
    initialPageParam: '',
    refetchInterval: 10_000,
    queryFn: ({ pageParam, signal }) =>
      api().listRuns({ query: { ...filter, limit: 50, ...(pageParam ? { page: pageParam } : {}) }, signal }),
    getNextPageParam: (last) => last.next_page || undefined,
  });
  const users = useQuery({ queryKey: ['admin', 'users'], queryFn: ({ signal }) => api().listUsers({ signal }), staleTime: 60_000 });
  const names = new Map(users.data?.items.map((user) => [user.id, user.name || user.username]));
  const runs = list.data?.pages.flatMap((page) => page.items);
  const configuration = useConfiguration().data;
  const ui = temporalUI(configuration);
  const namespace =
    configuration?.flatMap((group) => group.items).find((item) => item.env_var === 'TEMPORAL_NAMESPACE')?.value || 'everloop';
  return (
    <Section
      title={t('Runs')}
      note={t('Everything that runs: chats, sub-agents, tasks, schedules and the service’s own work.')}
      actions={
        <IconButton label={t('Read again')} busy={list.isFetching} onClick={() => void list.refetch()}>
          <RotateCw size={16} />
        </IconButton>
      }
    >
      <div className="mb-3 grid grid-cols-2 gap-3 sm:max-w-md">
        <Field label={t('Status')}>
          {(ids) => (
            <Select
              {...ids}
              value={filter.status ?? ''}
              onChange={(event) => setFilter({ ...filter, status: (event.target.value || undefined) as Filter['status'] })}
            >
              <option value="">{t('all')}</option>
              {statuses.map((one) => (
                <option key={one} value={one}>
                  {word(one)}
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Field label={t('Kind')}>
          {(ids) => (
            <Select
              {...ids}
              value={filter.kind ?? ''}
              onChange={(event) => setFilter({ ...filter, kind: (event.target.value || undefined) as Filter['kind'] })}
            >
              <option value="">{t('all')}</option>
              {kinds.map((one) => (
                <option key={one} value={one}>
                  {word(one)}
                </option>
              ))}
            </Select>
          )}
        </Field>
      </div>
      <Loaded
        query={{ data: runs, error: list.error, refetch: list.refetch }}
        empty={
          <Empty icon={<Activity size={28} />} title={filter.status === 'lost' ? t('Nothing is lost') : t('There is no such run')}>
            {filter.status === 'lost'
              ? t('Shows open work without a workflow. The service repairs it within seconds.')
              : t('Runs appear here when they start. Closed runs stay for some hours.')}
          </Empty>
        }
      >
        {(items) => (
          <Rows label={t('Runs')}>
            {items.map((run) => {
              const wait = run.work && waitText(run.work.waiting);
              return (
                <Row
                  key={`${run.workflow_id} ${run.run_id}`}
                  title={run.kind}
                  badges={
                    <>
                      <Badge tone={tones[run.status] ?? 'neutral'}>{run.status.replaceAll('_', ' ')}</Badge>
                      {run.chat_status && run.chat_status !== run.status && <Badge>{run.chat_status.replaceAll('_', ' ')}</Badge>}
                    </>
                  }
                  note={
                    <>
                      <span>
                        {[
                          names.get(run.owner_id) ?? run.owner_id,
                          t('since {time}', { time: dateTime(run.started_at) }),
                          run.closed_at && t('took {time}', { time: duration(Date.parse(run.closed_at) - Date.parse(run.started_at)) }),
                          run.history_bytes > 0 &&
                            plural(run.history_events, '{count} event, {size}', '{count} events, {size}', {
                              size: bytes(run.history_bytes),
                            }),
                          run.build_id && t('build {id}', { id: run.build_id }),
                        ]
                          .filter(Boolean)
                          .join(' · ')}
                      </span>
                      {wait && <span className="block text-ink">{wait}</span>}
                      <code className="code block break-all text-soft">{run.workflow_id}</code>
                      <span className="flex flex-wrap gap-x-3">
                        {run.session_id && (
                          <Link
                            to="/s/$sessionId"
                            params={{ sessionId: run.session_id }}
                            className="text-accent underline underline-offset-2"
                          >
                            {t('Open the session')}
                          </Link>
                        )}
                        {ui && run.run_id && (
                          <a
                            href={temporalRun(ui, namespace, run)}
                            target="_blank"
                            rel="noopener noreferrer"
                            className="inline-flex items-center gap-1 text-accent underline underline-offset-2"
                          >
                            {t('Temporal UI')}
                            <ExternalLink size={12} aria-hidden />
                          </a>
                        )}
                      </span>
                    </>
                  }
                  actions={run.actions.map((act) => (
                    <Button key={act} small look={act === 'force_fail' ? 'danger' : 'plain'} onClick={() => setAsking({ act, run })}>
                      {acts[act].label}
                    </Button>
                  ))}
                />
              );
            })}
          </Rows>
        )}
      </Loaded>
      <More pages={list} />
      {asking && <Confirm {...asking} done={() => setAsking(undefined)} />}
    </Section>
  );
}

function Confirm({ act, run, done }: { act: Act; run: Run; done: () => void }) {
  const calls = {
    cancel: () => api().cancelRun(run.workflow_id),
    force_fail: () => api().forceFailRun(run.workflow_id),
    resume: () => api().resumeRun(run.workflow_id),
  };
  const change = useAction(() => calls[act](), { done: acts[act].done, refresh: [['admin', 'runs']] });
  return (
    <FormDialog
      open
      onOpenChange={done}
      danger={act !== 'resume'}
      title={acts[act].title}
      confirm={acts[act].confirm}
      submit={() => change.mutateAsync()}
      description={acts[act].text}
    >
      <code className="code block rounded-md border bg-panel px-3 py-2 break-all">{run.workflow_id}</code>
    </FormDialog>
  );
}
