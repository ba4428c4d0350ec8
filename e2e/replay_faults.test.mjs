// kill -9 while a replay plays, is handed over or resumed, and while a session is
// imported. Started again on the same data, everything is whole and goes on.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { World, bash, eventually, steps } from './lib/world.mjs';

const recovery = 180_000;

let world;
let slow; // a session whose second chat has output for 40 seconds: a replay makes no pause longer than three
before(async () => {
  world = await World.start();
  const view = await world.session();
  slow = view.session;
  await view.run(steps(bash('mkdir d; for i in {1..300}; do echo $i > d/$i; done; echo zero > state.txt'), { text: 'first' }));
  await view.run(steps(
    bash('echo one > state.txt; echo one'),
    { text: words, delay_ms: 20, ...bash('for i in {1..80}; do echo $i; sleep 0.5; done; echo two > state.txt; echo two') },
    { text: 'the very end' }));
  world.forget();
});
after(() => world?.close());
afterEach(() => world.forget());

const told = async (session) => (await world.rest.messages(session))
  .map((t) => [t.role, t.status, t.blocks.filter((b) => b.type === 'text').map((b) => b.content).join(''), t.tool_calls.map((c) => [c.tool_name, c.status, c.result])]);
const state = async (id) => (await world.rest.detail(id)).replay_state;
const status = (id, want) => eventually(`the replay is ${want}`, async () => (await state(id)).status === want && state(id), recovery);
const patch = (id, body) => world.rest.call('PATCH', `/api/sessions/${id}/replay`, body);

async function restart() {
  const { signal } = await world.server.kill();
  assert.equal(signal, 'SIGKILL');
  world.forget();
  await world.server.start();
}

// replay begins to play a session and follows it.
async function replay(source, speed) {
  const { session_id: id } = await world.rest.post(`/api/sessions/${source}/replay`, { speed });
  return world.follow(id, 0);
}

// whole holds all events of a session, and its records, to the rules.
async function whole(id) {
  world.adopt(id, world.rest);
  await world.settle();
}

const words = Array.from({ length: 100 }, (_, i) => `word${i}`).join(' ');
const long = () => steps(
  bash('sleep 1; echo one > state.txt; echo one'),
  { text: words, delay_ms: 20, ...bash('sleep 1; echo two > state.txt; echo two') },
  { text: 'the very end' });
const moments = {
  'in the middle of a text': (v) => v.wait('words', (e) => e.data.patch_type === 'add_content' && v.rules.text(e.data.turn_id).includes('word30')),
  'behind the last result': (v) => v.wait('another result', (e) => e.data.patch_type === 'tool_result' && e.data.result.includes('two')),
};

test('killed twice on its way, a replay repeats nothing and loses nothing', async () => {
  const view = await world.session();
  await view.run(long());
  const source = await told(view.session);
  const { session: id } = await replay(view.session, 1);
  let at = -1;
  for (const moment of Object.values(moments)) {
    const played = await world.follow(id, 0);
    await moment(played);
    await restart();
    const { position } = await state(id);
    assert.ok(position >= at, 'it went back');
    at = position;
  }
  const end = await status(id, 'finished');
  assert.equal(end.position, end.total);
  assert.deepEqual(await told(id), source);
  const all = await world.follow(id, 0);
  await all.wait('the end', (e) => e.name === 'chat:end');
  for (const name of ['chat:start', 'chat:end']) assert.equal(all.events.filter((e) => e.name === name).length, 1, name);
  await eventually('its files are there', async () => (await world.rest.call('GET', `/api/sessions/${id}/files/state.txt`)).body === 'two\n');
  await whole(id);
});

test('killed at a speed of 5, it is handed over where it is', async () => {
  const played = await replay(slow, 5);
  await moments['in the middle of a text'](played);
  await restart();
  const { status: code, body } = await patch(played.session, { status: 'autonomous' });
  const again = await world.follow(played.session, 0);
  assert.equal(code, 200, JSON.stringify(body));
  assert.equal(body.replay_state.status, 'autonomous');
  assert.ok(body.replay_state.position < body.replay_state.total, 'it was over before');
  assert.equal((await world.rest.detail(played.session)).status, 'interrupted');
  assert.equal(await world.rest.file(played.session, 'state.txt'), 'one\n', 'the files are not those of this point');
  assert.equal((await world.requests('mine after the fall')).length, 0);
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
    await eventually('the files', async () => (await world.rest.call('GET', `/api/sessions/${played.session}/files/d/300`)).status === 200, recovery);
    const view2 = await world.follow(played.session, 0);
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
  const source = await told(slow);
  const played = await replay(slow, 5);
  await moments['in the middle of a text'](played);
  await played.stop();
  await restart();
  assert.equal((await state(played.session)).status, 'paused');
  const again = await world.follow(played.session, 0);
  assert.equal((await again.send('hello')).error.code, 'session_busy');
  assert.equal((await patch(played.session, { status: null })).status, 200);
  await status(played.session, 'finished');
  assert.deepEqual((await told(played.session)).at(-1), source.at(-1));
  await whole(played.session);
});

test('killed while it is read, an import makes a whole session or none', async () => {
  const view = await world.session({ intent: 'to be imported' });
  await view.run(steps(bash('mkdir d; for i in $(seq 1500); do echo $i > d/$i; done'), bash('head -c 20000000 /dev/urandom > big'), { text: 'made' }));
  const was = await told(view.session);
  const headers = () => ({ authorization: `Bearer ${world.server.key}` });
  const archive = Buffer.from(await (await fetch(`${world.server.url}/api/sessions/${view.session}/export`, { headers: headers() })).arrayBuffer());
  const load = () => {
    const form = new FormData();
    form.append('file', new Blob([archive]), 'a.zip');
    return fetch(`${world.server.url}/api/sessions/import`, { method: 'POST', headers: headers(), body: form }).then((r) => r.json());
  };
  const imported = async () => (await world.rest.get('/api/sessions?limit=100')).items.filter((s) => s.intent === 'to be imported' && s.id !== view.session);
  const workspaces = () => readdirSync(join(world.server.dir, 'data', 'workspace')).filter((name) => !name.startsWith('.')).length;
  const known = (await imported()).length;
  const dirs = workspaces();
  let made = 0;
  for (const wait of [60, 250, 700]) {
    const asked = load().catch(() => undefined);
    await pause(wait);
    await restart();
    const answer = await asked;
    const found = await imported();
    assert.ok(found.length - known - made <= 1);
    if (answer?.id) assert.ok(found.some((s) => s.id === answer.id), 'it was said to be there');
    made = found.length - known;
    for (const s of found) {
      assert.deepEqual(await told(s.id), was);
      assert.equal((await world.rest.get(`/api/sessions/${s.id}/ls/d`)).length, 1500, 'it is not whole');
    }
  }
  const done = await load();
  assert.deepEqual(await told(done.id), was);
  const copy = await world.follow(done.id, 0);
  const { calls } = await copy.run(steps(bash('ls d | wc -l; stat -c %s big'), { text: 'ok' }));
  assert.match(calls[0].result, /1500\n20000000/);
  // What the killed ones left is cleared away once nothing was heard of them for two minutes; its
  // rows say so until then.
  assert.ok(workspaces() - dirs - made - 1 <= 3);
});
