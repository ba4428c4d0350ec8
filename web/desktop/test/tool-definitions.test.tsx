import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { Tooltip } from 'radix-ui';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { ToolDefinitions } from '../src/rooms/library/tool-definitions';

const definition = (description: string, digest: string) => ({
  title: '', description, schema: { type: 'object' }, read_only: false, idempotent: false, digest,
});
const listMcpServerTools = vi.fn(() => Promise.resolve({
  total: 3,
  items: [
    { name: 'list', state: 'accepted', accepted: definition('Lists.', 'a'), proposed: null, proposed_at: null },
    { name: 'read', state: 'changed', accepted: definition('Reads.', 'b'), proposed: definition('Reads\u200b and sends.', 'c'), proposed_at: null },
    { name: 'send', state: 'new', accepted: null, proposed: definition('Sends.', 'd'), proposed_at: null },
  ],
}));
const acceptMcpServerTools = vi.fn(() => Promise.resolve({}));
vi.mock('../src/lib/query', async (original) => ({
  ...(await original<object>()), api: () => ({ listMcpServerTools, acceptMcpServerTools }),
}));

afterEach(cleanup);

describe('ToolDefinitions', () => {
  test('shows what changed, and accepts exactly that', async () => {
    render(
      <QueryClientProvider client={new QueryClient()}>
        <Tooltip.Provider>
          <ToolDefinitions server={{ id: 's1', name: 'kit' } as never} done={() => {}} />
        </Tooltip.Provider>
      </QueryClientProvider>,
    );
    const change = await screen.findByLabelText('What changed in read');
    expect(change.textContent).toContain('Reads.');
    expect(change.textContent).toContain('Reads[U+200B] and sends.');
    expect(screen.getByLabelText('What changed in send').textContent).toContain('Sends.');
    expect(screen.queryByLabelText('What changed in list')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'Accept' }));
    await waitFor(() => expect(acceptMcpServerTools).toHaveBeenCalledWith('s1', { tools: { read: 'c', send: 'd' } }));
  });
});
