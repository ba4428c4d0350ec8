import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { EverloopError } from '@everloop/sdk';
import { useEffect, useState } from 'react';
import { cn } from '../../lib/cn';
import { plural, t } from '../../lib/i18n';
import { api, errorText } from '../../lib/query';
import { Field, Input, Select } from '../../ui/field';
import { cronText } from './cron-text';
import { changeAt, changeText, cronOf, inZone, type Plan, planOf, steps, turnedInto, weekdayShort, weekdays, zones } from './cron';

const kinds: Record<Plan['kind'], string> = {
  minutes: t('Every few minutes'),
  hourly: t('Every hour'),
  daily: t('Every day'),
  weekly: t('On days of the week'),
  monthly: t('Every month'),
  expression: t('Cron expression'),
};
const two = (value: number) => String(value).padStart(2, '0');

/** CronBuilder makes a cron expression; the service says what it means and when it is due next. */
export function CronBuilder({
  cron,
  zone,
  end,
  change,
}: {
  cron: string;
  zone: string;
  end?: string;
  change: (part: { cron?: string; timezone?: string }) => void;
}) {
  const [plan, setPlan] = useState<Plan>(() => planOf(cron));
  const set = (next: Plan) => {
    setPlan(next);
    change({ cron: cronOf(next) });
  };
  const timed = plan.kind === 'daily' || plan.kind === 'weekly' || plan.kind === 'monthly' ? plan : undefined;
  return (
    <fieldset className="min-w-0 space-y-3 rounded-lg border p-3">
      <legend className="px-1 text-sm font-medium">{t('When')}</legend>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label={t('Repeats')}>
          {(ids) => (
            <Select {...ids} value={plan.kind} onChange={(event) => set(turnedInto(plan, event.target.value as Plan['kind']))}>
              {Object.entries(kinds).map(([kind, label]) => (
                <option key={kind} value={kind}>
                  {label}
                </option>
              ))}
            </Select>
          )}
        </Field>
        {plan.kind === 'minutes' && (
          <Field label={t('Minutes')}>
            {(ids) => (
              <Select {...ids} value={plan.every} onChange={(event) => set({ kind: 'minutes', every: Number(event.target.value) })}>
                {steps.map((every) => (
                  <option key={every} value={every}>
                    {plural(every, 'every minute', 'every {count} minutes')}
                  </option>
                ))}
              </Select>
            )}
          </Field>
        )}
        {plan.kind === 'hourly' && (
          <Field label={t('At minute')}>
            {(ids) => (
              <Input
                {...ids}
                type="number"
                min={0}
                max={59}
                required
                value={plan.minute}
                onChange={(event) =>
                  set({ kind: 'hourly', minute: Math.min(59, Math.max(0, Math.trunc(event.target.valueAsNumber) || 0)) })
                }
              />
            )}
          </Field>
        )}
        {timed && (
          <Field label={t('At')}>
            {(ids) => (
              <Input
                {...ids}
                type="time"
                required
                value={`${two(timed.hour)}:${two(timed.minute)}`}
                onChange={(event) => {
                  const [hour, minute] = event.target.value.split(':').map(Number);
                  if (hour !== undefined && minute !== undefined) set({ ...timed, hour, minute });
                }}
              />
            )}
          </Field>
        )}
        {plan.kind === 'expression' && (
          <Field label={t('Expression')} hint={t('Minute, hour, day of the month, month, day of the week; or @daily and the like.')}>
            {(ids) => (
              <Input
                {...ids}
                value={plan.text}
                onChange={(event) => set({ kind: 'expression', text: event.target.value })}
                required
                maxLength={100}
                spellCheck={false}
                className="font-mono"
              />
            )}
          </Field>
        )}
        {plan.kind === 'monthly' && (
          <Field label={t('On day')} hint={plan.day > 28 ? t('Months without this day are skipped.') : undefined}>
            {(ids) => (
              <Input
                {...ids}
                type="number"
                min={1}
                max={31}
                required
                value={plan.day}
                onChange={(event) => set({ ...plan, day: Math.min(31, Math.max(1, Math.trunc(event.target.valueAsNumber) || 1)) })}
              />
            )}
          </Field>
        )}
        <Field label={t('Time zone')}>
          {(ids) => (
            <Select {...ids} value={zone} onChange={(event) => change({ timezone: event.target.value })}>
              {zones(zone).map((one) => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </Select>
          )}
        </Field>
      </div>
      {plan.kind === 'weekly' && (
        <div role="group" aria-label={t('Days')} className="flex flex-wrap gap-1.5">
          {weekdays.map((name, index) => {
            const on = plan.days.includes(index + 1);
            return (
              <label
                key={name}
                className={cn(
                  'cursor-pointer rounded-md border px-2.5 py-1 text-sm has-focus-visible:outline-2 has-focus-visible:outline-accent',
                  on ? 'border-accent bg-accent-soft text-accent' : 'hover:bg-hover',
                )}
              >
                <input
                  type="checkbox"
                  className="sr-only"
                  checked={on}
                  aria-label={name}
                  onChange={() => {
                    const days = on ? plan.days.filter((one) => one !== index + 1) : [...plan.days, index + 1];
                    if (days.length > 0) set({ ...plan, days });
                  }}
                />
                {weekdayShort(index)}
              </label>
            );
          })}
        </div>
      )}
      <Preview cron={cronOf(plan)} zone={zone} end={end} />
    </fieldset>
  );
}

/** Preview describes an expression in words, with its next times up to the end of the schedule. */
export function Preview({ cron, zone, end }: { cron: string; zone: string; end?: string | null | undefined }) {
  const [asked, setAsked] = useState({ cron, zone });
  useEffect(() => {
    const timer = setTimeout(() => setAsked({ cron, zone }), 250);
    return () => clearTimeout(timer);
  }, [cron, zone]);
  const preview = useQuery({
    queryKey: ['schedules', 'preview', asked], enabled: asked.cron !== '', placeholderData: keepPreviousData, staleTime: 30_000,
    queryFn: ({ signal }) => api().previewSchedule({ query: { cron: asked.cron, timezone: asked.zone, count: 5 }, signal }),
  });
  if (cron === '') return <p className="text-sm text-soft">{t('Say when it is due.')}</p>;
  if (preview.error) {
    const fields = preview.error instanceof EverloopError ? preview.error.errors : [];
    return <p role="alert" className="text-sm text-bad">{fields[0]?.message ?? errorText(preview.error)}</p>;
  }
  if (!preview.data) return <p className="text-sm text-soft">…</p>;
  const occurrences = preview.data.occurrences.filter((at) => !end || new Date(at) < new Date(end));
  return (
    <div className="rounded-md bg-panel px-3 py-2 text-sm" aria-live="polite">
      <p className="font-medium">
        {cronText(asked.cron, preview.data.cron_text)} <span className="inline-block font-mono text-xs font-normal text-soft">{cron}</span>
      </p>
      {occurrences.length === 0 ? <p className="text-soft">{t('It is never due.')}</p> : (
        <ol aria-label={t('Next runs')} className="mt-1 text-soft">
          {occurrences.map((at) => {
            const change = changeAt(at, preview.data);
            return (
              <li key={at}>
                <time dateTime={at}>{inZone(at, preview.data.timezone)}</time>
                {change && <span className="ml-2 text-warn">{changeText(change)}</span>}
              </li>
            );
          })}
        </ol>
      )}
    </div>
  );
}
