import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { Everloop, EverloopError } from '../dist/index.js';
import { Fake, start, until } from './fake.mjs';

let fake;
let client;
let seen;
beforeEach(async () => {
  fake = await Fake.start();
  client = new Everloop({ baseUrl: fake.url, token: 'el_test' });
  seen = [];
});
afterEach(async () => {
  client.close();
  await fake.close();
});

// follow opens the session and records the seq of each event.
async function follow(options) {
  const session = await client.session('s', options);
  session.on((event) => seen.push(event.data.seq));
  return session;
}

const expected = () => fake.events.map((event) => event.data.seq);
const whole = () => until('all events', () => seen.length >= fake.events.length);

describe('the stream of a session', () => {
  test('takes what a gap left out from the service, once and in order', async () => {
    await follow();
    fake.publish('file:changed', { path: 'a', change: 'created' });
    fake.add('file:changed', { path: 'b', change: 'created' }); // not sent
    fake.publish('file:changed', { path: 'c', change: 'created' });
    await whole();
    fake.publish('file:changed', { path: 'd', change: 'created' });
    await whole();
    assert.deepEqual(seen, expected());
    assert.deepEqual(fake.subscriptions, [undefined, 3]);
  });

  test('drops repeats and what comes out of order', async () => {
    await follow();
    const one = fake.publish('file:changed', { path: 'a', change: 'created' });
    fake.push(one);
    const two = fake.add('file:changed', { path: 'b', change: 'created' });
    const three = fake.add('file:changed', { path: 'c', change: 'created' });
    fake.push(three);
    fake.push(two);
    fake.push(one);
    await whole();
    fake.publish('file:changed', { path: 'd', change: 'created' });
    await whole();
    assert.deepEqual(seen, expected());
  });

  test('goes on behind its last event after each lost connection', async () => {
    const session = await follow();
    for (let round = 0; round < 5; round++) {
      const joins = fake.subscriptions.length;
      fake.publish('file:changed', { path: `${round}`, change: 'created' });
      await whole();
      fake.cut();
      for (let i = 0; i < 20; i++) fake.add('file:changed', { path: `${round} ${i}`, change: 'created' });
      await until('a new subscription', () => fake.subscriptions.length > joins);
      await whole();
    }
    assert.deepEqual(seen, expected());
    assert.equal(session.seq, expected().at(-1));
    assert.equal(session.view.snapshot().online, true);
  });

  test('subscribes again after session:resync', async () => {
    await follow();
    fake.publish('file:changed', { path: 'a', change: 'created' });
    await whole();
    fake.io.emit('session:resync', { session_id: 's', seq: 3, ts: '2026-11-22T00:00:00Z' });
    await until('a new subscription', () => fake.subscriptions.length === 2);
    fake.publish('file:changed', { path: 'b', change: 'created' });
    await whole();
    assert.deepEqual(seen, expected());
  });

  test('begins behind the position of an earlier stream', async () => {
    for (let i = 0; i < 4; i++) fake.add('file:changed', { path: `${i}`, change: 'created' });
    await follow({ after: 6 });
    await until('the rest', () => seen.length === 2);
    assert.deepEqual(seen, [9, 12]);
  });

  test('reads the messages when events are no longer kept', async () => {
    const session = await follow();
    await until('the messages', () => session.view.snapshot().loaded);
    fake.publish(...start('t1'));
    await whole();
    fake.cut();
    for (let i = 0; i < 4; i++) fake.add('file:changed', { path: `${i}`, change: 'created' });
    fake.keptFrom = 12;
    fake.messages = [turn('t1', 'all of it')];
    await until('the messages', () => session.view.snapshot().turns[0]?.blocks[0]?.content === 'all of it');
    await until('the rest', () => seen.at(-1) === 15);
    assert.deepEqual(seen, [3, 12, 15]);
  });

  test('calls onJoined when the stream is joined, and again when events are missing', async () => {
    let joins = 0;
    await follow({ onJoined: () => { joins++; } });
    assert.equal(joins, 1);
    fake.cut();
    fake.add('file:changed', { path: 'a', change: 'created' });
    await until('what came meanwhile', () => seen.length === 1);
    assert.equal(joins, 1);
    fake.cut();
    for (let i = 0; i < 3; i++) fake.add('file:changed', { path: `${i}`, change: 'created' });
    fake.keptFrom = 9;
    await until('what is kept', () => seen.at(-1) === 12);
    assert.deepEqual([seen, joins], [[3, 9, 12], 2]);
  });

  test('misses no event with a listener that onJoined attaches', async () => {
    const polling = new Everloop({ baseUrl: fake.url, token: 'el_test', transports: ['polling'] });
    // The first packet is sent at once: the acknowledgement and the events behind it come in the next one, together.
    fake.onSubscribe = (socket) => socket.emit('other');
    fake.spoil = () => ['a', 'b'].map((path) => fake.add('file:changed', { path, change: 'created' }));
    try {
      await polling.session('s', { onJoined: (session) => session.on((event) => seen.push(event.data.seq)) });
      await whole();
      assert.deepEqual(seen, [3, 6]);
    } finally {
      polling.close();
    }
  });

  test('reads the newest messages first, and the others behind them', async () => {
    let proceed;
    fake.hold = new Promise((resolve) => { proceed = resolve; });
    fake.messages = Array.from({ length: 250 }, (_, n) => ({ ...turn(`t${n}`, `text ${n}`), sequence: n }));
    const session = await follow();
    const sequences = () => session.view.snapshot().turns.map((one) => one.sequence);
    await until('the newest', () => sequences().length === 100);
    assert.deepEqual([sequences()[0], sequences().at(-1), session.view.snapshot().loaded], [150, 249, false]);
    proceed();
    await until('the others', () => session.view.snapshot().loaded);
    assert.deepEqual(sequences(), fake.messages.map((one) => one.sequence));
  });

  test('does not loop over a gap that the service itself has', async () => {
    const session = await follow();
    fake.add('file:changed', { path: 'gone', change: 'created' });
    fake.spoil = (events) => events.filter((event) => event.data.path !== 'gone');
    fake.publish('file:changed', { path: 'a', change: 'created' });
    await until('the end of repairs', () => fake.subscriptions.length === 5);
    fake.publish('file:changed', { path: 'b', change: 'created' });
    await until('the next event', () => seen.length > 0);
    assert.deepEqual(seen, [9]);
    assert.ok(fake.subscriptions.length <= 5, `${fake.subscriptions}`);
    assert.equal(session.seq, 9);
  });

  test('ends with the code of the service when the session is gone', async () => {
    const session = await follow();
    const events = session.events();
    const waiting = session.ended('c1');
    fake.io.emit('session:error', {
      session_id: 's',
      event: 'session:subscribe',
      error: { code: 'session_not_found', message: 'gone', retryable: false },
    });
    await assert.rejects(events.next(), (error) => error instanceof EverloopError && error.code === 'session_not_found');
    await assert.rejects(waiting, { code: 'session_not_found' });
    await assert.rejects(session.ended('c1'), { code: 'session_not_found' });
  });

  test('ends an iterator whose consumer is too slow', async () => {
    const session = await follow();
    const events = session.events();
    for (let i = 0; i < 10_002; i++) fake.publish('file:changed', { path: 'a', change: 'created' });
    await whole();
    let count = 0;
    await assert.rejects(async () => { for await (const _ of events) count++; }, { code: 'consumer_too_slow' });
    assert.equal(count, 10_001);
    assert.deepEqual(seen, expected());
  });
});

describe('a message', () => {
  test('is sent again with the same id when the connection is lost before its acknowledgement', async () => {
    const session = await follow();
    fake.onSend = (_, socket) => {
      if (fake.sent.length < 3) return void socket.conn.transport.socket.terminate();
      return { ok: true, chat_id: 'c1', turn_id: 't1', delivery_applied: 'run', position: 0, duplicate: true };
    };
    const sent = await session.send('hello');
    assert.equal(sent.duplicate, true);
    assert.equal(fake.sent.length, 3);
    assert.equal(new Set(fake.sent.map((one) => one.client_message_id)).size, 1);
  });

  test('fails with the code of the service', async () => {
    const session = await follow();
    fake.onSend = () => ({ ok: false, error: { code: 'session_busy', message: 'a chat is running', retryable: true } });
    await assert.rejects(session.send('hello', { delivery: 'reject' }), { code: 'session_busy', retryable: true });
  });

  test('ends with its signal and its time limit', async () => {
    const session = await follow();
    fake.onSend = () => undefined;
    const abort = new AbortController();
    const sending = session.send('hello', { signal: abort.signal });
    await until('the message', () => fake.sent.length === 1);
    abort.abort();
    await assert.rejects(sending, { code: 'aborted' });
    await assert.rejects(session.send('hello', { timeoutMs: 50 }), { code: /timeout|network_error/ });
    await assert.rejects(session.events({ signal: AbortSignal.abort() }).next(), { code: 'aborted' });
  });
});

describe('a client', () => {
  test('is refused by a service that needs a newer SDK', async () => {
    fake.version = { version: '2701.1.0', min_sdk: '2701.0.0' };
    await assert.rejects(
      client.session('s'),
      (error) => error.code === 'sdk_too_old' && /install @everloop\/sdk@2701\.1\.0/.test(error.message),
    );
  });

  test('asks its provider for another token when one is refused', async () => {
    fake.refuse = 'old';
    const asked = [];
    const renewing = new Everloop({ baseUrl: fake.url, token: ({ refresh }) => { asked.push(refresh); return refresh ? 'new' : 'old'; } });
    try {
      const session = await renewing.session('s');
      assert.deepEqual(fake.tokens, ['old', 'new']);
      fake.rest = (_, __, json) => json(200, { id: 'u' });
      assert.equal((await renewing.api.getMe()).id, 'u');
      // The service ends a connection whose token has expired.
      const joins = fake.subscriptions.length;
      fake.io.disconnectSockets(true);
      await until('a new subscription', () => fake.subscriptions.length > joins);
      assert.equal(fake.tokens.at(-1), 'new');
      await session.close();
    } finally {
      renewing.close();
    }
  });

  test('does not try a wrong key again', async () => {
    fake.refuse = 'el_test';
    await assert.rejects(client.session('s'), { code: 'unauthorized' });
    assert.equal(fake.tokens.length, 1);
  });

  test('reports errors of REST calls as one class', async () => {
    fake.rest = (_, __, json) =>
      json(422, {
        code: 'invalid_request',
        detail: 'body.pinned: expected boolean',
        retryable: false,
        errors: [{ location: 'body.pinned', message: 'expected boolean' }],
      });
    await assert.rejects(
      client.api.pinSession('s', { pinned: true }),
      (error) =>
        error instanceof EverloopError &&
        error.code === 'invalid_request' &&
        error.status === 422 &&
        error.requestId === 'r-1' &&
        error.errors[0].location === 'body.pinned',
    );
    fake.rest = () => {};
    await assert.rejects(client.api.getMe({ timeoutMs: 30 }), { code: 'timeout', retryable: true });
    await assert.rejects(client.api.getMe({ signal: AbortSignal.abort() }), { code: 'aborted' });
    await assert.rejects(new Everloop({ baseUrl: 'http://127.0.0.1:1' }).api.getMe(), { code: 'network_error', retryable: true });
  });

  test('sends no path that would become another', async () => {
    const paths = [];
    fake.rest = (request, _, json) => { paths.push(request.url); json(200, {}); };
    await client.api.deleteFile('s', 'a b/ü?#%.txt');
    await client.api.cancelRun('session/1');
    for (const path of ['../x', 'a/../b', 'a/.'])
      await assert.rejects(async () => client.api.deleteFile('s', path), { code: 'invalid_argument' });
    await assert.rejects(async () => client.api.deleteSession(''), { code: 'invalid_argument' });
    await assert.rejects(async () => client.api.deleteSession('..'), { code: 'invalid_argument' });
    assert.deepEqual(paths, ['/api/sessions/s/files/a%20b/%C3%BC%3F%23%25.txt', '/api/admin/runs/session%2F1/cancel']);
  });

  test('writes a file and gives the ETag of what it wrote', async () => {
    const session = await client.session('s');
    const requests = [];
    fake.rest = async (request, response) => {
      let body = '';
      for await (const part of request) body += part;
      requests.push([request.method, request.url, request.headers['if-match'], JSON.parse(body).content]);
      response.writeHead(200, { 'content-type': 'application/json', etag: `"${requests.length}"` }).end('{"success":true}');
    };
    const etag = await session.writeFile('a b/c.txt', 'one');
    assert.equal(await session.writeFile('a b/c.txt', 'two', { etag }), '"2"');
    assert.deepEqual(requests, [
      ['PUT', '/api/sessions/s/files/a%20b/c.txt', undefined, 'one'], ['PUT', '/api/sessions/s/files/a%20b/c.txt', '"1"', 'two'],
    ]);
  });

  test('reads streams of server-sent events', async () => {
    fake.rest = (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(': open\n\nid: 7\nevent: chat:start\ndata: {"a":\ndata: "ü"}\n');
      response.end('\nid: 8\r\nevent: x\r\ndata: 1\r\n\r\n');
    };
    const got = [];
    for await (const event of client.api.streamEvents('s', { query: { after_seq: 0 } })) got.push(event);
    assert.deepEqual(got, [{ id: '7', event: 'chat:start', data: { a: 'ü' } }, { id: '8', event: 'x', data: 1 }]);
  });
});

function turn(id, content) {
  return {
    id,
    turn_id: id,
    sequence: 1,
    chat_id: 'c1',
    loop_id: 'root',
    kind: 'message',
    role: 'assistant',
    status: 'completed',
    blocks: [{ type: 'text', content, tool_call_id: null, tool_name: null, display_name: null }],
    tool_calls: [],
    parent_fork_tool_call_id: null,
  };
}
