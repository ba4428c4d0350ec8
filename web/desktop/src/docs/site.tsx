import { useQueries, useQuery } from '@tanstack/react-query';
import { Menu as MenuIcon, Search, X } from 'lucide-react';
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react';
import { cn } from '../lib/cn';
import { t } from '../lib/i18n';
import { IconButton } from '../ui/button';
import { Input } from '../ui/field';
import { Empty, Loaded, Spinner } from '../ui/page';
import { Article, DocLink } from './article';
import { addressOf, contentsOf, fileAt, type Group, search, sources, start } from './pages';

const read = (file: string) => ({
  queryKey: ['docs', file], staleTime: Infinity,
  queryFn: async ({ signal }: { signal: AbortSignal }): Promise<string> => {
    const answer = await fetch(sources.get(file) ?? '', { signal });
    if (!answer.ok) throw new Error(t('The page could not be read. Load the site again.'));
    return answer.text();
  },
});

// The place in the address; the site is shown without a sign-in, and apart from the rooms.
function usePlace(): { path: string; hash: string; open: (to: string) => void } {
  const [place, setPlace] = useState(() => ({ path: location.pathname, hash: location.hash }));
  useEffect(() => {
    const moved = () => setPlace({ path: location.pathname, hash: location.hash });
    addEventListener('popstate', moved);
    return () => removeEventListener('popstate', moved);
  }, []);
  const open = useCallback((to: string) => {
    history.pushState(null, '', to);
    setPlace({ path: location.pathname, hash: location.hash });
  }, []);
  return { ...place, open };
}

/** Docs is the documentation as a site: its contents, a search, and a page. */
export default function Docs() {
  const { path, hash, open } = usePlace();
  const [text, setText] = useState('');
  const [menu, setMenu] = useState(false);
  const q = useDeferredValue(text.trim());
  const file = fileAt(path);
  const first = useQuery(read(start));
  const page = useQuery({ ...read(file ?? start), enabled: file !== undefined });
  const contents = useMemo(() => contentsOf(first.data ?? ''), [first.data]);
  const title = contents.flatMap((group) => group.pages).find((one) => one.path === path)?.title;
  const body = useRef<HTMLElement>(null);
  const go = useCallback((to: string) => {
    setText('');
    setMenu(false);
    open(to);
  }, [open]);

  useEffect(() => {
    document.title = title ? `${title} · Everloop` : `${t('Documentation')} · Everloop`;
    return () => { document.title = 'Everloop'; };
  }, [title]);
  // A page begins at its top, or at the part that the address names.
  const shown = page.data !== undefined && q === '';
  useEffect(() => {
    if (!shown) return;
    const part = hash ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
    if (part) part.scrollIntoView();
    else body.current?.scrollTo(0, 0);
  }, [path, hash, shown]);

  return (
    <div className="flex h-full flex-col">
      <header className="flex min-h-12 flex-wrap items-center gap-x-3 gap-y-1.5 border-b px-4 py-1.5">
        <span className="md:hidden">
          <IconButton label={t('Contents')} aria-expanded={menu} onClick={() => setMenu(!menu)}>
            {menu ? <X size={18} /> : <MenuIcon size={18} />}
          </IconButton>
        </span>
        <DocLink to="/docs" open={go} className="font-semibold whitespace-nowrap">
          {t('Documentation')}
        </DocLink>
        <search className="relative ml-auto w-72 max-w-full max-sm:order-last max-sm:w-full">
          <Search size={15} className="absolute top-2 left-2.5 text-soft" aria-hidden />
          <Input
            type="search"
            aria-label={t('Search the documentation')}
            placeholder={t('Search')}
            className="pl-8"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </search>
        <a href="/" className="text-sm whitespace-nowrap max-sm:ml-auto text-accent underline-offset-2 hover:underline">
          {t('Desktop')}
        </a>
      </header>
      <div className="flex min-h-0 flex-1">
        <nav
          aria-label={t('Contents')}
          className={cn('w-64 shrink-0 overflow-y-auto border-r bg-panel p-3 max-md:w-full max-md:border-r-0', !menu && 'max-md:hidden')}
        >
          <Contents groups={contents} path={path} open={go} />
        </nav>
        <main ref={body} tabIndex={-1} className={cn('min-w-0 flex-1 overflow-y-auto outline-none', menu && 'max-md:hidden')}>
          <div className="mx-auto max-w-4xl px-5 py-6">
            {q !== '' ? (
              <Results query={q} open={go} />
            ) : file === undefined ? (
              <Empty
                title={t('There is no such page')}
                action={
                  <DocLink to="/docs" open={go} className="text-accent underline">
                    {t('To the contents')}
                  </DocLink>
                }
              />
            ) : (
              <Loaded query={page}>{(content) => <Article file={file} text={content} open={go} />}</Loaded>
            )}
          </div>
        </main>
      </div>
    </div>
  );
}

function Contents({ groups, path, open }: { groups: Group[]; path: string; open: (to: string) => void }) {
  const look = 'block rounded-md px-2 py-1 hover:bg-hover';
  return (
    <div className="space-y-4 text-sm">
      {groups.map((group) => (
        <section key={group.title} lang="en">
          <h2 className="px-2 pb-1 font-semibold">{group.title}</h2>
          <ul>
            {group.pages.map((page) => (
              <li key={page.path}>
                <DocLink
                  to={page.path}
                  open={open}
                  aria-current={page.path === path ? 'page' : undefined}
                  className={cn(look, page.path === path ? 'bg-hover text-ink' : 'text-soft')}
                >
                  {page.title}
                </DocLink>
              </li>
            ))}
          </ul>
        </section>
      ))}
      <section>
        <h2 className="px-2 pb-1 font-semibold">{t('For programs')}</h2>
        <ul>
          <li>
            <DocLink to={addressOf('sdk/js/README.md')} open={open} className={cn(look, 'text-soft')}>
              {t('SDK for JavaScript')}
            </DocLink>
          </li>
          <li>
            <DocLink to={addressOf('sdk/python/README.md')} open={open} className={cn(look, 'text-soft')}>
              {t('SDK for Python')}
            </DocLink>
          </li>
          <li>
            <a href="/api/docs" target="_blank" rel="noopener noreferrer" className={cn(look, 'text-soft')}>
              {t('API reference')}
            </a>
          </li>
        </ul>
      </section>
    </div>
  );
}

// All pages are read for the first search.
function Results({ query, open }: { query: string; open: (to: string) => void }) {
  const files = [...sources.keys()];
  const pages = useQueries({
    queries: files.map(read),
    combine: (results) => ({
      waits: results.some((one) => one.isPending),
      pages: results.flatMap((one, index) => (one.data === undefined ? [] : [{ file: files[index] ?? '', text: one.data }])),
    }),
  });
  const hits = useMemo(() => search(pages.pages, query), [pages.pages, query]);
  if (pages.waits) return <Spinner />;
  return (
    <section aria-label={t('Results')}>
      <h1 className="mb-3 text-lg font-semibold" role="status">
        {hits.length === 0 ? t('Nothing was found') : t('Results for “{query}”', { query })}
      </h1>
      <ol className="space-y-4">
        {hits.map((hit) => (
          <li key={hit.path}>
            <DocLink to={hit.path} open={open} className="font-medium text-accent underline-offset-2 hover:underline">
              {hit.title === hit.page ? hit.page : `${hit.page}: ${hit.title}`}
            </DocLink>
            <p className="text-sm break-words text-soft" lang="en">
              {hit.excerpt}
            </p>
          </li>
        ))}
      </ol>
    </section>
  );
}
