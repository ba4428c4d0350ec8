import type { Schemas } from '@everloop/sdk';

/** Due is what one schedule has on one day: its times, the earliest first. */
export interface Due {
  taskId: string;
  title: string;
  times: string[];
}

/** dayOf names the day of a time as the clocks of this browser show it, as 2030-01-31. */
export const dayOf = (at: Date): string =>
  [at.getFullYear(), at.getMonth() + 1, at.getDate()].map((part) => String(part).padStart(2, '0')).join('-');

/** daysOf gives the days of the weeks that a month touches; `firstDay` begins a week, 1 is Monday and 7 Sunday. */
export function daysOf(year: number, month: number, firstDay: number): Date[] {
  const before = (new Date(year, month, 1).getDay() - firstDay + 7) % 7;
  const days = new Date(year, month + 1, 0).getDate();
  return Array.from({ length: Math.ceil((before + days) / 7) * 7 }, (_, index) => new Date(year, month, 1 - before + index));
}

/** dueByDay puts the times of a calendar to their days; on a day schedules come by their first times. */
export function dueByDay(entries: readonly Schemas['CalendarEntry'][]): Map<string, Due[]> {
  const days = new Map<string, Due[]>();
  for (const { task_id: taskId, title, occurrences } of entries) {
    for (const at of occurrences) {
      const day = dayOf(new Date(at));
      const due = days.get(day) ?? [];
      days.set(day, due);
      const own = due.at(-1);
      if (own?.taskId === taskId) own.times.push(at);
      else due.push({ taskId, title, times: [at] });
    }
  }
  for (const due of days.values()) due.sort((a, b) => Date.parse(a.times[0] ?? '') - Date.parse(b.times[0] ?? ''));
  return days;
}
