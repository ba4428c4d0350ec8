// Sub-agents: the tool Agent (docs/sub-agents.md). The service killed under them is in
// agents_faults.test.mjs.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

// agent is a call of a sub-agent whose answers are the given steps.
const agent = (description, list, more = {}) => call('Agent', { description, prompt: order({ steps: list, note: description }), ...more });
const colours = { question: 'Which colour?', header: 'Colour', options: [{ label: 'red' }, { label: 'blue' }] };
const ask = () => call('AskUserQuestion', { questions: [colours] });
const of = (messages, loop) => messages.filter((m) => m.loop_id === loop);
const resumedEnd = (view, chat) => view.wait('the end of the second round', (e) =>
  e.name === 'chat:end' && e.data.chat_id === chat && e.data.finish_reason !== 'awaiting_answer').then((e) => e.data);

test('sub-agents work at the same time, nested too, and return their last messages', async () => {
  const view = await fixture.session();
  const run = await view.run(steps(
    { calls: [
      agent('first', [bash('echo one'), { first_delay_ms: 400, text: 'one found' }]),
      agent('second', [{ calls: [agent('inner', [{ text: 'from inside' }])] }, { first_delay_ms: 400, text: 'two found' }]),
    ] },
    { text: 'both are there' },
  ));
  assert.deepEqual([run.end.status, run.end.steps], ['completed', 2]);
  const messages = await fixture.rest.messages(view.session);
  const [, asking] = of(messages, 'root');
  assert.deepEqual(asking.tool_calls.map((c) => [c.tool_name, c.status, c.result]),
    [['Agent', 'done', 'one found'], ['Agent', 'done', 'two found']]);
  for (const { id } of asking.tool_calls) {
    const turns = of(messages, id);
    assert.deepEqual(turns.map((t) => [t.role, t.parent_fork_tool_call_id]), [['user', id], ['assistant', id], ['assistant', id]]);
  }
  const inner = of(messages, asking.tool_calls[1].id)[1].tool_calls[0];
  assert.equal(inner.result, 'from inside');
  const user = await fixture.rest.get('/api/auth/me');
  await eventually('an administrator finds them by their owner', async () => {
    const { items } = await fixture.rest.get(`/api/admin/runs?kind=fork&owner_id=${user.id}&session_id=${view.session}`);
    return items.length === 3;
  });
  assert.equal(of(messages, inner.id).length, 2);
  const total = messages.reduce((n, m) => n + m.usage.input_tokens, 0);
  assert.equal(run.end.usage.input_tokens, total, 'their tokens count on the chat');
  const starts = view.events.filter((e) => e.name === 'turn:start' && e.data.role === 'assistant');
  for (const { data } of starts) assert.equal(data.parent_fork_tool_call_id, data.loop_id === 'root' ? null : data.loop_id);
  const request = (await fixture.requests('from inside')).at(-1);
  assert.ok(request, 'its caller gets the result');
});

test('a question of a sub-agent waits while its sibling works, says who asks, and goes on with the answer', async () => {
  const view = await fixture.session();
  const sent = await view.send(steps(
    { calls: [agent('asks', [{ calls: [ask()] }, { text: 'blue it is' }]), agent('works', [{ text: 'worked', hold: true }])] },
    { text: 'done' },
  ));
  const asked = (await view.wait('the question', (e) => e.data.tool_call?.tool_name === 'AskUserQuestion')).data.tool_call;
  assert.equal((await fixture.rest.detail(view.session)).status, 'running');
  const source = JSON.parse(asked.arguments).source_loop;
  assert.deepEqual([source.agent_type, source.description], ['general-purpose', 'asks']);
  assert.equal(source.loop_id, source.parent_tool_call_id);
  const end = await fixture.releaseUntil(view.ended(sent.chat_id));
  assert.equal(end.finish_reason, 'awaiting_answer');
  const [, asking] = of(await fixture.rest.messages(view.session), 'root');
  assert.deepEqual(asking.tool_calls.map((c) => c.status), ['pending', 'done']);
  const late = await fixture.follow(view.session);
  assert.equal(late.ack.pending_questions[0].source_loop.loop_id, source.loop_id);
  const ack = await view.answer(asked.id, { selections: { 0: [1] } });
  assert.equal(ack.resolved, true);
  assert.equal((await resumedEnd(view, sent.chat_id)).finish_reason, 'completed');
  assert.deepEqual(of(await fixture.rest.messages(view.session), 'root')[1].tool_calls.map((c) => c.result), ['blue it is', 'worked']);
});

test('a message instead of an answer ends the sub-agent that asked', async () => {
  const view = await fixture.session();
  const first = await view.run(steps({ calls: [agent('asks', [{ calls: [ask()] }])] }));
  assert.equal(first.end.finish_reason, 'awaiting_answer');
  const next = await view.run(steps({ text: 'instead' }));
  assert.notEqual(next.chat_id, first.chat_id);
  assert.equal(next.end.finish_reason, 'completed');
  const messages = await fixture.rest.messages(view.session);
  assert.deepEqual(messages.flatMap((m) => m.tool_calls.map((c) => c.status)), ['cancelled', 'cancelled']);
});

test('a stop reaches sub-agents and keeps their text', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.send(steps({ calls: [
    agent('streams', [{ text: 'a long tale without end', hold: true, hold_after: 3 }]),
    agent('runs', [bash('echo begun; sleep 600', { timeout: 600_000 })]),
  ] }));
  await view.said('a long tale');
  await view.wait('output', (e) => e.data.patch_type === 'tool_progress');
  assert.equal((await view.client.emit('chat:stop', { session_id: view.session })).stopped, true);
  const end = await view.ended(chat);
  assert.equal(end.finish_reason, 'interrupted');
  const messages = await fixture.rest.messages(view.session);
  for (const m of messages) for (const c of m.tool_calls) assert.equal(c.status, 'cancelled');
  const tale = messages.find((m) => m.role === 'assistant' && m.blocks.some((b) => b.type === 'text' && b.content.startsWith('a long')));
  assert.equal(tale.status, 'interrupted');
});

test('questions of sub-agents within sub-agents name the one that asks, and each answer finds it', async () => {
  const view = await fixture.session();
  const sent = await view.say(
    steps(
      {
        calls: [
          agent('outer', [{ calls: [agent('deep', [{ calls: [ask()] }, { text: 'deep is there' }]), ask()] }, { text: 'outer is there' }]),
          ask(),
        ],
      },
      { text: 'done' },
    ),
  );
  assert.equal((await view.ended(sent.chat_id)).finish_reason, 'awaiting_answer');
  const late = await fixture.follow(view.session);
  const open = late.ack.pending_questions;
  assert.deepEqual(open.map((q) => q.source_loop?.description ?? 'main').sort(), ['deep', 'main', 'outer']);
  for (const [i, q] of open.entries()) {
    assert.equal((await fixture.rest.detail(view.session)).status, 'waiting_for_input', `${i} answered`);
    assert.equal((await view.answer(q.tool_call_id, { selections: { 0: [1] } })).resolved, true);
  }
  assert.equal((await resumedEnd(view, sent.chat_id)).finish_reason, 'completed');
  const messages = await fixture.rest.messages(view.session);
  const [outer] = of(messages, 'root')[1].tool_calls;
  assert.equal(outer.result, 'outer is there');
  assert.equal(of(messages, outer.id)[1].tool_calls[0].result, 'deep is there');
});

test('an explorer reads and cannot write', async () => {
  const view = await fixture.session();
  await fixture.rest.put(`/api/sessions/${view.session}/files/map.txt`, { content: 'treasure-5512\n' });
  const tries = [
    call('Read', { file_path: 'map.txt' }),
    call('Write', { file_path: 'new.txt', content: 'x' }),
    call('Edit', { file_path: 'map.txt', old_string: 'treasure', new_string: 'nothing' }),
    call('Bash', { command: 'rm map.txt' }),
    agent('helper', [{ text: 'never' }]),
  ];
  await view.run(
    steps(
      { calls: [agent('explores', [{ calls: tries }, { text: 'seen explorer-8812' }], { subagent_type: 'explorer' })] },
      { text: 'done' },
    ),
  );
  const messages = await fixture.rest.messages(view.session);
  const [owner] = of(messages, 'root')[1].tool_calls;
  const calls = of(messages, owner.id)[1].tool_calls;
  assert.deepEqual(calls.map((c) => c.status), ['done', 'error', 'error', 'error', 'error']);
  assert.match(calls[0].result, /treasure-5512/);
  for (const c of calls.slice(1)) assert.match(c.result, /does not have it/, c.tool_name);
  assert.equal((await fixture.rest.file(view.session, 'map.txt')), 'treasure-5512\n');
  const [asked] = (await fixture.requests('treasure-5512')).filter((r) => JSON.stringify(r.body).includes('You only look'));
  assert.deepEqual(asked.body.tools.map((t) => t.function.name).sort(), ['Glob', 'Grep', 'Read', 'WebFetch', 'WebSearch']);
});

test('a failed sub-agent ends alone, and its caller gets the error', async () => {
  const view = await fixture.session();
  const run = await view.run(
    steps(
      {
        calls: [
          agent('broken', [
            { text: 'I found a key.', ...bash('true') },
            { status: 400, error_message: 'no' },
          ]),
          agent('whole', [{ text: 'fine' }]),
        ],
      },
      { text: 'done' },
    ),
  );
  assert.equal(run.end.finish_reason, 'completed');
  const [broken, whole] = of(await fixture.rest.messages(view.session), 'root')[1].tool_calls;
  assert.deepEqual([broken.status, whole.status, whole.result], ['error', 'done', 'fine']);
  assert.match(broken.result, /did not complete.*I found a key\./s);
});

test('depth and number are limited, and the limits are said', async () => {
  const view = await fixture.session();
  const nest = (depth) =>
    depth === 0 ? [{ text: 'bottom' }] : [{ calls: [agent(`level ${5 - depth}`, nest(depth - 1))] }, { text: 'up' }];
  const many = Array.from({ length: 12 }, (_, i) => agent(`worker ${i}`, [{ text: `part ${i}`, hold: true }]));
  const sent = await view.send(steps({ calls: many }, { calls: nest(4)[0].calls }, { text: 'done' }));
  const forked = (e) => e.name === 'turn:start' && e.data.role === 'assistant' && e.data.parent_fork_tool_call_id;
  await view.wait('ten at work', () => view.events.filter(forked).length === 10);
  await eventually('some wait for a slot', async () => (await fixture.rest.detail(view.session)).waiting_reason === 'slot');
  await eventually('only sub-agents work', async () => {
    await fixture.mock.post('/control/release');
    return (await fixture.rest.detail(view.session)).waiting_reason === 'child';
  });
  assert.equal((await fixture.releaseUntil(view.ended(sent.chat_id))).finish_reason, 'completed');
  const messages = await fixture.rest.messages(view.session);
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
  const view = await fixture.session({
    session_setup: { agents: [{ name: 'poet', description: 'writes verses', prompt: 'You rhyme.', tools: ['Read'] }] },
  });
  const put = (name, content) => fixture.rest.put(`/api/sessions/${view.session}/files/.agents/agents/${name}`, { content });
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
  const messages = await fixture.rest.messages(view.session);
  const [verse, review, none, model] = of(messages, 'root')[1].tool_calls;
  assert.deepEqual([verse.status, verse.result], ['done', 'moon, June']);
  const [refused] = of(messages, verse.id)[1].tool_calls;
  assert.equal(refused.status, 'error');
  assert.match(refused.result, /does not have it/);
  assert.deepEqual([review.status, review.result], ['done', 'bad']);
  assert.equal(none.status, 'error');
  assert.match(none.result, /general-purpose, explorer, poet, critic.*broken\.md.*front matter/s);
  assert.match(model.result, /The models are: /);
  const [asked] = await fixture.requests('never pleased');
  assert.deepEqual(asked.body.tools.map((t) => t.function.name).sort(), ['Grep', 'Read']);
});

test('types come from the solution of a session', async () => {
  const view = await fixture.session({ solution_id: 'skill_editor' });
  const run = await view.run(
    steps({ calls: [agent('tries', [{ text: 'unclear step-3319' }], { subagent_type: 'trial-user' })] }, { text: 'done' }),
  );
  assert.equal(run.end.status, 'completed');
  const [tries] = of(await fixture.rest.messages(view.session), 'root')[1].tool_calls;
  assert.deepEqual([tries.status, tries.result], ['done', 'unclear step-3319']);
  const plainly = await fixture.session();
  const refused = await plainly.run(
    steps({ calls: [agent('tries', [{ text: 'never' }], { subagent_type: 'trial-user' })] }, { text: 'done' }),
  );
  assert.match(refused.calls[0].result, /no type of sub-agent named/);
});

describe('in the background', () => {
  test('a sub-agent outlives its chat, is listed with its text, and its result is delivered later', async () => {
    const view = await fixture.session();
    const run = await view.run(
      steps(
        {
          calls: [
            agent('digs', [{ text: 'Digging.', hold: true, calls: [call('Bash', { command: 'echo gold' })] }, { text: 'found gold' }], {
              run_in_background: true,
            }),
          ],
        },
        { text: 'it digs' },
      ),
    );
    assert.equal(run.end.finish_reason, 'completed');
    const updated = await fixture.releaseUntil(
      view.wait('the end of the task', (e) => e.name === 'background_task:updated' && e.data.status === 'completed'),
    );
    assert.equal(updated.data.kind, 'agent');
    const messages = await fixture.rest.messages(view.session);
    const [owner] = of(messages, 'root')[1].tool_calls;
    assert.deepEqual(
      of(messages, owner.id).map((m) => [m.role, m.chat_id]),
      Array(3)
        .fill(run.chat_id)
        .map((c, i) => [i ? 'assistant' : 'user', c]),
    );
    const next = await view.run(steps({ text: 'good' }));
    const note = (await fixture.rest.messages(view.session)).find((m) => m.role === 'system' && m.chat_id === next.chat_id);
    assert.match(note.blocks[0].content, /found gold/);
  });

  test('tasks are listed, read and stopped; a stop of the chat, a compaction and a rewind leave them alone', async () => {
    // Not through fixture.session: what was rewound is not in the messages any more.
    const view = await fixture.follow((await fixture.rest.post('/api/sessions', {})).session_id, 0);
    await view.run(steps({ text: 'first' }));
    const run = await view.run(steps(
      { calls: [
        agent('digs', [{ text: 'Digging on and on', hold: true, hold_after: 2 }], { run_in_background: true }),
        call('Bash', { command: 'echo begun; sleep 600', run_in_background: true }),
      ] },
      { text: 'they work' },
    ));
    const path = `/api/sessions/${view.session}/background-tasks`;
    const tasks = async () => (await fixture.rest.get(path)).items.sort((a, b) => (a.kind < b.kind ? -1 : 1));
    const output = (task) => fixture.rest.get(`${path}/${task.task_id}?tail=10`);
    const [digs, shell] = await tasks();
    assert.deepEqual([digs.kind, digs.title, shell.kind, shell.command], ['agent', 'digs', 'shell', 'echo begun; sleep 600']);
    for (const c of run.calls) assert.match(c.result, new RegExp(c.id.replace('call_', 'bg_')));
    await eventually('output of the command', async () => (await output(shell)).lines.join().includes('begun'));
    await eventually('text of the sub-agent', async () => (await output(digs)).lines.join().includes('Digging on'));

    const held = await view.say(steps({ text: 'one two', hold: true, hold_after: 1 }));
    await view.wait('text', (e) => e.data.patch_type === 'add_content' && e.data.chat_id === held.chat_id);
    await view.stop('chat_and_queue');
    assert.equal((await view.ended(held.chat_id)).finish_reason, 'interrupted');
    await fixture.rest.post(`/api/sessions/${view.session}/compact`);
    const [checkpoint] = await fixture.rest.get(`/api/sessions/${view.session}/checkpoints`);
    await fixture.rest.post(`/api/sessions/${view.session}/rewind`, { checkpoint_id: checkpoint.checkpoint_id });
    assert.deepEqual((await tasks()).map((t) => [t.status, t.detached]), [['running', true], ['running', true]]);

    for (const task of await tasks()) await fixture.rest.post(`${path}/${task.task_id}/stop`);
    await eventually('both are stopped', async () => (await tasks()).every((t) => t.status === 'stopped' && t.finished_at));
    assert.match((await output(digs)).lines.join(), /Digging on/);
    assert.equal((await fixture.rest.post(`${path}/${digs.task_id}/stop`)).status, 'stopped', 'once more changes nothing');
    assert.equal((await fixture.rest.call('GET', `${path}/bg_none`)).body.code, 'task_not_found');
    await view.wait(
      'the end of both',
      () => view.events.filter((e) => e.name === 'background_task:updated' && e.data.status === 'stopped').length === 2,
    );
  });

  test('deleting the session ends what works for it', async () => {
    const { session_id: session } = await fixture.rest.post('/api/sessions', {});
    const view = await fixture.follow(session, 0);
    await view.run(
      steps({ calls: [agent('digs', [{ text: 'Deleted-6620 soon', hold: true }], { run_in_background: true })] }, { text: 'it digs' }),
    );
    await view.said('Deleted-6620');
    const working = async () => (await fixture.requests('Deleted-6620')).some((r) => r.outcome === 'in progress');
    assert.equal(await working(), true);
    await fixture.rest.delete(`/api/sessions/${session}`);
    assert.equal((await fixture.rest.call('GET', `/api/sessions/${session}/background-tasks`)).status, 404);
    await eventually('its model call is over', async () => !(await working()));
  });
});
