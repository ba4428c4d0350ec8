import type { Nodes, Root } from 'hast';
import { type ComponentProps, memo, type ReactNode, useMemo } from 'react';
import Markdown, { type Components } from 'react-markdown';
import remarkGfm from 'remark-gfm';
import { t } from '../lib/i18n';
import { Code, CopyButton } from '../ui/code';
import { pictureOf, slugs, targetOf } from './pages';

const textOf = (node: Nodes): string => ('value' in node ? node.value : 'children' in node ? node.children.map(textOf).join('') : '');

// headingIds gives headings the ids that the links of the pages name.
function headingIds() {
  return (tree: Root) => {
    const slug = slugs();
    const visit = (node: Nodes): void => {
      if (node.type === 'element' && /^h[1-4]$/.test(node.tagName)) node.properties.id = slug(textOf(node));
      else if ('children' in node) node.children.forEach(visit);
    };
    visit(tree);
  };
}

const heading = (Tag: 'h1' | 'h2' | 'h3' | 'h4') => function Heading({ id, children }: { id?: string; children?: ReactNode }) {
  return (
    <Tag id={id} className="group/heading scroll-mt-4">
      {children}
      <a
        href={`#${id}`} aria-label={t('Link to this part')}
        className="ml-2 text-soft opacity-0 group-hover/heading:opacity-100 focus:opacity-100"
      >#</a>
    </Tag>
  );
};

/** Article shows a page of the documentation, with links and pictures as the file has them. */
export const Article = memo(function Article({ file, text, open }: { file: string; text: string; open: (path: string) => void }) {
  const components = useMemo<Components>(() => {
    return {
      h1: heading('h1'),
      h2: heading('h2'),
      h3: heading('h3'),
      h4: heading('h4'),
      a: ({ href = '', children }: ComponentProps<'a'>) => {
        const target = targetOf(file, href);
        if ('file' in target) return <span title={target.file}>{children}</span>;
        if ('outside' in target)
          return (
            <a href={target.outside} target="_blank" rel="noopener noreferrer">
              {children}
            </a>
          );
        return (
          <DocLink to={target.page} open={open}>
            {children}
          </DocLink>
        );
      },
      img: ({ src, alt }: ComponentProps<'img'>) => {
        const picture = typeof src === 'string' ? pictureOf(file, src) : undefined;
        return picture ? <img src={picture} alt={alt ?? ''} className="max-w-full rounded border" /> : <span>{alt}</span>;
      },
      table: ({ children }) => (
        <div className="overflow-x-auto" tabIndex={0} role="group" aria-label={t('Table')}>
          <table>{children}</table>
        </div>
      ),
      pre: ({ children }) => <>{children}</>,
      code: ({ className, children }) => {
        const code = String(children ?? '');
        const language = /language-(\S+)/.exec(className ?? '')?.[1];
        if (!language && !code.includes('\n')) return <code dir="ltr">{children}</code>;
        return (
          <div className="group/code relative">
            <Code text={code.replace(/\n$/, '')} language={language} tall />
            <span className="absolute top-1 right-1 rounded-md bg-panel opacity-0 group-focus-within/code:opacity-100
              group-hover/code:opacity-100">
              <CopyButton text={code} label={t('Copy the code')} />
            </span>
          </div>
        );
      },
    };
  }, [file, open]);
  return (
    <article lang="en" className="prose docs min-w-0 break-words">
      <Markdown remarkPlugins={[remarkGfm]} rehypePlugins={[headingIds]} components={components}>
        {text}
      </Markdown>
    </article>
  );
});

/** DocLink opens a page of the documentation without loading the site again. */
export function DocLink({ to, open, children, ...rest }: { to: string; open: (path: string) => void } & Omit<ComponentProps<'a'>, 'href'>) {
  return (
    <a
      href={to} {...rest}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
        event.preventDefault();
        open(to);
      }}
    >
      {children}
    </a>
  );
}
