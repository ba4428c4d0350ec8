import type { Schemas } from '@everloop/sdk';

type Run = Schemas['ScheduledRun'];

/** overlaps says what becomes of a run that is due while an earlier one is not over. */
export const overlaps: Record<Schemas['ScheduledTask']['overlap'], string> = {
  skip: 'skip the new run', buffer_one: 'let one wait', buffer_all: 'let all wait', cancel_other: 'stop the earlier run', allow_all: 'run side by side',
};

const reasons: Record<string, string> = {
  run_now: 'started by the button', catchup_window_over: 'found too late', previous_run_active: 'an earlier run was not over', previous_run_waiting: 'an earlier one waits and stands for it',
  too_many_runs: '100 runs were open', cancelled_by_next_run: 'stopped by the next run', outcome_not_met: 'the outcome contract is not met', schema_mismatch: 'the result does not follow its schema',
};

/** outcomeOf says what became of a tick, in one word. */
export function outcomeOf(run: Run): string {
  switch (run.outcome) {
    case 'fired': return run.reason_code === 'run_now' ? 'run now' : 'fired';
    case 'caught_up': return 'caught up';
    default: return run.outcome;
  }
}

/** reasonOf says why, in words where there are some. */
export function reasonOf(run: Run): string {
  const code = run.error_code ?? run.reason_code;
  return run.error || (code ? reasons[code] ?? code.replaceAll('_', ' ') : '');
}
