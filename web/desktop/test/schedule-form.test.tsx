import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { EverloopError, type Schemas } from '@everloop/sdk';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { Tooltip } from 'radix-ui';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { bodyOf, draftOf } from '../src/rooms/schedules/draft';
import EditSchedule from '../src/rooms/schedules/edit';
import { valuesOf } from '../src/rooms/unattended/pairs';
import { agentOf, setupBody, setupOf } from '../src/rooms/unattended/setup';

const api = vi.hoisted(() => ({
  previewSchedule: vi.fn(), createScheduledTask: vi.fn(), listModels: vi.fn(), listWebhooks: vi.fn(), listProdWorkspaces: vi.fn(),
  listProdAgents: vi.fn(), getSolutionCatalog: vi.fn(), listEnvBuckets: vi.fn(),
}));
vi.mock('../src/lib/auth', () => ({ account: () => ({ client: { api } }), signOut: () => undefined }));
vi.mock('@tanstack/react-router', () => ({
  Link: ({ children }: { children: React.ReactNode }) => <a href="/">{children}</a>, useNavigate: () => () => undefined,
  useParams: () => ({}),
}));

describe('setup of a schedule', () => {
  const stored = {
    agent_id: null, solution_id: 's', biz_role_id: 'r', mode: 'planning', skills: ['a', 'b'], env_buckets: ['x'], network: 'none',
    memory_enabled: true, permissions: [{ tool: 'Bash', decision: 'deny' }],
  } as const;
  const task = stored as unknown as Schemas['ScheduledTask'];

  test('is the same after it was edited', () => {
    expect(setupBody(setupOf(task))).toEqual({ ...stored, agent_id: '' });
  });
  test('of a production agent empties what the agent defines', () => {
    expect(setupBody({ ...setupOf(task), agent: 'agent:notes' })).toEqual({
      agent_id: 'notes', solution_id: '', biz_role_id: '', mode: null, skills: [], env_buckets: [], network: null, memory_enabled: false,
      permissions: [],
    });
  });
  test('names the agent, the solution, or the solution and the role', () => {
    const of = (agent_id: string | null, solution_id: string | null, biz_role_id: string | null) =>
      agentOf({ agent_id, solution_id, biz_role_id });
    expect([of(null, null, null), of('a', null, null), of(null, 's', null), of(null, 's', 'r')]).toEqual([
      '', 'agent:a', 'solution:s', 'role:s r',
    ]);
    expect(setupBody({ ...setupOf(undefined), agent: 'solution:s' })).toMatchObject({ solution_id: 's', biz_role_id: '' });
  });
  test('inputs have valid names, each once', () => {
    expect(valuesOf([{ name: ' a ', value: '1' }, { name: '', value: '' }])).toEqual({ values: { a: '1' } });
    expect(valuesOf([{ name: 'a-b', value: '1' }]).fault).toMatch(/letters/);
    expect(valuesOf([{ name: '', value: '1' }]).fault).toMatch(/letters/);
    expect(valuesOf([{ name: 'a', value: '1' }, { name: 'a', value: '2' }]).fault).toMatch(/twice/);
  });
  test('of a new schedule leaves all to the service', () => {
    expect(bodyOf(draftOf(undefined))).toMatchObject({ agent_id: '', mode: null, network: null, inputs: {}, budget: null });
  });
});

describe('form of a schedule', { timeout: 90_000 }, () => {
  beforeEach(() => {
    api.previewSchedule.mockResolvedValue({ cron_text: 'At 09:00', timezone: 'UTC', occurrences: [], clock_changes: [] });
    api.listModels.mockResolvedValue({ default: 'm', models: [] });
    api.listEnvBuckets.mockResolvedValue([]);
    for (const list of [api.listWebhooks, api.listProdWorkspaces, api.listProdAgents, api.getSolutionCatalog])
      list.mockResolvedValue({ items: [], total: 0 });
    render(
      <QueryClientProvider client={new QueryClient()}><Tooltip.Provider><EditSchedule /></Tooltip.Provider></QueryClientProvider>,
    );
  });
  afterEach(cleanup);

  test('shows title, prompt and time first', async () => {
    for (const label of ['Title', 'Prompt', 'Repeats', 'Time zone']) await screen.findByLabelText(label);
    for (const label of ['Model', 'Budget in tokens', 'Commands']) expect(screen.queryByLabelText(label)).toBeNull();
  });
  test('inserts a value at the cursor of the prompt', () => {
    const prompt = screen.getByLabelText<HTMLTextAreaElement>('Prompt');
    fireEvent.change(prompt, { target: { value: 'On : write' } });
    prompt.setSelectionRange(3, 3);
    fireEvent.click(screen.getByRole('button', { name: 'planned time' }));
    expect(prompt.value).toBe('On {{tick.time}}: write');
  });
  test('opens the part of a field that the service refuses', async () => {
    const errors = [{ location: 'body.jitter_s', message: 'is too large' }];
    api.createScheduledTask.mockRejectedValue(new EverloopError('invalid_request', 'x', { status: 422, errors }));
    fireEvent.change(screen.getByLabelText('Title'), { target: { value: 't' } });
    fireEvent.change(screen.getByLabelText('Prompt'), { target: { value: 'p' } });
    fireEvent.submit(screen.getByRole('button', { name: 'Create' }));
    await screen.findByText('is too large', {}, { timeout: 10_000 });
  });
});
