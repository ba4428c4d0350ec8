import type { Session, SessionEvent, SessionOptions } from '@everloop/sdk';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, cleanup, renderHook } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { useDetail, useSession } from '../src/lib/session';

const service = vi.hoisted(() => ({ session: vi.fn(), api: { getSession: vi.fn() } }));
vi.mock('../src/lib/auth', () => ({ account: () => ({ client: service }), signOut: () => undefined }));

const until = <T,>(check: () => T) => vi.waitFor(check, { timeout: 30_000 });

let options: SessionOptions;
let session: Session;
let ready: (session: Session) => void;
let listeners: Set<(event: SessionEvent) => void>;
let closers: Set<(why: { code: string }) => void>;
let answers: ((intent: string) => void)[]; // to the requests that were made
let sessions = 0;
let client: QueryClient;
const state = {};

beforeEach(() => {
  client = new QueryClient({ defaultOptions: { queries: { staleTime: 10_000 } } });
  answers = [];
  listeners = new Set();
  closers = new Set();
  session = {
    id: `s${sessions++}`, view: { subscribe: () => () => {}, snapshot: () => state },
    onClose: (listener: (why: { code: string }) => void) => {
      closers.add(listener);
      return () => closers.delete(listener);
    },
    close: async () => closers.forEach((listener) => listener({ code: 'closed' })),
    on: (listener: (event: SessionEvent) => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  } as unknown as Session;
  service.session.mockImplementation((_id: string, given: SessionOptions) => {
    options = given;
    return new Promise((resolve) => { ready = resolve; });
  });
  service.api.getSession.mockImplementation(() => new Promise((resolve) => answers.push((intent) => resolve({ intent }))));
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.resetAllMocks();
});

const wrapper = ({ children }: { children: ReactNode }) => <QueryClientProvider client={client}>{children}</QueryClientProvider>;
// show opens the session and gives what the room sees of its detail.
function show() {
  const { result, rerender, unmount } = renderHook(({ shown }: { shown: boolean }) => {
    useSession(session.id);
    return useDetail(shown ? session.id : 'other').data?.intent;
  }, { wrapper, initialProps: { shown: true } });
  return { sees: (intent: string) => until(() => expect(result.current).toBe(intent)), rerender, unmount };
}
const join = () => act(async () => options.onJoined?.(session));
const take = (name: string) => act(async () => listeners.forEach((listener) => listener({ name, data: {} } as SessionEvent)));
const answer = (intent: string) => act(async () => answers.shift()?.(intent));
const reads = () => service.api.getSession.mock.calls.length;

describe('useSession', { timeout: 90_000 }, () => {
  test('what was read before the stream was joined is read again', async () => {
    const { sees } = show();
    await answer('before');
    await sees('before');
    await join();
    await answer('at the join');
    await sees('at the join');
    expect(reads()).toBe(2);
  });
  test('what is being read when the stream is joined is read again', async () => {
    const { sees } = show();
    await join();
    await answer('before');
    await answer('at the join');
    await sees('at the join');
    expect(reads()).toBe(2);
  });
  test('events right behind the acknowledgement count', async () => {
    const { sees } = show();
    await answer('before');
    await join();
    await answer('at the join');
    await take('session:updated'); // before the session is there
    await act(async () => ready(session));
    await answer('after the event');
    await sees('after the event');
    expect([reads(), listeners.size]).toEqual([3, 1]);
  });
  test('a stream that is joined at a later position has all read again, and events count once', async () => {
    const { sees } = show();
    await join();
    await act(async () => ready(session));
    await answer('before');
    await answer('at the join');
    await sees('at the join');
    await join();
    await answer('at the later position');
    await sees('at the later position');
    expect([reads(), listeners.size]).toEqual([3, 1]);
  });
  test('what is not shown at the join is read when it is shown', async () => {
    const { sees, rerender } = show();
    await answer('before');
    rerender({ shown: false });
    await answer('other');
    await join();
    await act(async () => ready(session));
    expect(reads()).toBe(2);
    rerender({ shown: true });
    await answer('after the join');
    await sees('after the join');
    expect(reads()).toBe(3);
  });
  test('a session that is opened again while its stream was still being made keeps the new stream', async () => {
    vi.useFakeTimers();
    show().unmount();
    const first = ready;
    await act(async () => vi.advanceTimersByTime(30_000)); // the stream is closed when it is made
    show();
    expect(service.session).toHaveBeenCalledTimes(2);
    await act(async () => first(session));
    show();
    expect(service.session).toHaveBeenCalledTimes(2);
  });
});
