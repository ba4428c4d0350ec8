// kill -9 of the whole service at named points. Started again on the same data
// directory, every acknowledged chat ends exactly once, no effect happens twice,
// no text is mixed, no event is missing, and the sessions go on.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { cpSync, rmSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, afterEach, before, test } from 'node:test';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';
import { given, ownOnly } from './lib/stack.mjs';

const recovery = 180_000;

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(async () => {
  try {
    await fixture.settle();
  } catch (err) {
    if (process.env.EVERLOOP_E2E_VERBOSE) console.error(fixture.server.log(6000));
    throw err;
  }
});

// crash kills the service, starts it again and follows the session again.
async function crash(...views) {
  for (const view of views) assert.deepEqual(view.rules.problems, []);
  const { signal } = await fixture.server.kill();
  assert.equal(signal, 'SIGKILL');
  await fixture.server.start();
  const again = [];
  for (const view of views) again.push(await fixture.follow(view.session, 0));
  return again.length === 1 ? again[0] : again;
}

// usable runs one more chat in the session.
async function usable(view) {
  const { end } = await view.run(steps(bash('echo alive'), { text: 'still usable' }));
  assert.equal(end.status, 'completed');
}

const endings = (view, chat) => view.events.filter((e) => e.name === 'chat:end' && e.data.chat_id === chat);

test('right after the acknowledgement', async () => {
  const view = await fixture.session();
  const { chat_id: chat, turn_id: turn } = await view.say(steps({ text: 'promised is promised' }));
  const again = await crash(view);
  assert.equal((await again.ended(chat, { timeout: recovery })).status, 'completed');
  assert.equal(again.rules.turns.get(turn).role, 'user');
  await usable(again);
  assert.equal(endings(again, chat).length, 1);
});

test('before the first token', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps({ text: 'worth waiting for', first_delay_ms: 3000 }));
  await view.wait('the assistant turn', (e) => e.name === 'turn:start' && e.data.role === 'assistant');
  const again = await crash(view);
  assert.equal((await again.ended(chat, { timeout: recovery })).status, 'completed');
  const turns = again.rules.assistants(chat);
  assert.equal(again.rules.text(turns.at(-1).id), 'worth waiting for');
  await usable(again);
  assert.equal(endings(again, chat).length, 1);
});

test('in the middle of a stream', async () => {
  const view = await fixture.session();
  const text = [...Array(60).keys()].map((i) => `word${i}`).join(' ');
  const { chat_id: chat } = await view.say(steps({ text, delay_ms: 50, hold: true, hold_after: 55 }));
  await view.said('word20');
  const seen = view.rules.text(view.rules.assistants(chat)[0].id);
  const again = await crash(view);
  assert.equal((await fixture.releaseUntil(again.ended(chat, { timeout: recovery }))).status, 'completed');
  const turns = again.rules.assistants(chat);
  assert.deepEqual(turns.map((t) => t.status), ['failed', 'completed']);
  assert.equal(again.rules.text(turns[1].id), text);
  const kept = again.rules.text(turns[0].id);
  assert.ok(kept.startsWith(seen), `the client had seen ${seen}, kept is ${kept}`);
  assert.ok(text.startsWith(kept));
  await usable(again);
  assert.equal(endings(again, chat).length, 1);
});

test('in the middle of a stream, by a power cut that takes the end of the event log', async () => {
  ownOnly('its files are replaced');
  const view = await fixture.session();
  const text = [...Array(60).keys()].map((i) => `word${i}`).join(' ');
  const { chat_id: chat } = await view.say(steps({ text, delay_ms: 20, chunk: 3, hold: true, hold_after: 300 }));
  await view.said('word20');
  const files = join(fixture.server.dir, 'data', 'events');
  const flushed = join(fixture.server.dir, 'flushed');
  cpSync(files, flushed, { recursive: true });
  await view.said('word28');
  await fixture.server.kill();
  const { seq } = view.events.at(-1).data;
  rmSync(files, { recursive: true });
  cpSync(flushed, files, { recursive: true });
  await fixture.server.start();

  // The chat ends before the client is back.
  const other = await fixture.follow(view.session, 0);
  const end = await fixture.releaseUntil(other.ended(chat, { timeout: recovery }));
  assert.equal(end.status, 'completed');
  assert.ok(end.seq > seq, `chat:end has ${end.seq}, the client had seen ${seq}`);
  const again = await fixture.follow(view.session, seq);
  assert.equal(again.ack.truncated, true);
  assert.equal((await again.ended(chat)).seq, end.seq);
  const names = again.events.filter((e) => e.data.seq <= end.seq).map((e) => e.name);
  assert.equal(names.filter((name) => name === 'turn:end').length, 2); // of the turn that broke off, and of its repeat
  await usable(again);
  fixture.forget(); // its kept events are not those that the client has seen
});

test('in a Bash that has taken effect', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps(
    bash('echo line >> effects; echo begun; sleep 100; echo line >> effects'), { text: 'I see that it is unknown' }));
  await view.patch('tool_progress', (p) => p.text_delta.includes('begun'));
  const again = await crash(view);
  assert.equal((await again.ended(chat, { timeout: recovery })).status, 'completed');
  assert.equal(await fixture.rest.file(view.session, 'effects'), 'line\n');
  const [bashCall] = again.callsOf(chat);
  assert.equal(bashCall.status, 'error');
  assert.match(bashCall.result, /unknown/i);
  const stored = (await fixture.rest.messages(view.session)).flatMap((m) => m.tool_calls);
  assert.deepEqual(stored.map((c) => [c.status, c.phase]), [['error', 'unknown_outcome']]);
  assert.equal((await fixture.requests('outcome of this call is unknown')).length, 1, 'the model was not informed once');
  await usable(again);
  assert.equal(await fixture.rest.file(view.session, 'effects'), 'line\n');
  assert.equal(endings(again, chat).length, 1);
});

test('with several tools, some done, some running', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps({
    calls: [call('Bash', { command: 'echo a >> done; echo finished' }), call('Bash', { command: 'echo b >> cut; echo begun; sleep 100' }),
      call('Write', { file_path: 'written.txt', content: 'written' })],
  }, { text: 'all done' }));
  await view.patch('tool_progress', (p) => p.text_delta.includes('begun'));
  await view.patch('tool_result', (p) => p.result.includes('finished'));
  const again = await crash(view);
  assert.equal((await again.ended(chat, { timeout: recovery })).status, 'completed');
  const [done, cut, written] = again.callsOf(chat);
  assert.deepEqual([done.status, cut.status], ['done', 'error']);
  assert.ok(['done', 'error'].includes(written.status));
  assert.equal(await fixture.rest.file(view.session, 'done'), 'a\n');
  assert.equal(await fixture.rest.file(view.session, 'cut'), 'b\n');
  await usable(again);
});

test('between a tool result and the next model call', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps(bash('echo once >> log; cat log'), { text: 'read it', first_delay_ms: 3000 }));
  await view.patch('tool_result', (p) => p.result.includes('once'));
  const again = await crash(view);
  assert.equal((await again.ended(chat, { timeout: recovery })).status, 'completed');
  assert.equal(await fixture.rest.file(view.session, 'log'), 'once\n');
  assert.deepEqual(again.callsOf(chat).map((c) => [c.status, c.result.trim()]), [['done', 'once']]);
  await usable(again);
  assert.equal(endings(again, chat).length, 1);
});

test('with queued messages', async () => {
  const view = await fixture.session();
  const acks = [await view.say(steps({ text: 'the first stands still here', hold: true, hold_after: 3 }))];
  await view.said('the first');
  acks.push(await view.say(steps(bash('echo two >> log'), { text: 'second' })), await view.say(steps({ text: 'third' })),
    await view.say(steps({ text: 'joined in' }), { delivery: 'steer' }));
  const again = await crash(view);
  for (const ack of acks) await again.ended(ack.chat_id, { timeout: recovery });
  await eventually('the queue is empty', async () => {
    const now = await fixture.rest.detail(view.session);
    return now.queue_length === 0 && now.status !== 'running';
  });
  assert.deepEqual(again.events.filter((e) => e.name === 'chat:start' && !e.data.resumed).map((e) => e.data.chat_id),
    acks.slice(0, 3).map((a) => a.chat_id));
  assert.ok(again.rules.turns.has(acks[3].turn_id), 'the steered message is lost');
  assert.equal(await fixture.rest.file(view.session, 'log'), 'two\n');
  for (const ack of acks.slice(0, 3)) assert.equal(endings(again, ack.chat_id).length, 1);
});

test('while a question waits, which is answered afterwards', async () => {
  const view = await fixture.session();
  const { chat_id: chat, end } = await view.run(steps(
    { calls: [call('AskUserQuestion', { questions: [{ question: 'Which one?', options: [{ label: 'left' }, { label: 'right' }] }] })] },
    { text: 'then right it is' }));
  assert.equal(end.finish_reason, 'awaiting_answer');
  const again = await crash(view);
  assert.equal((await fixture.rest.detail(view.session)).status, 'waiting_for_input');
  assert.equal(again.ack.pending_questions.length, 1);
  const mark = again.events.length;
  const ack = await again.answer(again.ack.pending_questions[0].tool_call_id, { selections: { 0: [1] } });
  assert.deepEqual([ack.ok, ack.resolved], [true, true]);
  const last = await again.wait('the second chat:end', (e) => e.name === 'chat:end' && e.data.finish_reason === 'completed', {
    from: mark,
    timeout: recovery,
  });
  assert.equal(last.data.chat_id, chat);
  assert.equal((await fixture.requests('\\"right\\"')).length >= 1, true);
  await usable(again);
});

test('right after an answer was acknowledged', async () => {
  const view = await fixture.session();
  const { chat_id: chat, calls } = await view.run(steps(
    { calls: [call('AskUserQuestion', { questions: [{ question: 'Which one?', options: [{ label: 'left' }, { label: 'right' }] }] })] },
    { text: 'as you like' }));
  assert.equal((await view.answer(calls[0].id, { selections: { 0: [0] } })).resolved, true);
  const again = await crash(view);
  await again.wait('the end', (e) => e.name === 'chat:end' && e.data.finish_reason === 'completed' && e.data.chat_id === chat, {
    timeout: recovery,
  });
  assert.equal(endings(again, chat).length, 2);
  await usable(again);
});

test('right after a stop was acknowledged', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps({ text: 'stop me if you can', hold: true, hold_after: 2 }));
  await view.said('stop me');
  assert.equal((await view.stop()).stopped, true);
  const again = await crash(view);
  assert.equal((await again.ended(chat, { timeout: recovery })).status, 'interrupted');
  assert.match(again.rules.text(again.rules.assistants(chat)[0].id), /^stop me/);
  assert.equal(endings(again, chat).length, 1);
  await usable(again);
});

test('twice during one chat', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps(
    bash('echo one >> log; echo begun; sleep 100'), bash('echo two >> log; echo again; sleep 100'), { text: 'at last' }));
  await view.patch('tool_progress', (p) => p.text_delta.includes('begun'));
  const second = await crash(view);
  await second.patch('tool_progress', (p) => p.text_delta.includes('again'), { timeout: recovery });
  const third = await crash(second);
  assert.equal((await third.ended(chat, { timeout: recovery })).status, 'completed');
  assert.equal(await fixture.rest.file(view.session, 'log'), 'one\ntwo\n');
  assert.equal(endings(third, chat).length, 1);
});

test('while it starts again, three times', async () => {
  ownOnly('it is killed while it starts');
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps(bash('echo line >> log; echo begun; sleep 100'), { text: 'patience' }));
  await view.patch('tool_progress', (p) => p.text_delta.includes('begun'));
  await fixture.server.kill();
  for (const soon of [/PostgreSQL|postgres/i, /Temporal/i, /ready/i]) {
    const starting = fixture.server.start().catch((err) => err);
    await eventually(`it says ${soon}`, () => soon.test(fixture.server.said()));
    await fixture.server.kill();
    await starting;
  }
  await fixture.server.start();
  const again = await fixture.follow(view.session, 0);
  assert.equal((await again.ended(chat, { timeout: recovery })).status, 'completed');
  assert.equal(await fixture.rest.file(view.session, 'log'), 'line\n');
  assert.equal(endings(again, chat).length, 1);
  await usable(again);
});

test('while a request with an Idempotency-Key runs', async () => {
  const view = await fixture.session();
  const content = 'x'.repeat(200_000);
  const form = ['--b', 'Content-Disposition: form-data; name="files"; filename="a.txt"', '', content, '--b--', ''].join('\r\n');
  let key = 0;
  const upload = () => http.request(`${fixture.server.url}/api/sessions/${view.session}/upload/`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${fixture.server.key}`, 'idempotency-key': `upload ${key}`,
      'content-type': 'multipart/form-data; boundary=b', 'content-length': form.length,
    },
  });
  const whole = async () => {
    const request = upload();
    request.end(form);
    const [answer] = await once(request, 'response');
    return { status: answer.statusCode, body: JSON.parse(await text(answer)) };
  };
  await eventually('a key is claimed by a request that does not end', async () => {
    key++; // a repeat that came before the claim has used up the last one
    const slow = upload();
    slow.on('error', () => {}); // it ends with the server
    await new Promise((written) => { slow.write(form.slice(0, form.length / 2), written); });
    return (await whole()).body.code === 'idempotency_key_in_use';
  });

  await crash(view);
  const repeated = await whole();
  assert.equal(repeated.status, 200, JSON.stringify(repeated.body));
  assert.deepEqual(repeated.body.uploaded, ['a.txt']);
  assert.equal(await fixture.rest.file(view.session, 'a.txt'), content);
});

test('with 20 sessions running', async () => {
  const client = await fixture.client();
  const views = [];
  for (let i = 0; i < 20; i++) views.push(await fixture.session({}, { client }));
  const text = [...Array(40).keys()].map((i) => `w${i}`).join(' ');
  const acks = await Promise.all(views.map((view, i) => view.say(i % 2
    ? steps({ text, delay_ms: 60 }) : steps(bash(`echo line >> log; echo begun; sleep ${i % 4 ? 100 : 1}`), { text, delay_ms: 60 }))));
  await Promise.all(views.map((view, i) => (i % 2 ? view.said('w10')
    : view.patch('tool_progress', (p) => p.text_delta.includes('begun')))));
  const again = await crash(...views);
  const ends = await Promise.all(again.map((view, i) => view.ended(acks[i].chat_id, { timeout: recovery })));
  assert.deepEqual(ends.map((e) => e.status), Array(20).fill('completed'));
  for (const [i, view] of again.entries()) {
    assert.equal(view.rules.text(view.rules.assistants(acks[i].chat_id).at(-1).id), text);
    if (i % 2 === 0) assert.equal(await fixture.rest.file(view.session, 'log'), 'line\n');
  }
  await Promise.all(again.map(usable));
});

test('an orderly stop loses nothing either', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps(bash('echo line >> log; echo begun; sleep 100'), { text: 'going on' }));
  await view.patch('tool_progress', (p) => p.text_delta.includes('begun'));
  const streaming = await fixture.session();
  const text = [...Array(80).keys()].map((i) => `s${i}`).join(' ');
  const other = await streaming.say(steps({ text, delay_ms: 100 }));
  await streaming.said('s5');
  assert.equal((await fixture.server.stop()).signal, null, 'it did not end by itself');
  if (!given) assert.match(fixture.server.said(), /Stopping/, 'it takes some seconds, so it says what it does');
  await fixture.server.start();
  const [first, second] = [await fixture.follow(view.session, 0), await fixture.follow(streaming.session, 0)];
  assert.equal((await first.ended(chat, { timeout: recovery })).status, 'completed');
  assert.equal((await second.ended(other.chat_id, { timeout: recovery })).status, 'completed');
  assert.equal(second.rules.text(second.rules.assistants(other.chat_id).at(-1).id), text);
  assert.equal(await fixture.rest.file(view.session, 'log'), 'line\n');
  assert.equal(first.callsOf(chat)[0].status, 'error');
});
