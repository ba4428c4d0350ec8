// A new build of the workers takes over beside the old one: chats that run end where
// they began, those that wait for an answer go on with the new build, none fails.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cluster } from './lib/cluster.mjs';
import * as dags from './lib/dags.mjs';
import { Talk } from './lib/load.mjs';
import { buildNext } from './lib/nextbuild.mjs';
import { binary } from './lib/server.mjs';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';

let dir;
let next; // the program of the new build
before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'everloop-next-'));
  next = process.env.EVERLOOP_NEXT_BIN ?? await buildNext(dir);
});
after(() => rmSync(dir, { recursive: true, force: true }));

// open starts so many talks of one kind.
const open = (fixture, count, kind, length) => Promise.all(Array.from({ length: count }, (_, i) =>
  Talk.open(fixture, `${kind}${i}`, { kind, length })));

const status = async (cluster) => JSON.parse(await cluster.deploy(binary, 'status', '--json'));

// built gives the build that carried on the newest run of a chat.
async function built(fixture, session) {
  const { items } = await fixture.rest.get(`/api/admin/runs?session_id=${session}&kind=chat`);
  return items[0]?.build_id;
}

// gated starts a run of a DAG that waits for a person between two commands.
async function gated({ rest }) {
  const mark = (id) => ({ id, type: 'tool', config: { tool: 'Bash', arguments: { command: `echo ${id} >> marks; cat marks` } } });
  const solution = await dags.publish(rest, dags.graph(
    [mark('first'), { id: 'gate', type: 'human', config: { prompt: 'Go on?', options: ['yes', 'no'] } }, mark('second')],
    ['s', 'first'], ['first', 'gate'], ['gate', 'second'], ['second', 'z']));
  const { id } = await rest.post(dags.dagOf(solution, '/runs'), {});
  const gate = await dags.reach(rest, solution, id, 'gate', 'waiting');
  return { solution, id, gate: gate.session_id };
}

// waits holds that a chat has asked, and waits for its answer.
const waits = (talk) => eventually(`${talk.name} waits for its answer`,
  async () => (await talk.fixture.rest.detail(talk.session)).status === 'waiting_for_input');

async function withCluster(work, options) {
  const cluster = await Cluster.start(options);
  let fixture;
  try {
    fixture = await cluster.fixture();
    await work(cluster, fixture);
  } finally {
    fixture?.close();
    await cluster.close();
  }
}

test('a new build beside the old one while 50 chats run and 20 wait for an answer', () => withCluster(async (cluster, fixture) => {
  const joined = await eventually('the first build is current', async () => {
    const now = await status(cluster);
    return now.versions.some((v) => v.status === 'current' && v.workers === 2) && now;
  });
  const old = joined.current;
  const waiting = await open(fixture, 20, 'question', 3);
  await Promise.all(waiting.map(waits));
  const dagRun = await gated(fixture);
  const running = [...await open(fixture, 35, 'commands', 10), ...await open(fixture, 15, 'sub-agent', 5)];
  // The first is the longest: it ends after the new build has taken over.
  const longest = await Talk.open(fixture, 'longest', { kind: 'commands', length: 40 });
  // A run has a build from its first workflow task on, which a busy machine makes late.
  await eventually('the longest chat has begun', async () => await built(fixture, longest.session) === old);

  const workers = await cluster.addWorkers(2, { program: next, env: { WORKER_VERSIONING: 'manual' } });
  const beside = await eventually('the new build has joined', async () => {
    const now = await status(cluster);
    return now.versions.some((v) => v.build_id !== old && v.workers === 2) && now;
  });
  assert.equal(beside.current, old, 'a build that an operator promotes waits for that');
  const { build_id: fresh } = beside.versions.find((v) => v.build_id !== old);
  assert.match(fresh, /^9999\.0\.0-[0-9a-f]{12}$/);
  assert.match(await cluster.deploy(next, 'promote'), new RegExp(`current: ${fresh}`));
  assert.notEqual((await fixture.rest.detail(longest.session)).status, 'completed', 'the chats were over before the new build took over');

  await Promise.all([...running, longest].map((t) => t.end()));
  for (const talk of [...running, longest]) await talk.check();
  assert.equal(await built(fixture, longest.session), old, 'a running chat ends on the build that it began on');

  await eventually('the old build is drained', async () => (await status(cluster)).versions
    .some((v) => v.build_id === old && v.status === 'drained'));
  assert.match(await cluster.deploy(binary, 'status'), new RegExp(`${old} +drained: may be stopped`));
  const shown = await fetch(`${cluster.workers[0].url}/metrics`).then((r) => r.text());
  await eventually('its workers say so', async () => (await fetch(`${cluster.workers[0].url}/metrics`).then((r) => r.text()))
    .includes(`everloop_worker_version{build_id="${old}",status="drained"} 1`), 30_000).catch(() => assert.fail(shown));
  for (const worker of cluster.workers) assert.deepEqual(await worker.terminate(), { code: 0, signal: null });

  const later = await Talk.open(fixture, 'later', { kind: 'commands', length: 2 });
  await Promise.all([later, ...waiting].map((t) => t.end()));
  for (const talk of [later, ...waiting]) {
    await talk.check();
    await eventually(`${talk.name} ended on the new build`, async () => await built(fixture, talk.session) === fresh, 20_000);
  }

  await dags.answer(fixture.rest, dagRun.gate, 0);
  const done = await dags.over(fixture.rest, dagRun.solution, dagRun.id);
  assert.equal(done.status, 'completed', JSON.stringify(done));
  assert.deepEqual(['first', 'second'].map((id) => dags.nodeOf(done, id)).map((n) => [n.attempt, n.outputs.trim()]),
    [[1, 'first'], [1, 'second']], 'a node ran twice');
  const { items: carried } = await fixture.rest.get('/api/admin/runs?kind=dag');
  assert.equal(carried.find((r) => r.workflow_id.endsWith(dagRun.id)).build_id, fresh, 'the run of a DAG goes on with the new build');
  for (const worker of workers) assert.deepEqual(await worker.terminate(), { code: 0, signal: null });
}, { workers: 2 }));

test('chats of a build whose workers are gone go on with the new one, and back', () => withCluster(async (cluster, fixture) => {
  const { current: old } = await eventually('the first build is current', async () => {
    const now = await status(cluster);
    return now.current && now;
  });
  const talks = await open(fixture, 6, 'commands', 30);
  const [worker] = await cluster.addWorkers(1, { program: next });
  await eventually('the new build is current by itself', async () => (await status(cluster)).current.startsWith('9999.'));
  for (const gone of cluster.workers) await gone.terminate();
  await Promise.all(talks.map((t) => t.end()));
  for (const talk of talks) await talk.check({ lost: true });

  // Back to the old build: its workers come, those of the new one go.
  await cluster.workers[0].start();
  const { current } = await status(cluster);
  assert.notEqual(current, old, 'a build that was replaced does not come back by itself while the new one has workers');
  await worker.terminate();
  const back = await Talk.open(fixture, 'back', { kind: 'commands', length: 2 });
  await back.end();
  await back.check();
  assert.equal((await status(cluster)).current, old);
}));

test('workers without a version take over when there are no others', () => withCluster(async (cluster, fixture) => {
  await eventually('the first build is current', async () => (await status(cluster)).current);
  const talk = await Talk.open(fixture, 'kept', { kind: 'question', length: 2 });
  await waits(talk);
  for (const gone of cluster.workers) await gone.terminate();
  await cluster.addWorkers(1, { program: next, env: { WORKER_VERSIONING: 'off' } });
  await talk.end();
  await talk.check();
  assert.equal((await status(cluster)).current, '');
}));

test('a single process goes on with the chats of its data directory after an upgrade', async () => {
  const fixture = await Fixture.start();
  try {
    const view = await fixture.session();
    const ack = await view.say(steps(
      { calls: [call('AskUserQuestion', { questions: [{ question: 'Which?', options: [{ label: 'a' }, { label: 'b' }] }] })] },
      bash('echo after >> marks'), { text: 'done' }));
    assert.equal((await view.ended(ack.chat_id)).finish_reason, 'awaiting_answer');
    const [{ id }] = view.callsOf(ack.chat_id);
    await fixture.server.stop();
    fixture.server.program = next;
    await fixture.server.start();
    const again = await fixture.follow(view.session, 0);
    await again.answer(id, { selections: { 0: [0] } });
    await again.wait('its end', (e) => e.name === 'chat:end' && e.data.chat_id === ack.chat_id && e.data.finish_reason === 'completed');
    assert.equal(await fixture.rest.file(view.session, 'marks'), 'after\n');
  } finally {
    await fixture.close();
  }
});
