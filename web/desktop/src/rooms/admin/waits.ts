import type { Schemas } from '@everloop/sdk';
import { dateTime } from '../../lib/format';

type Wait = Schemas['RunWait'];

const reasons: Record<Exclude<Wait['reason'], 'none'>, string> = {
  model: 'the model works', model_unavailable: 'the model server does not answer', rate_limit: 'the model server asks to wait', tool: 'tools run',
  question: 'waits for an answer', permission: 'waits for a permission', child: 'sub-agents work', slot: 'a sub-agent waits for its turn',
  budget: 'the budget is used up', queued: 'waits for its run', worker_missing: 'no worker is running', timer: 'waits for its time',
};

/** waitText says why a run makes no progress, since when and until when; '' when it works. */
export function waitText(wait: Wait): string {
  if (wait.reason === 'none') return '';
  const text = reasons[wait.reason];
  return [
    text.charAt(0).toUpperCase() + text.slice(1), wait.on === 'model' && wait.id ? `(${wait.id})` : '',
    wait.since && `since ${dateTime(wait.since)}`, wait.until && `until ${dateTime(wait.until)}`,
  ].filter(Boolean).join(' ');
}
