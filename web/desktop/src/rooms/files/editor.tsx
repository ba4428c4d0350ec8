import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { css } from '@codemirror/lang-css';
import { go } from '@codemirror/lang-go';
import { html } from '@codemirror/lang-html';
import { javascript } from '@codemirror/lang-javascript';
import { json } from '@codemirror/lang-json';
import { markdown } from '@codemirror/lang-markdown';
import { python } from '@codemirror/lang-python';
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { EditorState, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useRef } from 'react';
import { nonce } from '../../lib/nonce';
import { t } from '../../lib/i18n';

const languages: Record<string, () => Extension> = {
  css, go, html, htm: html, js: javascript, mjs: javascript, cjs: javascript, jsx: () => javascript({ jsx: true }),
  ts: () => javascript({ typescript: true }), tsx: () => javascript({ typescript: true, jsx: true }), json, md: markdown, py: python,
};

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.bool, tags.null], color: 'var(--code-keyword)' },
  { tag: [tags.string, tags.regexp], color: 'var(--code-string)' },
  { tag: [tags.number, tags.atom], color: 'var(--code-number)' },
  { tag: tags.comment, color: 'var(--code-comment)' },
  { tag: [tags.function(tags.variableName), tags.typeName, tags.className, tags.heading, tags.tagName], color: 'var(--code-title)' },
  { tag: tags.heading, fontWeight: '600' },
  { tag: tags.emphasis, fontStyle: 'italic' },
  { tag: tags.strong, fontWeight: '600' },
]);

const theme = EditorView.theme({
  '&': { height: '100%', fontSize: '13px', backgroundColor: 'var(--bg)', color: 'var(--ink)' },
  '.cm-scroller': { fontFamily: 'var(--font-mono)', lineHeight: '1.5' },
  '.cm-gutters': { backgroundColor: 'var(--panel)', color: 'var(--soft)', borderRight: '1px solid var(--line)' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'color-mix(in srgb, var(--hover) 55%, transparent)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': {
    backgroundColor: 'var(--accent-soft)',
  },
  '.cm-panels': { backgroundColor: 'var(--panel)', color: 'var(--ink)' },
});

/** Editor edits a text. `text` replaces what it has when `version` changes; Tab leaves it after Escape. */
export function Editor({ path, text, version, readOnly, change, save }: {
  path: string; text: string; version: number; readOnly: boolean; change: (text: string) => void; save: () => void;
}) {
  const place = useRef<HTMLDivElement>(null);
  const calls = useRef({ change, save });
  calls.current = { change, save };
  useEffect(() => {
    if (!place.current) return undefined;
    const language = languages[path.slice(path.lastIndexOf('.') + 1).toLowerCase()];
    const view = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: text,
        extensions: [
          EditorView.cspNonce.of(nonce),
          lineNumbers(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          highlightActiveLine(),
          highlightSelectionMatches(),
          keymap.of([
            {
              key: 'Mod-s',
              run: () => {
                calls.current.save();
                return true;
              },
            },
            ...defaultKeymap,
            ...historyKeymap,
            ...searchKeymap,
            indentWithTab,
          ]),
          syntaxHighlighting(colours),
          theme,
          EditorState.readOnly.of(readOnly),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ tabindex: '0', 'aria-label': t('Content of {path}', { path }) }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) calls.current.change(update.state.doc.toString());
          }),
          ...(language ? [language()] : []),
        ],
      }),
    });
    return () => view.destroy();
    // A new version is a new document; the text itself follows what is typed.
  }, [path, version, readOnly]);
  return <div ref={place} className="h-full min-h-0 overflow-hidden" />;
}
