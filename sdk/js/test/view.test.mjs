import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { ChatView } from '../dist/index.js';
import { start, text } from './fake.mjs';

let view;
let seq;
const take = (name, data) => view.take({ name, data: { session_id: 's', seq: ++seq, prev_seq: seq - 1, chat_id: 'c1', ...data } });
const joined = (more = {}) =>
  view.joined(
    {
      session_id: 's',
      status: 'running',
      waiting_reason: 'none',
      seq: 0,
      replayed: 0,
      truncated: false,
      open_turns: [],
      pending_questions: [],
      queue: [],
      last_end: null,
      ...more,
    },
    true,
  );
const stored = (turn_id, more = {}) => ({
  id: turn_id,
  turn_id,
  sequence: 0,
  role: 'assistant',
  status: 'completed',
  blocks: [],
  tool_calls: [],
  parent_fork_tool_call_id: null,
  ...more,
});
const call = { id: 'k1', tool_name: 'Bash', display_name: 'Bash', arguments: '{"command":"ls"}', status: 'pending' };
beforeEach(() => {
  view = new ChatView((flush) => flush());
  seq = 0;
  joined();
});

test('text, thinking, calls with live output, and retries', () => {
  view.loaded([]);
  take(...start('t2'));
  take('turn:patch', { turn_id: 't2', patch_type: 'retry', attempt: 1, reason: 'busy', next_attempt_at: 'soon' });
  assert.equal(view.snapshot().turns[0].retry.reason, 'busy');
  take('turn:patch', { turn_id: 't2', patch_type: 'add_content', block_type: 'thinking', text_delta: 'hm', offset: 0 });
  take(...text('Hello, ', 0));
  take(...text('👋 you', 7));
  take(...text('next block', 0));
  take('turn:patch', { turn_id: 't2', patch_type: 'tool_progress', tool_call_id: 'k1', text_delta: 'ear', stream: 'stdout' });
  take('turn:patch', { turn_id: 't2', patch_type: 'add_tool_call', tool_call: call });
  take('turn:patch', { turn_id: 't2', patch_type: 'tool_progress', tool_call_id: 'k1', text_delta: 'ly', stream: 'stdout' });
  const before = view.snapshot();
  assert.equal(before.turns[0].retry, undefined);
  assert.deepEqual(
    before.turns[0].blocks.map((b) => [b.type, b.content]),
    [
      ['thinking', 'hm'],
      ['text', 'Hello, 👋 you'],
      ['text', 'next block'],
    ],
  );
  assert.deepEqual([before.turns[0].tool_calls[0].status, before.turns[0].tool_calls[0].progress], ['pending', 'early']);
  take('turn:end', { turn_id: 't2', status: 'completed', usage: { input_tokens: 1, output_tokens: 2 }, duration_ms: 3 });
  take('turn:patch', { turn_id: 't2', patch_type: 'tool_result', tool_call_id: 'k1', result: 'files', status: 'done', duration_ms: 4 });
  const { turns: [turn] } = view.snapshot();
  assert.deepEqual([turn.status, turn.tool_calls[0].status, turn.tool_calls[0].result], ['completed', 'done', 'files']);
  assert.equal(before.turns[0].tool_calls[0].status, 'pending', 'a snapshot does not change');
  assert.equal(turn.blocks, before.turns[0].blocks, 'what did not change is the same object');
  assert.equal(view.snapshot(), view.snapshot());
});

test('what happens before the messages are there is applied to them', () => {
  take('turn:patch', { turn_id: 't0', patch_type: 'tool_result', tool_call_id: 'k1', result: 'late', status: 'done', duration_ms: 1 });
  take(...start('t2'));
  take(...text('live', 0));
  view.loaded([
    stored('t0', { tool_calls: [{ ...call, result: '', duration_ms: 0 }] }),
    stored('t2', { status: 'streaming', sequence: 1 }),
  ]);
  const { turns } = view.snapshot();
  assert.deepEqual(turns.map((turn) => turn.turn_id), ['t0', 't2']);
  assert.equal(turns[0].tool_calls[0].result, 'late');
  assert.equal(turns[1].blocks[0].content, 'live');
});

test('the newest messages are seen first; what happens meanwhile is applied in order, also to the others', () => {
  const result = (turn_id, id, text) =>
    take('turn:patch', { turn_id, patch_type: 'tool_result', tool_call_id: id, result: text, status: 'done', duration_ms: 1 });
  const calls = (id) => ({ tool_calls: [{ ...call, id, result: '', duration_ms: 0 }] });
  result('t0', 'k0', 'first');
  result('t9', 'k9', 'early');
  view.newest([stored('t9', { sequence: 9, ...calls('k9') })]);
  assert.deepEqual([view.snapshot().loaded, view.snapshot().turns.map((turn) => turn.turn_id)], [false, ['t9']]);
  assert.equal(view.snapshot().turns[0].tool_calls[0].result, 'early');
  result('t9', 'k9', 'late');
  result('t0', 'k0', 'second');
  view.loaded([stored('t0', calls('k0'))]);
  const { turns } = view.snapshot();
  assert.deepEqual([view.snapshot().loaded, turns.map((turn) => turn.tool_calls[0].result)], [true, ['second', 'late']]);
});

test('an open turn goes on from the position of the subscription', () => {
  joined({ open_turns: [stored('t2', { status: 'streaming', blocks: [{ type: 'text', content: 'so far' }] })] });
  take(...text(', so good', 6));
  view.loaded([stored('t2', { status: 'streaming', blocks: [{ type: 'text', content: 'so far, so' }] })]);
  assert.equal(view.snapshot().turns[0].blocks[0].content, 'so far, so good');
});

test('questions, the queue and the state of the chat', () => {
  view.queued({ chat_id: 'c2', turn_id: 'u2', position: 1, preview: 'next' });
  take('chat:start', { mode: 'executing', headless: false, trigger: 'user', resumed: false });
  take(...start('t2'));
  const question = { ...call, tool_name: 'AskUserQuestion', status: 'awaiting_answer', arguments: '{"questions":[{"question":"Which?"}]}',
    pending_question_ref: { question_id: 'q1', asked_at: 'now' } };
  take('turn:patch', { turn_id: 't2', patch_type: 'add_tool_call', tool_call: question });
  take('chat:end', { status: 'completed', finish_reason: 'awaiting_answer', usage: {}, steps: 1, duration_ms: 1 });
  assert.equal(view.snapshot().questions[0].questions[0].question, 'Which?');
  assert.equal(view.snapshot().chat.chat_id, 'c1', 'a chat that waits for an answer goes on');
  assert.equal(view.snapshot().queue.length, 1);
  take('question:resolved', { question_id: 'q1', tool_call_id: 'k1', resolution: 'answered', by: 'u' });
  take('chat:end', { status: 'completed', finish_reason: 'completed', usage: {}, steps: 2, duration_ms: 1 });
  take('chat:start', { chat_id: 'c2', mode: 'executing', headless: false, trigger: 'user', resumed: false });
  assert.deepEqual([view.snapshot().questions, view.snapshot().queue, view.snapshot().chat.chat_id], [[], [], 'c2']);
});

test('own messages that join the running chat are known until the agent reads them', () => {
  view.loaded([]);
  const message = (turn_id) => ({ chat_id: 'c1', turn_id, position: 0, preview: turn_id });
  view.joins(message('u2'));
  view.joins(message('u3'));
  assert.deepEqual(view.snapshot().joining.map((one) => one.turn_id), ['u2', 'u3']);
  take('turn:start', { ...start('u2', { role: 'user' })[1] });
  assert.deepEqual(view.snapshot().joining.map((one) => one.turn_id), ['u3']);
  view.joins(message('u2')); // its acknowledgement came behind its turn
  assert.deepEqual(view.snapshot().joining.map((one) => one.turn_id), ['u3']);
  view.reload(); // the history moved: what joins is known no more
  assert.deepEqual(view.snapshot().joining, []);
});

test('turns of sub-agents are below their call', () => {
  take(...start('t2'));
  take(...start('t3', { sequence: 3, loop_id: 'k1', parent_fork_tool_call_id: 'k1' }));
  assert.deepEqual(view.snapshot().turns.map((turn) => turn.turn_id), ['t2']);
  assert.deepEqual(view.snapshot().children.get('k1').map((turn) => turn.turn_id), ['t3']);
});

test('listeners are called once for many events', () => {
  let flush;
  let calls = 0;
  view = new ChatView((later) => { flush = later; });
  joined();
  const off = view.subscribe(() => calls++);
  take(...start('t2'));
  for (let i = 0; i < 1000; i++) take(...text('x', i));
  flush();
  assert.equal(calls, 1);
  assert.equal(view.snapshot().turns[0].blocks[0].content.length, 1000);
  off();
});

test('how the last chat ended is known from the start, until the active branch changes', () => {
  const end = { chat_id: 'c0', status: 'failed', finish_reason: 'failed', usage: {}, steps: 1, duration_ms: 1 };
  assert.equal(view.snapshot().lastEnd, undefined);
  joined({ last_end: end });
  assert.deepEqual(view.snapshot().lastEnd, end);
  take('chat:start', { mode: 'executing', headless: false, trigger: 'user', resumed: false });
  assert.equal(view.snapshot().lastEnd.chat_id, 'c0', 'that of the chat before');
  take('chat:end', { status: 'completed', finish_reason: 'completed', usage: {}, steps: 1, duration_ms: 1 });
  assert.equal(view.snapshot().lastEnd.chat_id, 'c1');
  view.reload(); // another branch
  assert.equal(view.snapshot().lastEnd, undefined);
});
