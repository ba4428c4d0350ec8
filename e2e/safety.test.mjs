// Loop safety: permission rules, budgets, limits and the repeated-call detector,
// set up by session and by solution (docs/safety.md).
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { Fixture, bash, call, order, steps } from './lib/fixture.mjs';
import { solutionsWith } from './lib/solutions.mjs';

let fixture;
before(async () => {
  const careful = 'name: Careful\npermissions: [{tool: Bash, pattern: "git push*", decision: deny}]\nmax_steps: 3\n';
  fixture = await Fixture.start({ SOLUTIONS: solutionsWith({ careful }) });
});
after(() => fixture?.close());
afterEach(() => fixture.settle());

const permissions = [
  { tool: 'Bash', pattern: 'rm *', decision: 'deny' },
  { tool: 'Bash', pattern: 'touch *', decision: 'ask' },
  { tool: 'mcp__*', decision: 'ask' },
];
const ends = (view, chat) => view.events.filter((e) => e.name === 'chat:end' && e.data.chat_id === chat).map((e) => e.data.finish_reason);
const round = (view, chat, n) => view.wait(`round ${n} of ${chat}`, () => ends(view, chat).length >= n);
const files = async (view) => (await fixture.rest.get(`/api/sessions/${view.session}/ls/`)).map((i) => i.name);

test('a call that a rule denies is not carried out, the others are', async () => {
  const view = await fixture.session({ session_setup: { permissions } });
  const { calls, end } = await view.run(steps(bash('echo kept > a && cd . && rm a'), bash('echo fine > b'), { text: 'done' }));
  assert.equal(end.finish_reason, 'completed');
  assert.deepEqual(calls.map((c) => c.status), ['error', 'done']);
  assert.match(calls[0].result, /permission rule/);
  assert.deepEqual(await files(view), ['b']);
});

test('a call that needs permission waits for the answer, and runs once when it is allowed', async () => {
  const view = await fixture.session({ session_setup: { permissions } });
  const {
    chat_id: chat,
    end,
    calls,
  } = await view.run(steps({ calls: [bash('touch made; echo again >> made').calls[0], bash('echo beside').calls[0]] }, { text: 'thanks' }));
  assert.equal(end.finish_reason, 'awaiting_answer');
  const [touch, question, beside] = calls;
  assert.deepEqual(
    [touch.status, question.tool_name, question.status, beside.status],
    ['pending', 'AskUserQuestion', 'awaiting_answer', 'done'],
  );
  assert.deepEqual(await files(view), []);
  const detail = await fixture.rest.detail(view.session);
  assert.deepEqual([detail.status, detail.waiting_reason], ['waiting_for_input', 'permission']);
  const late = await fixture.follow(view.session);
  const [pending] = late.ack.pending_questions;
  assert.equal(pending.permission_for, touch.id);
  assert.deepEqual(pending.questions[0].options.map((o) => o.label), ['Allow', 'Allow for this session', 'Deny']);
  assert.match(pending.questions[0].question, /touch made; echo again >> made/);

  assert.equal((await view.answer(question.id, { selections: { 0: [0] } })).resolved, true);
  await round(view, chat, 2);
  assert.deepEqual(ends(view, chat), ['awaiting_answer', 'completed']);
  assert.deepEqual(view.callsOf(chat).map((c) => c.status), ['done', 'done', 'done']);
  assert.equal(await fixture.rest.file(view.session, 'made'), 'again\n');
  const messages = (await fixture.requests('touch made')).at(-1).body.messages;
  assert.doesNotMatch(JSON.stringify(messages.map((m) => m.tool_calls ?? [])), /AskUserQuestion/, 'the model does not see that it asked');
});

test('a restart while permission is asked for changes nothing', async () => {
  const view = await fixture.session({ session_setup: { permissions } });
  const { chat_id: chat, calls } = await view.run(steps(bash('touch after-restart'), { text: 'thanks' }));
  await fixture.server.kill();
  await fixture.server.start();
  const again = await fixture.follow(view.session);
  assert.equal((await again.answer(calls[1].id, { selections: { 0: [0] } })).resolved, true);
  await round(again, chat, 1);
  assert.deepEqual(await files(view), ['after-restart']);
  fixture.forget();
});

test('permission for the session is asked for once; a refusal says why', async () => {
  const view = await fixture.session({ session_setup: { permissions } });
  const { chat_id: chat, calls } = await view.run(steps(bash('touch x'), bash('touch x'), bash('touch y'), { text: 'done' }));
  await view.answer(calls[1].id, { selections: { 0: [1] } });
  await round(view, chat, 2);
  const asked = view.callsOf(chat).at(-1);
  assert.equal(asked.tool_name, 'AskUserQuestion');
  await view.answer(asked.id, { selections: {}, custom: { 0: 'y is mine' } });
  await round(view, chat, 3);
  const after = view.callsOf(chat).filter((c) => c.tool_name === 'Bash');
  assert.deepEqual(after.map((c) => c.status), ['done', 'done', 'error']);
  assert.match(after[2].result, /y is mine/);
  assert.deepEqual(await files(view), ['x']);
  const { session_setup: setup } = await fixture.rest.detail(view.session);
  assert.ok(setup, 'the detail has the setup');
});

test('a message, a stop and a headless run leave nothing to chance', async () => {
  const view = await fixture.session({ session_setup: { permissions } });
  const first = await view.run(steps(bash('touch x')));
  const next = await view.run(steps({ text: 'never mind' }));
  assert.equal(next.end.finish_reason, 'completed');
  assert.deepEqual(view.callsOf(first.chat_id).map((c) => c.status), ['cancelled', 'cancelled']);
  await view.run(steps(bash('touch x')));
  const stopped = await view.client.emit('chat:stop', { session_id: view.session });
  assert.equal(stopped.ok, true);
  const headless = await view.run(steps(bash('touch x'), { text: 'done' }), { headless: true });
  assert.equal(headless.end.finish_reason, 'completed');
  assert.match(headless.calls[0].result, /no user is there/);
  assert.deepEqual(await files(view), []);
});

test('a budget ends the chat before the next model call; raised, the next message goes on', async () => {
  const view = await fixture.session();
  const budget = (body) => fixture.rest.patch(`/api/sessions/${view.session}/budget`, body);
  await budget({ max_tokens: 500 });
  const usage = { prompt_tokens: 300, completion_tokens: 20 };
  const loop = order({ loop: { n: 20, call: { name: 'Bash', arguments: { command: 'echo {{i}}' } } } });
  const { end, turns } = await view.run(steps({ usage, ...bash('echo 1') }, { usage, ...bash('echo 2') }, { usage, text: 'never' }));
  assert.deepEqual([end.status, end.finish_reason, end.error.code], ['failed', 'budget_exhausted', 'budget_exhausted']);
  assert.equal(turns.filter((t) => t.role === 'assistant').length, 2);
  assert.equal((await fixture.rest.detail(view.session)).waiting_reason, 'budget');
  assert.equal((await view.run(loop)).end.finish_reason, 'budget_exhausted');
  const raised = await budget({ max_tokens: null, max_cost: 1000 });
  assert.equal(raised.used_tokens, 640);
  assert.equal((await view.run(steps({ text: 'on we go' }))).end.finish_reason, 'completed');
});

test('the same call with the same result over and over ends the chat', async () => {
  const view = await fixture.session({ session_setup: { stuck_after: 4 } });
  const { end, calls } = await view.run(order({ loop: { n: 20, call: call('Bash', { command: 'echo waiting' }) } }));
  assert.deepEqual([end.status, end.finish_reason, end.error.code], ['failed', 'stuck_detected', 'stuck_detected']);
  assert.deepEqual(calls.map((c) => c.status), ['done', 'done', 'done', 'done', 'error']);
});

test('a solution sets rules and limits for its sessions', async () => {
  const view = await fixture.session({ solution_id: 'careful' });
  const { end, calls } = await view.run(order({ loop: { n: 9, call: call('Bash', { command: 'true; git push origin {{i}}' }) } }));
  assert.equal(end.finish_reason, 'max_steps');
  assert.deepEqual(calls.map((c) => c.status), ['error', 'error', 'error']);
});
