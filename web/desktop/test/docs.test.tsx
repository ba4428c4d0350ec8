import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cleanup, render, screen } from '@testing-library/react';
import { Tooltip } from 'radix-ui';
import { afterEach, describe, expect, test } from 'vitest';
import { Article } from '../src/docs/article';
import { addressOf, contentsOf, fileAt, partsOf, pictureOf, search, slugs, sources, targetOf } from '../src/docs/pages';

afterEach(cleanup);

const repository = join(import.meta.dirname, '../../..');
const text = (file: string) => readFileSync(`${repository}/${file}`, 'utf8');

describe('pages', () => {
  test('each page has an address of its own, which finds it', () => {
    const addresses = [...sources.keys()].map(addressOf);
    expect(new Set(addresses).size).toBe(addresses.length);
    for (const file of sources.keys()) expect(fileAt(addressOf(file))).toBe(file);
    expect([addressOf('docs/README.md'), addressOf('docs/rest.md'), addressOf('README.md'), addressOf('sdk/js/README.md')]).toEqual([
      '/docs', '/docs/rest', '/docs/about', '/docs/sdk-js',
    ]);
    expect(fileAt('/docs/')).toBe('docs/README.md');
    expect(fileAt('/docs/none')).toBeUndefined();
  });
  test('all pages are there, and the contents name those of the first page', () => {
    for (const name of readdirSync(`${repository}/docs`).filter((one) => one.endsWith('.md')))
      expect(sources.has(`docs/${name}`), name).toBe(true);
    const groups = contentsOf(text('docs/README.md'));
    expect(groups.map((group) => group.title)).toEqual(['Use it', 'Run it', 'Change it', 'Decisions']);
    expect(groups[0]?.pages).toContainEqual({ title: 'REST guide', path: '/docs/rest' });
    expect(groups[3]?.pages[0]).toEqual({
      title: 'Truth in PostgreSQL, progress in Temporal', path: '/docs/decisions/0001-truth-in-postgresql',
    });
  });
  test('every link between pages leads to a heading that is there', () => {
    for (const file of sources.keys()) {
      for (const [, href = ''] of text(file).replace(/```[^]*?```/g, '').matchAll(/\]\(([^)\s]+)\)/g)) {
        const target = targetOf(file, href);
        if (!('page' in target)) continue;
        const [path = '', hash] = target.page.split('#');
        const ids = partsOf(text(fileAt(path) ?? '')).map((part) => part.id);
        if (hash) expect(ids, `${file}: ${href}`).toContain(hash);
      }
    }
  });
  test('links lead to pages, elsewhere, or to files that are not shown', () => {
    expect(targetOf('docs/files.md', 'rest.md#paging')).toEqual({ page: '/docs/rest#paging' });
    expect(targetOf('docs/decisions/0001-x.md', '../rest.md')).toEqual({ page: '/docs/rest' });
    expect(targetOf('docs/rest.md', '#here')).toEqual({ page: '/docs/rest#here' });
    expect(targetOf('docs/rest.md', 'https://example.org')).toEqual({ outside: 'https://example.org' });
    expect(targetOf('docs/rest.md', '../build/x.json')).toEqual({ file: 'build/x.json' });
    expect(pictureOf('docs/desktop.md', 'images/desktop-chat.png')).toBeDefined();
  });
  test('headings that come again have a number', () => {
    const slug = slugs();
    expect([slug('A `b`: c?'), slug('A b c'), slug('snake_case')]).toEqual(['a-b-c', 'a-b-c-1', 'snake_case']);
  });
});

describe('search', () => {
  const pages = [
    { file: 'docs/rest.md', text: '# REST guide\n\nHow to.\n\n## Paging\n\nUse `offset` and limit.\n\n```\n# no heading\n```\n' },
    { file: 'docs/files.md', text: '# Files\n\nPaging of files has an offset, too.\n' },
  ];
  test('all words are needed; headings come first', () => {
    expect(search(pages, 'paging').map((hit) => hit.path)).toEqual(['/docs/rest#paging', '/docs/files']);
    expect(search(pages, 'offset files').map((hit) => hit.path)).toEqual(['/docs/files']);
    expect(search(pages, 'nowhere')).toEqual([]);
    expect(search(pages, ' ')).toEqual([]);
    expect(search(pages, 'limit')[0]).toMatchObject({
      page: 'REST guide', title: 'Paging', excerpt: expect.stringContaining('offset and limit'),
    });
  });
});

describe('Article', () => {
  const show = (content: string) => render(<Tooltip.Provider>
    <Article file="docs/rest.md" text={content} open={() => {}} />
  </Tooltip.Provider>);
  test('headings have ids, links the addresses of pages, and no script is in it', () => {
    show('# One\n\n## Two\n\n## Two\n\n[files](files.md#a) [bad](javascript:alert(1))\n\n<img src=x onerror=alert(1)>');
    expect(screen.getAllByRole('heading').map((one) => one.id)).toEqual(['one', 'two', 'two-1']);
    expect(screen.getByRole('link', { name: 'files' }).getAttribute('href')).toBe('/docs/files#a');
    expect(document.querySelector('img')).toBeNull();
    expect([...document.querySelectorAll('a')].filter((one) => one.href.startsWith('javascript:'))).toEqual([]);
  });
});
