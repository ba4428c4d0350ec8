/** Texts for numbers, sizes and times, in the language of the reader. */

import { locale, t } from './i18n';

const fixed = (value: number, digits: number): string =>
  value.toLocaleString(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits });

export function bytes(count: number): string {
  if (count < 1000) return t('{size} B', { size: count });
  const units = [t('{size} kB'), t('{size} MB'), t('{size} GB'), t('{size} TB')];
  let value = count / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return (units[unit] ?? '').replace('{size}', fixed(value, value < 10 ? 1 : 0));
}

const short = new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 1 });

/** compact gives 950, 1.2K, 33.9K, 5.6M, as the language writes it. */
export const compact = (count: number): string => short.format(count);

export function duration(ms: number): string {
  if (ms < 1000) return t('{count} ms', { count: Math.round(ms) });
  if (ms < 59_500) return t('{seconds} s', { seconds: fixed(ms / 1000, ms < 9950 ? 1 : 0) });
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return t('{minutes} min {seconds} s', { minutes, seconds: Math.round((ms % 60_000) / 1000) });
  return t('{hours} h {minutes} min', { hours: Math.floor(minutes / 60), minutes: minutes % 60 });
}

export function cost(usd: number): string {
  const digits = usd > 0 && usd < 0.01 ? 4 : 2;
  return usd.toLocaleString(locale, {
    style: 'currency',
    currency: 'USD',
    currencyDisplay: 'narrowSymbol',
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

export function dateTime(iso: string): string {
  return new Date(iso).toLocaleString(locale, { dateStyle: 'medium', timeStyle: 'short' });
}

const day = 86_400;
const date = (iso: string): string => new Date(iso).toLocaleDateString(locale, { dateStyle: 'medium' });

/** ago gives a time as a distance: now, 5 min, 3 h, 2 d, or the date. */
export function ago(iso: string, now = Date.now()): string {
  const seconds = (now - new Date(iso).getTime()) / 1000;
  if (seconds < 60) return t('now');
  if (seconds < 3600) return t('{count} min', { count: Math.floor(seconds / 60) });
  if (seconds < day) return t('{count} h', { count: Math.floor(seconds / 3600) });
  return seconds < 7 * day ? t('{count} d', { count: Math.floor(seconds / day) }) : date(iso);
}

const distance = new Intl.RelativeTimeFormat(locale, { style: 'short', numeric: 'auto' });

/** relative gives a time as a part of a sentence: now, 5 min. ago, yesterday, or the date. */
export function relative(iso: string, now = Date.now()): string {
  const seconds = (now - new Date(iso).getTime()) / 1000;
  if (seconds < 60) return distance.format(0, 'second');
  if (seconds < 3600) return distance.format(-Math.floor(seconds / 60), 'minute');
  if (seconds < day) return distance.format(-Math.floor(seconds / 3600), 'hour');
  return seconds < 7 * day ? distance.format(-Math.floor(seconds / day), 'day') : date(iso);
}
