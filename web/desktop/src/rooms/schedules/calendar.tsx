import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ChevronLeft, ChevronRight } from 'lucide-react';
import { useMemo, useState } from 'react';
import { cn } from '../../lib/cn';
import { locale, t } from '../../lib/i18n';
import { api } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { Loaded } from '../../ui/page';
import { dayOf, daysOf, type Due, dueByDay } from './days';

const maxShown = 3; // schedules of a day, in a wide window

// Not every browser knows with which day a week begins.
const { weekInfo, getWeekInfo } = new Intl.Locale(locale) as { weekInfo?: { firstDay: number }; getWeekInfo?: () => { firstDay: number } };
const firstDay = (getWeekInfo?.call(new Intl.Locale(locale)) ?? weekInfo)?.firstDay ?? 1;

const clock = (at: string): string => new Date(at).toLocaleTimeString(locale, { hour: 'numeric', minute: '2-digit' });

/** Calendar shows a month with the times at which the schedules are due. */
export function Calendar() {
  const [shown, setShown] = useState(() => new Date());
  const [year, month] = [shown.getFullYear(), shown.getMonth()];
  const days = useMemo(() => daysOf(year, month, firstDay), [year, month]);
  const range = useMemo(() => {
    const [first = shown, last = shown] = [days[0], days.at(-1)];
    return { from: first.toISOString(), to: new Date(last.getFullYear(), last.getMonth(), last.getDate() + 1).toISOString() };
  }, [days, shown]);
  const due = useQuery({
    queryKey: ['schedules', 'calendar', range.from], placeholderData: keepPreviousData,
    queryFn: ({ signal }) => api().getScheduleCalendar({ query: range, signal }),
  });
  const move = (by: number) => setShown(new Date(year, month + by, 1));
  return (
    <section aria-label={t('Calendar')} className="mx-auto max-w-5xl">
      <div className="mb-3 flex items-center gap-1">
        <h2 className="min-w-0 flex-1 truncate font-semibold" aria-live="polite">
          {shown.toLocaleDateString(locale, { month: 'long', year: 'numeric' })}
        </h2>
        <Button small onClick={() => setShown(new Date())}>
          {t('Today')}
        </Button>
        <IconButton small label={t('Earlier month')} onClick={() => move(-1)}>
          <ChevronLeft size={16} />
        </IconButton>
        <IconButton small label={t('Later month')} onClick={() => move(1)}>
          <ChevronRight size={16} />
        </IconButton>
      </div>
      <Loaded query={due}>
        {(entries) => (
          <>
            <Month days={days} month={month} due={dueByDay(entries)} />
            <p className="mt-2 text-xs text-soft">
              {t('Times are in the time zone of this browser, {zone}.', { zone: Intl.DateTimeFormat().resolvedOptions().timeZone })}{' '}
              {entries.some((entry) => entry.truncated) && t('Shows the first 1,000 times of each schedule.')}
            </p>
          </>
        )}
      </Loaded>
    </section>
  );
}

// In a narrow window days follow each other, without those on which nothing is due and those of this month that are over.
function Month({ days, month, due }: { days: Date[]; month: number; due: Map<string, Due[]> }) {
  const today = dayOf(new Date());
  const now = new Date().getMonth() === month && days.some((day) => dayOf(day) === today);
  const empty = !days.some((day) => day.getMonth() === month && due.has(dayOf(day)));
  return (
    <>
      {empty && <p className="mb-2 text-sm text-soft">{t('No runs in this month.')}</p>}
      <div aria-hidden className="grid grid-cols-7 gap-px pb-1 text-xs text-soft max-sm:hidden">
        {days.slice(0, 7).map((day) => (
          <span key={day.getDay()} className="px-2">
            {day.toLocaleDateString(locale, { weekday: 'short' })}
          </span>
        ))}
      </div>
      <ol className="grid gap-px overflow-hidden rounded-lg border bg-line sm:grid-cols-7">
        {days.map((day) => {
          const key = dayOf(day);
          const here = due.get(key) ?? [];
          const outside = day.getMonth() !== month;
          return (
            <li
              key={key}
              aria-label={day.toLocaleDateString(locale, { dateStyle: 'full' })}
              aria-current={key === today ? 'date' : undefined}
              className={cn(
                'min-w-0 p-1.5 sm:min-h-24',
                outside ? 'bg-panel' : 'bg-raised',
                (here.length === 0 || outside || (now && key < today)) && 'max-sm:hidden',
              )}
            >
              <p className={cn('text-xs tabular-nums sm:text-right', key === today ? 'font-semibold text-accent' : 'text-soft')}>
                <span className="max-sm:hidden">{day.getDate()}</span>
                <span className="sm:hidden">{day.toLocaleDateString(locale, { weekday: 'short', day: 'numeric', month: 'short' })}</span>
              </p>
              <Day due={here} />
            </li>
          );
        })}
      </ol>
    </>
  );
}

function Day({ due }: { due: Due[] }) {
  const [all, setAll] = useState(false);
  const hidden = due.length - maxShown;
  return (
    <ul className="mt-0.5 space-y-px">
      {due.slice(0, all ? due.length : maxShown).map(({ taskId, title, times }) => (
        <li key={taskId}>
          <Link
            to="/schedules/$taskId"
            params={{ taskId }}
            title={times.slice(0, 24).map(clock).join(', ')}
            className="flex min-h-6 items-center gap-1.5 rounded bg-accent-soft px-1.5 text-xs hover:underline"
          >
            <span className="shrink-0 tabular-nums text-accent">{clock(times[0] ?? '')}</span>
            <span className="min-w-0 flex-1 truncate" dir="auto">
              {title}
            </span>
            {times.length > 1 && <span className="shrink-0 text-soft">{t('{count}×', { count: times.length })}</span>}
          </Link>
        </li>
      ))}
      {hidden > 0 && !all && (
        <li>
          <button
            type="button"
            className="min-h-6 w-full rounded px-1.5 text-left text-xs text-soft hover:text-ink"
            onClick={() => setAll(true)}
          >
            {t('{count} more', { count: hidden })}
          </button>
        </li>
      )}
    </ul>
  );
}
