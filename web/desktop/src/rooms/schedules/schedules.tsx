import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Link, useLocation } from '@tanstack/react-router';
import { CalendarClock, CalendarDays, List, Plus } from 'lucide-react';
import { cn } from '../../lib/cn';
import { rich, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Badge, Empty, Loaded, Page } from '../../ui/page';
import { State } from '../unattended/pieces';
import { Calendar } from './calendar';
import { inZone } from './cron';
import { cronText } from './cron-text';

/** newLink is a link that looks like a button. */
const newLink = (
  <Link
    to="/schedules/new"
    className="inline-flex h-8 items-center gap-1.5 rounded-md bg-accent px-3 text-sm font-medium text-accent-ink hover:bg-accent/90"
  >
    <Plus size={15} aria-hidden />
    {t('New schedule')}
  </Link>
);

const views = [
  { hash: '', label: t('List'), icon: List },
  { hash: 'calendar', label: t('Calendar'), icon: CalendarDays },
];

// The address names the view, so that it can be linked.
const Views = ({ shown }: { shown: string }) => (
  <nav aria-label={t('View')} className="flex rounded-lg bg-panel p-0.5">
    {views.map(({ hash, label, icon: Icon }) => (
      <Link
        key={hash}
        to="/schedules"
        hash={hash}
        aria-label={label}
        aria-current={hash === shown ? 'page' : undefined}
        className={cn(
          'inline-flex h-7 items-center gap-1.5 rounded-md px-2 text-sm',
          hash === shown ? 'bg-raised text-ink shadow-sm' : 'text-soft hover:text-ink',
        )}
      >
        <Icon size={15} aria-hidden />
        <span className="max-sm:hidden">{label}</span>
      </Link>
    ))}
  </nav>
);

export default function Schedules() {
  const view = useLocation({ select: ({ hash }) => (hash === 'calendar' ? hash : '') });
  const tasks = useQuery({
    queryKey: ['schedules', 'list'],
    queryFn: ({ signal }) => api().listScheduledTasks({ signal }),
    refetchInterval: 10_000,
  });
  return (
    <Page
      title={t('Schedules')}
      actions={
        <>
          <Views shown={view} />
          {newLink}
        </>
      }
    >
      <Loaded
        query={tasks}
        empty={
          <Empty icon={<CalendarClock size={28} />} title={t('Nothing is scheduled')} action={newLink}>
            {t('A schedule sends a prompt at set times, for example to write a report every morning. Each run is a session that you can open.')}
          </Empty>
        }
      >
        {(list) =>
          view === 'calendar' ? (
            <Calendar />
          ) : (
            <ul className="mx-auto max-w-4xl space-y-2">
              {list.map((task) => (
                <Row key={task.id} task={task} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Page>
  );
}

function Row({ task }: { task: Schemas['ScheduledTask'] }) {
  const enable = useAction((enabled: boolean) => (enabled ? api().startScheduledTask(task.id) : api().stopScheduledTask(task.id)), {
    refresh: [['schedules']],
  });
  return (
    <li className="flex items-center gap-x-3 gap-y-1 rounded-lg max-sm:flex-wrap border bg-raised px-3 py-2.5 hover:border-line-strong">
      <input
        type="checkbox"
        role="switch"
        aria-label={t('{name} is enabled', { name: task.title })}
        className="size-4 shrink-0 accent-(--accent)"
        checked={enable.isPending ? enable.variables : task.enabled}
        disabled={enable.isPending}
        onChange={(event) => enable.mutate(event.target.checked)}
      />
      <div className="min-w-0 flex-1">
        <div className="flex flex-wrap items-center gap-x-2">
          <Link to="/schedules/$taskId" params={{ taskId: task.id }} className="min-w-0 truncate font-medium hover:underline" dir="auto">
            {task.title}
          </Link>
          {task.last_status && <State value={task.last_status} />}
          {task.paused_reason && <Badge tone="bad">{task.paused_reason.startsWith('paused in Temporal') ? t('paused in Temporal') : t('disabled after failures')}</Badge>}
        </div>
        <p className="text-sm text-soft">
          {cronText(task.cron, task.cron_text)} <span className="whitespace-nowrap">({task.timezone})</span>
        </p>
      </div>
      <div className="shrink-0 text-xs text-soft max-sm:w-full max-sm:pl-7 sm:text-right">
        {task.next_run_at && (
          <p>
            {rich('next {time}', {
              time: (
                <time key="time" dateTime={task.next_run_at}>
                  {inZone(task.next_run_at, task.timezone)}
                </time>
              ),
            })}
          </p>
        )}
        {task.last_run_at && (
          <p>
            {rich('last {time}', {
              time: (
                <time key="time" dateTime={task.last_run_at}>
                  {inZone(task.last_run_at, task.timezone)}
                </time>
              ),
            })}
          </p>
        )}
      </div>
    </li>
  );
}
