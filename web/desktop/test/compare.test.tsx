import { EverloopError } from '@everloop/sdk';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { Tooltip } from 'radix-ui';
import type { ReactNode } from 'react';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ChangedSince, CompareFile } from '../src/rooms/files/compare';

const api = vi.hoisted(() => ({
  listCheckpoints: vi.fn(), listCheckpointChanges: vi.fn(), readCheckpointFile: vi.fn(), readFile: vi.fn(),
}));
vi.mock('../src/lib/auth', () => ({ account: () => ({ client: { api } }), signOut: () => undefined }));

const show = (node: ReactNode) => render(
  <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
    <Tooltip.Provider>{node}</Tooltip.Provider>
  </QueryClientProvider>,
);
const missing = () => new EverloopError('file_not_found', 'there is no such file', { status: 404 });

// what each moment has, by path
const then: Record<string, string> = {};
const now: Record<string, string> = {};
const reads = (files: Record<string, string>) => (path: string | undefined) => {
  const text = files[path ?? ''];
  return text === undefined ? Promise.reject(missing()) : Promise.resolve(new Response(text));
};

beforeEach(() => {
  Object.assign(then, { 'a.txt': 'one\ntwo\n', 'gone.txt': 'was\n', 'bytes': '\0\x01' });
  Object.assign(now, { 'a.txt': 'one\n2\n', 'new.txt': 'is\n', 'bytes': '\0\x01\x02' });
  api.readCheckpointFile.mockImplementation((_id: string, _checkpoint: string, path: string) => reads(then)(path));
  api.readFile.mockImplementation((_id: string, path: string) => reads(now)(path));
});
afterEach(() => {
  cleanup();
  vi.resetAllMocks();
});

describe('ChangedSince', () => {
  const file = (path: string, change: string, before: number | null, after: number | null) => ({
    path, change, type: 'file', size_before: before, size_after: after,
  });
  const all = [
    file('a.txt', 'modified', 8, 6), file('bytes', 'modified', 2, 3), file('gone.txt', 'deleted', 4, null),
    file('new.txt', 'created', null, 3),
  ];

  test('lists what differs page by page, and shows the lines of a chosen file', async () => {
    api.listCheckpointChanges.mockImplementation((_id: string, _checkpoint: string, { query }: { query: { offset: number } }) =>
      Promise.resolve({ items: query.offset === 0 ? all.slice(0, 3) : all.slice(3), total: 4 }));
    show(<ChangedSince id="s" checkpoint="k" />);
    await screen.findByText('4 files');
    expect(screen.getAllByRole('listitem')).toHaveLength(3);
    fireEvent.click(screen.getByRole('button', { name: 'Show more' }));
    await screen.findByText('new.txt');
    expect(screen.getAllByRole('listitem').map((item) => item.textContent)).toEqual([
      'modifieda.txt8 B → 6 B', 'modifiedbytes2 B → 3 B', 'deletedgone.txt4 B', 'creatednew.txt3 B',
    ]);

    const open = async (path: string) => {
      fireEvent.click(screen.getByText(path));
      return screen.findByRole('dialog', { name: path });
    };
    const lines = async (path: string) => {
      const dialog = await open(path);
      const text = (await within(dialog).findByLabelText(`Changes of ${path}`)).textContent;
      fireEvent.click(within(dialog).getByRole('button', { name: 'Close' }));
      return text;
    };
    expect(await lines('a.txt')).toBe(' one\n−removed: two\n+added: 2\n');
    expect(await lines('gone.txt')).toContain('−removed: was');
    expect(await lines('new.txt')).toContain('+added: is');
    // What is known to be missing is not asked for.
    expect(api.readCheckpointFile.mock.calls.map(([, , path]) => path)).toEqual(['a.txt', 'gone.txt']);
    expect(api.readFile.mock.calls.map(([, path]) => path)).toEqual(['a.txt', 'new.txt']);
    expect(await within(await open('bytes')).findByText('This file is not text. Size at the checkpoint: 2 B, now: 3 B.')).toBeTruthy();
    expect(api.readCheckpointFile.mock.calls[0]?.slice(0, 3)).toEqual(['s', 'k', 'a.txt']);
  });
  test('says that nothing differs, and why it cannot be known', async () => {
    api.listCheckpointChanges.mockResolvedValueOnce({ items: [], total: 0 });
    show(<ChangedSince id="s" checkpoint="k" />);
    await screen.findByText('The files are the same.');
    cleanup();
    api.listCheckpointChanges.mockRejectedValueOnce(
      new EverloopError('snapshot_not_found', 'the files of this checkpoint were not captured', { status: 404 }),
    );
    show(<ChangedSince id="s" checkpoint="k" />);
    await screen.findByText('The files of this checkpoint were not captured');
  });
});

describe('CompareFile', () => {
  const point = (id: string, snapshot: string | null) => ({
    checkpoint_id: id, label: `message ${id}`, created_at: '2026-11-23T04:00:00Z', files: { snapshot_id: snapshot },
  });

  test('compares with the newest checkpoint that has files, or with a chosen one', async () => {
    api.listCheckpoints.mockResolvedValue([point('k1', 's1'), point('k2', 's2'), point('k3', null)]);
    show(<CompareFile id="s" path="a.txt" />);
    await screen.findByLabelText('Changes of a.txt');
    expect(screen.getAllByRole('option').map((option) => (option as HTMLOptionElement).value)).toEqual(['k2', 'k1']);
    expect(api.readCheckpointFile.mock.calls[0]?.slice(0, 3)).toEqual(['s', 'k2', 'a.txt']);

    then['a.txt'] = now['a.txt'] ?? '';
    fireEvent.change(screen.getByLabelText('Compare with the previous checkpoint'), { target: { value: 'k1' } });
    await screen.findByText('The text is the same.');
    expect(api.readCheckpointFile.mock.lastCall?.slice(0, 3)).toEqual(['s', 'k1', 'a.txt']);
  });
  test('a checkpoint need not have the file', async () => {
    api.listCheckpoints.mockResolvedValue([point('k1', 's1')]);
    show(<CompareFile id="s" path="new.txt" />);
    await screen.findByText('The checkpoint has no such file.');
    expect(screen.getByLabelText('Changes of new.txt').textContent).toContain('+added: is');
  });
  test('says that there is no checkpoint', async () => {
    api.listCheckpoints.mockResolvedValue([point('k1', null)]);
    show(<CompareFile id="s" path="a.txt" />);
    await screen.findByText('No checkpoints yet');
  });
});
