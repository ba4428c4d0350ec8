import { Check, Copy, Download } from 'lucide-react';
import { memo, useEffect, useMemo, useState } from 'react';
import { cn } from '../lib/cn';
import { plural, t } from '../lib/i18n';
import { save } from '../lib/save';
import { visible } from '../lib/visible';
import { Button, IconButton } from './button';

type Highlighter = typeof import('./highlight');

// The grammars are loaded with the first code that has a language: until then, code has no colours.
let highlighter: Highlighter | undefined;
let loading: Promise<void> | undefined;

function useHighlighter(wanted: boolean): Highlighter | undefined {
  const [known, setKnown] = useState(highlighter);
  useEffect(() => {
    if (!wanted || known) return undefined;
    let here = true;
    loading ??= import('./highlight').then((module) => { highlighter = module; });
    loading.then(() => { if (here) setKnown(highlighter); }, () => { loading = undefined; }); // the next code tries again
    return () => { here = false; };
  }, [wanted, known]);
  return known;
}

// Beyond these a text is shown without colours, and cut: a browser should stay quick whatever a tool has written.
const maxColoured = 60_000;
const maxShown = 400_000;
const maxLine = 5000;

/** languageOf guesses a language from a file's name; the grammars know the endings of the usual ones. */
export function languageOf(path: string): string | undefined {
  const ending = path.slice(path.lastIndexOf('.') + 1).toLowerCase();
  return /^[a-z0-9]{1,12}$/.test(ending) && ending !== path.toLowerCase() ? ending : undefined;
}

const cutOff = (count: number): string => plural(count, '… {count} more character', '… {count} more characters');

/** maxParagraph bounds a line of prose, which may be a long paragraph. */
export const maxParagraph = 50_000;

/** bounded cuts what is too long to be shown: lines, and the text. */
export const bounded = (text: string, longest = maxLine): string => boundedLines(boundedWhole(text), longest);

/** boundedWhole cuts a text that is too long to be shown. */
export const boundedWhole = (text: string): string =>
  text.length > maxShown ? `${text.slice(0, maxShown)}\n${cutOff(text.length - maxShown)}` : text;

/** boundedLines cuts the lines that are too long to be shown. */
export function boundedLines(text: string, longest = maxLine): string {
  if (text.length <= longest) return text;
  return text
    .split('\n')
    .map((line) => (line.length > longest ? `${line.slice(0, longest)} ${cutOff(line.length - longest)}` : line))
    .join('\n');
}

export const Code = memo(function Code({ text, language, className, tall, label = t('Code') }: {
  text: string; language?: string | undefined; className?: string; tall?: boolean; label?: string;
}) {
  const colours = useHighlighter(language !== undefined && text.length <= maxColoured);
  const shown = useMemo(() => {
    const whole = visible(bounded(text));
    return colours && language && text.length <= maxColoured ? colours.highlighted(whole, language) : whole;
  }, [text, language, colours]);
  const code = (
    <pre
      tabIndex={0}
      role="group"
      aria-label={label}
      className={cn('code overflow-auto rounded-md border bg-panel px-3 py-2 whitespace-pre', !tall && 'max-h-96', className)}
    >
      <code>{shown}</code>
    </pre>
  );
  if (!isCut(text)) return code;
  return (
    <div>
      {code}
      <DownloadText text={text} />
    </div>
  );
});

/** isCut says whether `bounded` leaves out a part of a text. */
export const isCut = (text: string, longest = maxLine): boolean =>
  text.length > maxShown || (text.length > longest && text.split('\n').some((line) => line.length > longest));

/** DownloadText saves a text of which the page shows only a part. */
export const DownloadText = ({ text }: { text: string }) => (
  <Button small className="mt-1" onClick={() => save('text.txt', new Blob([text], { type: 'text/plain' }))}>
    <Download size={13} aria-hidden />
    {t('Download the whole text')}
  </Button>
);

export function CopyButton({ text, label = t('Copy'), small = true }: { text: string | (() => string); label?: string; small?: boolean }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(typeof text === 'function' ? text() : text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <IconButton label={done ? t('Copied') : label} small={small} onClick={() => void copy()}>
      {done ? <Check size={14} /> : <Copy size={14} />}
    </IconButton>
  );
}

/** copyText works on pages without TLS, too, where there is no clipboard interface. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'sr-only';
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}
