// Sub-agents: the tool Agent (agent-service.md "What the service does",
// decisions.md sections 3, 4 and 8), and the service killed under them.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { World, bash, call, eventually, order, steps } from './lib/world.mjs';

let world;
before(async () => { world = await World.start(); });
after(() => world?.close());
afterEach(() => world.settle());

// agent is a call of a sub-agent whose answers are the given steps.
const agent = (description, list, more = {}) => call('Agent', { description, prompt: order({ steps: list, note: description }), ...more });
const colours = { question: 'Which colour?', header: 'Colour', options: [{ label: 'red' }, { label: 'blue' }] };
const ask = () => call('AskUserQuestion', { questions: [colours] });
const of = (messages, loop) => messages.filter((m) => m.loop_id === loop);
const resumedEnd = (view, chat) => view.wait('the end of the second round', (e) =>
  e.name === 'chat:end' && e.data.chat_id === chat && e.data.finish_reason !== 'awaiting_answer').then((e) => e.data);

test('sub-agents work at the same time, nested too, and give back their last messages', async () => {
  const view = await world.session();
  const run = await view.run(steps(
    { calls: [
      agent('first', [bash('echo one'), { first_delay_ms: 400, text: 'one found' }]),
      agent('second', [{ calls: [agent('inner', [{ text: 'from inside' }])] }, { first_delay_ms: 400, text: 'two found' }]),
    ] },
    { text: 'both are there' },
  ));
  assert.deepEqual([run.end.status, run.end.steps], ['completed', 2]);
  const messages = await world.rest.messages(view.session);
  const [, asking] = of(messages, 'root');
  assert.deepEqual(asking.tool_calls.map((c) => [c.tool_name, c.status, c.result]),
    [['Agent', 'done', 'one found'], ['Agent', 'done', 'two found']]);
  for (const { id } of asking.tool_calls) {
    const turns = of(messages, id);
    assert.deepEqual(turns.map((t) => [t.role, t.parent_fork_tool_call_id]), [['user', id], ['assistant', id], ['assistant', id]]);
  }
  const inner = of(messages, asking.tool_calls[1].id)[1].tool_calls[0];
  assert.equal(inner.result, 'from inside');
  assert.equal(of(messages, inner.id).length, 2);
  const total = messages.reduce((n, m) => n + m.usage.input_tokens, 0);
  assert.equal(run.end.usage.input_tokens, total, 'their tokens count on the chat');
  const starts = view.events.filter((e) => e.name === 'turn:start' && e.data.role === 'assistant');
  for (const { data } of starts) assert.equal(data.parent_fork_tool_call_id, data.loop_id === 'root' ? null : data.loop_id);
  const told = (await world.requests('from inside')).at(-1);
  assert.ok(told, 'the one that called it is told');
});

test('a question of a sub-agent waits while its sibling works, says who asks, and goes on with the answer', async () => {
  const view = await world.session();
  const sent = await view.send(steps(
    { calls: [agent('asks', [{ calls: [ask()] }, { text: 'blue it is' }]), agent('works', [{ first_delay_ms: 1200, text: 'worked' }])] },
    { text: 'done' },
  ));
  const asked = (await view.wait('the question', (e) => e.data.tool_call?.tool_name === 'AskUserQuestion')).data.tool_call;
  assert.equal((await world.rest.detail(view.session)).status, 'running');
  const source = JSON.parse(asked.arguments).source_loop;
  assert.deepEqual([source.agent_type, source.description], ['general-purpose', 'asks']);
  assert.equal(source.loop_id, source.parent_tool_call_id);
  const end = await view.ended(sent.chat_id);
  assert.equal(end.finish_reason, 'awaiting_answer');
  const [, asking] = of(await world.rest.messages(view.session), 'root');
  assert.deepEqual(asking.tool_calls.map((c) => c.status), ['pending', 'done']);
  const late = await world.follow(view.session);
  assert.equal(late.ack.pending_questions[0].source_loop.loop_id, source.loop_id);
  const ack = await view.answer(asked.id, { selections: { 0: [1] } });
  assert.equal(ack.resolved, true);
  assert.equal((await resumedEnd(view, sent.chat_id)).finish_reason, 'completed');
  assert.deepEqual(of(await world.rest.messages(view.session), 'root')[1].tool_calls.map((c) => c.result), ['blue it is', 'worked']);
});

test('a message instead of an answer ends the sub-agent that asked', async () => {
  const view = await world.session();
  const first = await view.run(steps({ calls: [agent('asks', [{ calls: [ask()] }])] }));
  assert.equal(first.end.finish_reason, 'awaiting_answer');
  const next = await view.run(steps({ text: 'instead' }));
  assert.notEqual(next.chat_id, first.chat_id);
  assert.equal(next.end.finish_reason, 'completed');
  const messages = await world.rest.messages(view.session);
  assert.deepEqual(messages.flatMap((m) => m.tool_calls.map((c) => c.status)), ['cancelled', 'cancelled']);
});

test('a stop reaches sub-agents and keeps their text', async () => {
  const view = await world.session();
  const { chat_id: chat } = await view.send(steps({ calls: [
    agent('streams', [{ text: 'a long tale without end', hold: true, hold_after: 3 }]),
    agent('runs', [bash('echo begun; sleep 60')]),
  ] }));
  await view.wait('text', (e) => e.data.patch_type === 'add_content');
  await view.wait('output', (e) => e.data.patch_type === 'tool_progress');
  const began = Date.now();
  assert.equal((await view.client.emit('chat:stop', { session_id: view.session })).stopped, true);
  const end = await view.ended(chat);
  assert.equal(end.finish_reason, 'interrupted');
  assert.ok(Date.now() - began < 3000, `took ${Date.now() - began} ms`);
  const messages = await world.rest.messages(view.session);
  for (const m of messages) for (const c of m.tool_calls) assert.equal(c.status, 'cancelled');
  const tale = messages.find((m) => m.role === 'assistant' && m.blocks.some((b) => b.type === 'text' && b.content.startsWith('a long')));
  assert.equal(tale.status, 'interrupted');
});

test('depth and number are limited, and the limits are said', async () => {
  const view = await world.session();
  const nest = (depth) => (depth === 0 ? [{ text: 'bottom' }] : [{ calls: [agent(`level ${5 - depth}`, nest(depth - 1))] }, { text: 'up' }]);
  const many = Array.from({ length: 12 }, (_, i) => agent(`worker ${i}`, [{ first_delay_ms: 500, text: `part ${i}` }]));
  const sent = await view.send(steps({ calls: many }, { calls: nest(4)[0].calls }, { text: 'done' }));
  await eventually('some wait for a slot', async () => (await world.rest.detail(view.session)).waiting_reason === 'slot');
  await eventually('only sub-agents work', async () => (await world.rest.detail(view.session)).waiting_reason === 'child');
  assert.equal((await view.ended(sent.chat_id)).finish_reason, 'completed');
  const messages = await world.rest.messages(view.session);
  const [, crowd, deep] = of(messages, 'root');
  assert.deepEqual(crowd.tool_calls.map((c) => c.result), many.map((_, i) => `part ${i}`));
  let open = 0;
  let most = 0;
  const forks = new Set(messages.filter((m) => m.parent_fork_tool_call_id && m.role === 'assistant').map((m) => m.turn_id));
  for (const { name, data } of view.events.filter((e) => forks.has(e.data.turn_id))) {
    if (name === 'turn:start') most = Math.max(most, ++open);
    if (name === 'turn:end') open--;
  }
  assert.equal(most, 10);
  let at = deep.tool_calls[0];
  for (let n = 0; n < 3; n++) at = of(messages, at.id)[1].tool_calls[0];
  assert.equal(at.status, 'error');
  assert.match(at.result, /3 deep/);
});

test('types come from the session and from its workspace; files that cannot be used are named', async () => {
  const view = await world.session({ session_setup: { agents: [{ name: 'poet', description: 'writes verses', prompt: 'You rhyme.', tools: ['Read'] }] } });
  const put = (name, content) => world.rest.put(`/api/sessions/${view.session}/files/.agents/agents/${name}`, { content });
  await put('critic.md', '---\nname: critic\ndescription: finds faults\ntools: Read, Grep\n---\nYou are never pleased.\n');
  await put('broken.md', 'no front matter');
  await put('thief.md', '---\nname: poet\ndescription: not the real one\n---\n');
  const run = await view.run(steps(
    { calls: [
      agent('verse', [{ calls: [call('Bash', { command: 'echo no' })] }, { text: 'moon, June' }], { subagent_type: 'poet' }),
      agent('review', [{ text: 'bad' }], { subagent_type: 'critic' }),
      agent('none', [{ text: 'never' }], { subagent_type: 'dancer' }),
      agent('model', [{ text: 'never' }], { model: 'no-such-model' }),
    ] },
    { text: 'done' },
  ));
  assert.equal(run.end.status, 'completed');
  const messages = await world.rest.messages(view.session);
  const [verse, review, none, model] = of(messages, 'root')[1].tool_calls;
  assert.deepEqual([verse.status, verse.result], ['done', 'moon, June']);
  const [refused] = of(messages, verse.id)[1].tool_calls;
  assert.equal(refused.status, 'error');
  assert.match(refused.result, /does not have it/);
  assert.deepEqual([review.status, review.result], ['done', 'bad']);
  assert.equal(none.status, 'error');
  assert.match(none.result, /general-purpose, explorer, poet, critic.*broken\.md.*front matter/s);
  assert.match(model.result, /The models are: /);
  const [asked] = await world.requests('never pleased');
  assert.deepEqual(asked.body.tools.map((t) => t.function.name).sort(), ['Grep', 'Read']);
});

describe('in the background', () => {
  const task = async (view) => (await world.rest.get(`/api/sessions/${view.session}/background-tasks`)).items?.[0];

  test('a sub-agent outlives its chat, is listed with its text, and its result is told later', async () => {
    const view = await world.session();
    const run = await view.run(steps(
      { calls: [agent('digs', [{ first_delay_ms: 1000, text: 'Digging.', calls: [call('Bash', { command: 'echo gold' })] }, { text: 'found gold' }], { run_in_background: true })] },
      { text: 'it digs' },
    ));
    assert.equal(run.end.finish_reason, 'completed');
    const updated = await view.wait('the end of the task', (e) => e.name === 'background_task:updated' && e.data.status === 'completed');
    assert.equal(updated.data.kind, 'agent');
    const messages = await world.rest.messages(view.session);
    const [owner] = of(messages, 'root')[1].tool_calls;
    assert.deepEqual(of(messages, owner.id).map((m) => [m.role, m.chat_id]), Array(3).fill(run.chat_id).map((c, i) => [i ? 'assistant' : 'user', c]));
    const next = await view.run(steps({ text: 'good' }));
    const note = (await world.rest.messages(view.session)).find((m) => m.role === 'system' && m.chat_id === next.chat_id);
    assert.match(note.blocks[0].content, /found gold/);
  });
});

test('sub-agents go on after the service was killed, and repeat nothing', { timeout: 120_000 }, async () => {
  const own = await World.start();
  try {
    const { session_id: session } = await own.rest.post('/api/sessions', {});
    let view = await (await own.client()).subscribe(session);
    const { chat_id: chat } = await view.send(steps(
      { calls: [
        agent('counts', [bash('echo x >> count; sleep 0.5'), { text: 'word by word and on', delay_ms: 400 }]),
        agent('nests', [{ calls: [agent('inner', [bash('echo y >> inner'), { text: 'inside', first_delay_ms: 1500 }])] }, { text: 'nested' }]),
        agent('asks', [{ calls: [ask()] }, { text: 'asked' }]),
      ] },
      { text: 'done' },
    ));
    await view.wait('the question', (e) => e.data.tool_call?.tool_name === 'AskUserQuestion');
    await view.wait('the marks', (e) => e.data.patch_type === 'tool_result');
    await own.server.kill();
    await own.server.start();
    view = await (await own.client()).subscribe(session, 0);
    const end = await view.ended(chat);
    assert.equal(end.finish_reason, 'awaiting_answer');
    const question = [...view.rules.turns.values()].flatMap((t) => [...t.calls.values()]).find((c) => c.tool_name === 'AskUserQuestion');
    assert.equal((await view.answer(question.id, { selections: { 0: [0] } })).resolved, true);
    assert.equal((await resumedEnd(view, chat)).finish_reason, 'completed');
    const messages = await own.rest.messages(session);
    const calls = of(messages, 'root')[1].tool_calls;
    assert.deepEqual(calls.map((c) => [c.status, c.result]),
      [['done', 'word by word and on'], ['done', 'nested'], ['done', 'asked']]);
    for (const file of ['count', 'inner']) {
      const content = await own.rest.file(session, file);
      assert.equal(content.trim().split('\n').length, 1, `${file} was written more than once`);
    }
    own.adopt(session, own.rest);
    await own.settle();
  } finally {
    await own.close();
  }
});
