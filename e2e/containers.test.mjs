// Commands in containers of an engine (docs/deployment.md#commands-in-containers). Without an
// engine the suite is skipped.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Fixture, bash, eventually, steps } from './lib/fixture.mjs';

const socketPath = (process.env.DOCKER_HOST ?? 'unix:///var/run/docker.sock').replace('unix://', '');
const image = 'everloop-sandbox-e2e:1';
const recovery = 180_000;

// engine calls the interface of the engine.
const engine = (method, path, body) => new Promise((resolve, reject) => {
  const asked = request({ socketPath, method, path, headers: body ? { 'Content-Type': 'application/x-tar' } : {} }, (response) => {
    const parts = [];
    response.on('data', (part) => parts.push(part));
    response.on('end', () => resolve({ status: response.statusCode, text: Buffer.concat(parts).toString() }));
  });
  asked.on('error', reject);
  if (body) body.pipe(asked); else asked.end();
});

const answers = process.getuid() === 0 && existsSync(socketPath)
  && await engine('GET', '/_ping').then((a) => a.status === 200, () => false);
const only = answers ? {} : { skip: `no container engine at ${socketPath} for root` };

let fixture;
before(async () => {
  if (!answers) return;
  const script = fileURLToPath(new URL('../build/standin/sandbox-image.sh', import.meta.url));
  const tree = spawn(script, [process.env.EVERLOOP_BIN], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [repo, tag] = image.split(':');
  const made = await engine('POST', `/images/create?fromSrc=-&repo=${repo}&tag=${tag}`, tree.stdout);
  assert.equal(made.status, 200, made.text);
  fixture = await Fixture.start({ SANDBOX: 'container', DOCKER_HOST: `unix://${socketPath}`, SANDBOX_IMAGE: image });
});
after(async () => {
  await fixture?.close();
  if (answers) await engine('DELETE', `/images/${image}?force=1`);
});
afterEach(() => fixture?.settle());

// containers are those of the image.
async function containers() {
  const filters = encodeURIComponent(JSON.stringify({ ancestor: [image] }));
  const { text } = await engine('GET', `/containers/json?all=1&filters=${filters}`);
  return JSON.parse(text);
}

// running says whether a process of the host has a text in its arguments.
function running(text) {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).some((pid) => {
    try {
      return readFileSync(join('/proc', pid, 'cmdline'), 'utf8').split('\0').includes(text);
    } catch {
      return false;
    }
  });
}

test('a command writes its file, and reaches neither the host nor its network', only, async () => {
  const view = await fixture.session();
  const { end, calls } = await view.run(steps(
    bash('echo made >file.txt; pwd; id -un; hostname'),
    bash('cat /etc/shadow; ls /home /root /var; cat /proc/1/environ; exit 0'),
    bash(`curl -sS --noproxy '*' ${fixture.server.url}/healthz; no_proxy= NO_PROXY= curl -sS ${fixture.server.url}/healthz; exit 0`),
    bash('for d in / /usr /etc /.everloop; do : >$d/new && echo wrote; done; exit 0'),
    { text: 'done' },
  ));
  assert.equal(end.status, 'completed');
  assert.equal(calls[0].result.trim(), '/workspace\nagent\nsandbox');
  assert.equal(await fixture.rest.file(view.session, 'file.txt'), 'made\n');
  assert.match(calls[1].result, /shadow: No such file/);
  assert.match(calls[1].result, /environ: Permission denied/);
  assert.match(calls[2].result, /Couldn't connect|Failed to connect/i);
  assert.match(calls[2].result, /127\.0\.0\.1:\d+/, 'the proxy refused it');
  assert.doesNotMatch(calls[3].result, /wrote/);
  const { session_setup: setup } = await fixture.rest.detail(view.session);
  assert.equal(setup.sandbox.image, image);
});

test('the check for upgrades names the image', only, async () => {
  const check = await fixture.rest.get('/api/user/compute-env/upgrade');
  assert.deepEqual([check.upgrade_available, check.current_version, check.target_version], [false, image, image]);
});

test('a stop ends the whole tree', only, async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps(bash('setsid sleep 98765 & sleep 98764'), { text: 'done' }));
  await eventually('the command runs', () => running('98765') && running('98764'));
  await view.stop();
  assert.equal((await view.ended(chat)).status, 'interrupted');
  assert.ok(!running('98764') && !running('98765'));
});

test('a command in the background runs in one, too', only, async () => {
  const view = await fixture.session();
  const { calls } = await view.run(steps(bash('echo begun; sleep 98763', { run_in_background: true }), { text: 'done' }));
  assert.equal(calls[0].status, 'done');
  await eventually('the command runs', () => running('98763'));
  const { items: [task] } = await fixture.rest.get(`/api/sessions/${view.session}/background-tasks`);
  await fixture.rest.post(`/api/sessions/${view.session}/background-tasks/${task.task_id}/stop`, {});
  await eventually('the command is gone', () => !running('98763'));
});

test('a service that is killed leaves no process and no container', only, async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps(bash('setsid sleep 98762 & sleep 98761'), { text: 'went on' }));
  await eventually('the command runs', () => running('98762') && running('98761'));
  const { signal } = await fixture.server.kill();
  assert.equal(signal, 'SIGKILL');
  await eventually('its processes are gone', () => !running('98762') && !running('98761'));
  await eventually('its containers are gone', async () => (await containers()).length === 0);
  await fixture.server.start();
  const again = await fixture.follow(view.session, 0);
  assert.equal((await again.ended(chat, { timeout: recovery })).status, 'completed');
  const { end } = await again.run(steps(bash('echo alive'), { text: 'still usable' }));
  assert.equal(end.status, 'completed');
});
