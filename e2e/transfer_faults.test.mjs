// An API or a worker is killed, and an engine is away, in the middle of an import.
// The client gets its session, once, or can ask again with the same Idempotency-Key;
// nothing else is left.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Cluster } from './lib/cluster.mjs';
import { bash, eventually, steps } from './lib/fixture.mjs';

const count = 4000;
const intent = 'to be imported';

let cluster;
let fixture;
let archive;
let was; // what the archive's session says, and the sums of its files
let sums;
let known; // sessions that are there already
before(async () => {
  cluster = await Cluster.start({ apis: 2, workers: 2 });
  fixture = await cluster.fixture();
  const view = await fixture.session({ intent });
  await view.run(
    steps(bash(`mkdir d; for i in $(seq ${count}); do echo $i > d/$i; done`), bash('head -c 30000000 /dev/urandom > big'), {
      text: 'made',
    }),
  );
  sums = await sumsOf(view);
  was = await transcript(view.session);
  const answer = await fetch(`${cluster.apis[0].url}/api/sessions/${view.session}/export`, {
    headers: { authorization: `Bearer ${cluster.key}` },
  });
  archive = Buffer.from(await answer.arrayBuffer());
  fixture.forget();
  known = new Set(await imported());
});
afterEach(() => cluster?.heal());
after(async () => {
  fixture?.close();
  await cluster?.close();
});

// load imports the archive through an API; undefined when the API dies.
const load = (api, key = randomUUID()) => {
  const form = new FormData();
  form.append('file', new Blob([archive]), 'a.zip');
  return fetch(`${api.url}/api/sessions/import`, {
    method: 'POST',
    body: form,
    headers: { authorization: `Bearer ${cluster.key}`, 'idempotency-key': key },
  }).then(
    async (r) => ({ status: r.status, body: await r.json() }),
    () => undefined,
  );
};
const imported = async () => (await fixture.rest.get('/api/sessions?limit=100')).items.filter((s) => s.intent === intent).map((s) => s.id);
const workspaces = () => readdirSync(join(cluster.dir, 'data', 'workspace')).filter((name) => !name.startsWith('.'));
const transcript = async (id) =>
  (await fixture.rest.messages(id)).map((t) => [
    t.role,
    t.status,
    t.blocks.map((b) => b.content),
    t.tool_calls.map((c) => [c.tool_name, c.status, c.result]),
  ]);
const uploads = () =>
  readdirSync(cluster.dir + '/s3', { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && /\/imports\//.test(`${entry.parentPath}/`),
  );

// under begins an import, waits until its files are written, causes a fault, and
// holds the import to its promise.
async function under(fault, { key = randomUUID(), again } = {}) {
  const dirs = new Set(workspaces());
  const asked = load(cluster.apis[0], key);
  const id = await until(() => workspaces().find((name) => !dirs.has(name)));
  await until(() => filesOf(id) > 100);
  assert.ok(filesOf(id) < count, 'the fault is in the middle');
  await fault();
  const answer = again ? await again(asked, key) : await asked;
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  assert.equal(answer.body.id, id);
  await whole(id);
}

const filesOf = (id) => {
  try {
    return readdirSync(join(cluster.dir, 'data', 'workspace', id, 'd')).length;
  } catch {
    return 0; // not yet
  }
};

const sumsOf = (view) =>
  view.run(steps(bash('ls d | wc -l; cat d/* big | sha256sum'), { text: 'seen' })).then(({ calls }) => calls[0].result);

// until polls closely, so that the fault comes where it should.
async function until(probe) {
  for (const deadline = Date.now() + 180_000; ;) {
    const found = probe();
    if (found) return found;
    assert.ok(Date.now() < deadline, 'the import has not begun');
    await pause(2);
  }
}

// whole holds that one session came of an import, with all that it has, and nothing
// else.
async function whole(id) {
  const made = (await imported()).filter((other) => !known.has(other));
  assert.deepEqual(made, [id]);
  known.add(id);
  assert.deepEqual(await transcript(id), was);
  assert.equal(await sumsOf(await fixture.follow(id, 0)), sums);
  fixture.forget();
  await eventually('the archive is gone', () => uploads().length === 0);
}

async function restart(process) {
  await process.kill();
  await process.start();
}

describe('an import goes on when', () => {
  test('both workers are killed', () => under(() => Promise.all(cluster.workers.map(restart))));

  test('its API is killed, and the client asks another one', () => under(() => cluster.apis[0].kill(), {
    again: async (asked, key) => {
      assert.equal(await asked, undefined, 'the API was killed');
      const answer = await load(cluster.apis[1], key);
      await cluster.apis[0].start();
      return answer;
    },
  }));

  test('the client asks again meanwhile', () => under(() => {}, {
    again: async (asked, key) => {
      const [, joined] = await Promise.all([asked, load(cluster.apis[1], key)]);
      return joined;
    },
  }));

  for (const engine of ['postgres', 's3', 'temporal']) {
    test(`${engine} is away for 5 s`, () => under(async () => {
      cluster.proxies[engine].reset();
      await pause(5000); // how long it is away, not something to wait for
      cluster.heal();
    }));
  }
});

test('an API that is killed while the archive comes: the client asks again', async () => {
  const dirs = workspaces();
  const key = randomUUID();
  let feed;
  const body = new ReadableStream({ start(controller) { feed = controller; } });
  const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\n';
  feed.enqueue(Buffer.concat([Buffer.from(head), archive.subarray(0, archive.length / 2)]));
  const cut = fetch(`${cluster.apis[0].url}/api/sessions/import`, {
    method: 'POST', body, duplex: 'half',
    headers: { authorization: `Bearer ${cluster.key}`, 'content-type': 'multipart/form-data; boundary=b', 'idempotency-key': key },
  }).catch(() => undefined);
  await eventually('a part is stored', () => uploads().length > 0);
  await cluster.apis[0].kill();
  assert.equal(await cut, undefined);
  await cluster.apis[0].start();
  assert.deepEqual(workspaces(), dirs, 'nothing was made of a part');
  const { status, body: made } = await load(cluster.apis[1], key);
  assert.equal(status, 200, JSON.stringify(made));
  known.add(made.id);
  assert.deepEqual(await transcript(made.id), was);
  assert.deepEqual(workspaces().filter((name) => !dirs.includes(name)), [made.id]);
});
