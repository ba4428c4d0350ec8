import type { Root, RootContent } from 'hast';
import bash from 'highlight.js/lib/languages/bash';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { createLowlight } from 'lowlight';
import { Check, Copy } from 'lucide-react';
import { memo, type ReactNode, useMemo, useState } from 'react';
import { cn } from '../lib/cn';
import { IconButton } from './button';

const lowlight = createLowlight({ bash, css, diff, go, java, javascript, json, python, rust, sql, typescript, xml, yaml });
lowlight.registerAlias({
  bash: ['sh', 'shell', 'zsh', 'console'], javascript: ['js', 'jsx', 'mjs', 'cjs'], typescript: ['ts', 'tsx'], python: ['py'], xml: ['html', 'svg'],
  yaml: ['yml'], rust: ['rs'], go: ['golang'],
});

// Beyond these a text is shown without colours, and cut: a browser should stay quick whatever a tool has written.
const maxColoured = 60_000;
const maxShown = 400_000;
const maxLine = 5000;

/** languageOf guesses a language from a file's name. */
export function languageOf(path: string): string | undefined {
  const ending = path.slice(path.lastIndexOf('.') + 1).toLowerCase();
  return lowlight.registered(ending) ? ending : undefined;
}

function nodes(list: RootContent[]): ReactNode[] {
  return list.map((node, index) => {
    if (node.type === 'text') return node.value;
    if (node.type !== 'element') return null;
    const names = node.properties.className;
    return <span key={index} className={Array.isArray(names) ? names.join(' ') : undefined}>{nodes(node.children)}</span>;
  });
}

/** highlighted gives code with classes for its colours, never HTML. */
export function highlighted(text: string, language: string | undefined): ReactNode {
  if (!language || text.length > maxColoured || !lowlight.registered(language)) return text;
  const tree: Root = lowlight.highlight(language, text);
  return nodes(tree.children);
}

/** bounded cuts what is too long to be shown: lines, and the text. */
export function bounded(text: string): string {
  let shown = text.length > maxShown ? `${text.slice(0, maxShown)}\n… ${text.length - maxShown} more characters` : text;
  if (shown.length > maxLine) {
    shown = shown.split('\n').map((line) => (line.length > maxLine ? `${line.slice(0, maxLine)} … ${line.length - maxLine} more characters` : line)).join('\n');
  }
  return shown;
}

export const Code = memo(function Code({ text, language, className, tall, label = 'Code' }: {
  text: string; language?: string | undefined; className?: string; tall?: boolean; label?: string;
}) {
  const shown = useMemo(() => highlighted(bounded(text), language), [text, language]);
  return (
    <pre tabIndex={0} aria-label={label} className={cn('code overflow-auto rounded-md border bg-panel px-3 py-2 whitespace-pre', !tall && 'max-h-96', className)}>
      <code>{shown}</code>
    </pre>
  );
});

export function CopyButton({ text, label = 'Copy', small = true }: { text: string | (() => string); label?: string; small?: boolean }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(typeof text === 'function' ? text() : text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return <IconButton label={done ? 'Copied' : label} small={small} onClick={() => void copy()}>{done ? <Check size={14} /> : <Copy size={14} />}</IconButton>;
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
