import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { Tooltip } from 'radix-ui';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Start } from '../src/rooms/dags/runs';

const api = vi.hoisted(() => ({ getDagVersion: vi.fn(), forecastDagRun: vi.fn(), createDagRun: vi.fn() }));
vi.mock('../src/lib/auth', () => ({ account: () => ({ client: { api } }), signOut: () => undefined }));
vi.mock('@tanstack/react-router', () => ({ Link: () => null, useNavigate: () => () => undefined }));

describe('start of a DAG run', { timeout: 90_000 }, () => {
  beforeEach(() => {
    api.getDagVersion.mockResolvedValue({
      dag: { nodes: [{ id: 's', type: 'start', output_schema: {
        required: ['topic'], properties: { topic: { type: 'string' }, count: { type: 'integer' } },
      } }] },
    });
    api.createDagRun.mockResolvedValue({ id: 'r' });
  });
  afterEach(cleanup);
  const show = () => render(
    <QueryClientProvider client={new QueryClient()}>
      <Tooltip.Provider><Start id="d" version={2} close={() => undefined} /></Tooltip.Provider>
    </QueryClientProvider>,
  );

  test('shows what earlier runs took, and sends typed inputs', async () => {
    api.forecastDagRun.mockResolvedValue({
      runs: 3, duration_s: { median: 12, p90: 90 }, tokens: { median: 1200, p90: 2000 }, cost_usd: null, critical_path: [], nodes: [],
    });
    show();
    expect((await screen.findByRole('note')).textContent).toBe('Expected: 12 s, at most about 1 min 30 s · 1.2K tokens from 3 earlier runs');
    fireEvent.change(await screen.findByLabelText('topic'), { target: { value: 'hedges' } });
    fireEvent.change(screen.getByLabelText('count (optional)'), { target: { value: '4' } });
    fireEvent.click(screen.getByRole('button', { name: 'Start' }));
    await waitFor(() => expect(api.createDagRun).toHaveBeenCalledWith('d', { inputs: { topic: 'hedges', count: 4 } }));
  });
  test('shows no forecast without earlier runs', async () => {
    api.forecastDagRun.mockResolvedValue({ runs: 0, duration_s: null, tokens: null, cost_usd: null, critical_path: [], nodes: [] });
    show();
    await screen.findByLabelText('topic');
    expect(screen.queryByRole('note')).toBeNull();
  });
});
