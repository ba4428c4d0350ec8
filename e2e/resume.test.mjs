// Coming back to a stream: after_seq, joining in the middle, other transports
// and server-sent events (docs/events.md#resume).
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, bash, call, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

const text = 'Zwölf Boxkämpfer 🥊🥊 jagen Viktor quer über den großen Sylter Deich 你好世界. '.repeat(6);
const talk = () => steps({ thinking: 'I think, therefore.', text: 'I look. ', ...bash('echo seen') }, { text, delay_ms: 12, chunk: 5 });

test('after_seq gives exactly the events behind it, at every point', async () => {
  const view = await fixture.session();
  await view.run(talk());
  await view.run(steps({ text: 'a second chat' }));
  await view.wait(
    'the last update',
    (e) =>
      e.name === 'session:updated' &&
      e.data.status === 'completed' &&
      e.data.seq > view.events.findLast((x) => x.name === 'chat:end').data.seq,
  );
  const all = (await follow0(view)).events;
  assert.deepEqual(all.slice(0, view.events.length), view.events);
  for (let i = 0; i < all.length; i += i < 12 ? 1 : 9) {
    const { seq } = all[i].data;
    const again = await fixture.follow(view.session, seq);
    assert.equal(again.ack.seq, seq);
    assert.equal(again.ack.truncated, false);
    assert.equal(again.ack.replayed, all.length - 1 - i);
    if (again.ack.replayed > 0) await again.wait('the last event', (e) => e.data.seq === all.at(-1).data.seq);
    assert.deepEqual(again.events, all.slice(i + 1));
    again.client.close();
  }
  // Between two events of the session, and beyond its end.
  const between = await fixture.follow(view.session, all[3].data.seq + (all[4].data.seq - all[3].data.seq > 1 ? 1 : 0));
  await between.wait('the last event', (e) => e.data.seq === all.at(-1).data.seq);
  assert.deepEqual(between.events, all.slice(4));
  const beyond = await fixture.follow(view.session, all.at(-1).data.seq + 1_000_000);
  assert.deepEqual([beyond.ack.seq, beyond.ack.replayed], [all.at(-1).data.seq, 0]);
  const { end } = await view.run(steps({ text: 'and live again' }));
  assert.equal((await beyond.ended(end.chat_id)).seq, end.seq);
});

async function follow0(view) {
  const seen = await fixture.follow(view.session, 0);
  assert.equal(seen.ack.truncated, false);
  await seen.wait('all that was seen live', (e) => e.data.seq >= view.events.at(-1).data.seq);
  return seen;
}

test('a client that joins in the middle of a turn misses nothing and repeats nothing', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps({ text, delay_ms: 25, chunk: 4, hold: true, hold_after: 100 }));
  const joined = [];
  for (let i = 1; i <= 8; i++) {
    await view.wait(`${i * 40} characters`, () => view.rules.assistants(chat).some((t) => view.rules.text(t.id).length >= i * 40));
    joined.push(await fixture.follow(view.session, undefined, i % 2 ? {} : { transports: ['polling'] }));
  }
  const end = await fixture.releaseUntil(view.ended(chat));
  const [turn] = view.rules.assistants(chat);
  for (const other of joined) {
    await other.ended(chat);
    assert.equal(other.ack.open_turns.length, 1);
    assert.equal(other.ack.open_turns[0].turn_id, turn.id);
    assert.equal(other.ack.open_turns[0].status, 'streaming');
    assert.equal(other.ack.chat_id, chat);
    const start = other.ack.open_turns[0].blocks.map((b) => b.content).join('');
    assert.ok(text.startsWith(start) && start.length >= 40, `it had ${start.length} characters`);
    assert.equal(other.rules.text(turn.id), text);
    assert.deepEqual(other.rules.problems, []);
    assert.equal(other.events.findLast((e) => e.name === 'chat:end').data.seq, end.seq);
  }
});

test('a client that joins while tools run gets the open calls and their results', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(
    steps({ calls: [call('Bash', { command: 'echo begun; until [ -e go ]; do sleep 0.05; done; echo finished' })] }, { text: 'done' }),
  );
  await view.patch('tool_progress', (p) => p.text_delta.includes('begun'));
  const late = await fixture.follow(view.session);
  assert.deepEqual([late.ack.status, late.ack.waiting_reason, late.ack.chat_id], ['running', 'tool', chat]);
  await fixture.rest.put(`/api/sessions/${view.session}/files/go`, { content: '' });
  const result = await late.wait('the result', (e) => e.name === 'turn:patch' && e.data.patch_type === 'tool_result');
  assert.match(result.data.result, /finished/);
  await late.ended(chat);
});

test('a lost connection is taken up where it was lost, again and again', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps({ text: text.repeat(3), delay_ms: 10, chunk: 6 }));
  const seen = [];
  let at = 0;
  for (let round = 0; ; round++) {
    const part = await fixture.follow(view.session, at, round % 2 ? { transports: ['polling'] } : {});
    const last = await part.wait('some events', (e) => e.name === 'chat:end' || part.events.length > 25);
    part.client.close();
    const got = [...part.events];
    seen.push(...got);
    at = got.at(-1).data.seq;
    if (last.name === 'chat:end' || got.some((e) => e.name === 'chat:end')) break;
    assert.ok(round < 100);
  }
  await view.ended(chat);
  assert.deepEqual(seen, view.events.slice(0, seen.length));
});

test('two clients with different transports see the same events', async () => {
  const view = await fixture.session();
  const polling = await fixture.follow(view.session, undefined, { transports: ['polling'] });
  const { end } = await view.run(talk());
  await polling.ended(end.chat_id);
  const upTo = (v) => v.events.filter((e) => e.data.seq <= end.seq);
  assert.deepEqual(upTo(polling), upTo(view));
});

test('subscribing twice does not double the events', async () => {
  const view = await fixture.session();
  const again = await view.client.emit('session:subscribe', { session_id: view.session });
  assert.equal(again.ok, true);
  const { end } = await view.run(steps({ text: 'once only' }));
  assert.equal(end.status, 'completed');
  assert.deepEqual(view.rules.problems, []);
});

describe('server-sent events', () => {
  const sse = (event) => ({ name: event.name, data: event.data });

  test('GET events gives what the socket gives', async () => {
    const view = await fixture.session();
    await view.run(talk());
    const kept = [...(await follow0(view)).events]; // others may come yet
    const last = kept.at(-1).data.seq;
    const events = await fixture.rest.stream('GET', `/api/sessions/${view.session}/events?after_seq=0`, undefined, (e) => e.id === last);
    for (const e of events) assert.equal(e.id, e.data.seq);
    assert.deepEqual(events.map(sse), kept);
    const some = kept[5].data.seq;
    const rest = await fixture.rest.stream(
      'GET',
      `/api/sessions/${view.session}/events?after_seq=${some}`,
      undefined,
      (e) => e.id === last,
    );
    assert.deepEqual(rest.map(sse), kept.slice(6));
  });

  test('GET events follows what happens live', async () => {
    const view = await fixture.session();
    const before = await view.run(steps({ text: 'before' }));
    const following = fixture.rest.stream('GET', `/api/sessions/${view.session}/events?after_seq=0`, undefined,
      (e) => e.name === 'chat:end' && e.data.chat_id !== before.chat_id);
    const live = await view.say(steps({ text: 'words that come while it is followed', delay_ms: 20 }));
    const events = await following;
    await view.ended(live.chat_id);
    assert.deepEqual(events.map(sse), view.events.filter((e) => e.data.seq <= events.at(-1).id));
  });

  test('POST chat streams the chat that it starts', async () => {
    const view = await fixture.session();
    const events = await fixture.rest.stream('POST', `/api/sessions/${view.session}/chat`, { message: talk(), mode: 'executing' });
    assert.equal(events[0].name, 'chat:start');
    assert.equal(events[0].data.trigger, 'api');
    assert.equal(events.at(-1).name, 'chat:end');
    const chat = events[0].data.chat_id;
    await view.ended(chat);
    // Everything of the session from its chat:start to its chat:end, so that the
    // chain of prev_seq is whole.
    const [first, last] = [events[0].id, events.at(-1).id];
    assert.deepEqual(events.map(sse), view.events.filter((e) => e.data.seq >= first && e.data.seq <= last));
  });

  test('POST chat without it answers 202', async () => {
    const view = await fixture.session();
    const { status, body } = await fixture.rest.call('POST', `/api/sessions/${view.session}/chat`, {
      message: steps({ text: 'without a listener' }),
    });
    assert.equal(status, 202);
    assert.equal((await view.ended(body.chat_id)).status, 'completed');
  });

  test('an Idempotency-Key makes a repeated POST chat the same message', async () => {
    const view = await fixture.session();
    const post = () =>
      fixture.rest.call(
        'POST',
        `/api/sessions/${view.session}/chat`,
        { message: steps({ text: 'only once' }) },
        { 'idempotency-key': 'k-1' },
      );
    const [one, two] = [await post(), await post()];
    assert.deepEqual([one.status, two.status], [202, 202]);
    assert.equal(one.body.chat_id, two.body.chat_id);
    await view.ended(one.body.chat_id);
    assert.equal((await fixture.rest.messages(view.session)).filter((m) => m.role === 'user').length, 1);
  });
});

test('a very long answer at full speed arrives whole', async () => {
  const view = await fixture.session();
  const { chat_id: chat, end } = await view.run(steps({ tokens: 30_000, text: 'begin ' }));
  assert.equal(end.status, 'completed');
  assert.equal(view.rules.text(view.rules.assistants(chat)[0].id), `begin ${'word '.repeat(30_000)}`);
});

test('a client that does not read slows no other client, is asked to come again, and misses nothing', async () => {
  const client = await fixture.client();
  const slow = await fixture.client();
  const views = [], lagging = [];
  for (let i = 0; i < 6; i++) {
    views.push(await fixture.session({}, { client }));
    lagging.push(await slow.subscribe(views[i].session));
  }
  const { ws } = slow.socket.io.engine.transport;
  // One that stands still for longer than a ping may take is cut off.
  const cut = new Promise((resolve) => slow.socket.once('disconnect', resolve));
  ws.pause();
  const ends = [];
  for (const view of views) ends.push((await view.run(steps({ text: 'begin ', tokens: 600_000 }))).end);
  for (const end of ends) assert.equal(end.status, 'completed');
  ws.resume();
  // On a busy machine the pieces come in fewer events, which fit what is kept for it: then it catches up.
  const caughtUp = Promise.all(lagging.map((v, i) => v.ended(ends[i].chat_id)));
  await Promise.any([cut, caughtUp, ...lagging.map((v) => v.wait('session:resync', (e) => e.name === 'session:resync'))]);
  for (const [i, view] of views.entries()) {
    // Whether it was asked to come again or not: from its position it gets the rest.
    const { last } = lagging[i].rules;
    const again = await fixture.follow(view.session, last);
    if (last < ends[i].seq) await again.ended(ends[i].chat_id);
    const got = [...lagging[i].events.filter((e) => e.data.prev_seq !== undefined && e.data.seq <= last), ...again.events].map(
      (e) => e.data.seq,
    );
    const all = view.events.map((e) => e.data.seq);
    assert.deepEqual(got.slice(0, all.length), all.slice(0, got.length));
    assert.ok(got.at(-1) >= ends[i].seq);
  }
});
