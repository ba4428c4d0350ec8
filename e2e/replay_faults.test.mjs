// kill -9 while a replay plays, is handed over or resumed, and while a session is
// imported. Started again on the same data, everything is whole and goes on.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Fixture, bash, eventually, steps } from './lib/fixture.mjs';

const recovery = 180_000;

let fixture;
let slow; // a session whose second chat has output for 40 seconds: a replay makes no pause longer than three
before(async () => {
  fixture = await Fixture.start();
  const view = await fixture.session();
  slow = view.session;
  await view.run(steps(bash('mkdir d; for i in {1..300}; do echo $i > d/$i; done; echo zero > state.txt'), { text: 'first' }));
  await view.run(steps(
    bash('echo one > state.txt; echo one'),
    { text: words, delay_ms: 20, ...bash('for i in {1..80}; do echo $i; sleep 0.5; done; echo two > state.txt; echo two') },
    { text: 'the very end' }));
  fixture.forget();
});
after(() => fixture?.close());
afterEach(() => fixture.forget());

const transcript = async (session) =>
  (await fixture.rest.messages(session)).map((t) => [
    t.role,
    t.status,
    t.blocks
      .filter((b) => b.type === 'text')
      .map((b) => b.content)
      .join(''),
    t.tool_calls.map((c) => [c.tool_name, c.status, c.result]),
  ]);
const state = async (id) => (await fixture.rest.detail(id)).replay_state;
const status = (id, want) => eventually(`the replay is ${want}`, async () => (await state(id)).status === want && state(id), recovery);
const patch = (id, body) => fixture.rest.call('PATCH', `/api/sessions/${id}/replay`, body);

async function restart() {
  const { signal } = await fixture.server.kill();
  assert.equal(signal, 'SIGKILL');
  fixture.forget();
  await fixture.server.start();
}

// replay begins to play a session and follows it.
async function replay(source, speed) {
  const { session_id: id } = await fixture.rest.post(`/api/sessions/${source}/replay`, { speed });
  return fixture.follow(id, 0);
}

// whole holds all events of a session, and its records, to the rules.
async function whole(id) {
  fixture.adopt(id, fixture.rest);
  await fixture.settle();
}

const words = Array.from({ length: 100 }, (_, i) => `word${i}`).join(' ');
const long = () => steps(
  bash('sleep 1; echo one > state.txt; echo one'),
  { text: words, delay_ms: 20, ...bash('sleep 1; echo two > state.txt; echo two') },
  { text: 'the very end' });
const moments = {
  'in the middle of a text': (v) =>
    v.wait('words', (e) => e.data.patch_type === 'add_content' && v.rules.text(e.data.turn_id).includes('word30')),
  'behind the last result': (v) => v.wait('another result', (e) => e.data.patch_type === 'tool_result' && e.data.result.includes('two')),
};

test('killed twice on its way, a replay repeats nothing and loses nothing', async () => {
  const view = await fixture.session();
  await view.run(long());
  const source = await transcript(view.session);
  const { session: id } = await replay(view.session, 1);
  let at = -1;
  for (const moment of Object.values(moments)) {
    const played = await fixture.follow(id, 0);
    await moment(played);
    await restart();
    const { position } = await state(id);
    assert.ok(position >= at, 'it went back');
    at = position;
  }
  const end = await status(id, 'finished');
  assert.equal(end.position, end.total);
  assert.deepEqual(await transcript(id), source);
  const all = await fixture.follow(id, 0);
  await all.wait('the end', (e) => e.name === 'chat:end');
  for (const name of ['chat:start', 'chat:end']) assert.equal(all.events.filter((e) => e.name === name).length, 1, name);
  await eventually(
    'its files are there',
    async () => (await fixture.rest.call('GET', `/api/sessions/${id}/files/state.txt`)).body === 'two\n',
  );
  await whole(id);
});

test('killed at a speed of 5, it is handed over where it is', async () => {
  const played = await replay(slow, 5);
  await moments['in the middle of a text'](played);
  await restart();
  const { status: code, body } = await patch(played.session, { status: 'autonomous' });
  const again = await fixture.follow(played.session, 0);
  assert.equal(code, 200, JSON.stringify(body));
  assert.equal(body.replay_state.status, 'autonomous');
  assert.ok(body.replay_state.position < body.replay_state.total, 'it was over before');
  assert.equal((await fixture.rest.detail(played.session)).status, 'interrupted');
  assert.equal(await fixture.rest.file(played.session, 'state.txt'), 'one\n', 'the files are not those of this point');
  assert.equal((await fixture.requests('mine after the fall')).length, 0);
  const { calls } = await again.run(steps(bash('cat state.txt'), { text: 'mine after the fall' }));
  assert.match(calls[0].result, /one/);
  assert.equal((await patch(played.session, { status: null })).body.code, 'replay_over');
  await whole(played.session);
});

for (const [what, wait] of [['at once', 0], ['a moment', 15], ['a while', 60]]) {
  test(`killed ${what} after the hand-over was asked for, it is one or the other`, async () => {
    const played = await replay(slow, 1);
    await played.wait('the second call', (e) => e.data.patch_type === 'add_tool_call' && e.data.tool_call.arguments.includes('two'));
    const asked = patch(played.session, { status: 'autonomous' }).catch(() => undefined);
    await pause(wait);
    await restart();
    const answer = await asked;
    const now = await state(played.session);
    if (answer?.status === 200) assert.equal(now.status, 'autonomous', 'it was said to be handed over');
    if (now.status !== 'autonomous') assert.equal((await patch(played.session, { status: 'autonomous' })).status, 200);
    // The files are owed from the commit on, and come without anybody asking.
    await eventually(
      'the files',
      async () => (await fixture.rest.call('GET', `/api/sessions/${played.session}/files/d/300`)).status === 200,
      recovery,
    );
    const view2 = await fixture.follow(played.session, 0);
    const ack = await eventually('it takes messages', async () => {
      const got = await view2.send(steps(bash('cat state.txt; ls d | wc -l'), { text: 'mine' }));
      return got.ok ? got : undefined;
    }, recovery);
    assert.equal((await view2.ended(ack.chat_id, { timeout: recovery })).status, 'completed');
    assert.match(view2.callsOf(ack.chat_id)[0].result, /one\n300/);
    await whole(played.session);
  });
}

test('killed while it is paused, it stays paused and can be resumed', async () => {
  const source = await transcript(slow);
  const played = await replay(slow, 5);
  await moments['in the middle of a text'](played);
  await played.stop();
  await restart();
  assert.equal((await state(played.session)).status, 'paused');
  const again = await fixture.follow(played.session, 0);
  assert.equal((await again.send('hello')).error.code, 'session_busy');
  assert.equal((await patch(played.session, { status: null })).status, 200);
  await status(played.session, 'finished');
  assert.deepEqual((await transcript(played.session)).at(-1), source.at(-1));
  await whole(played.session);
});

test('killed while it is read, an import makes one session, whole', async () => {
  const view = await fixture.session({ intent: 'to be imported' });
  await view.run(
    steps(bash('mkdir d; for i in $(seq 1500); do echo $i > d/$i; done'), bash('head -c 20000000 /dev/urandom > big'), { text: 'made' }),
  );
  const was = await transcript(view.session);
  const headers = (key) => ({ authorization: `Bearer ${fixture.server.key}`, ...(key ? { 'idempotency-key': key } : {}) });
  const archive = Buffer.from(
    await (await fetch(`${fixture.server.url}/api/sessions/${view.session}/export`, { headers: headers() })).arrayBuffer(),
  );
  const load = (key) => {
    const form = new FormData();
    form.append('file', new Blob([archive]), 'a.zip');
    return fetch(`${fixture.server.url}/api/sessions/import`, { method: 'POST', headers: headers(key), body: form }).then((r) => r.json());
  };
  const imported = async () =>
    (await fixture.rest.get('/api/sessions?limit=100')).items.filter((s) => s.intent === 'to be imported' && s.id !== view.session);
  const workspaces = () => readdirSync(fixture.server.workspace).filter((name) => !name.startsWith('.')).length;
  const dirs = workspaces();
  const made = new Set();
  for (const wait of [60, 250, 700]) {
    const asked = load(`wait ${wait}`).catch(() => undefined);
    await pause(wait);
    await restart();
    const answer = await asked;
    const again = await load(`wait ${wait}`);
    assert.ok(again.id, JSON.stringify(again));
    if (answer?.id) assert.equal(again.id, answer.id, 'it was said to be there');
    made.add(again.id);
    assert.deepEqual(new Set((await imported()).map((s) => s.id)), made, 'each was imported once');
    assert.deepEqual(await transcript(again.id), was);
    assert.equal((await fixture.rest.get(`/api/sessions/${again.id}/ls/d`)).length, 1500, 'it is not whole');
  }
  assert.equal(workspaces() - dirs, made.size);
  const copy = await fixture.follow([...made][0], 0);
  const { calls } = await copy.run(steps(bash('ls d | wc -l; stat -c %s big'), { text: 'ok' }));
  assert.match(calls[0].result, /1500\n20000000/);
});
