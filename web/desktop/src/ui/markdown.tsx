import { memo, useMemo } from 'react';
import Markdown, { type Components, defaultUrlTransform } from 'react-markdown';
import rehypeSanitize, { defaultSchema } from 'rehype-sanitize';
import remarkGfm from 'remark-gfm';
import { t } from '../lib/i18n';
import { visible } from '../lib/visible';
import { bounded, Code, CopyButton, maxParagraph } from './code';

const schema = { ...defaultSchema, clobberPrefix: 'text-' };

const components: Components = {
  // Links leave the page in a new tab, which gets no access to this one.
  a: ({ href, children }) =>
    href ? (
      <a href={href} target="_blank" rel="noopener noreferrer nofollow">
        {children}
      </a>
    ) : (
      <span>{children}</span>
    ),
  // No request goes to another origin: a picture from elsewhere is a link.
  img: ({ src, alt }) =>
    typeof src === 'string' && src ? (
      <a href={src} target="_blank" rel="noopener noreferrer nofollow">
        {t('Picture: {alt}', { alt: alt || src })}
      </a>
    ) : (
      <span>{t('Picture: {alt}', { alt })}</span>
    ),
  pre: ({ children }) => <>{children}</>,
  code: ({ className, children }) => {
    const text = String(children ?? '');
    const language = /language-(\S+)/.exec(className ?? '')?.[1];
    if (!language && !text.includes('\n')) return <code dir="ltr">{children}</code>;
    return (
      <div className="group/code relative">
        <Code text={text.replace(/\n$/, '')} language={language} tall />
        <span className="absolute top-1 right-1 rounded-md bg-panel opacity-0 group-focus-within/code:opacity-100 group-hover/code:opacity-100">
          <CopyButton text={text} label={t('Copy the code')} />
        </span>
      </div>
    );
  },
};

const Block = memo(function Block({ text }: { text: string }) {
  return (
    <Markdown
      remarkPlugins={[remarkGfm]}
      rehypePlugins={[[rehypeSanitize, schema]]}
      components={components}
      urlTransform={defaultUrlTransform}
    >
      {text}
    </Markdown>
  );
});

/**
 * splitBlocks cuts a text at blank lines that are not within a fence, an indented part or a list. While a text streams only
 * the last part changes, so that the others need no work.
 */
export function splitBlocks(text: string): string[] {
  const blocks: string[] = [];
  let current: string[] = [];
  let fence = '';
  const lines = text.split('\n');
  for (const [index, line] of lines.entries()) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark && !fence) fence = mark;
    else if (mark && mark.startsWith(fence) && line.trim() === mark) fence = '';
    const next = lines[index + 1] ?? '';
    if (line.trim() === '' && !fence && current.length > 0 && next.trim() !== '' && !/^(\s|[-*+] |\d+[.)] )/.test(next)) {
      blocks.push(current.join('\n'));
      current = [];
    } else current.push(line);
  }
  if (current.some((line) => line.trim() !== '')) blocks.push(current.join('\n'));
  return blocks;
}

/** Prose shows Markdown of a model or a file. It is not trusted: there is no HTML in it, and no address that runs a script. */
export const Prose = memo(function Prose({ text }: { text: string }) {
  const blocks = useMemo(() => splitBlocks(visible(bounded(text, maxParagraph))), [text]);
  return <div className="prose min-w-0 break-words" dir="auto">{blocks.map((block, index) => <Block key={index} text={block} />)}</div>;
});
