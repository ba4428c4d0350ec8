import type { Schemas } from '@everloop/sdk';
import { t } from '../../lib/i18n';
import { word } from '../../lib/words';

type Run = Schemas['ScheduledRun'];

/** overlaps says what becomes of a run that is due while an earlier one is not over. */
export const overlaps: Record<Schemas['ScheduledTask']['overlap'], string> = {
  skip: t('skip the new run'),
  buffer_one: t('let one wait'),
  buffer_all: t('let all wait'),
  cancel_other: t('stop the earlier run'),
  allow_all: t('run side by side'),
};

const reasons: Record<string, string> = {
  run_now: t('triggered by hand'),
  backfilled: t('backfilled'),
  paused: t('the schedule was paused'),
  catchup_window_over: t('found too late'),
  previous_run_active: t('an earlier run was still active'),
  previous_run_waiting: t('merged into an earlier tick that waits'),
  too_many_runs: t('100 runs were open'),
  cancelled_by_next_run: t('stopped by the next run'),
  outcome_not_met: t('the outcome contract is not met'),
  schema_mismatch: t('the result does not follow its schema'),
};

/** outcomeOf says what became of a tick, in one word. */
export function outcomeOf(run: Run): string {
  switch (run.outcome) {
    case 'fired': return run.reason_code === 'run_now' ? t('run now') : run.reason_code === 'backfilled' ? t('backfilled') : word('fired');
    case 'caught_up': return t('caught up');
    default: return word(run.outcome);
  }
}

/** reasonOf says why, in words where there are some. */
export function reasonOf(run: Run): string {
  const code = run.error_code ?? run.reason_code;
  return run.error || (code ? (reasons[code] ?? code.replaceAll('_', ' ')) : '');
}
