// `everloop backup` and `everloop restore` (docs/operators/backup.md#backup): data of every kind
// is backed up while chats run, the service is killed, and a restored one goes on.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';
import { Rest } from './lib/rest.mjs';
import { binary } from './lib/server.mjs';

let fixture, scratch, archive;
before(async () => {
  fixture = await Fixture.start();
  scratch = mkdtempSync(join(tmpdir(), 'everloop-backup-'));
  archive = join(scratch, 'archive');
});
after(async () => {
  await fixture?.close();
  rmSync(scratch, { recursive: true, force: true });
});

// run gives how a command ended and what it wrote.
const run = (command, args, env = {}, options = {}) => new Promise((resolve) =>
  execFile(command, args, { env: { PATH: process.env.PATH, HOME: scratch, LANG: 'C.UTF-8', ...env }, ...options },
    (err, out, notes) => resolve({ ok: !err, text: `${out}${notes}` })));
const everloop = (args, env) => run(binary, args, env);
const must = async (promise) => {
  const { ok, text } = await promise;
  assert.ok(ok, text);
  return text;
};
const gitEnv = {
  GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null', GIT_TERMINAL_PROMPT: '0',
  GIT_AUTHOR_NAME: 'Ann', GIT_AUTHOR_EMAIL: 'a@example.org', GIT_COMMITTER_NAME: 'Ann', GIT_COMMITTER_EMAIL: 'a@example.org',
};
const git = (dir, ...args) => must(run('git', args, gitEnv, { cwd: dir }));
const gitURL = () => `${fixture.server.gitURL.replace('://', `://any:${fixture.server.key}@`)}/acme/tables.git`;

const document = (name, version) => `---\nname: ${name}\ndescription: What it is for.\nmetadata:\n  version: ${version}\n---\nText.\n`;
const ask = call('AskUserQuestion', { questions: [{ question: 'Which?', header: 'One', options: [{ label: 'red' }, { label: 'blue' }] }] });
const checkpoints = (id) => fixture.rest.get(`/api/sessions/${id}/checkpoints`);
const dag = (id, rest = '') => `/api/prod_solution/dag/${id}${rest}`;
const login = async (username, password) => (await fetch(`${fixture.server.identityURL}/api/v1/auth/login`, {
  method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ username, password }),
})).status;

const ticks = 60;
const made = {}; // by name, what the service is given

// Files, checkpoints, skills, environment.
async function makeSession() {
  await fixture.rest.put('/api/env/buckets/default', { env: { KEPT: 'sealed value' } });
  const view = await fixture.session();
  made.session = view.session;
  await fixture.rest.post(`/api/sessions/${view.session}/skills:upload`, {
    name: 'greeting', files: [{ path: 'SKILL.md', content: document('greeting', '1.0.0') }],
  });
  await view.run(steps(bash('mkdir -p d && echo one > d/notes && ln -s notes d/link'), { text: 'written' }));
  await view.run(steps(bash('rm d/notes'), { text: 'removed' }));
  made.checkpoints = await eventually('the files are captured', async () => {
    const list = await checkpoints(view.session);
    return list.length > 0 && list.every((c) => c.files.complete) ? list : undefined;
  });
  made.messages = await fixture.rest.messages(view.session);
}

// A task, a graph that waits for a person, an issue, a user, a repository.
async function makeWork() {
  made.task = await fixture.rest.post('/api/scheduled-tasks', {
    title: 'T', cron: '@yearly', timezone: 'UTC', prompt: steps({ text: 'done' }),
  });
  made.solution = (await fixture.rest.post('/api/prod_solution', { name: 'Runs' })).id;
  await fixture.rest.put(dag(made.solution), {
    base_version: (await fixture.rest.get(dag(made.solution))).version,
    dag: {
      nodes: [
        { id: 's', type: 'start' }, { id: 'gate', type: 'human', config: { prompt: 'Go?', options: ['yes', 'no'] } },
        { id: 'z', type: 'end' },
      ],
      edges: [{ id: 'e0', source: 's', target: 'gate' }, { id: 'e1', source: 'gate', target: 'z' }],
    },
  });
  await fixture.rest.post(dag(made.solution, '/publish'));
  made.run = (await fixture.rest.post(dag(made.solution, '/runs'), {})).id;
  made.gate = await eventually('the gate waits', async () =>
    (await fixture.rest.get(dag(made.solution, `/runs/${made.run}`))).nodes.find((n) => n.node_id === 'gate' && n.status === 'waiting'));

  made.board = `/api/prod_workspaces/${(await fixture.rest.post('/api/prod_workspaces', { name: 'Website' })).id}`;
  made.issue = await fixture.rest.post(`${made.board}/issues`, { title: 'An issue', description: 'What to do' });
  await fixture.rest.post(`${made.board}/issues/${made.issue.id}/comments`, { content: 'A comment' });

  const user = await fetch(`${fixture.server.identityURL}/api/v1/users`, {
    method: 'POST', headers: { 'content-type': 'application/json', authorization: `Bearer ${fixture.server.key}` },
    body: JSON.stringify({ username: 'ann', password: 'a password of ann', email: 'ann@example.org', name: 'Ann' }),
  });
  assert.equal(user.status, 201);

  const copy = join(scratch, 'copy');
  mkdirSync(copy);
  await git(copy, 'init', '--quiet', '--initial-branch=main');
  writeFileSync(join(copy, 'SKILL.md'), document('tables', '1.0.0'));
  await git(copy, 'add', '--all');
  await git(copy, 'commit', '--quiet', '-m', 'Start');
  await git(copy, 'push', gitURL(), 'main');
  made.commit = (await git(copy, 'rev-parse', 'HEAD')).trim();
  await new Rest(fixture.server.registryURL, fixture.server.key).put('/skills/acme/tables/release', { version: '1.0.0' });
}

// Chats that run, wait for the model, and wait for an answer.
async function makeChats() {
  const view = await fixture.session();
  const asked = await view.run(steps({ text: 'I ask.', calls: [ask] }, { text: 'thank you' }));
  made.question = { session: view.session, call: asked.calls[0].id };

  const held = await fixture.session();
  made.held = { session: held.session, chat: (await held.say(order({ steps: [{ text: 'one two', hold: true }] }))).chat_id };

  const busy = await fixture.session();
  const list = Array.from({ length: ticks }, (_, i) => bash(`echo ${i} >> effects`));
  made.busy = { session: busy.session, chat: (await busy.say(steps(...list, { text: 'counted' }))).chat_id };
  await eventually(
    'the chat has effects', async () => (await fixture.rest.call('GET', `/api/sessions/${busy.session}/files/effects`)).status === 200,
  );
}

const dataDir = () => join(fixture.server.dir, 'data');

test('a backup is written while chats run', async () => {
  await makeSession();
  await makeWork();
  await makeChats();
  const said = await must(everloop(['backup', archive], { DATA_DIR: dataDir() }));
  for (const part of ['database/everloop', 'files/workspace', 'files/git', 'files/config', 'files/encryption-key', 'objects']) {
    assert.ok(said.includes(part), `${part} in ${said}`);
  }
  assert.equal(statSync(archive).mode & 0o777, 0o600);
  assert.equal((await fixture.rest.detail(made.held.session)).status, 'running', 'the service goes on');
  const again = await everloop(['backup', archive], { DATA_DIR: dataDir() });
  assert.match(again.text, /exists: choose another name/);
  made.config = readFileSync(join(dataDir(), 'config/config.yaml'), 'utf8');
});

test('what is no place for a restore is refused', async () => {
  const running = await everloop(['restore', archive], { DATA_DIR: dataDir() });
  assert.ok(!running.ok);
  assert.match(running.text, /is in use by process \d+: stop it/);

  const occupied = join(scratch, 'occupied');
  mkdirSync(occupied);
  writeFileSync(join(occupied, 'file'), '');
  assert.match((await everloop(['restore', archive], { DATA_DIR: occupied })).text, /is not empty/);

  const target = join(scratch, 'target');
  const bytes = readFileSync(archive);
  const damaged = Buffer.from(bytes);
  damaged[bytes.length >> 1] ^= 0x55;
  for (const [name, content, want] of [
    ['damaged', damaged, /damaged/],
    ['cut', bytes.subarray(0, bytes.length - 10), /damaged/],
    ['other', Buffer.from('not a backup'), /not a backup of Everloop/],
  ]) {
    writeFileSync(join(scratch, name), content);
    const refused = await everloop(['restore', join(scratch, name)], { DATA_DIR: target });
    assert.ok(!refused.ok, name);
    assert.match(refused.text, want);
  }
  const key = await everloop(['restore', archive], { DATA_DIR: target, ENCRYPTION_KEY: 'another key of at least 32 characters' });
  assert.match(key.text, /ENCRYPTION_KEY is not the one of the backup/);
  assert.ok(!existsSync(target), 'nothing is written before the backup is checked');
  assert.match((await everloop(['backup', join(scratch, 'none')], { DATA_DIR: occupied })).text, /contains no data of Everloop/);
});

test('a restored service has everything, and goes on', async () => {
  await fixture.server.kill();
  fixture.forget();
  rmSync(fixture.server.dir, { recursive: true, force: true, maxRetries: 100, retryDelay: 100 });
  mkdirSync(fixture.server.dir);
  assert.match(await must(everloop(['restore', archive], { DATA_DIR: dataDir() })), /Restored/);
  await fixture.server.start();
  fixture.rest = new Rest(fixture.server.url, fixture.server.key);

  assert.deepEqual(await fixture.rest.messages(made.session), made.messages);
  assert.deepEqual((await checkpoints(made.session)).map((c) => c.checkpoint_id), made.checkpoints.map((c) => c.checkpoint_id));
  assert.equal(readFileSync(join(dataDir(), 'config/config.yaml'), 'utf8'), made.config);
  assert.equal((await fixture.rest.call('GET', `/api/sessions/${made.session}/files/d/notes`)).status, 404);
  const skills = (await fixture.rest.get(`/api/sessions/${made.session}/skills`)).items.map((s) => s.name);
  assert.ok(skills.includes('greeting'), `${skills}`);
  const removed = made.checkpoints.filter((c) => c.kind === 'user_turn').at(-1);
  const moved = await fixture.rest.post(`/api/sessions/${made.session}/rewind`, { checkpoint_id: removed.checkpoint_id });
  const notes = await fixture.rest.call('GET', `/api/sessions/${made.session}/files/d/notes`);
  assert.equal(notes.status, 200, `the objects of the checkpoints are there: ${JSON.stringify([moved, made.checkpoints])}`);

  assert.equal(await login('ann', 'a password of ann'), 200);
  assert.equal(await login('ann', 'another password'), 401);
  const clone = join(scratch, 'clone');
  await git(scratch, 'clone', '--quiet', gitURL(), clone);
  assert.equal((await git(clone, 'rev-parse', 'HEAD')).trim(), made.commit);
  const registry = new Rest(fixture.server.registryURL, fixture.server.key);
  assert.equal((await registry.call('GET', '/skills/acme/tables/download')).status, 200);

  const issue = await fixture.rest.get(`${made.board}/issues/${made.issue.id}`);
  assert.equal(issue.title, 'An issue');
  assert.deepEqual((await fixture.rest.get(`${made.board}/issues/${made.issue.id}/comments`)).items.map((c) => c.content), ['A comment']);
});

test('chats that ran end once, and what waited goes on', async () => {
  const view = await fixture.follow(made.session);
  const sealed = await view.run(steps(bash('echo "<$KEPT>"'), { text: 'shown' }));
  assert.match(sealed.calls[0].result, /<sealed value>/);

  await fixture.releaseUntil(eventually('the chats end', async () => {
    const states = await Promise.all([made.held, made.busy].map(async (c) => (await fixture.rest.detail(c.session)).status));
    return states.every((s) => s === 'completed');
  }));
  for (const { session, chat } of [made.held, made.busy]) {
    const seen = await fixture.follow(session, 0);
    await eventually(`chat ${chat} has ended`, () => seen.events.some((e) => e.name === 'chat:end' && e.data.chat_id === chat));
    const ends = seen.events.filter((e) => e.name === 'chat:end' && e.data.chat_id === chat);
    assert.equal(ends.length, 1, JSON.stringify(ends));
  }
  // The files are some moments newer than the records: a command in between runs again.
  const numbers = (await fixture.rest.file(made.busy.session, 'effects')).trim().split('\n').map(Number);
  assert.deepEqual([...new Set(numbers)].sort((a, b) => a - b), Array.from({ length: ticks }, (_, i) => i));
  assert.equal((await fixture.rest.messages(made.busy.session)).flatMap((m) => m.tool_calls ?? []).length, ticks);

  const waiting = await fixture.follow(made.question.session);
  await waiting.answer(made.question.call, { selections: { 0: [1] } });
  await eventually('the answered chat ends', async () => (await fixture.rest.detail(made.question.session)).status === 'completed');

  const asked = await eventually('the gate is in the inbox', async () =>
    (await fixture.rest.get('/api/inbox')).items.find((i) => i.session_id === made.gate.session_id));
  await fixture.rest.post(`/api/sessions/${made.gate.session_id}/chat`, {
    askuser_answer: { tool_call_id: asked.tool_call_id, selections: { 0: [0] }, custom: {} },
  });
  await eventually('the graph is done', async () =>
    (await fixture.rest.get(dag(made.solution, `/runs/${made.run}`))).status === 'completed');

  await eventually('the schedules are in Temporal again', async () => {
    const text = await (await fetch(`${fixture.server.url}/metrics`)).text();
    return /everloop_schedule_drift\{kind="unsynced"\} 0/.test(text);
  });
  const started = await fixture.rest.post(`/api/scheduled-tasks/${made.task.id}/run`);
  await eventually('the scheduled run is over', async () =>
    (await fixture.rest.get(`/api/scheduled-tasks/${made.task.id}/runs`)).find((r) => r.id === started.id && r.status !== 'running'));
});

test('a stopped service is backed up too', async () => {
  fixture.forget();
  await fixture.server.stop();
  const cold = join(scratch, 'cold');
  assert.match(await must(everloop(['backup', cold], { DATA_DIR: dataDir() })), /database\/everloop/);
  const other = join(scratch, 'restored');
  await must(everloop(['restore', cold], { DATA_DIR: other }));
  assert.ok(existsSync(join(other, 'workspace', made.session)));
  assert.ok(!existsSync(join(other, 'restore-unfinished')));
  writeFileSync(join(other, 'restore-unfinished'), '');
  const half = await everloop(['doctor', '--json'], { DATA_DIR: other });
  assert.match(half.text, /was not restored completely/);
});
