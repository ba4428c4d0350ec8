import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { Tooltip } from 'radix-ui';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { SignIns } from '../src/rooms/settings/sign-ins';
import { SignIn } from '../src/shell/sign-in';

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

type Answer = { status: number; body?: object };

// stub answers the identity service, and keeps what it was asked.
function stub(answers: Record<string, Answer>): string[] {
  const asked: string[] = [];
  vi.stubGlobal('fetch', async (path: string, options: { method?: string; body?: string } = {}) => {
    const request = `${options.method ?? 'GET'} ${path}`;
    asked.push(options.body ? `${request} ${options.body}` : request);
    const { status, body } = answers[request] ?? { status: 500 };
    return new Response(body ? JSON.stringify(body) : null, { status });
  });
  return asked;
}

const show = (element: React.ReactElement) => render(
  <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
    <Tooltip.Provider>{element}</Tooltip.Provider>
  </QueryClientProvider>,
);

const one = (id: string, device: string, current = false) => ({
  id, device, current, client_id: '', address: '192.0.2.1', user_agent: '', created_at: '2026-01-01T00:00:00Z',
  last_used_at: '2026-01-02T00:00:00Z', expires_at: '2026-02-01T00:00:00Z',
});

describe('SignIns', () => {
  const list = { 'GET /api/v1/auth/sessions': {
    status: 200, body: { items: [one('a', 'Firefox on Linux', true), one('b/c', 'Safari on macOS')] },
  } };

  test('one is ended, or all others, after a question; the own one is not offered', async () => {
    const asked = stub({ ...list, 'DELETE /api/v1/auth/sessions/b%2Fc': { status: 204 }, 'DELETE /api/v1/auth/sessions': { status: 204 } });
    show(<SignIns />);
    const rows = await screen.findAllByRole('listitem');
    expect(rows).toHaveLength(2);
    expect(within(rows[0] as HTMLElement).queryByRole('button')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'Sign out Safari on macOS' }));
    fireEvent.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'End' }));
    await waitFor(() => expect(asked).toContain('DELETE /api/v1/auth/sessions/b%2Fc'));
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
    fireEvent.click(screen.getByRole('button', { name: 'Sign out all other sessions' }));
    fireEvent.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'End' }));
    await waitFor(() => expect(asked).toContain('DELETE /api/v1/auth/sessions'));
  });
  test('an identity service that lists none shows nothing, and no error', async () => {
    stub({ 'GET /api/v1/auth/sessions': { status: 404, body: { code: 'route_not_found' } } });
    const { container } = show(<SignIns />);
    await waitFor(() => expect(screen.queryByRole('status')).toBeNull());
    expect(container.textContent).toBe('');
  });
});

describe('SignIn', () => {
  test('an account with a second factor is asked for its code', async () => {
    const asked = stub({ 'POST /api/v1/auth/login': { status: 401, body: { code: 'code_required', detail: 'send the code' } } });
    show(<SignIn ways={['password', 'api_key']} />);
    fireEvent.change(screen.getByLabelText('User name'), { target: { value: 'ann' } });
    fireEvent.change(screen.getByLabelText('Password'), { target: { value: 'secret words' } });
    expect(screen.queryByLabelText('Code')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'Sign in' }));
    fireEvent.change(await screen.findByLabelText('Code'), { target: { value: '123456' } });
    expect(screen.queryByRole('alert')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'Sign in' }));
    await waitFor(() => expect(asked.at(-1)).toContain('"code":"123456"'));
  });
});
