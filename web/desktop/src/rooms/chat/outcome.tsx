import type { Snapshot } from '@everloop/sdk';
import { CircleCheck, CircleStop } from 'lucide-react';
import { t } from '../../lib/i18n';

const later = t('Send the message again later.');
const advice: Record<string, string> = {
  model_unavailable: later,
  transcription_unavailable: later,
  dependency_unavailable: later,
  timeout: later,
  run_lost: later,
  internal_error: later,
  snapshot_failed: later,
  unknown_model: t('Choose another model.'),
  model_refused: t('Choose another model, or ask the operator of this service.'),
  model_quota_exhausted: t('Choose another model, or ask the operator of this service.'),
  context_overflow: t('Start a new chat, or go back in the history.'),
  max_steps: t('Send a message to continue.'),
  stuck_detected: t('Describe what to do differently.'),
  budget_exhausted: t('Raise the budget of the session to continue.'),
  output_limit: t('Send a message to continue.'),
  content_filtered: t('Describe what to do differently.'),
  empty_answer: later,
  schema_mismatch: t('Ask again, or use a simpler schema.'),
};

/** Outcome is how the last chat of a session ended, in words; undefined: there is nothing to say. */
export type Outcome = { kind: 'failed'; code: string; message?: string; advice?: string } | { kind: 'stopped' | 'schema' | 'result' };

/** outcomeOf reads the end of the last chat, and nothing while another runs or waits for an answer. */
export function outcomeOf({ chat, status, lastEnd }: Pick<Snapshot, 'chat' | 'status' | 'lastEnd'>): Outcome | undefined {
  if (lastEnd === undefined || chat !== undefined || status === 'running' || status === 'waiting_for_input') return undefined;
  // A chat that waited for an answer has had its event before it was stopped.
  const how = lastEnd.finish_reason === 'awaiting_answer' ? status : lastEnd.status;
  if (how === 'interrupted') return { kind: 'stopped' };
  if (how === 'failed') {
    const { code, message } = lastEnd.error ?? { code: lastEnd.finish_reason, message: undefined };
    const todo = advice[code];
    return { kind: 'failed', code, ...(message ? { message } : {}), ...(todo ? { advice: todo } : {}) };
  }
  if (lastEnd.result === undefined) return undefined;
  return { kind: lastEnd.result.schema === undefined ? 'result' : 'schema' };
}

/** OutcomeNote says how the last chat ended: the same as it ends, and when the session is opened later. */
export function OutcomeNote({ state }: { state: Snapshot }) {
  const outcome = outcomeOf(state);
  switch (outcome?.kind) {
    case 'failed':
      return (
        <span tabIndex={0} className="max-h-40 min-w-0 overflow-y-auto py-1 break-words text-bad" dir="auto">
          {outcome.message ? t('The chat has failed: {message}', { message: outcome.message }) : t('The chat has failed.')}{' '}
          <code dir="ltr">{outcome.code}</code>
          {outcome.advice && <span className="block">{outcome.advice}</span>}
        </span>
      );
    case 'stopped':
      return (
        <>
          <CircleStop size={14} aria-hidden />
          {t('The chat was stopped.')}
        </>
      );
    case 'schema':
    case 'result':
      return (
        <>
          <CircleCheck size={14} className="text-good" aria-hidden />
          {outcome.kind === 'schema' ? t('The result follows the schema.') : t('The chat ended with its result.')}
        </>
      );
    default:
      return null;
  }
}
