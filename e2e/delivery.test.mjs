// Messages sent while a chat runs, and stops (docs/concepts.md#the-queue).
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, bash, eventually, order, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

// held is a chat whose model call stands still after its first words, until
// released.
const held = (text = 'I think about it', more = {}) => ({ text, hold: true, hold_after: 2, ...more });

describe('enqueue', () => {
  test('queued messages run in their order, each as a chat of its own', async () => {
    const view = await fixture.session();
    const first = await view.say(steps(held('first answer stands')));
    assert.deepEqual([first.delivery_applied, first.position, first.duplicate], ['run', 0, false]);
    await view.said('first answer');
    const queued = [];
    for (const [i, name] of ['second', 'third', 'fourth'].entries()) {
      const ack = await view.say(steps({ text: `${name} answer` }), { delivery: i === 1 ? 'enqueue' : undefined });
      assert.deepEqual([ack.delivery_applied, ack.position], ['enqueue', i + 1]);
      queued.push(ack);
    }
    const late = await fixture.follow(view.session);
    assert.deepEqual(late.ack.queue.map((q) => [q.chat_id, q.turn_id, q.position]), queued.map((q, i) => [q.chat_id, q.turn_id, i + 1]));
    assert.equal(late.ack.status, 'running');
    assert.equal(late.ack.chat_id, first.chat_id);
    assert.equal((await fixture.rest.detail(view.session)).queue_length, 3);
    await fixture.releaseUntil(view.ended(first.chat_id));
    for (const { chat_id: chat } of [first, ...queued]) assert.equal((await view.ended(chat)).status, 'completed');
    const order = view.events.filter((e) => e.name === 'chat:start').map((e) => e.data.chat_id);
    assert.deepEqual(order, [first, ...queued].map((q) => q.chat_id));
    await view.wait('the last update', (e) => e.name === 'session:updated'
      && e.data.status === 'completed' && e.data.queue_length === 0 && e.data.waiting_reason === 'none');
  });

  test('messages sent at once keep their order', async () => {
    const view = await fixture.session();
    const acks = await Promise.all([...Array(8).keys()].map((i) => view.say(steps(i ? { text: `answer ${i}` } : held('answer 0')))));
    assert.deepEqual(acks.map((a) => a.position), [...Array(8).keys()]); // the first one runs, and is held
    await fixture.releaseUntil(view.ended(acks[0].chat_id));
    for (const { chat_id: chat } of acks) assert.equal((await view.ended(chat)).status, 'completed');
    assert.deepEqual(view.events.filter((e) => e.name === 'chat:start').map((e) => e.data.chat_id), acks.map((a) => a.chat_id));
  });
});

describe('steer', () => {
  test('joins the running chat before its next model call', async () => {
    const view = await fixture.session();
    const first = await view.say(order({ sticky: true, steps: [held('I run a tool', bash('true')), { text: 'heard you' }] }));
    await view.said('I run');
    const ack = await view.say('and mind the gap-4711', { delivery: 'steer' });
    assert.deepEqual([ack.delivery_applied, ack.chat_id, ack.position], ['steer', first.chat_id, 0]);
    assert.equal((await fixture.releaseUntil(view.ended(first.chat_id))).status, 'completed');
    assert.equal(view.rules.turns.get(ack.turn_id).chat, first.chat_id);
    const roles = (await fixture.rest.messages(view.session)).map((m) => m.role);
    assert.deepEqual(roles, ['user', 'assistant', 'user', 'assistant']);
    const requests = await fixture.requests('gap-4711');
    assert.equal(requests.length, 1);
    assert.equal(
      requests[0].body.messages.at(-1).content.includes?.('gap-4711') ??
        JSON.stringify(requests[0].body.messages.at(-1)).includes('gap-4711'),
      true,
    );
    assert.equal(view.events.filter((e) => e.name === 'chat:end').length, 1);
  });

  test('a message that comes during the last answer makes the chat go on', async () => {
    const view = await fixture.session();
    const first = await view.say(steps(held('my last words')));
    await view.said('my last');
    const ack = await view.say(steps({ text: 'one thing more' }), { delivery: 'steer' });
    assert.equal(ack.chat_id, first.chat_id);
    const end = await fixture.releaseUntil(view.ended(first.chat_id));
    assert.deepEqual([end.status, end.steps], ['completed', 2]);
    assert.equal(view.rules.text(view.rules.assistants(first.chat_id)[1].id), 'one thing more');
  });

  test('on an idle session it simply runs', async () => {
    const view = await fixture.session();
    const { end, delivery_applied: applied } = await view.run(steps({ text: 'here' }), { delivery: 'steer' });
    assert.deepEqual([end.status, applied], ['completed', 'run']);
  });

  test('a steered message of a chat that is stopped is not lost', async () => {
    const view = await fixture.session();
    const first = await view.say(steps(held('my last words')));
    await view.said('my last');
    const ack = await view.say(steps({ text: 'still here' }), { delivery: 'steer' });
    await view.stop();
    assert.equal((await view.ended(first.chat_id)).status, 'interrupted');
    const turn = await view.wait('the steered turn', (e) => e.name === 'turn:start' && e.data.turn_id === ack.turn_id);
    assert.equal((await view.ended(turn.data.chat_id, { from: view.events.indexOf(turn) })).status, 'completed');
  });
});

test('interrupt stops the running chat, then runs before the queue', async () => {
  const view = await fixture.session();
  const first = await view.say(steps(held('never finished')));
  await view.said('never');
  const queued = await view.say(steps({ text: 'from the queue' }));
  const urgent = await view.say(steps({ text: 'urgent' }), { delivery: 'interrupt' });
  assert.equal(urgent.delivery_applied, 'interrupt');
  assert.equal((await view.ended(first.chat_id)).status, 'interrupted');
  assert.equal((await view.ended(urgent.chat_id)).status, 'completed');
  assert.equal((await view.ended(queued.chat_id)).status, 'completed');
  assert.deepEqual(view.events.filter((e) => e.name === 'chat:start').map((e) => e.data.chat_id),
    [first, urgent, queued].map((a) => a.chat_id));
});

describe('reject', () => {
  test('is refused while a chat runs, and accepted after it', async () => {
    const view = await fixture.session();
    const first = await view.say(steps(held('busy now')));
    await view.said('busy');
    const refused = await view.send('me too', { delivery: 'reject' });
    assert.equal(refused.ok, false);
    assert.equal(refused.error.code, 'session_busy');
    assert.equal(typeof refused.error.retryable, 'boolean');
    await fixture.releaseUntil(view.ended(first.chat_id));
    assert.equal((await view.run(steps({ text: 'my turn' }), { delivery: 'reject' })).end.status, 'completed');
  });

  test('is refused from the acknowledgement of a message on', async () => {
    const view = await fixture.session();
    const [first, refused] = await Promise.all([
      view.send(steps({ text: 'first words', hold: true })),
      view.send(steps({ text: 'second' }), { delivery: 'reject' }),
    ]);
    assert.equal(first.ok, true);
    assert.equal(refused.error?.code, 'session_busy');
    await fixture.releaseUntil(view.ended(first.chat_id));
  });
});

describe('at the very beginning of a chat', () => {
  test('a stop right after the acknowledgement stops it', async () => {
    for (let i = 0; i < 5; i++) {
      const view = await fixture.session();
      const [ack, stopped] = await Promise.all([view.send(steps({ text: `words words ${i}`, hold: true })), view.stop()]);
      assert.deepEqual(stopped, { ok: true, stopped: true });
      const end = await view.ended(ack.chat_id);
      assert.equal(end.status, 'interrupted');
    }
  });

  test('an interrupt right after the acknowledgement takes its place', async () => {
    const view = await fixture.session();
    const [first, urgent] = await Promise.all([
      view.send(steps({ text: 'words words', hold: true })), view.send(steps({ text: 'urgent' }), { delivery: 'interrupt' }),
    ]);
    assert.equal((await view.ended(first.chat_id)).status, 'interrupted');
    assert.equal((await view.ended(urgent.chat_id)).status, 'completed');
  });

  test('a steering message right after the acknowledgement joins the chat', async () => {
    const view = await fixture.session();
    const [first, joined] = await Promise.all([
      view.send(order({ sticky: true, steps: [{ text: 'I look', hold: true, ...bash('true') }, { text: 'done' }] })),
      view.send('by the way', { delivery: 'steer' }),
    ]);
    assert.deepEqual([joined.delivery_applied, joined.chat_id], ['steer', first.chat_id]);
    assert.equal((await fixture.releaseUntil(view.ended(first.chat_id))).status, 'completed');
    assert.equal(view.rules.turns.get(joined.turn_id).chat, first.chat_id);
  });
});

describe('client_message_id', () => {
  test('the same id again is the same message', async () => {
    const view = await fixture.session();
    const id = { client_message_id: 'a-1' };
    const [one, two] = await Promise.all([view.say(bashOnce('log'), id), view.say(bashOnce('log'), id)]);
    assert.deepEqual([one.duplicate, two.duplicate].sort(), [false, true]);
    assert.deepEqual([one.chat_id, one.turn_id], [two.chat_id, two.turn_id]);
    await view.ended(one.chat_id);
    const three = await view.say(bashOnce('log'), id);
    assert.deepEqual([three.duplicate, three.chat_id], [true, one.chat_id]);
    const other = await view.run(steps({ text: 'another' }), { client_message_id: 'a-2' });
    assert.equal(other.duplicate, false);
    assert.equal((await fixture.rest.messages(view.session)).filter((m) => m.role === 'user').length, 2);
    assert.equal(await fixture.rest.file(view.session, 'log'), 'once\n');
  });

  test('is a matter of one session', async () => {
    const [a, b] = [await fixture.session(), await fixture.session()];
    for (const view of [a, b]) assert.equal((await view.run(steps({ text: 'hi' }), { client_message_id: 'same' })).duplicate, false);
  });
});

const bashOnce = (file) => steps(bash(`echo once >> ${file}`), { text: 'done' });

describe('stop', () => {
  test('in a stream keeps the text so far', async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(steps(held('the text so far and more', { hold_after: 4 })));
    await view.said('the text so far');
    assert.deepEqual(await view.stop(), { ok: true, stopped: true });
    const end = await view.ended(chat);
    assert.deepEqual([end.status, end.finish_reason], ['interrupted', 'interrupted']);
    const [turn] = view.rules.assistants(chat);
    assert.equal(turn.status, 'interrupted');
    const stored = (await fixture.rest.messages(view.session)).find((m) => m.turn_id === turn.id);
    assert.equal(stored.blocks[0].content.trim(), 'the text so far');
    assert.equal((await fixture.rest.detail(view.session)).status, 'interrupted');
    // The model reads on from there.
    const next = await view.run(steps({ text: 'going on' }));
    assert.equal(next.end.status, 'completed');
  });

  test('in a tool kills its whole process tree and cancels the call', async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(
      steps({
        calls: [
          {
            name: 'Bash',
            arguments: {
              command:
                '(while sleep 0.1; do echo beat >> beats; done) & setsid sh -c "while sleep 0.1; do echo beat >> beats; ' +
                  'done" & echo begun; sleep 600',
              timeout: 600_000,
            },
          },
          { name: 'Bash', arguments: { command: 'echo quick' } },
        ],
      }),
    );
    await view.patch('tool_progress', (p) => p.text_delta.includes('begun'));
    await view.patch('tool_result', (p) => p.result.includes('quick'));
    assert.deepEqual(await view.stop(), { ok: true, stopped: true });
    assert.equal((await view.ended(chat)).status, 'interrupted');
    const [slow, quick] = view.callsOf(chat);
    assert.deepEqual([slow.status, quick.status], ['cancelled', 'done']);
    const beats = await fixture.rest.file(view.session, 'beats').catch(() => '');
    await new Promise((resolve) => setTimeout(resolve, 1500)); // a survivor would write by now
    assert.equal(await fixture.rest.file(view.session, 'beats').catch(() => ''), beats, 'a process outlived the stop');
    assert.equal((await view.run(steps(bash('echo back'), { text: 'fine' }))).end.status, 'completed');
  });

  test('of what does not run is no error', async () => {
    const view = await fixture.session();
    assert.deepEqual(await view.stop(), { ok: true, stopped: false });
    await view.run(steps({ text: 'done' }));
    assert.deepEqual(await view.stop(), { ok: true, stopped: false });
    assert.deepEqual(await view.stop('chat_and_queue'), { ok: true, stopped: false });
    assert.equal((await view.client.emit('chat:stop', { session_id: view.session, scope: 'everything' })).error.code, 'invalid_request');
    assert.deepEqual(await fixture.rest.post(`/api/sessions/${view.session}/stop`), { stopped: false });
  });

  test('twice ends the chat once', async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(steps(held('going on and on')));
    await view.said('going');
    await Promise.all([view.stop(), view.stop(), fixture.rest.post(`/api/sessions/${view.session}/stop`)]);
    await view.ended(chat);
    assert.equal((await view.run(steps({ text: 'next' }))).end.status, 'completed');
    assert.equal(view.events.filter((e) => e.name === 'chat:end').length, 2);
  });

  test('leaves the queue, which goes on by itself', async () => {
    const view = await fixture.session();
    const first = await view.say(steps(held('first words here')));
    await view.said('first');
    const second = await view.say(steps({ text: 'second' }));
    await view.stop();
    assert.equal((await view.ended(first.chat_id)).status, 'interrupted');
    assert.equal((await view.ended(second.chat_id)).status, 'completed');
  });

  test('chat_and_queue ends each queued chat too', async () => {
    const view = await fixture.session();
    const first = await view.say(steps(held('first words here')));
    await view.said('first');
    const queued = [await view.say('dropped-0815'), await view.say('dropped-0816')];
    assert.deepEqual(await view.stop('chat_and_queue'), { ok: true, stopped: true });
    for (const { chat_id: chat } of [first, ...queued]) {
      const end = await view.ended(chat);
      assert.deepEqual([end.status, end.finish_reason], ['interrupted', 'interrupted']);
    }
    assert.equal((await fixture.rest.detail(view.session)).queue_length, 0);
    await eventually('the session is interrupted', async () => (await fixture.rest.detail(view.session)).status === 'interrupted');
    assert.equal((await view.run(steps({ text: 'fresh' }))).end.status, 'completed');
    assert.equal((await fixture.requests('dropped-08')).length, 0);
  });

  test('while the model is waited for', async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(steps({ text: 'late', first_delay_ms: 60000 }));
    await view.wait('the assistant turn', (e) => e.name === 'turn:start' && e.data.role === 'assistant');
    await view.stop();
    assert.equal((await view.ended(chat)).status, 'interrupted');
    assert.equal(view.rules.assistants(chat)[0].status, 'interrupted');
  });

  test('while a refused model call waits for its next try', async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(steps({ status: 429, retry_after: 60 }));
    await view.patch('retry');
    await view.stop();
    assert.equal((await view.ended(chat)).status, 'interrupted');
  });
});

describe('a session that is deleted', () => {
  test('while its chat runs: tools end, its followers are notified, nothing is left', async () => {
    const { session_id: id } = await fixture.rest.post('/api/sessions', {});
    const client = await fixture.client();
    const view = await client.subscribe(id);
    await view.say(steps(bash('echo begun; sleep 600'), { text: 'never' }));
    await view.patch('tool_progress', (p) => p.text_delta.includes('begun'));
    await view.say('queued, and never run');
    assert.deepEqual(await fixture.rest.delete(`/api/sessions/${id}`), { deleted: true });
    await eventually(
      'the follower is notified',
      () =>
        client.errors.some((e) => e.session_id === id && e.error.code === 'session_not_found') ||
        view.events.some((e) => e.name === 'chat:end'),
    );
    for (const path of ['', '/messages', '/ls/', '/events'])
      assert.equal((await fixture.rest.call('GET', `/api/sessions/${id}${path}`)).status, 404, path);
    assert.equal((await view.send('hello?')).error.code, 'session_not_found');
    const list = await fixture.rest.get('/api/sessions?limit=100');
    assert.ok(!list.items.some((s) => s.id === id));
    assert.equal((await fixture.requests('queued, and never run')).length, 0);
  });
});

test('the messages of a running chat show what was said so far', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps(held('so far and no further', { hold_after: 2 })));
  await view.said('so far');
  // What was said is stored once a second.
  const [user, assistant] = await eventually('it is stored', async () => {
    const messages = await fixture.rest.messages(view.session);
    return messages[1]?.blocks[0]?.content.trim() === 'so far' && messages;
  });
  assert.deepEqual([user.status, assistant.status], ['completed', 'streaming']);
  assert.deepEqual(
    await fixture.rest.get(`/api/sessions/${view.session}/messages?after_sequence=0&limit=1`),
    [await fixture.rest.messages(view.session)][0].slice(1),
  );
  await fixture.releaseUntil(view.ended(chat));
  assert.equal((await fixture.rest.messages(view.session))[1].blocks[0].content, 'so far and no further');
});

test('a chat ends with max_steps after 200 model calls', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(order({ loop: { n: 250, call: { name: 'Glob', arguments: { pattern: 'none{{i}}' } } } }));
  const end = await view.ended(chat, { timeout: 600_000 });
  assert.deepEqual([end.status, end.finish_reason, end.steps], ['failed', 'max_steps', 200]);
  assert.equal(end.error.code, 'max_steps');
});
