// `everloop backup` and `everloop restore` of a deployment whose engines are processes of
// their own, as with Compose (docs/deployment.md#backup): written while a chat runs,
// restored beside empty engines, and continued there.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cluster } from './lib/cluster.mjs';
import { bash, eventually, steps } from './lib/fixture.mjs';
import { binary } from './lib/server.mjs';

let dir, archive, cluster;
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'everloop-backup-'));
  archive = join(dir, 'archive');
});
after(async () => {
  await cluster?.close();
  rmSync(dir, { recursive: true, force: true });
});

const everloop = (args, env) => new Promise((resolve) =>
  execFile(binary, args, { env: { PATH: process.env.PATH, HOME: dir, LANG: 'C.UTF-8', ...env } },
    (err, out, notes) => resolve({ ok: !err, text: `${out}${notes}` })));
const must = async (promise) => {
  const { ok, text } = await promise;
  assert.ok(ok, text);
};

test('chats continue on other engines', async () => {
  cluster = await Cluster.start();
  let fixture = await cluster.fixture();
  const view = await fixture.session();
  await view.run(steps(bash('echo kept > notes'), { text: 'written' }));
  const messages = await fixture.rest.messages(view.session);

  const length = 40;
  const busy = await fixture.session();
  const list = Array.from({ length }, (_, i) => bash(`echo ${i} >> effects`));
  const { chat_id: chat } = await busy.say(steps(...list, { text: 'counted' }));
  await eventually('the chat has effects', async () =>
    (await fixture.rest.call('GET', `/api/sessions/${busy.session}/files/effects`)).status === 200);
  await must(everloop(['backup', archive], cluster.settings()));

  const { key } = cluster;
  const inUse = await everloop(['restore', archive], cluster.settings());
  assert.ok(!inUse.ok);
  assert.match(inUse.text, /open runs|not empty/);
  for (const role of [...cluster.apis, ...cluster.workers]) await role.kill();
  fixture.forget();
  await cluster.close();

  cluster = await Cluster.start({ key, prepare: (settings) => must(everloop(['restore', archive], settings)) });
  fixture = await cluster.fixture();
  assert.deepEqual(await fixture.rest.messages(view.session), messages);
  assert.equal(await fixture.rest.file(view.session, 'notes'), 'kept\n');
  await eventually('the chat ends', async () => (await fixture.rest.detail(busy.session)).status === 'completed');
  const seen = await fixture.follow(busy.session, 0);
  await eventually('its end is there', () => seen.events.some((e) => e.name === 'chat:end' && e.data.chat_id === chat));
  assert.equal(seen.events.filter((e) => e.name === 'chat:end' && e.data.chat_id === chat).length, 1);
  const numbers = (await fixture.rest.file(busy.session, 'effects')).trim().split('\n').map(Number);
  const calls = (await fixture.rest.messages(busy.session)).flatMap((turn) => turn.tool_calls);
  assert.equal(calls.length, length);
  // A command that ran while the archive was written is not run again: what it did is not known.
  assert.ok(calls.filter((c) => c.status !== 'done').length <= 1, JSON.stringify(calls));
  for (const done of calls.filter((c) => c.status === 'done')) {
    assert.ok(numbers.includes(Number(/echo (\d+)/.exec(done.arguments)[1])), `${done.arguments} is done and has no effect: ${numbers}`);
  }

  const again = await everloop(['restore', archive], cluster.settings());
  assert.ok(!again.ok);
  assert.match(again.text, /not empty/);
  fixture.forget();
});
