import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useState } from 'react';
import { bytes } from '../../lib/format';
import { t } from '../../lib/i18n';
import { visible } from '../../lib/visible';
import { api } from '../../lib/query';
import { bounded } from '../../ui/code';
import { Prose } from '../../ui/markdown';
import { Empty, Loaded } from '../../ui/page';

export type Kind = 'text' | 'image' | 'pdf' | 'other';

const kinds: Record<string, Kind> = {
  png: 'image',
  jpg: 'image',
  jpeg: 'image',
  gif: 'image',
  webp: 'image',
  avif: 'image',
  svg: 'image',
  pdf: 'pdf',
};
const mimes: Record<string, string> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  avif: 'image/avif',
  svg: 'image/svg+xml',
  pdf: 'application/pdf',
};
const binaries = new Set([
  'zip',
  'gz',
  'tar',
  'xz',
  'bz2',
  '7z',
  'jar',
  'exe',
  'so',
  'o',
  'a',
  'bin',
  'woff',
  'woff2',
  'ttf',
  'mp3',
  'mp4',
  'mov',
  'sqlite',
  'db',
  'xlsx',
  'docx',
  'pptx',
  'pyc',
  'wasm',
]);

const endingOf = (path: string): string => path.slice(path.lastIndexOf('.') + 1).toLowerCase();

/** kindOf says by its name how a file is shown. */
export const kindOf = (path: string): Kind => kinds[endingOf(path)] ?? (binaries.has(endingOf(path)) ? 'other' : 'text');

/** previews says which texts have a second form. */
export const hasPreview = (path: string): boolean => ['md', 'markdown', 'csv', 'tsv', 'html', 'htm'].includes(endingOf(path));

/** useURL gives an address of a content that ends with the component. Its type is ours, not that of the content. */
function useURL(blob: Blob | undefined): string | undefined {
  const [url, setURL] = useState<string>();
  useEffect(() => {
    if (!blob) return undefined;
    const made = URL.createObjectURL(blob);
    setURL(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  return url;
}

export function BinaryPreview({ id, path, version }: { id: string; path: string; version: string }) {
  const kind = kindOf(path);
  const content = useQuery({
    queryKey: ['files', id, 'content', path, version],
    enabled: kind !== 'other',
    gcTime: 30_000,
    queryFn: async ({ signal }) =>
      new Blob([await (await api().readFile(id, path, { signal, timeoutMs: 300_000 })).arrayBuffer()], {
        type: mimes[endingOf(path)] ?? '',
      }),
  });
  const url = useURL(content.data);
  if (kind === 'other') return <Empty title={t('Cannot show this file')}>{t('Download it to open it with another program.')}</Empty>;
  return (
    <Loaded query={content}>
      {(blob) =>
        url === undefined ? null : kind === 'image' ? (
          <div className="grid h-full place-items-center overflow-auto p-4">
            <figure>
              <img src={url} alt={path} className="max-w-full rounded border" />
              <figcaption className="mt-1 text-center text-xs text-soft">{bytes(blob.size)}</figcaption>
            </figure>
          </div>
        ) : (
          <iframe title={path} src={url} className="h-full w-full border-0" />
        )
      }
    </Loaded>
  );
}

/** parseTable reads comma or tab separated values, with quoted fields, up to a number of rows. */
export function parseTable(text: string, separator: string, most: number): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = '';
  let quoted = false;
  for (let at = 0; at < text.length && rows.length < most; at++) {
    const char = text[at];
    if (quoted) {
      if (char !== '"') field += char;
      else if (text[at + 1] === '"') { field += '"'; at++; } else quoted = false;
    } else if (char === '"' && field === '') quoted = true;
    else if (char === separator) { row.push(field); field = ''; } else if (char === '\n') {
      row.push(field.replace(/\r$/, ''));
      rows.push(row);
      row = [];
      field = '';
    } else field += char;
  }
  if ((field || row.length > 0) && rows.length < most) rows.push([...row, field]);
  return rows;
}

const maxRows = 1000;
const maxColumns = 100;
const maxCells = 20_000;
const maxCell = 1000;

/** boundTable leaves of a table what a page can hold. */
export function boundTable(rows: readonly string[][]): { rows: string[][]; cut: boolean } {
  const columns = Math.min(maxColumns, Math.max(1, ...rows.map((row) => row.length)));
  const most = Math.min(maxRows + 1, Math.ceil(maxCells / columns));
  return {
    rows: rows.slice(0, most).map((row) => row.slice(0, columns).map((cell) => bounded(cell, maxCell))),
    cut: rows.length > most || rows.some((row) => row.length > columns),
  };
}

export function TextPreview({ path, text }: { path: string; text: string }) {
  const ending = endingOf(path);
  const html = useMemo(() => (ending.startsWith('htm') ? new Blob([text], { type: 'text/html' }) : undefined), [ending, text]);
  const url = useURL(html);
  // The frame has an origin of its own and no scripts, and inherits the policy of this page: nothing is loaded for it.
  if (html)
    return url === undefined ? null : (
      <iframe title={t('Preview of {path}', { path })} src={url} sandbox="" className="h-full w-full border-0 bg-white" />
    );
  if (ending === 'csv' || ending === 'tsv') {
    const { rows: [head = [], ...rows], cut } = boundTable(parseTable(text, ending === 'tsv' ? '\t' : ',', maxRows + 2));
    return (
      <div className="h-full overflow-auto p-3" tabIndex={0} role="region" aria-label={t('Table {path}', { path })}>
        <table className="border-collapse text-sm">
          <thead>
            <tr>
              {head.map((cell, index) => (
                <th key={index} scope="col" dir="auto" className="border bg-panel px-2 py-0.5 text-left font-medium">
                  {visible(cell)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                {row.map((cell, column) => (
                  <td key={column} className="border px-2 py-0.5" dir="auto">
                    {visible(cell)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        {cut && <p className="mt-2 text-xs text-soft">{t('This table is truncated.')}</p>}
      </div>
    );
  }
  return (
    <div className="h-full overflow-auto p-4" tabIndex={0} role="region" aria-label={t('Preview of {path}', { path })}>
      <div className="mx-auto max-w-3xl">
        <Prose text={text} />
      </div>
    </div>
  );
}
