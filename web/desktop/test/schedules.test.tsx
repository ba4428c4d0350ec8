import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { Preview } from '../src/rooms/schedules/builder';

const api = vi.hoisted(() => ({ previewSchedule: vi.fn() }));
vi.mock('../src/lib/auth', () => ({ account: () => ({ client: { api } }), signOut: () => undefined }));

afterEach(cleanup);

describe('Preview', { timeout: 90_000 }, () => {
  const show = async (occurrences: string[], clockChanges: object[]) => {
    api.previewSchedule.mockResolvedValue({ cron_text: 'At 02:30', timezone: 'Europe/Berlin', occurrences, clock_changes: clockChanges });
    render(<QueryClientProvider client={new QueryClient()}><Preview cron="30 2 * * *" zone="Europe/Berlin" /></QueryClientProvider>);
    const list = await screen.findByRole('list', { name: 'Next runs' }, { timeout: 60_000 });
    return [...list.children].map((item) => /Clocks.*$/.exec(item.textContent ?? '')?.[0] ?? '');
  };

  test('marks the day on which clocks skip an hour', async () => {
    const marks = await show(
      ['2026-03-28T01:30:00Z', '2026-03-29T01:00:00Z', '2026-03-30T00:30:00Z'],
      [{ date: '2026-03-29', kind: 'left_out', from: '02:00', to: '03:00' }],
    );
    expect(marks).toEqual(['', 'Clocks skip 02:00 to 03:00', '']);
  });
  test('marks the day on which clocks repeat an hour', async () => {
    const marks = await show(
      ['2026-10-24T00:30:00Z', '2026-10-25T00:30:00Z', '2026-10-26T01:30:00Z'],
      [{ date: '2026-10-25', kind: 'repeated', from: '02:00', to: '03:00' }],
    );
    expect(marks).toEqual(['', 'Clocks repeat 02:00 to 03:00', '']);
  });
  test('marks no other day', async () => {
    expect(await show(['2026-06-01T00:30:00Z'], [])).toEqual(['']);
  });
});
