// The whole flow of a client: connect, subscribe, send, follow, answer, resume (docs/events.md).
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Client } from './lib/client.mjs';
import { Fixture, bash, order, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());

for (const transports of [['websocket'], ['polling'], ['polling', 'websocket']]) {
  describe(`client flow over ${transports.join(', then ')}`, () => {
    afterEach(() => fixture.settle());

    test('a chat with text and a tool, streamed in the specified order', async () => {
      const { session_id: id } = await fixture.rest.post('/api/sessions', { intent: 'the flow' });
      const client = await fixture.client({ transports });
      const view = await client.subscribe(id);
      assert.equal(view.ack.session_id, id);
      assert.equal(view.ack.status, 'created');
      assert.equal(view.ack.waiting_reason, 'none');
      assert.equal(view.ack.seq, 0);
      assert.deepEqual([view.ack.open_turns, view.ack.pending_questions, view.ack.queue], [[], [], []]);

      const text = 'Grüße 👩‍👩‍👧‍👦 an alle: 你好, and good day to you.';
      const { end, turns, chat_id: chat, turn_id: user } = await view.run(steps(
        { text: 'I look first.', ...bash('echo made > made.txt; cat made.txt') }, { text, delay_ms: 15, chunk: 3 }));
      assert.equal(end.status, 'completed');
      assert.equal(end.finish_reason, 'completed');
      assert.equal(end.steps, 2);
      assert.equal(end.error, undefined);
      assert.deepEqual(turns.map((t) => t.status), ['completed', 'completed']);
      assert.equal(view.rules.text(turns[1].id), text);
      assert.equal(view.rules.turns.get(user).role, 'user');

      const shape = view.shape(chat).filter((name, i, all) => name !== 'tool_progress' && (name !== 'add_content' || all[i - 1] !== name));
      assert.deepEqual(shape, [
        'chat:start', 'turn:start', 'turn:end',
        'turn:start', 'add_content', 'add_tool_call', 'turn:end', 'tool_result',
        'turn:start', 'add_content', 'turn:end', 'chat:end',
      ]);
      const start = view.events.find((e) => e.name === 'chat:start').data;
      assert.equal(start.trigger, 'user');
      assert.equal(start.mode, 'executing');
      assert.equal(start.headless, false);
      assert.equal(start.resumed, false);

      const messages = await fixture.rest.messages(id);
      assert.deepEqual(messages.map((m) => m.role), ['user', 'assistant', 'assistant']);
      assert.equal(messages[2].blocks.map((b) => b.content).join(''), text);
      assert.equal(messages[1].tool_calls[0].result.trim(), 'made');
      assert.equal((await fixture.rest.detail(id)).status, 'completed');
      assert.equal(await fixture.rest.file(id, 'made.txt'), 'made\n');

      const gone = await client.emit('session:unsubscribe', { session_id: id });
      assert.deepEqual(gone, { ok: true, session_id: id });
      const count = view.events.length;
      const other = await fixture.follow(id);
      await other.run(steps({ text: 'this is not heard' }));
      assert.equal(view.events.length, count, 'events came after the unsubscribe');
      assert.deepEqual(await fixture.rest.delete(`/api/sessions/${id}`), { deleted: true });
      assert.equal((await fixture.rest.call('GET', `/api/sessions/${id}`)).status, 404);
      assert.equal((await client.emit('session:subscribe', { session_id: id })).error.code, 'session_not_found');
    });

    test('chat:stop interrupts a running chat', async () => {
      const view = await fixture.session({}, { transports });
      const { chat_id: chat } = await view.say(steps({ text: 'one two three', hold: true, hold_after: 2 }));
      await view.said('one two');
      assert.deepEqual(await view.stop(), { ok: true, stopped: true });
      const end = await view.ended(chat);
      assert.equal(end.status, 'interrupted');
      assert.equal(end.finish_reason, 'interrupted');
      assert.equal(view.rules.assistants(chat)[0].status, 'interrupted');
      assert.match(view.rules.text(view.rules.assistants(chat)[0].id), /^one two/);
    });
  });
}

describe('the edges of the event interface', () => {
  afterEach(() => fixture.settle());

  for (const transports of [['websocket'], ['polling']]) {
    for (const token of ['el_wrong', '', undefined]) {
      test(`token ${JSON.stringify(token)} over ${transports} is refused`, async () => {
        const err = await Client.connect(fixture.server.url, token, { transports }).then(() => undefined, (e) => e);
        assert.ok(err, 'it was accepted');
        assert.equal(err.message, 'unauthorized');
        assert.deepEqual(err.data, { code: 'unauthorized' });
      });
    }
  }

  test('what cannot be understood gets an error and harms no other client', async () => {
    const view = await fixture.session();
    const client = view.client;
    const code = async (name, data) => (await client.emit(name, data)).error?.code;
    assert.equal(await code('session:subscribe', {}), 'invalid_request');
    assert.equal(await code('session:subscribe', 'text'), 'invalid_request');
    assert.equal(await code('session:subscribe', { session_id: 'none' }), 'session_not_found');
    assert.equal(await code('chat:send', { session_id: view.session, message: '' }), 'invalid_request');
    assert.equal(await code('chat:send', { session_id: view.session, message: 'x', mode: 'dreaming' }), 'invalid_request');
    assert.equal(await code('chat:send', { session_id: view.session, message: 'x', delivery: 'pigeon' }), 'invalid_request');
    assert.equal(await code('chat:send', { session_id: view.session, message: 'x', output_schema: { type: 'nothing' } }), 'invalid_schema');
    assert.ok(await code('no:such:event', {}));
    client.socket.emit('chat:send', { session_id: view.session, message: '' }); // no callback
    await view.wait('session:error', (e) => e.name === 'session:error');
    assert.equal(client.errors[0].event, 'chat:send');
    assert.equal(client.errors[0].error.code, 'invalid_request');
    assert.deepEqual(await client.emit('session:unsubscribe', { session_id: '01890000-0000-7000-8000-000000000000' }),
      { ok: true, session_id: '01890000-0000-7000-8000-000000000000' });
    assert.equal((await view.run(steps({ text: 'well' }))).end.status, 'completed');
  });

  test('a message over 10 MB gets its error, the connection stays', async () => {
    const view = await fixture.session();
    const ack = await view.send('x'.repeat(11 << 20));
    assert.equal(ack.ok, false);
    assert.ok(ack.error.code);
    const { end } = await view.run(order({ said: 'y'.repeat(200_000), steps: [{ text: 'long enough' }] }));
    assert.equal(end.status, 'completed');
  });

  test('a turn, its tool call and a file are annotated', async () => {
    const view = await fixture.session();
    await view.run(steps({ text: 'I look.', ...bash('echo made > made.txt') }, { text: 'done' }));
    const turn = (await fixture.rest.messages(view.session))[1];
    const marks = [
      [turn.turn_id, { kind: 'comment', target: { block_index: 0 }, text: 'why?' }],
      [turn.tool_calls[0].id, { kind: 'rating', value: 4 }],
      [view.session, { kind: 'label', target: { path: 'made.txt' }, labels: ['report'] }],
    ];
    for (const [payload, mark] of marks) {
      const made = await fixture.rest.post(`/api/payloads/${payload}/annotations`, mark);
      const { items, total } = await fixture.rest.get(`/api/payloads/${payload}/annotations`);
      assert.deepEqual([items, total], [[made], 1]);
      assert.deepEqual({ ...made, ...mark }, made);
    }
  });

  test('planning looks and does not act', async () => {
    const view = await fixture.session();
    const { end, calls, turns } = await view.run(steps(
      { calls: [{ name: 'Bash', arguments: { command: 'touch acted' } }, { name: 'Glob', arguments: { pattern: '*' } }] },
      { calls: [{ name: 'SubmitPlan', arguments: { title: 'A plan', steps: [{ id: 'a', title: 'First', detail: 'do it' }] } }] },
      { text: 'That is the plan.' }), { mode: 'planning' });
    assert.equal(end.status, 'completed');
    assert.deepEqual(calls.map((c) => [c.tool_name, c.status]), [['Bash', 'error'], ['Glob', 'done'], ['SubmitPlan', 'done']]);
    assert.equal((await fixture.rest.call('GET', `/api/sessions/${view.session}/files/acted`)).status, 404);
    const stored = (await fixture.rest.messages(view.session)).find((m) => m.turn_id === turns[1].id);
    const plan = stored.blocks.find((b) => b.type === 'plan');
    assert.equal(JSON.parse(plan.content).title, 'A plan');
  });
});
