import type { Schemas, ServerSentEvent } from '@everloop/sdk';

export interface CheckView {
  id: string;
  title: string;
  result?: Schemas['CheckResult'];
}

/** withEvent takes an event of the diagnostics into the list of checks. */
export function withEvent(checks: readonly CheckView[], event: Pick<ServerSentEvent, 'event' | 'data'>): CheckView[] {
  if (event.event === 'check_started') {
    const { id, title } = event.data as { id: string; title: string };
    return [...checks.filter((one) => one.id !== id), { id, title }];
  }
  if (event.event === 'check_result') {
    const result = event.data as Schemas['CheckResult'];
    return checks.map((one) => (one.id === result.id ? { ...one, result } : one));
  }
  return [...checks];
}
