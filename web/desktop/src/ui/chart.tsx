import { useState } from 'react';
import { cn } from '../lib/cn';
import { plural, t } from '../lib/i18n';

export interface Point {
  label: string;
  values: number[]; // one for each series
}

/** topSeries keeps the largest series of points and adds up the others. */
export function topSeries(names: string[], points: Point[], most = 5): { names: string[]; points: Point[] } {
  if (names.length <= most) return { names, points };
  const sums = names.map((_, index) => points.reduce((sum, point) => sum + (point.values[index] ?? 0), 0));
  const order = names.map((_, index) => index).sort((a, b) => (sums[b] ?? 0) - (sums[a] ?? 0));
  const kept = order.slice(0, most - 1);
  const rest = order.slice(most - 1);
  return {
    names: [...kept.map((index) => names[index] ?? ''), plural(rest.length, '{count} other', '{count} others')],
    points: points.map((point) => ({
      label: point.label,
      values: [...kept.map((index) => point.values[index] ?? 0), rest.reduce((sum, index) => sum + (point.values[index] ?? 0), 0)],
    })),
  };
}

/** ceiling is a round number that is not below a value: 1, 2 or 5 with zeros. */
export function ceiling(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((step) => step * power >= value * 0.999_999) ?? 10) * power;
}

const colours = ['bg-accent', 'bg-good', 'bg-warn', 'bg-bad', 'bg-line-strong'];

/** Bars shows numbers over time as stacked bars, and as a table for those who do not see them. */
export function Bars({ title, names, points: given, format, tones }: {
  title: string; names: string[]; points: Point[]; format: (value: number) => string; tones?: string[];
}) {
  const [table, setTable] = useState(false);
  const { names: shown, points } = topSeries(names, given);
  const sum = (point: Point) => point.values.reduce((all, value) => all + value, 0);
  const valuesOf = (point: Point) =>
    shown.length === 1 ? format(sum(point)) : shown.map((name, index) => `${name} ${format(point.values[index] ?? 0)}`).join(', ');
  const top = ceiling(Math.max(0, ...points.map(sum)));
  const total = points.reduce((all, point) => all + sum(point), 0);
  const colour = (index: number) => tones?.[index] ?? colours[index % colours.length];
  return (
    <figure className="min-w-0 rounded-lg border bg-raised p-3">
      <figcaption className="mb-2 flex flex-wrap items-baseline gap-x-2">
        <span className="font-medium">{title}</span>
        <span className="flex-1 text-sm text-soft tabular-nums">{format(total)}</span>
        {total > 0 && (
          <button
            type="button"
            className="text-xs text-accent underline underline-offset-2"
            onClick={() => setTable(!table)}
          >
            {table ? t('Chart') : t('Table')} <span className="sr-only">{title}</span>
          </button>
        )}
      </figcaption>
      {total === 0 ? (
        <p className="grid h-36 place-items-center text-sm text-soft">{t('Nothing in this time')}</p>
      ) : table ? (
        <div className="max-h-56 overflow-auto" tabIndex={0} role="region" aria-label={t('Table: {title}', { title })}>
          <table className="w-full text-right text-xs tabular-nums">
            <thead>
              <tr>
                <th scope="col" className="pr-2 text-left font-medium">
                  {t('Time')}
                </th>
                {shown.map((name) => (
                  <th key={name} scope="col" className="pl-2 font-medium">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {points.map((point) => (
                <tr key={point.label} className="border-t">
                  <th scope="row" className="pr-2 text-left font-normal whitespace-nowrap">
                    {point.label}
                  </th>
                  {point.values.map((value, index) => (
                    <td key={index} className="pl-2">
                      {format(value)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <>
          <div aria-hidden className="flex gap-1.5">
            <div className="flex h-36 w-11 shrink-0 flex-col justify-between text-right text-xs leading-none text-soft tabular-nums">
              <span>{format(top)}</span>
              <span>{format(top / 2)}</span>
              <span>{format(0)}</span>
            </div>
            <div className="flex h-36 min-w-0 flex-1 items-end gap-px border-b border-l bg-[linear-gradient(var(--line),var(--line))]
              bg-size-[100%_1px] bg-position-[0_50%] bg-no-repeat px-px">
              {points.map((point) => (
                <div
                  key={point.label}
                  className="flex h-full min-w-0 flex-1 flex-col-reverse hover:bg-hover"
                  title={`${point.label}: ${valuesOf(point)}`}
                >
                  {point.values.map(
                    (value, index) =>
                      value > 0 && (
                        <span
                          key={index}
                          className={cn('block min-h-px w-full', colour(index))}
                          style={{ height: `${(value / top) * 100}%` }}
                        />
                      ),
                  )}
                </div>
              ))}
            </div>
          </div>
          <div aria-hidden className="mt-1 flex justify-between pl-13 text-xs text-soft">
            <span>{points[0]?.label}</span>
            <span>{points.length > 1 && points.at(-1)?.label}</span>
          </div>
          <p className="sr-only">
            {shown.length > 1
              ? t('{total} in total, by {names}.', { total: format(total), names: shown.join(', ') })
              : t('{total} in all.', { total: format(total) })}
          </p>
        </>
      )}
      {shown.length > 1 && !table && total > 0 && (
        <ul className="mt-2 flex flex-wrap gap-x-3 gap-y-0.5 text-xs text-soft">
          {shown.map((name, index) => (
            <li key={name} className="flex min-w-0 items-center gap-1.5">
              <span aria-hidden className={cn('size-2.5 shrink-0 rounded-sm', colour(index))} />
              <span className="truncate">{name}</span>
            </li>
          ))}
        </ul>
      )}
    </figure>
  );
}
