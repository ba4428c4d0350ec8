import { t } from '../../lib/i18n';

/** eventGroups are the events that a webhook can be sent, by what they are about. */
export const eventGroups: { title: string; events: string[] }[] = [
  {
    title: t('Chats'),
    events: ['chat.waiting', 'chat.completed', 'chat.interrupted', 'chat.failed', 'chat.budget_exhausted', 'question.escalated'],
  },
  { title: t('Schedules'), events: ['schedule.run_completed', 'schedule.run_failed', 'schedule.run_missed', 'schedule.paused'] },
  { title: t('DAG runs'), events: ['dag_run.started', 'dag_run.waiting', 'dag_run.completed', 'dag_run.failed', 'dag_run.cancelled'] },
  {
    title: t('Issues'),
    events: ['issue_run.started', 'issue_run.waiting', 'issue_run.completed', 'issue_run.failed', 'issue_run.cancelled'],
  },
  { title: t('Webhooks'), events: ['webhook.disabled'] },
];

/** eventsText says which events are sent. */
export function eventsText(events: readonly string[]): string {
  if (events.includes('*')) return t('all events');
  if (events.length === 0) return t('only events of schedules that use it');
  return events.length <= 3
    ? events.join(', ')
    : t('{events} and {count} more', { events: events.slice(0, 2).join(', '), count: events.length - 2 });
}
