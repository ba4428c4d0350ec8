import type { Schemas } from '@everloop/sdk';
import type { Point } from '../../ui/chart';
import { locale } from '../../lib/i18n';
import { word } from '../../lib/words';

type Run = Pick<Schemas['OperatorRun'], 'started_at' | 'status' | 'chat_status'>;

const hour = 3_600_000;
const good = ['completed', 'answered', 'awaiting_answer', 'running', ''];

/** causeOf says how a chat ended: well (undefined), or why not. */
export function causeOf(run: Run): string | undefined {
  if (run.status === 'lost' || run.status === 'timed_out' || run.status === 'terminated') return word(run.status);
  if (!good.includes(run.chat_status)) return word(run.chat_status);
  return run.status === 'failed' ? word('failed') : undefined;
}

/** chatsByHour counts runs by the hour of their start: those that went well, and the others. */
export function chatsByHour(runs: readonly Run[], now: number, hours = 6): Point[] {
  const last = Math.floor(now / hour);
  const points = Array.from({ length: hours }, (_, index) => {
    const at = new Date((last - hours + 1 + index) * hour);
    return { label: at.toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit' }), values: [0, 0] };
  });
  for (const run of runs) {
    const values = points[Math.floor(Date.parse(run.started_at) / hour) - (last - hours + 1)]?.values;
    const index = causeOf(run) === undefined ? 0 : 1;
    if (values) values[index] = (values[index] ?? 0) + 1;
  }
  return points;
}

/** failuresByCause counts the chats that did not go well, the most frequent cause first. */
export function failuresByCause(runs: readonly Run[]): [cause: string, count: number][] {
  const counts = new Map<string, number>();
  for (const run of runs) {
    const cause = causeOf(run);
    if (cause) counts.set(cause, (counts.get(cause) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}
