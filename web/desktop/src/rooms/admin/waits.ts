import type { Schemas } from '@everloop/sdk';
import { dateTime } from '../../lib/format';
import { t } from '../../lib/i18n';

type Wait = Schemas['RunWait'];

const reasons: Record<Exclude<Wait['reason'], 'none'>, string> = {
  model: t('the model works'),
  model_unavailable: t('the model server does not respond'),
  rate_limit: t('the model server asks for a pause'),
  tool: t('tools run'),
  question: t('waits for an answer'),
  permission: t('waits for a permission'),
  child: t('sub-agents work'),
  slot: t('a sub-agent is queued'),
  budget: t('the budget is used up'),
  queued: t('waits for its run'),
  worker_missing: t('no worker is running'),
  timer: t('waits for its time'),
};

/** waitText says why a run makes no progress, since when and until when; '' when it works. */
export function waitText(wait: Wait): string {
  if (wait.reason === 'none') return '';
  const text = reasons[wait.reason];
  return [
    text.charAt(0).toUpperCase() + text.slice(1), wait.on === 'model' && wait.id ? `(${wait.id})` : '',
    wait.since && t('since {time}', { time: dateTime(wait.since) }), wait.until && t('until {time}', { time: dateTime(wait.until) }),
  ].filter(Boolean).join(' ');
}
