import type { Session } from '@everloop/sdk';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { Tooltip } from 'radix-ui';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Opened } from '../src/rooms/files/opened';

const api = vi.hoisted(() => ({ readFile: vi.fn() }));
vi.mock('../src/lib/auth', () => ({ account: () => ({ client: { api } }), signOut: () => undefined }));
// As the editor: `text` is taken when `version` changes.
vi.mock('../src/rooms/files/editor', () => ({
  Editor: ({ text, version, change, save }: { text: string; version: number; change: (text: string) => void; save: () => void }) =>
    <textarea key={version} aria-label="text" defaultValue={text} onChange={(event) => change(event.target.value)} onKeyDown={save} />,
}));

const until = <T,>(check: () => T) => vi.waitFor(check, { timeout: 30_000 });
const text = () => (screen.getByLabelText('text') as HTMLTextAreaElement).value;
const type = (value: string) => fireEvent.change(screen.getByLabelText('text'), { target: { value } });

const stored = { text: 'one', etag: '"1"' };
const write = vi.fn();
let written: (etag: string) => void;

beforeEach(async () => {
  Object.assign(stored, { text: 'one', etag: '"1"' });
  api.readFile.mockImplementation(async () => new Response(stored.text, { headers: { etag: stored.etag } }));
  write.mockImplementation(() => new Promise((resolve) => { written = resolve; }));
  const session = { writeFile: write } as unknown as Session;
  render(
    <QueryClientProvider client={new QueryClient()}>
      <Tooltip.Provider><Opened id="s" path="a.txt" writable session={session} close={() => {}} /></Tooltip.Provider>
    </QueryClientProvider>,
  );
  await until(() => expect(text()).toBe('one'));
});
afterEach(() => {
  cleanup();
  vi.resetAllMocks();
});

// save stores what was typed, while the agent writes right behind it when `theirs` is given.
async function save(typed: string, meanwhile = () => {}, theirs?: string) {
  type(typed);
  fireEvent.click(screen.getByRole('button', { name: 'Save' }));
  await until(() => expect(write).toHaveBeenCalled());
  meanwhile();
  Object.assign(stored, theirs === undefined ? { text: typed, etag: '"2"' } : { text: theirs, etag: '"3"' });
  await act(async () => written('"2"'));
}

describe('Opened', { timeout: 90_000 }, () => {
  test('a text that was written right after the own one is shown', async () => {
    await save('mine', undefined, 'theirs');
    await until(() => expect(text()).toBe('theirs'));
    expect(write).toHaveBeenCalledExactlyOnceWith('a.txt', 'mine', { etag: '"1"' });
    expect(api.readFile).toHaveBeenCalledTimes(2); // no separate request for the ETag
  });

  test('a text that was written right after the own one conflicts with further changes', async () => {
    await save('mine', () => type('mine, more'), 'theirs');
    await until(() => screen.getByRole('alert'));
    expect(text()).toBe('mine, more');
    fireEvent.click(screen.getByRole('button', { name: 'Take theirs' }));
    await until(() => expect(text()).toBe('theirs'));
    expect(screen.queryByRole('alert')).toBeNull();
  });

  test('the save key sends nothing while a save is under way', async () => {
    await save('mine', () => {
      type('mine, more');
      fireEvent.keyDown(screen.getByLabelText('text'), { key: 's', ctrlKey: true });
    });
    await until(() => expect((screen.getByRole('button', { name: 'Save' }) as HTMLButtonElement).disabled).toBe(false));
    expect(write).toHaveBeenCalledTimes(1);
    fireEvent.keyDown(screen.getByLabelText('text'), { key: 's', ctrlKey: true });
    await until(() => expect(write).toHaveBeenLastCalledWith('a.txt', 'mine, more', { etag: '"2"' }));
  });

  test('what was typed during a save stays and is saved over the own version', async () => {
    await save('mine', () => type('mine, more'));
    await until(() => expect(api.readFile).toHaveBeenCalledTimes(2));
    await until(() => expect((screen.getByRole('button', { name: 'Save' }) as HTMLButtonElement).disabled).toBe(false));
    expect([text(), screen.queryByRole('alert')]).toEqual(['mine, more', null]);
    fireEvent.click(screen.getByRole('button', { name: 'Save' }));
    await until(() => expect(write).toHaveBeenLastCalledWith('a.txt', 'mine, more', { etag: '"2"' }));
  });
});
