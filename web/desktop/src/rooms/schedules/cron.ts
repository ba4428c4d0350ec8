import type { Schemas } from '@everloop/sdk';
import { locale, t } from '../../lib/i18n';

/** Plan is a cron expression as people say it; what has no such form stays an expression. */
export type Plan =
  | { kind: 'minutes'; every: number }
  | { kind: 'hourly'; minute: number }
  | { kind: 'daily'; hour: number; minute: number }
  | { kind: 'weekly'; days: number[]; hour: number; minute: number }
  | { kind: 'monthly'; day: number; hour: number; minute: number }
  | { kind: 'expression'; text: string };

/** steps are the intervals that divide an hour, so that they are the same over its end. */
export const steps = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30];

// 1 January 2024 was a Monday.
const weekday = (index: number, form: 'long' | 'short'): string =>
  new Date(2024, 0, index + 1).toLocaleDateString(locale, { weekday: form });

/** weekdays have their names, Monday first. */
export const weekdays = Array.from({ length: 7 }, (_, index) => weekday(index, 'long'));

export const weekdayShort = (index: number): string => weekday(index, 'short');

/** cronOf writes a plan as five fields. Days of the week are 1 (Monday) to 7. */
export function cronOf(plan: Plan): string {
  switch (plan.kind) {
    case 'minutes': return plan.every === 1 ? '* * * * *' : `*/${plan.every} * * * *`;
    case 'hourly': return `${plan.minute} * * * *`;
    case 'daily': return `${plan.minute} ${plan.hour} * * *`;
    case 'weekly': return `${plan.minute} ${plan.hour} * * ${daysField(plan.days)}`;
    case 'monthly': return `${plan.minute} ${plan.hour} ${plan.day} * *`;
    case 'expression': return plan.text.trim();
  }
}

function daysField(days: number[]): string {
  const sorted = [...new Set(days)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let from = 0; from < sorted.length;) {
    let to = from;
    while (sorted[to + 1] === (sorted[to] ?? 0) + 1) to++;
    parts.push(to - from >= 2 ? `${sorted[from]}-${sorted[to]}` : sorted.slice(from, to + 1).join(','));
    from = to + 1;
  }
  return parts.join(',');
}

const names = ['MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT', 'SUN'];
const shortForms: Record<string, string> = {
  '@hourly': '0 * * * *', '@daily': '0 0 * * *', '@weekly': '0 0 * * 0', '@monthly': '0 0 1 * *',
};

const numberIn = (text: string | undefined, from: number, to: number): number | undefined => {
  if (text === undefined || !/^\d{1,2}$/.test(text)) return undefined;
  const value = Number(text);
  return value >= from && value <= to ? value : undefined;
};

// daysOf reads a list of days and ranges, 1 (Monday) to 7; undefined: it has another form.
function daysOf(text: string): number[] | undefined {
  const day = (part: string): number | undefined => {
    const named = names.indexOf(part.toUpperCase()) + 1;
    const value = named || numberIn(part, 0, 7);
    return value === 0 ? 7 : value;
  };
  const found = new Set<number>();
  for (const part of text.split(',')) {
    const [from, to, more] = part.split('-').map(day);
    if (from === undefined || more !== undefined) return undefined;
    if (!part.includes('-')) {
      found.add(from);
      continue;
    }
    if (to === undefined || to < from) return undefined;
    for (let one = from; one <= to; one++) found.add(one);
  }
  return [...found].sort((a, b) => a - b);
}

/** planOf reads an expression; `cronOf` of the plan means the same. */
export function planOf(cron: string): Plan {
  const text = cron.trim();
  const other: Plan = { kind: 'expression', text };
  const fields = (shortForms[text] ?? text).split(/\s+/);
  const [minutes, hours, day, month, weekday] = fields;
  if (fields.length !== 5 || minutes === undefined || hours === undefined || day === undefined || weekday === undefined || month !== '*')
    return other;
  if (hours === '*' && day === '*' && weekday === '*') {
    const every = minutes === '*' ? 1 : Number(/^\*\/(\d{1,2})$/.exec(minutes)?.[1]);
    if (steps.includes(every)) return { kind: 'minutes', every };
    const minute = numberIn(minutes, 0, 59);
    return minute === undefined ? other : { kind: 'hourly', minute };
  }
  const minute = numberIn(minutes, 0, 59);
  const hour = numberIn(hours, 0, 23);
  if (minute === undefined || hour === undefined) return other;
  if (day === '*' && weekday === '*') return { kind: 'daily', hour, minute };
  if (day === '*') {
    const days = daysOf(weekday);
    return days ? { kind: 'weekly', days, hour, minute } : other;
  }
  const date = numberIn(day, 1, 31);
  return weekday === '*' && date !== undefined ? { kind: 'monthly', day: date, hour, minute } : other;
}

/** turnedInto changes the kind of a plan and keeps the time that it has. */
export function turnedInto(plan: Plan, kind: Plan['kind']): Plan {
  const minute = 'minute' in plan ? plan.minute : 0;
  const hour = 'hour' in plan ? plan.hour : 9;
  switch (kind) {
    case 'minutes': return { kind, every: 15 };
    case 'hourly': return { kind, minute };
    case 'daily': return { kind, hour, minute };
    case 'weekly': return { kind, days: [1, 2, 3, 4, 5], hour, minute };
    case 'monthly': return { kind, day: 1, hour, minute };
    case 'expression': return { kind, text: cronOf(plan) };
  }
}

/** inZone writes a time as the clocks of a zone show it. */
export function inZone(iso: string, zone: string): string {
  try {
    return new Date(iso).toLocaleString(locale, {
      timeZone: zone,
      weekday: 'short',
      year: 'numeric',
      month: 'short',
      day: 'numeric',
      hour: 'numeric',
      minute: '2-digit',
    });
  } catch {
    return new Date(iso).toISOString(); // a zone that this browser does not know
  }
}

/** zones are the time zones that the browser knows, its own and UTC first, and the one that is chosen. */
export function zones(chosen: string): string[] {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return [...new Set([own, 'UTC', chosen, ...Intl.supportedValuesOf('timeZone')].filter(Boolean))];
}

type Preview = Pick<Schemas['CronPreview'], 'timezone' | 'clock_changes'>;
type ClockChange = Schemas['ClockChange'];

/** changeAt returns the change of clocks that makes the day of a time differ, if there is one. */
export function changeAt(iso: string, { timezone, clock_changes: changes }: Preview): ClockChange | undefined {
  return changes.find((change) => change.date === dateIn(iso, timezone));
}

/** changeText says what the clocks do. */
export function changeText({ kind, from, to }: ClockChange): string {
  return kind === 'repeated' ? t('Clocks repeat {from} to {to}', { from, to }) : t('Clocks skip {from} to {to}', { from, to });
}

/** dateIn returns the date of a time in a zone, as 2026-03-29. */
function dateIn(iso: string, zone: string): string {
  try {
    return new Date(iso).toLocaleDateString('sv-SE', { timeZone: zone });
  } catch {
    return ''; // a zone that this browser does not know
  }
}
