/** The pages of the documentation: where they come from, their addresses, and what is in them. */

const found = import.meta.glob(
  [
    '../../../../docs/*.md',
    '../../../../docs/operators/*.md',
    '../../../../docs/decisions/*.md',
    '../../../../{README,CONTRIBUTING,CHANGELOG}.md',
    '../../../../sdk/{js,python}/README.md',
  ],
  { query: '?url', import: 'default', eager: true },
) as Record<string, string>;
const pictures = import.meta.glob('../../../../docs/images/*', { query: '?url', import: 'default', eager: true }) as Record<string, string>;

const inRepository = (path: string): string => path.replace(/^(\.\.\/)+/, '');
const byPath = (files: Record<string, string>) => new Map(Object.entries(files).map(([path, url]) => [inRepository(path), url]));

/** sources has the addresses of the files, by their paths in the repository. */
export const sources = byPath(found);
const images = byPath(pictures);

/** start is the first page. */
export const start = 'docs/README.md';

/** addressOf is where a file of the repository is shown. */
export function addressOf(file: string): string {
  if (file === start) return '/docs';
  const name = file.replace(/^docs\//, '').replace(/(\/README)?\.md$/, '');
  if (file.startsWith('docs/')) return `/docs/${name}`;
  return `/docs/${name === 'README' ? 'about' : name.replaceAll('/', '-').toLowerCase()}`;
}

/** fileAt is the file that an address shows. */
export const fileAt = (path: string): string | undefined =>
  [...sources.keys()].find((file) => addressOf(file) === (path.replace(/\/+$/, '') || '/docs'));

// A path relative to a file, as one of the repository.
function resolved(from: string, to: string): string {
  const parts = from.split('/').slice(0, -1);
  for (const part of to.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '.' && part !== '') parts.push(part);
  }
  return parts.join('/');
}

/** Target is where a link leads: to a page, elsewhere, or to a file that is not shown. */
export type Target = { page: string } | { outside: string } | { file: string };

/** targetOf resolves a link of a page. */
export function targetOf(file: string, href: string): Target {
  if (/^[a-z]+:/i.test(href)) return { outside: href };
  if (href.startsWith('/')) return { outside: href };
  const [path = '', hash] = href.split('#');
  const to = path === '' ? file : resolved(file, path);
  return sources.has(to) ? { page: addressOf(to) + (hash ? `#${hash}` : '') } : { file: to };
}

/** pictureOf is the address of a picture of a page. */
export const pictureOf = (file: string, src: string): string | undefined => images.get(resolved(file, src));

/** slugs gives the ids of headings as the links of the pages have them; one that comes again gets a number. */
export function slugs(): (heading: string) => string {
  const seen = new Map<string, number>();
  return (heading) => {
    const slug = heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').trim().replace(/\s/g, '-');
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  };
}

export interface Part {
  title: string;
  id: string; // '' before the first heading
  level: number;
  text: string;
}

// What is shown of Markdown, without its signs.
const plain = (text: string): string =>
  text
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/`([^`]+)`/g, '$1')
    .replace(/\*{1,2}([^*]+)\*{1,2}/g, '$1')
    .trim();

/** partsOf cuts a page at its headings. */
export function partsOf(text: string): Part[] {
  const slug = slugs();
  const parts: Part[] = [{ title: '', id: '', level: 1, text: '' }];
  let fence = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('```')) fence = !fence;
    const heading = fence ? null : /^(#{1,4}) (.*)$/.exec(line);
    const last = parts.at(-1);
    if (heading) {
      const title = plain(heading[2] ?? '');
      parts.push({ title, id: slug(title), level: heading[1]?.length ?? 1, text: '' });
    } else if (last) last.text += `${plain(line)}\n`;
  }
  return parts.filter((part) => part.id !== '' || part.text.trim() !== '');
}

export interface Group {
  title: string;
  pages: { title: string; path: string }[];
}

/** contentsOf reads the groups of pages in the tables of the first page. */
export function contentsOf(text: string): Group[] {
  const groups: Group[] = [];
  for (const line of text.split('\n')) {
    const heading = /^## (.*)$/.exec(line)?.[1];
    if (heading !== undefined) groups.push({ title: heading, pages: [] });
    const link = linkOf(line);
    const target = link && targetOf(start, link.href);
    if (target && 'page' in target) groups.at(-1)?.pages.push({ title: link.title, path: target.page });
  }
  return groups.filter((group) => group.pages.length > 0);
}

// The link in the first cell of a row; a number is followed by what it names.
function linkOf(line: string): { title: string; href: string } | undefined {
  const [first = '', second = ''] = line.split('|').map((cell) => cell.trim()).filter((cell) => cell !== '');
  const [, name = '', href = ''] = /^\[([^\]]*)\]\(([^)]*)\)$/.exec(first) ?? [];
  return href === '' ? undefined : { title: /^\d+$/.test(name) ? second : name, href };
}

export interface Hit {
  path: string;
  page: string;
  title: string;
  excerpt: string;
}

/** search finds the parts that have all words: those that have them in their headings first. */
export function search(pages: readonly { file: string; text: string }[], query: string, most = 30): Hit[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const hits: (Hit & { rank: number })[] = [];
  for (const { file, text } of pages) {
    const parts = partsOf(text);
    const page = parts.find((part) => part.level === 1 && part.id)?.title ?? file;
    for (const part of parts) {
      const title = part.title.toLowerCase();
      const whole = `${page.toLowerCase()} ${title} ${part.text.toLowerCase()}`;
      if (
        !words.every((word) => whole.includes(word)) ||
        !words.some((word) => title.includes(word) || part.text.toLowerCase().includes(word))
      )
        continue;
      const inTitle = words.filter((word) => title.includes(word)).length;
      hits.push({
        path: addressOf(file) + (part.level > 1 ? `#${part.id}` : ''),
        page,
        title: part.title || page,
        excerpt: excerptOf(part.text, words),
        rank: inTitle * 10 - part.level,
      });
    }
  }
  return hits.sort((a, b) => b.rank - a.rank).slice(0, most).map(({ rank: _, ...hit }) => hit);
}

function excerptOf(text: string, words: readonly string[]): string {
  const flat = text.replace(/[\s|]+/g, ' ').trim();
  const at = Math.max(0, ...words.map((word) => flat.toLowerCase().indexOf(word)).filter((index) => index >= 0).slice(0, 1));
  const from = Math.max(0, at - 40);
  return `${from > 0 ? '…' : ''}${flat.slice(from, from + 160)}${flat.length > from + 160 ? '…' : ''}`;
}
