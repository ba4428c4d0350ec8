import type { Schemas } from '@everloop/sdk';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from '@tanstack/react-router';
import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { Tooltip } from 'radix-ui';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { SessionList } from '../src/shell/sessions';

const service = vi.hoisted(() => ({ listSessions: vi.fn(), pinSession: vi.fn() }));
vi.mock(import('../src/lib/query'), async (original) => ({ ...await original(), api: () => service as never }));

// A busy machine can pause for seconds.
const until = <T,>(check: () => T) => vi.waitFor(check, { timeout: 30_000 });

type Item = Schemas['SessionSummary'];
let stored: Item[] = [];
const session = (number: number, part: Partial<Item> = {}): Item => ({
  id: `s${number}`, intent: `Session ${number}`, status: 'completed', is_pinned: false, updated_at: '2026-11-23T04:00:00Z', ...part,
} as Item);
const read = () => service.listSessions.mock.calls.map(([{ query }]) => query.offset);

function show() {
  const router = createRouter({
    routeTree: createRootRoute({ component: () => <SessionList q="" /> }), history: createMemoryHistory({ initialEntries: ['/'] }),
  });
  return render(
    <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { staleTime: 10_000, retry: false } } })}>
      <Tooltip.Provider><RouterProvider router={router} /></Tooltip.Provider>
    </QueryClientProvider>,
  );
}
const seen = (number: number) => until(() => screen.getByRole('link', { name: new RegExp(`Session ${number}( |$)`) }));
const scrollTo = (top: number) => act(() => {
  const box = screen.getByRole('navigation', { name: 'Sessions' });
  box.scrollTop = top;
  fireEvent.scroll(box);
});

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(400);
  stored = Array.from({ length: 1000 }, (_, index) => session(index));
  service.listSessions.mockReset().mockImplementation(async ({ query: { offset, limit } }) => ({
    items: stored.slice(offset, offset + limit), total: stored.length,
  }));
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

describe('SessionList', { timeout: 90_000 }, () => {
  test('only sessions in view are in the page, with their places in the whole list', async () => {
    show();
    await seen(0);
    const shown = screen.getAllByRole('listitem');
    expect(shown.length).toBeLessThan(40);
    expect([shown[3]?.getAttribute('aria-posinset'), shown[3]?.getAttribute('aria-setsize')]).toEqual(['4', '1000']);
    expect(read()).toEqual([0]);
  });
  test('a page is read when it is scrolled to', async () => {
    show();
    await seen(0);
    scrollTo(34 * 500);
    await seen(500);
    expect(read().filter((offset) => offset > 0).every((offset) => offset >= 480 && offset <= 520)).toBe(true);
    expect(screen.queryByRole('link', { name: 'Session 20' })).toBeNull();
  });
  test('the refresh reads the first page and those in view, and no other that was read before', async () => {
    stored[3] = session(3, { status: 'running' });
    show();
    await seen(0);
    scrollTo(34 * 100);
    await seen(100);
    scrollTo(34 * 500);
    await seen(500);
    service.listSessions.mockClear();
    stored[500] = session(500, { intent: 'Session 500 renamed' });
    stored[0] = session(0, { intent: 'Session 0 renamed' });
    act(() => void vi.advanceTimersByTime(4000));
    await until(() => screen.getByRole('link', { name: 'Session 500 renamed' }));
    expect(read()).toContain(0);
    expect(read().filter((offset) => offset > 0 && offset < 480)).toEqual([]);
    scrollTo(0);
    await until(() => screen.getByRole('link', { name: 'Session 0 renamed' }));
  });
  test('a session that begins comes to the top, and one is never shown twice', async () => {
    show();
    await seen(0);
    stored = [session(1000), ...stored];
    act(() => void vi.advanceTimersByTime(20_000));
    await seen(1000);
    const names = screen.getAllByRole('link').map((link) => link.textContent);
    expect(names.slice(0, 2)).toEqual(['Session 1000', 'Session 0']);
    expect(new Set(names).size).toBe(names.length);
  });
  test('the session with the focus stays when it is scrolled out of view', async () => {
    show();
    const link = await seen(2);
    act(() => link.focus());
    scrollTo(34 * 500);
    await seen(500);
    expect(document.activeElement).toBe(link);
    expect(screen.getAllByRole('listitem')[0]?.getAttribute('aria-posinset')).toBe('3');
  });
  test('a pinned session is read again with its page', async () => {
    service.pinSession.mockImplementation(async () => {
      stored = [session(5, { is_pinned: true }), ...stored.filter((one) => one.id !== 's5')];
    });
    show();
    const row = (await seen(5)).closest('li') as HTMLElement;
    fireEvent.keyDown(within(row).getByRole('button', { hidden: true }), { key: 'Enter' });
    fireEvent.click(await until(() => screen.getByRole('menuitem', { name: 'Pin' })));
    await until(() => expect(screen.getAllByRole('listitem', { hidden: true })[0]?.textContent).toContain('Session 5'));
    expect(service.pinSession).toHaveBeenCalledWith('s5', { pinned: true });
  });
});
