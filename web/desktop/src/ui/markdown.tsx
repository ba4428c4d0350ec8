import { Component, isValidElement, memo, type ReactNode, useEffect, useMemo, useState } from 'react';
import Markdown, { type Components, defaultUrlTransform } from 'react-markdown';
import rehypeSanitize, { defaultSchema } from 'rehype-sanitize';
import remarkGfm from 'remark-gfm';
import { t } from '../lib/i18n';
import { hostBeside } from '../lib/link-host';
import { groupParts, portion, portionsUnasked, type Weighed, within } from './blocks';
import { Button } from './button';
import { Code, CopyButton, DownloadText, isCut, maxParagraph } from './code';
import { Growing } from './growing';

const schema = { ...defaultSchema, clobberPrefix: 'text-' };

// textOf returns what a link shows as its text.
const textOf = (node: ReactNode): string => {
  if (typeof node === 'string' || typeof node === 'number') return String(node);
  if (Array.isArray(node)) return node.map(textOf).join('');
  if (!isValidElement<{ children?: ReactNode; alt?: string }>(node)) return '';
  return textOf(node.props.children) + (node.props.alt ?? '');
};

// Links leave the page in a new tab, which gets no access to this one. A text that names another host does not deceive.
const Link = ({ href, children }: { href: string; children: ReactNode }) => {
  const host = hostBeside(href, textOf(children));
  return (
    <>
      <a href={href} target="_blank" rel="noopener noreferrer nofollow">
        {children}
      </a>
      {host && (
        <span className="text-soft">
          {' '}
          (<bdi dir="ltr">{host}</bdi>)
        </span>
      )}
    </>
  );
};

const components: Components = {
  a: ({ href, children }) => (href ? <Link href={href}>{children}</Link> : <span>{children}</span>),
  // No request goes to another origin: a picture from elsewhere is a link.
  img: ({ src, alt }) =>
    typeof src === 'string' && src ? (
      <Link href={src}>{t('Picture: {alt}', { alt: alt || src })}</Link>
    ) : (
      <span>{t('Picture: {alt}', { alt })}</span>
    ),
  // Of a task list; it has no label of its own.
  input: ({ type, checked }) =>
    type === 'checkbox'
      ? <input type="checkbox" checked={checked ?? false} disabled aria-label={checked ? t('done') : t('not done')} />
      : null,
  pre: ({ children }) => <>{children}</>,
  code: ({ className, children }) => {
    const text = String(children ?? '');
    const language = /language-(\S+)/.exec(className ?? '')?.[1];
    if (!language && !text.includes('\n')) return <code dir="ltr">{children}</code>;
    return (
      <div className="group/code relative">
        <Code text={text.replace(/\n$/, '')} language={language} tall />
        <span className="absolute top-1 right-1 rounded-md bg-panel opacity-0 group-focus-within/code:opacity-100
          group-hover/code:opacity-100">
          <CopyButton text={text} label={t('Copy the code')} />
        </span>
      </div>
    );
  },
};

// The pieces of a table are rows of one.
const first: Components = { ...components, table: ({ children }) => <>{children}</> };
const further: Components = { ...first, thead: () => null };

const Block = memo(function Block({ text, as = components }: { text: string; as?: Components }) {
  return (
    <Markdown
      remarkPlugins={[remarkGfm]}
      rehypePlugins={[[rehypeSanitize, schema]]}
      components={as}
      urlTransform={defaultUrlTransform}
    >
      {text}
    </Markdown>
  );
});

// Written shows a part as it was written.
const Written = ({ text }: { text: string }) => (
  <pre
    tabIndex={0}
    role="group"
    aria-label={t('Text')}
    className="code max-h-96 overflow-auto rounded-md border bg-panel px-3 py-2 wrap-anywhere whitespace-pre-wrap"
  >
    {text}
  </pre>
);

// What the parser or the page cannot stand is shown as it was written.
class Guard extends Component<{ text: string; children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override render() {
    return this.state.failed ? <Written text={this.props.text} /> : this.props.children;
  }
}

const same = (a: readonly Weighed[], b: readonly Weighed[]): boolean =>
  a.length === b.length && a.every((part, index) => part === b[index]);

const Group = memo(function Group({ parts }: { parts: Weighed[] }) {
  const text = parts.map((part) => part.text).join('\n');
  if (parts[0]?.plain) return <Written text={text} />;
  return (
    <Guard text={text}>
      {parts[0]?.table ? (
        <table>
          {parts.map((part, index) => (
            <Block key={index} text={part.text} as={index === 0 ? first : further} />
          ))}
        </table>
      ) : (
        <Block text={text} />
      )}
    </Guard>
  );
}, (a, b) => same(a.parts, b.parts));

// Groups of a long text are compared batch by batch, so that a text which grows does not have all of them rendered.
const batch = 50;

const Groups = memo(function Groups({ groups }: { groups: Weighed[][] }) {
  return groups.map((parts, index) => <Group key={index} parts={parts} />);
}, (a, b) => a.groups.length === b.groups.length && a.groups.every((parts, index) => same(parts, b.groups[index] ?? [])));

const batches = (groups: Weighed[][]): Weighed[][][] =>
  Array.from({ length: Math.ceil(groups.length / batch) }, (_, index) => groups.slice(index * batch, (index + 1) * batch));

/**
 * Prose shows Markdown of a model or a file. It is not trusted: there is no HTML in it, and no address that runs a script.
 * What would keep the browser busy is shown as it was written. A long text is rendered portion by portion, so that the page
 * stays usable meanwhile, and a very long one no further than its reader asks for.
 */
export const Prose = memo(function Prose({ text }: { text: string }) {
  const [portions, setPortions] = useState(1);
  const [wanted, setWanted] = useState(portionsUnasked);
  const cut = useMemo(() => isCut(text, maxParagraph), [text]);
  const [growing] = useState(() => new Growing());
  const parts = useMemo(() => growing.parts(text), [growing, text]);
  const shown = within(parts, portions * portion);
  const more = shown < parts.length;
  useEffect(() => {
    if (!more || portions >= wanted) return undefined;
    const timer = setTimeout(() => setPortions(portions + 1), 10);
    return () => clearTimeout(timer);
  }, [more, portions, wanted]);
  return (
    <div className="prose min-w-0 break-words" dir="auto">
      {batches(groupParts(parts.slice(0, shown))).map((groups, index) => <Groups key={index} groups={groups} />)}
      {more && portions >= wanted && (
        <p>
          <Button small onClick={() => setWanted(portions + portionsUnasked)}>
            {t('Show more')}
          </Button>
        </p>
      )}
      {cut && <DownloadText text={text} />}
    </div>
  );
});
