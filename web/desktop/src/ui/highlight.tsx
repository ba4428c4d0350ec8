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
import type { ReactNode } from 'react';

const lowlight = createLowlight({ bash, css, diff, go, java, javascript, json, python, rust, sql, typescript, xml, yaml });
lowlight.registerAlias({
  bash: ['sh', 'shell', 'zsh', 'console'], javascript: ['js', 'jsx', 'mjs', 'cjs'], typescript: ['ts', 'tsx'], python: ['py'],
  xml: ['html', 'svg'], yaml: ['yml'], rust: ['rs'], go: ['golang'],
});

function nodes(list: RootContent[]): ReactNode[] {
  return list.map((node, index) => {
    if (node.type === 'text') return node.value;
    if (node.type !== 'element') return null;
    const names = node.properties.className;
    return <span key={index} className={Array.isArray(names) ? names.join(' ') : undefined}>{nodes(node.children)}</span>;
  });
}

/** highlighted gives code with classes for its colours, never HTML; in a language that is not known, the text. */
export function highlighted(text: string, language: string): ReactNode {
  if (!lowlight.registered(language)) return text;
  const tree: Root = lowlight.highlight(language, text);
  return nodes(tree.children);
}
