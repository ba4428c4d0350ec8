import { t } from './i18n';

/** known are the values of the service's interface that are shown, such as states and causes. */
const known: Record<string, string> = {
  active: t('active'), admin: t('admin'), agent: t('agent'), answer: t('answer'), approval: t('approval'), archive: t('archive'),
  archived: t('archived'), assigned: t('assigned'), awaiting_answer: t('awaiting answer'), blocked: t('blocked'), budget: t('budget'),
  budget_exhausted: t('budget exhausted'), building: t('building'), canceled: t('cancelled'), cancelled: t('cancelled'),
  caught_up: t('caught up'), chat: t('chat'), child: t('sub-agents'), command: t('command'), comment: t('comment'),
  compaction: t('compaction'), completed: t('completed'), connected: t('connected'), connecting: t('connecting'),
  context_overflow: t('context overflow'), continued_as_new: t('continued as new'), created: t('created'), dag: t('DAG'),
  definition_changed: t('definition changed'), deleted: t('deleted'), deletion: t('deletion'), delivered: t('delivered'),
  disabled: t('disabled'), dispatched: t('dispatched'), done: t('done'), draft: t('draft'), draining: t('draining'), error: t('failed'),
  experience: t('experience'), failed: t('failed'), feedback: t('feedback'), file: t('file'), finished: t('finished'), fired: t('fired'),
  fork: t('fork'), high: t('high'), history: t('history'), idle: t('idle'), import: t('import'), inputs_changed: t('inputs changed'),
  interrupted: t('interrupted'), issue: t('issue'), kept: t('kept'), live: t('live'), lost: t('lost'), low: t('low'),
  manual: t('manual'), max_steps: t('max steps'), medium: t('medium'), member: t('member'), missed: t('missed'), model: t('model'),
  model_unavailable: t('model unavailable'), modified: t('modified'), none: t('none'), offline: t('offline'), online: t('online'),
  owner: t('owner'), paused: t('paused'), pending: t('pending'), permission: t('permission'), pinned: t('given'), playing: t('playing'),
  project: t('project'), publish: t('publish'), published: t('published'), question: t('question'), queued: t('queued'),
  rate_limit: t('rate limit'), ready: t('ready'), replay: t('replay'), restarted: t('restarted'), retry: t('retry'), reused: t('reused'),
  running: t('running'), same_inputs: t('same inputs'), schedule: t('schedule'), schema_mismatch: t('schema mismatch'),
  shell: t('shell'), skipped: t('skipped'), slot: t('a free place'), stopped: t('stopped'), stuck_detected: t('stuck detected'),
  task: t('task'), terminated: t('terminated'), timed_out: t('timed out'), timer: t('timer'), tool: t('tool'), unchanged: t('unchanged'),
  urgent: t('urgent'), viewer: t('viewer'), waiting: t('waiting'), waiting_for_input: t('waiting for input'),
  worker_missing: t('worker missing'), working: t('working'),
};

/** word gives a value of the service's interface in words; one that is not known as it is, `in_progress` as "in progress". */
export const word = (value: string): string => known[value] ?? value.replaceAll('_', ' ');
