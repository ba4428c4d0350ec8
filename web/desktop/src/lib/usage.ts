import type { Schemas } from '@everloop/sdk';
import type { Point } from '../ui/chart';

type Item = Schemas['UsageItem'];

/** daysBetween gives the days of a report in UTC; `to` is the day after the last. At most 366. */
export function daysBetween(from: string, to: string): string[] {
  const days: string[] = [];
  const end = Date.parse(`${to}T00:00:00Z`);
  for (let at = Date.parse(`${from}T00:00:00Z`); at < end && days.length < 366; at += 86_400_000)
    days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

/** byDay makes a point for each day of a report, with a value for each series that it has. */
export function byDay(
  report: { from: string; to: string; items: readonly Item[] },
  series: (item: Item) => string,
  value: (item: Item) => number,
): { names: string[]; points: Point[] } {
  const names = [...new Set(report.items.map(series))];
  const place = new Map(names.map((name, index) => [name, index]));
  const points = daysBetween(report.from, report.to).map((label) => ({ label, values: names.map(() => 0) }));
  const rows = new Map(points.map((point) => [point.label, point.values]));
  for (const item of report.items) {
    const values = rows.get(item.day ?? '');
    const index = place.get(series(item));
    if (values && index !== undefined) values[index] = (values[index] ?? 0) + value(item);
  }
  return { names, points };
}

export const tokensOf = (item: Pick<Item, 'input_tokens' | 'output_tokens'>): number => item.input_tokens + item.output_tokens;
