import { diffLines } from 'diff';
import { memo, useMemo } from 'react';
import { cn } from '../lib/cn';
import { plural, t } from '../lib/i18n';
import { visible } from '../lib/visible';

export interface DiffLine {
  kind: 'same' | 'added' | 'removed' | 'gap';
  text: string;
}

const maxLines = 3000;

/** lineDiff compares two texts by lines, with `around` unchanged lines about each change. */
export function lineDiff(before: string, after: string, around = 3): DiffLine[] {
  const parts = diffLines(before, after, { maxEditLength: 2000 }) ?? [
    { value: before, removed: true, added: false }, { value: after, added: true, removed: false },
  ];
  const all: DiffLine[] = parts.flatMap((part) => {
    const kind = part.added ? 'added' : part.removed ? 'removed' : 'same';
    return part.value.replace(/\n$/, '').split('\n').map((text) => ({ kind, text }) as DiffLine);
  });
  const near = new Uint8Array(all.length);
  for (const [index, line] of all.entries()) {
    if (line.kind !== 'same') near.fill(1, Math.max(0, index - around), index + around + 1);
  }
  const shown: DiffLine[] = [];
  let hidden = 0;
  const gap = () => {
    if (hidden > 0) shown.push({ kind: 'gap', text: plural(hidden, '{count} unchanged line', '{count} unchanged lines') });
    hidden = 0;
  };
  for (const [index, line] of all.entries()) {
    if (!near[index]) {
      hidden++;
      continue;
    }
    gap();
    shown.push(line);
  }
  gap();
  return shown;
}

/** unifiedLines reads a difference in the unified form. */
export function unifiedLines(text: string): DiffLine[] {
  return text.replace(/\n$/, '').split('\n').filter((line) => !/^(---|\+\+\+|diff |index )/.test(line)).map((line) => {
    if (line.startsWith('@@')) return { kind: 'gap', text: line };
    if (line.startsWith('+')) return { kind: 'added', text: line.slice(1) };
    if (line.startsWith('-')) return { kind: 'removed', text: line.slice(1) };
    return { kind: 'same', text: line.slice(1) };
  });
}

const signs = { same: ' ', added: '+', removed: '−', gap: '' };

/** Diff shows lines that were added and removed, by sign and colour. */
export const Diff = memo(function Diff({ lines, label = t('Difference') }: { lines: DiffLine[]; label?: string }) {
  const shown = useMemo(() => lines.slice(0, maxLines), [lines]);
  return (
    <pre tabIndex={0} role="group" aria-label={label} className="code max-h-96 overflow-auto rounded-md border bg-panel py-1">
      <code className="block w-max min-w-full">
        {shown.map((line, index) => (
          <span
            key={index}
            className={cn('block px-3', {
              'bg-good-soft': line.kind === 'added',
              'bg-bad-soft': line.kind === 'removed',
              'bg-hover text-soft': line.kind === 'gap',
            })}
          >
            <span aria-hidden className="inline-block w-4 text-soft select-none">
              {signs[line.kind]}
            </span>
            {line.kind === 'added' && <span className="sr-only">{t('added:')} </span>}
            {line.kind === 'removed' && <span className="sr-only">{t('removed:')} </span>}
            {visible(line.text.length > 5000 ? `${line.text.slice(0, 5000)} …` : line.text)}
            {'\n'}
          </span>
        ))}
        {lines.length > maxLines && (
          <span className="block px-3 text-soft">{plural(lines.length - maxLines, '… {count} more line', '… {count} more lines')}</span>
        )}
      </code>
    </pre>
  );
});
