import type { CallView, Question, Session, TurnView } from '@everloop/sdk';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { Tooltip } from 'radix-ui';
import type { ReactNode } from 'react';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { QuestionForm } from '../src/rooms/chat/questions';
import { ToolCard } from '../src/rooms/chat/tools';
import { Turn } from '../src/rooms/chat/turn';
import { Prose } from '../src/ui/markdown';

const show = (node: ReactNode) => render(
  <QueryClientProvider client={new QueryClient()}><Tooltip.Provider>{node}</Tooltip.Provider></QueryClientProvider>,
);
const none = new Map<string, readonly TurnView[]>();
const call = (part: Partial<CallView>): CallView => ({
  id: 'c1', tool_name: 'Bash', display_name: 'Bash', arguments: '{"command":"make"}', status: 'done', result: '', duration_ms: 0,
  progress: '', ...part,
});
const turn = (part: Partial<TurnView>): TurnView => ({
  turn_id: 't1', kind: 'message', role: 'assistant', status: 'completed', model: 'm', blocks: [], tool_calls: [],
  started_at: '2026-11-23T04:00:00Z',
  usage: { input_tokens: 0, output_tokens: 0 }, duration_ms: 0, deprecated: false, ...part,
} as unknown as TurnView);
const block = (type: string, content: string) => ({ type, content, tool_call_id: null, tool_name: null, display_name: null });

afterEach(cleanup);

describe('Prose', () => {
  test('nothing of a model runs, and nothing is loaded from elsewhere', () => {
    const { container } = show(<Prose text={'<script>alert(1)</script><img src=x onerror=alert(1)>\n\n[a](javascript:alert(1)) ' +
      '![p](https://other.example/p.png)\n\n<iframe src="https://other.example"></iframe>'} />);
    expect(container.querySelector('script, img, iframe, [onerror]')).toBeNull();
    for (const link of container.querySelectorAll('a')) expect(link.getAttribute('href') ?? '').not.toMatch(/^javascript:/);
    expect(screen.getByRole('link', { name: 'Picture: p' }).getAttribute('rel')).toContain('noopener');
  });
  test.each([
    ['[https://bank.example/login](https://evil.example/x)', 'evil.example'],
    ['[bank.example](https://evil.example/bank.example)', 'evil.example'],
    ['[Sign in at **bank.example**](https://evil.example)', 'evil.example'],
    ['[https://bank.example@evil.example/](https://evil.example)', 'evil.example'],
    ['[bank.example](https://bank.example.evil.example)', 'bank.example.evil.example'],
    ['[b\u200bank.exam\u200bple](https://evil.example)', 'evil.example'],
    ['[bank\u3002example](https://evil.example)', 'evil.example'],
    ['[help@bank.example](mailto:help@evil.example)', 'evil.example'],
    ['[b\u00e4nk.example](https://evil.example)', 'evil.example'],
    ['[bank.example](https://b\u00e4nk.example)', 'xn--bnk-qla.example'],
    ['![bank.example](https://evil.example/p.png)', 'evil.example'],
  ])('a link whose text names another host shows its own: %s', (text, host) => {
    const { container } = show(<Prose text={text} />);
    expect(container.querySelector('bdi')?.textContent).toBe(host);
  });
  test.each([
    '[the docs](https://docs.example/start)', 'https://docs.example/start', 'www.docs.example', '<https://docs.example>',
    '[docs.example](https://www.docs.example/a)', '[https://docs.example/a/main.go?x=b.c#d.e](https://docs.example/a/main.go)',
    '[Docs: docs.example.](https://docs.example)', '[help@docs.example](mailto:help@docs.example)', '[1.2 and 3.4](https://docs.example)',
    '[b\u00e4nk.example](https://b\u00e4nk.example)', '[see below](#below)',
  ])('any other link has no host beside it: %s', (text) => {
    const { container } = show(<Prose text={text} />);
    expect(container.querySelector('bdi')).toBeNull();
  });
  test('code has colours by classes, not by HTML', async () => {
    const { container } = show(<Prose text={'```js\nconst x = "</code><script>1</script>";\n```'} />);
    await waitFor(() => expect(container.querySelector('.hljs-keyword')?.textContent).toBe('const'), { timeout: 60_000 });
    expect(container.querySelector('script')).toBeNull();
  }, 90_000);
});

describe('task lists', () => {
  test('their boxes have names, and no other input comes through', () => {
    const { container } = show(<Prose text={'- [x] reproduce\n- [ ] fix\n\n<input type="text" value="x">'} />);
    const boxes = [...container.querySelectorAll('input')];
    expect(boxes.map((box) => [box.type, box.checked, box.disabled, box.getAttribute('aria-label')])).toEqual([
      ['checkbox', true, true, 'done'], ['checkbox', false, true, 'not done'],
    ]);
  });
});

describe('ToolCard', () => {
  test('a running command is open and shows its output; one that is done is folded', () => {
    const { rerender } = show(<ToolCard call={call({ status: 'pending', progress: 'line 1\n' })} nested={none} showTurn={() => null} />);
    expect(screen.getByLabelText('Output').textContent).toBe('line 1\n');
    rerender(<QueryClientProvider client={new QueryClient()}>
      <Tooltip.Provider><ToolCard call={call({ result: 'all' })} nested={none} showTurn={() => null} /></Tooltip.Provider>
    </QueryClientProvider>);
    expect(screen.queryByLabelText('Output')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: /Bash/ }));
    expect(screen.getByLabelText('Output').textContent).toBe('all');
  });
  test('an edit is a difference', () => {
    show(<ToolCard
      call={call({ tool_name: 'Edit', arguments: JSON.stringify({ file_path: 'a.txt', old_string: 'one\n', new_string: 'two\n' }) })}
      nested={none}
      showTurn={() => null}
    />);
    expect(screen.getByLabelText('Changes of a.txt').textContent).toMatch(/removed: one[^]*added: two/);
  });
  test('arguments that are not JSON do no harm', () => {
    show(<ToolCard
      call={call({ tool_name: 'mcp__x__y', display_name: 'y', arguments: '{"a":', result: '<b>' })}
      nested={none}
      showTurn={() => null}
    />);
    fireEvent.click(screen.getByRole('button', { name: /y/ }));
    expect(screen.getByLabelText('Result').textContent).toBe('<b>');
  });
});

describe('Turn', () => {
  test('thinking is folded', () => {
    show(<Turn turn={turn({ blocks: [block('thinking', 'first\nlast'), block('text', 'Answer.')] })} nested={none} />);
    expect(screen.queryByText(/first/)).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: /Thought/ }));
    expect(screen.getByText(/first/)).toBeTruthy();
  });
  test('turns of a sub-agent are within the card of their call', () => {
    const inner = turn({ turn_id: 't2', blocks: [block('text', 'From below.')] });
    const agent = call({ tool_name: 'Agent', display_name: 'Agent', arguments: '{"description":"Look"}', status: 'pending' });
    show(<Turn turn={turn({ tool_calls: [agent] })} nested={new Map([['c1', [inner]]])} />);
    expect(screen.getByLabelText('Answer of the sub-agent').textContent).toContain('From below.');
  });
});

describe('QuestionForm', () => {
  const question = {
    question_id: 'q', tool_call_id: 'c', questions: [
      { question: 'Which colour?', options: [{ label: 'Red' }, { label: 'Blue' }] },
      { question: 'Which sizes?', options: [{ label: 'S' }, { label: 'M' }], multiSelect: true },
    ],
  } as unknown as Question;
  test('all parts are answered at once; nothing is sent before', async () => {
    const answer = vi.fn(async () => ({ resolved: true, question_id: 'q', chat_id: 'x' }));
    show(<QuestionForm question={question} session={{ answer } as unknown as Session} />);
    fireEvent.click(screen.getByLabelText('Blue'));
    fireEvent.click(screen.getByRole('button', { name: 'Answer' }));
    expect(answer).not.toHaveBeenCalled();
    fireEvent.click(screen.getByLabelText('M'));
    fireEvent.click(screen.getByLabelText('S'));
    fireEvent.click(screen.getByRole('button', { name: 'Answer' }));
    await waitFor(() => expect(answer).toHaveBeenCalledWith(question, [1, [0, 1]]));
  });
  test('a text of one\'s own is added to several choices, and replaces a single one', async () => {
    const answer = vi.fn(async () => ({ resolved: true, question_id: 'q', chat_id: 'x' }));
    show(<QuestionForm question={question} session={{ answer } as unknown as Session} />);
    const [single, several] = screen.getAllByLabelText('Something else') as [HTMLElement, HTMLElement];
    fireEvent.click(screen.getByLabelText('Blue'));
    fireEvent.click(single);
    fireEvent.change(screen.getByLabelText('Answer: Which colour?'), { target: { value: 'Green' } });
    fireEvent.click(screen.getByLabelText('M'));
    fireEvent.click(several);
    fireEvent.change(screen.getByLabelText('Answer: Which sizes?'), { target: { value: 'XXL' } });
    fireEvent.click(screen.getByLabelText('S'));
    fireEvent.click(screen.getByRole('button', { name: 'Answer' }));
    await waitFor(() => expect(answer).toHaveBeenCalledWith(question, ['Green', { options: [0, 1], text: 'XXL' }]));
  });
});
