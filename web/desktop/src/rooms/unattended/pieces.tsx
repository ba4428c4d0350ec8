import { Link } from '@tanstack/react-router';
import { ChevronRight } from 'lucide-react';
import { Tabs as Radix } from 'radix-ui';
import type { ReactNode } from 'react';
import { compact, cost } from '../../lib/format';
import { locale, t } from '../../lib/i18n';
import { word } from '../../lib/words';
import { Badge, type Tone } from '../../ui/page';

const tones: Record<string, Tone> = {
  running: 'accent',
  ready: 'accent',
  dispatched: 'accent',
  in_progress: 'accent',
  working: 'accent',
  pending: 'neutral',
  queued: 'neutral',
  created: 'neutral',
  waiting: 'warn',
  waiting_for_input: 'warn',
  in_review: 'warn',
  draining: 'warn',
  blocked: 'bad',
  failed: 'bad',
  error: 'bad',
  completed: 'good',
  done: 'good',
  reused: 'good',
  delivered: 'good',
  online: 'good',
  published: 'good',
  active: 'good',
};

/** State is the status of something that runs, in its colour. */
export function State({ value, tone }: { value: string; tone?: Tone }) {
  return <Badge tone={tone ?? tones[value] ?? 'neutral'}>{word(value)}</Badge>;
}

/** Crumbs are a title with the way back. */
export function Crumbs({ to, label, children }: { to: string; label: string; children: ReactNode }) {
  return (
    <span className="flex min-w-0 items-center gap-1">
      <Link to={to} className="shrink-0 text-soft hover:text-ink hover:underline">{label}</Link>
      <ChevronRight size={14} className="shrink-0 text-soft" aria-hidden />
      <bdi className="truncate" dir="auto">{children}</bdi>
    </span>
  );
}

/** Tabs are parts of a page of which one is shown. */
export function Tabs({ label, parts, value, change }: {
  label: string; parts: { id: string; label: string; content: ReactNode }[]; value: string; change: (id: string) => void;
}) {
  return (
    <Radix.Root value={value} onValueChange={change} className="flex h-full min-h-0 flex-col">
      <Radix.List aria-label={label} className="flex shrink-0 gap-1 overflow-x-auto border-b px-3">
        {parts.map((part) => (
          <Radix.Trigger
            key={part.id}
            value={part.id}
            className="-mb-px border-b-2 border-transparent px-2 py-2 text-sm whitespace-nowrap text-soft hover:text-ink
              data-[state=active]:border-accent data-[state=active]:text-ink"
          >
            {part.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {parts.map((part) => (
        <Radix.Content key={part.id} value={part.id} tabIndex={-1} className="min-h-0 flex-1 overflow-y-auto outline-none">
          {part.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}

/** SessionLink leads to the session in which something was done. */
export function SessionLink({ id, label = t('Session') }: { id: string; label?: string }) {
  return <Link to="/s/$sessionId" params={{ sessionId: id }} className="text-accent underline-offset-2 hover:underline">{label}</Link>;
}

/** usageText is what something has used: tokens and, where prices are known, its cost. */
export function usageText(usage: { input_tokens: number; output_tokens: number; cost_usd?: number }): string {
  if (usage.input_tokens + usage.output_tokens === 0) return '';
  return [
    t('{input} in, {output} out', { input: compact(usage.input_tokens), output: compact(usage.output_tokens) }),
    usage.cost_usd && cost(usage.cost_usd),
  ]
    .filter(Boolean)
    .join(', ');
}

/** Facts is a list of names and values. */
export function Facts({ list }: { list: (readonly [string, ReactNode])[] }) {
  return (
    <dl className="grid grid-cols-[max-content_minmax(0,1fr)] gap-x-4 gap-y-1 text-sm">
      {list.filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false).map(([name, value]) => (
        <div key={name} className="contents"><dt className="text-soft">{name}</dt><dd className="min-w-0 break-words">{value}</dd></div>
      ))}
    </dl>
  );
}

/** Section is a part of a page with a heading. */
export function Section({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <section aria-label={title} className="space-y-2">
      <div className="flex min-h-8 flex-wrap items-center gap-2"><h2 className="flex-1 font-semibold">{title}</h2>{actions}</div>
      {children}
    </section>
  );
}

/** linesOf reads a text with one entry a line. */
export const linesOf = (text: string): string[] => text.split('\n').map((line) => line.trim()).filter((line) => line !== '');

/** objectOf reads a JSON object; an empty text is none, anything else is an error in words. */
export function objectOf(text: string): { value: Record<string, unknown> | null } | { error: string } {
  if (text.trim() === '') return { value: null };
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { value: value as Record<string, unknown> };
    return { error: t('This must be a JSON object.') };
  } catch (error) {
    return { error: t('Invalid JSON: {message}', { message: (error as Error).message }) };
  }
}

/** jsonText writes a value for people; a text stays as it is. */
export const jsonText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

/** secondsText says a time in the largest unit that fits. */
export function secondsText(seconds: number): string {
  for (const [unit, size] of [['day', 86_400], ['hour', 3600], ['minute', 60]] as const) {
    if (seconds >= size && seconds % size === 0) return units(unit, seconds / size);
  }
  return units('second', seconds);
}

const units = (unit: string, count: number): string =>
  new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay: 'long' }).format(count);
