// Replay sessions (docs/replay.md): recorded
// events are played again, with their spacing, without tools and models.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Rest } from './lib/rest.mjs';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';

let fixture;
let long; // a session that is played for half a minute; it is made beside the first tests
before(async () => {
  fixture = await Fixture.start();
  long = record();
  long.catch(() => {}); // those that wait for it see the error
});

// record makes a session whose second chat has output for half a minute: a replay
// makes no pause that is longer than three seconds.
async function record() {
  const { session_id: session } = await fixture.rest.post('/api/sessions', {});
  for (const message of [
    steps(bash('echo one > state.txt'), { text: 'first' }),
    steps(bash('for i in {1..30}; do echo $i; sleep 1; done; echo two > state.txt; echo new > later.txt'), { text: 'the end of it' }),
  ]) await fixture.rest.post(`/api/sessions/${session}/chat`, { message });
  await eventually('it is recorded', async () => (await transcript(fixture.rest, session)).at(-1)?.[2] === 'the end of it'
    && (await fixture.rest.detail(session)).status === 'completed');
  return { session };
}
after(() => fixture?.close());
afterEach(() => fixture.settle());

// text of the turns that a session says it has, by role.
const transcript = async (rest, session) =>
  (await rest.messages(session)).map((t) => [
    t.role,
    t.status,
    t.blocks
      .filter((b) => b.type === 'text')
      .map((b) => b.content)
      .join(''),
    t.tool_calls.map((c) => [c.tool_name, c.status, c.result]),
  ]);

// source makes a session with some chats.
async function source(...messages) {
  const view = await fixture.session();
  for (const message of messages) {
    const { end } = await view.run(message);
    assert.equal(end.status, 'completed');
  }
  return view;
}

// replay starts a replay and follows it.
async function replay(view, speed = 5, options) {
  const { session_id: id } = await fixture.rest.post(`/api/sessions/${view.session}/replay`, { speed });
  assert.notEqual(id, view.session);
  fixture.adopt(id, fixture.rest);
  return fixture.follow(id, 0, options);
}

const state = async (id) => (await fixture.rest.detail(id)).replay_state;
const status = (id, want) => eventually(`replay is ${want}`, async () => (await state(id)).status === want && state(id));
const finished = (id) => status(id, 'finished');
const patch = (id, body) => fixture.rest.call('PATCH', `/api/sessions/${id}/replay`, body);

describe('a replay', () => {
  test('plays the same turns, calls and files as its own, without tools and models', async () => {
    const view = await source(
      steps({ thinking: 'let me see', calls: [call('Write', { file_path: 'notes/a.txt', content: 'alpha 😀\n' })] },
        bash('echo ran >> count; cat notes/a.txt'), { text: 'The file is there: **alpha** 😀.' }),
      steps({ text: 'second answer' }));
    const calls = (await fixture.requests('second answer')).length;
    const played = await replay(view, 5);
    const early = await state(played.session);
    assert.equal(early.source_session_id, view.session);
    assert.equal(early.speed, 5);
    assert.ok(['playing', 'finished'].includes(early.status), early.status);
    const end = await finished(played.session);
    assert.equal(end.position, end.total);
    assert.ok(end.total > 10);
    await eventually('all events', () => [...played.rules.chats.values()].filter((c) => !c.open).length === 2);
    assert.deepEqual(await transcript(fixture.rest, played.session), await transcript(fixture.rest, view.session));
    const [was, is] = [await fixture.rest.messages(view.session), await fixture.rest.messages(played.session)];
    for (const [i, turn] of is.entries()) {
      assert.notEqual(turn.turn_id, was[i].turn_id);
      assert.notEqual(turn.chat_id, was[i].chat_id);
      assert.equal(turn.sequence, was[i].sequence);
      assert.deepEqual(turn.usage, was[i].usage);
      assert.equal(turn.duration_ms, was[i].duration_ms);
      assert.deepEqual(turn.blocks.map((b) => [b.type, b.content]), was[i].blocks.map((b) => [b.type, b.content]));
      for (const c of turn.tool_calls) assert.ok(!was[i].tool_calls.some((o) => o.id === c.id));
    }
    const starts = played.events.filter((e) => e.name === 'chat:start');
    assert.deepEqual(starts.map((e) => e.data.trigger), ['replay', 'replay']);
    assert.equal((await fixture.requests('second answer')).length, calls, 'a model was called');
    // The files are those of the end.
    await eventually(
      'the files',
      async () => (await fixture.rest.call('GET', `/api/sessions/${played.session}/files/notes/a.txt`)).status === 200,
    );
    assert.equal(await fixture.rest.file(played.session, 'notes/a.txt'), 'alpha 😀\n');
    assert.equal(await fixture.rest.file(played.session, 'count'), 'ran\n', 'a tool was run again');
    // A finished replay is an ordinary session, which knows what was said.
    const { end: next } = await played.run(steps({ calls: [call('Read', { file_path: 'notes/a.txt' })] }, { text: 'third' }));
    assert.equal(next.status, 'completed');
    assert.equal((await fixture.rest.messages(view.session)).length, was.length, 'the source was changed');
  });

  test('keeps the spacing, divided by the speed', async () => {
    const view = await source(steps(bash('sleep 2'), { text: 'done' }));
    const gap = async (speed) => {
      const played = await replay(view, speed);
      await eventually('the end', () => [...played.rules.chats.values()].some((c) => c.ends === 1));
      const at = (e) => Date.parse(e.data.ts);
      const added = played.events.find((e) => e.data.patch_type === 'add_tool_call');
      const result = played.events.find((e) => e.data.patch_type === 'tool_result');
      return at(result) - at(added);
    };
    const real = await gap(1);
    let quick = await gap(5);
    // A machine that is busy makes a pause longer, and never shorter.
    for (let tries = 0; tries < 4 && quick >= real; tries++) quick = await gap(5);
    assert.ok(real > 1900 && quick > 350 && quick < real, `${[real, quick]} ms`);
  });

  test('of a chat with a question goes on by itself', async () => {
    const view = await fixture.session();
    const ack = await view.say(
      steps(
        {
          calls: [call('AskUserQuestion', { questions: [{ question: 'Which?', header: 'W', options: [{ label: 'A' }, { label: 'B' }] }] })],
        },
        { text: 'thanks' },
      ),
    );
    await view.ended(ack.chat_id);
    assert.deepEqual((await fixture.rest.call('GET', `/api/sessions/${view.session}/replay/preview`)).body.reason, 'still_running');
    assert.equal((await view.answer(view.callsOf(ack.chat_id)[0].id, { selections: { 0: [1] }, custom: {} })).resolved, true);
    await view.wait('the second end', () => view.events.filter((e) => e.name === 'chat:end').length === 2);
    const played = await replay(view, 5);
    await finished(played.session);
    assert.deepEqual(await transcript(fixture.rest, played.session), await transcript(fixture.rest, view.session));
    assert.deepEqual(played.events.filter((e) => e.name === 'chat:start').map((e) => e.data.trigger), ['replay', 'answer']);
    assert.equal((await fixture.rest.detail(played.session)).status, 'completed');
  });
});

describe('while it plays', () => {
  test('messages are refused, and its speed can be changed', async () => {
    const view = await long;
    const played = await replay(view, 1);
    const refused = await played.send('hello');
    assert.equal(refused.ok, false);
    assert.equal(refused.error.code, 'session_busy');
    assert.equal((await fixture.rest.call('POST', `/api/sessions/${played.session}/chat`, { message: 'x' })).status, 409);
    assert.equal((await fixture.rest.get(`/api/sessions/${played.session}/replay/preview`)).reason, 'still_running');
    await played.wait('a checkpoint', (e) => e.name === 'checkpoint:created');
    const [{ checkpoint_id: point }] = await fixture.rest.get(`/api/sessions/${played.session}/checkpoints`);
    for (const move of ['rewind', 'switch-branch']) {
      const busy = await fixture.rest.call('POST', `/api/sessions/${played.session}/${move}`, { checkpoint_id: point });
      assert.deepEqual([busy.status, busy.body.code], [409, 'session_busy'], move);
    }
    for (const body of [{ speed: 3 }, { speed: 0 }, { status: 'playing' }, { status: 'finished' }]) {
      assert.equal((await patch(played.session, body)).status, 422, JSON.stringify(body));
    }
    assert.equal((await patch(view.session, { speed: 5 })).status, 404);
    const { status: ok, body } = await patch(played.session, { speed: 5 });
    assert.equal(ok, 200);
    assert.equal(body.replay_state.speed, 5);
    await finished(played.session);
  });

  test('autonomous ends it where it is, files included', async () => {
    const played = await replay(await long, 1);
    await played.said('first');
    const second = await played.wait(
      'the second chat',
      (e) => e.name === 'chat:start' && e.data.chat_id !== played.events.find((x) => x.name === 'chat:start').data.chat_id,
    );
    await played.wait('its tool call', (e) => e.data.patch_type === 'add_tool_call' && e.data.chat_id === second.data.chat_id);
    const { status: code, body } = await patch(played.session, { status: 'autonomous' });
    assert.equal(code, 200);
    assert.equal(body.replay_state.status, 'autonomous');
    assert.ok(body.replay_state.handed_over_at);
    assert.ok(body.replay_state.position < body.replay_state.total);
    const end = await played.ended(second.data.chat_id);
    assert.deepEqual([end.status, end.finish_reason], ['interrupted', 'interrupted']);
    assert.equal((await fixture.rest.detail(played.session)).status, 'interrupted');
    assert.equal(await fixture.rest.file(played.session, 'state.txt'), 'one\n', 'the files are not those of this point');
    assert.equal((await fixture.rest.call('GET', `/api/sessions/${played.session}/files/later.txt`)).status, 404);
    assert.equal((await patch(played.session, { status: 'autonomous' })).status, 200, 'twice is once');
    const before = played.events.length;
    await new Promise((resolve) => setTimeout(resolve, 1500));
    assert.equal(played.events.slice(before).filter((e) => /^(chat|turn)/.test(e.name)).length, 0, 'it plays on, or a model was called');
    const { end: next } = await played.run(steps(bash('cat state.txt'), { text: 'mine' }));
    assert.equal(next.status, 'completed');
    const again = await patch(played.session, { status: null });
    assert.equal(again.status, 409);
    assert.equal(again.body.code, 'replay_over');
  });

  test('handed over before anything was said, it has the files from before', async () => {
    const view = await fixture.session();
    await fixture.rest.put(`/api/sessions/${view.session}/files/given.txt`, { content: 'given' });
    await view.run(steps(bash('echo made > made.txt; echo changed > given.txt'), { text: 'x' }));
    const { session_id: id } = await fixture.rest.post(`/api/sessions/${view.session}/replay`, { speed: 1 });
    fixture.adopt(id, fixture.rest);
    const { body } = await patch(id, { status: 'autonomous' });
    if (body.replay_state.position > 5) return; // it was quicker
    assert.equal(await fixture.rest.file(id, 'given.txt'), 'given');
    assert.equal((await fixture.rest.call('GET', `/api/sessions/${id}/files/made.txt`)).status, 404);
  });

  test('a stop pauses it, and null plays on', async () => {
    const played = await replay(await long, 1);
    await played.wait('a tool call', (e) => e.data.patch_type === 'add_tool_call');
    assert.equal((await played.stop()).stopped, true);
    const paused = await state(played.session);
    assert.equal(paused.status, 'paused');
    assert.equal((await fixture.rest.detail(played.session)).status, 'interrupted');
    assert.equal((await played.send('hello')).error.code, 'session_busy');
    const { status: code, body } = await patch(played.session, { status: null });
    assert.equal(code, 200);
    assert.equal(body.replay_state.status, 'playing');
    assert.equal((await patch(played.session, { speed: 5 })).status, 200);
    await played.said('the end of it');
    const end = await finished(played.session);
    assert.equal(end.position, end.total);
    assert.equal((await fixture.rest.detail(played.session)).status, 'completed');
  });

  test('it can be deleted, and its source too', async () => {
    const view = await source(steps(bash('sleep 2.5; echo one'), bash('sleep 2.5; echo two'), { text: 'the end of it' }));
    const played = await replay(view, 1);
    const other = await replay(view, 5);
    await fixture.rest.delete(`/api/sessions/${view.session}`);
    await finished(other.session);
    assert.equal((await transcript(fixture.rest, other.session)).at(-1)[2], 'the end of it');
    await fixture.rest.delete(`/api/sessions/${played.session}`);
    assert.equal((await fixture.rest.call('GET', `/api/sessions/${played.session}`)).status, 404);
    fixture.forget();
  });
});

test('preview says whether it can be done', async () => {
  const empty = await fixture.session({ intent: 'nothing yet' });
  const at = (id) => fixture.rest.get(`/api/sessions/${id}/replay/preview`);
  assert.deepEqual(await at(empty.session), { session_id: empty.session, intent: 'nothing yet', supported: false, reason: 'no_turns' });
  assert.equal((await fixture.rest.call('POST', `/api/sessions/${empty.session}/replay`, { speed: 1 })).status, 409);
  const { chat_id: chat } = await empty.say(steps(bash('until [ -e go ]; do sleep 0.05; done'), { text: 'done' }));
  await empty.patch('add_tool_call');
  assert.equal((await at(empty.session)).reason, 'still_running');
  assert.equal((await fixture.rest.call('POST', `/api/sessions/${empty.session}/replay`, { speed: 1 })).status, 409);
  await fixture.rest.put(`/api/sessions/${empty.session}/files/go`, { content: '' });
  await empty.ended(chat);
  const good = await at(empty.session);
  assert.deepEqual([good.supported, good.reason], [true, null]);
  for (const body of [{ speed: 3 }, { speed: 'x' }, {}]) {
    assert.equal((await fixture.rest.call('POST', `/api/sessions/${empty.session}/replay`, body)).status, 422, JSON.stringify(body));
  }
});

test('belongs to the user that asked for it', async () => {
  const view = await source(steps({ text: 'shared words' }));
  const { api_key: key } = await fixture.rest.post('/api/admin/users', { username: `viewer-${Date.now()}` });
  const viewer = new Rest(fixture.server.url, key.plaintext);
  const path = `/api/sessions/${view.session}/replay`;
  assert.equal((await viewer.call('POST', path, { speed: 5 })).status, 404);
  assert.equal((await viewer.call('GET', `${path}/preview`)).status, 404);
  await fixture.rest.patch(`/api/sessions/${view.session}/sharing`, { shared: true });
  const { session_id: id } = await viewer.post(path, { speed: 5 });
  assert.equal((await viewer.detail(id)).viewer_role, 'owner');
  assert.equal((await viewer.call('PATCH', path, { speed: 1 })).status, 403, 'the source is not theirs');
  await eventually('the end', async () => (await viewer.detail(id)).replay_state.status === 'finished');
  assert.equal((await transcript(viewer, id)).at(-1)[2], 'shared words');
});
