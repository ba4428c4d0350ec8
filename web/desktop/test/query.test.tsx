import { QueryClient, QueryClientProvider, useQuery } from '@tanstack/react-query';
import { act, cleanup, renderHook } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { usePreferences, useSetPreferences } from '../src/lib/preferences';
import { invalidate, useAction } from '../src/lib/query';

const api = vi.hoisted(() => ({ getPreference: vi.fn(), setPreference: vi.fn() }));
vi.mock('../src/lib/auth', () => ({ account: () => ({ client: { api } }), signOut: () => undefined }));

const until = <T,>(check: () => T) => vi.waitFor(check, { timeout: 30_000 });

let client: QueryClient;
let answers: ((value: string) => void)[]; // to the requests that were made
const read = vi.fn();
const wrapper = ({ children }: { children: ReactNode }) => <QueryClientProvider client={client}>{children}</QueryClientProvider>;
const show = () => renderHook(() => useQuery<string>({ queryKey: ['list', 'a'], queryFn: read, retry: false }), { wrapper }).result;
const answer = (value: string) => act(async () => answers.shift()?.(value));

beforeEach(() => {
  client = new QueryClient({ defaultOptions: { queries: { staleTime: 60_000 } } });
  answers = [];
  read.mockImplementation(() => new Promise((resolve) => answers.push(resolve)));
});
afterEach(() => {
  cleanup();
  vi.resetAllMocks();
});

describe('invalidate', { timeout: 90_000 }, () => {
  test('a first fetch that is under way is repeated, once for many changes', async () => {
    const result = show();
    const all = [invalidate(client, ['list']), invalidate(client, ['list', 'a']), invalidate(client, ['other'])];
    await answer('old');
    expect(read).toHaveBeenCalledTimes(2);
    await answer('new');
    await Promise.all(all);
    await until(() => expect(result.current.data).toBe('new'));
    expect(read).toHaveBeenCalledTimes(2);
  });
  test('a query that has data is read again at once', async () => {
    const result = show();
    await answer('old');
    void invalidate(client, ['list']);
    await answer('new');
    await until(() => expect(result.current.data).toBe('new'));
    expect(read).toHaveBeenCalledTimes(2);
  });
  test('a first fetch that fails is not repeated', async () => {
    read.mockRejectedValue(new Error('no'));
    const result = show();
    await invalidate(client, ['list']);
    await until(() => expect(result.current.isError).toBe(true));
    expect(read).toHaveBeenCalledTimes(1);
  });
  test('a change repeats the first fetch of what it makes outdated', async () => {
    const result = show();
    const { result: action } = renderHook(() => useAction(async () => {}, { refresh: [['list']] }), { wrapper });
    act(() => action.current.mutate());
    await until(() => expect(client.getQueryState(['list', 'a'])?.isInvalidated).toBe(true));
    await answer('old');
    await answer('new');
    await until(() => expect(result.current.data).toBe('new'));
  });
});

describe('usePreferences', { timeout: 90_000 }, () => {
  test('an answer from before a change does not bring the old preference back', async () => {
    let before: (stored: { value: string }) => void = () => {};
    api.getPreference.mockReturnValueOnce(new Promise((resolve) => { before = resolve; }));
    api.setPreference.mockImplementation(async (_name: string, body: { value: string }) => body);
    const { result } = renderHook(() => ({ read: usePreferences(), set: useSetPreferences() }), { wrapper });
    await act(() => result.current.set.mutateAsync({ mode: 'planning', model: 'm', send: 'enter' }));
    await act(async () => before({ value: '{"mode":"executing"}' }));
    await until(() => expect(result.current.read.preferences).toEqual({ mode: 'planning', model: 'm', send: 'enter' }));
  });
});
