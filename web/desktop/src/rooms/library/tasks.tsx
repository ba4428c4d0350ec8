import { useQueries, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Schemas } from '@everloop/sdk';
import { ScrollText, SquareTerminal, StopCircle } from 'lucide-react';
import { useState } from 'react';
import { bytes, dateTime, duration , relative } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { word } from '../../lib/words';
import { IconButton } from '../../ui/button';
import { Code } from '../../ui/code';
import { Dialog, FormDialog } from '../../ui/dialog';
import { Badge, Empty, Failure, Loaded, Spinner, type Tone } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';
import { SessionChoice, useSessions } from './session-choice';

type Task = Schemas['BackgroundTask'];
const tones: Record<Task['status'], Tone> = { running: 'accent', completed: 'good', failed: 'bad', stopped: 'warn', lost: 'bad' };
const newest = 12; // sessions that are looked through when none is chosen

export function Tasks() {
  const sessions = useSessions();
  const [session, setSession] = useState('');
  const looked = session ? [session] : sessions.data?.items.slice(0, newest).map((one) => one.id) ?? [];
  const found = useQueries({
    queries: looked.map((id) => ({
      queryKey: ['tasks', id],
      refetchInterval: 10_000,
      queryFn: ({ signal }: { signal: AbortSignal }) => api().listBackgroundTasks(id, { signal }),
    })),
  });
  const tasks = found.flatMap((one) => one.data?.items ?? []).sort((a, b) => Date.parse(b.started_at) - Date.parse(a.started_at));
  const failed = found.find((one) => one.error);
  const waits = sessions.data === undefined || found.some((one) => one.data === undefined && !one.error);
  const names = new Map(sessions.data?.items.map((one) => [one.id, one.intent || t('New session')]));
  const [shown, setShown] = useState<Task>();
  const [stopping, setStopping] = useState<Task>();
  const stop = useAction((task: Task) => api().stopBackgroundTask(task.session_id, task.task_id), {
    done: t('The task is being stopped.'),
    refresh: [['tasks']],
  });
  return (
    <Section title={t('Background tasks')} note={t('Commands and sub-agents that continue after their chat.')}>
      <div className="mb-3 max-w-md">
        <SessionChoice value={session} change={setSession} empty={plural(newest, 'your newest session', 'your {count} newest sessions')} />
      </div>
      {sessions.error && <Failure error={sessions.error} retry={() => void sessions.refetch()} />}
      {failed && <Failure error={failed.error} retry={() => void failed.refetch()} />}
      {tasks.length === 0 &&
        (waits && !sessions.error ? (
          <Spinner />
        ) : (
          <Empty icon={<SquareTerminal size={28} />} title={t('No background tasks')}>
            {t('An agent starts one for a command that keeps running, such as a server or a long build.')}
          </Empty>
        ))}
      {tasks.length > 0 && (
        <Rows label={t('Background tasks')}>
          {tasks.map((task) => (
            <Row
              key={task.task_id}
              title={task.title || task.command || word(task.kind)}
              badges={
                <>
                  <Badge tone={tones[task.status]}>{word(task.status)}</Badge>
                  <Badge>{word(task.kind)}</Badge>
                  {task.stop_requested && task.status === 'running' && <Badge tone="warn">{t('is being stopped')}</Badge>}
                </>
              }
              note={
                <>
                  {[
                    t('since {time}', { time: dateTime(task.started_at) }),
                    task.finished_at && t('took {time}', { time: duration(Date.parse(task.finished_at) - Date.parse(task.started_at)) }),
                    task.exit_code !== null && t('exit code {code}', { code: String(task.exit_code) }),
                    t('{size} written', { size: bytes(task.output_bytes) }),
                    task.last_output_at && task.status === 'running' && t('last output {time}', { time: relative(task.last_output_at) }),
                    task.reason,
                  ]
                    .filter(Boolean)
                    .join(' · ')}{' '}
                  ·{' '}
                  <Link to="/s/$sessionId" params={{ sessionId: task.session_id }} className="text-accent underline underline-offset-2">
                    {names.get(task.session_id) ?? t('its session')}
                  </Link>
                </>
              }
              actions={
                <>
                  <IconButton label={t('Output of {title}', { title: task.title || task.task_id })} onClick={() => setShown(task)}>
                    <ScrollText size={16} />
                  </IconButton>
                  {task.status === 'running' && (
                    <IconButton label={t('Stop {title}', { title: task.title || task.task_id })} onClick={() => setStopping(task)}>
                      <StopCircle size={16} />
                    </IconButton>
                  )}
                </>
              }
            />
          ))}
        </Rows>
      )}
      {shown && <Output task={shown} close={() => setShown(undefined)} />}
      {stopping && (
        <FormDialog
          open
          onOpenChange={() => setStopping(undefined)}
          danger
          title={t('Stop the task?')}
          confirm={t('Stop')}
          submit={() => stop.mutateAsync(stopping)}
          description={<>{t('Stops “{title}” and its processes.', { title: stopping.title || stopping.command })}</>}
        />
      )}
    </Section>
  );
}

function Output({ task, close }: { task: Task; close: () => void }) {
  const output = useQuery({
    queryKey: ['tasks', task.session_id, task.task_id, 'output'],
    queryFn: ({ signal }) => api().getBackgroundTaskOutput(task.session_id, task.task_id, { query: { tail: 1000 }, signal }),
    refetchInterval: (query) => (query.state.data?.status === 'running' ? 2000 : false),
  });
  return (
    <Dialog open onOpenChange={close} wide title={task.title || t('Background task')} description={task.command ?? ''}>
      <Loaded
        query={output}
        isEmpty={(data) => data.lines.length === 0}
        empty={<p className="text-sm text-soft">{t('No output.')}</p>}
      >
        {(data) => (
          <>
            {data.truncated && (
              <p className="mb-2 text-sm text-soft">
                {t('The last {shown} of {total} lines.', { shown: data.lines.length, total: data.total_lines })}
              </p>
            )}
            <Code text={data.lines.join('\n')} label={t('Output')} tall />
          </>
        )}
      </Loaded>
    </Dialog>
  );
}
