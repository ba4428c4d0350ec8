// Tool servers (Model Context Protocol): the official server-everything in the
// session's sandbox and by HTTP (decisions.md sections 4 and 7).
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { after, afterEach, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { World, call, eventually, steps } from './lib/world.mjs';

const modules = fileURLToPath(new URL('./node_modules', import.meta.url));
const program = `${modules}/@modelcontextprotocol/server-everything/dist/index.js`;

let world;
before(async () => { world = await World.start({ SANDBOX_READ_ONLY: modules }); });
after(() => world?.close());
afterEach(() => world.settle());

// processes gives the ids of the host's processes whose command line holds a word.
function processes(word) {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((pid) => {
    try {
      return Number(pid) !== process.pid && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(word);
    } catch {
      return false;
    }
  }).map(Number);
}

// stdio configures the official server for a session; its processes carry the
// mark that it gives.
async function stdio(view, more = {}) {
  const mark = `mark-${randomBytes(8).toString('hex')}`;
  const made = await world.rest.post('/api/mcp-servers', {
    session_id: view.session, name: 'every', transport: 'stdio', command: 'node', args: [program, 'stdio', mark],
    env: { MCP_SECRET: 's3cret-of-the-server' }, ...more,
  });
  return { ...made, mark };
}

// listen starts the official server on a port of this machine; nothing when the
// port is taken.
async function listen(port) {
  const child = spawn(process.execPath, [program, 'streamableHttp'], {
    env: { PATH: process.env.PATH, PORT: String(port) }, stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = new Promise((resolve) => child.once('exit', () => resolve(undefined)));
  process.once('exit', () => child.kill('SIGKILL'));
  const up = new Promise((resolve) => {
    child.stderr.setEncoding('utf8');
    child.stderr.on('data', (text) => { if (text.includes('listening')) resolve(true); });
  });
  const stop = () => { child.kill('SIGKILL'); return exited; };
  return await Promise.race([exited, up]) && { port, url: `http://127.0.0.1:${port}/mcp`, stop };
}

// http is listen on whatever port is free.
const http = () => eventually('a port is free', () => listen(randomInt(10_000, 32_000)));

const server = async (view, name = 'every') =>
  (await world.rest.get(`/api/sessions/${view.session}/mcp-servers`)).items.find((s) => s.name === name);

const connected = (view, name) => eventually('the server is connected', async () => {
  const found = await server(view, name);
  return found.status === 'connected' && found;
});

const tools = async (view, ...calls) => (await view.run(steps({ calls }, { text: 'done' }))).calls;

describe('in the sandbox', () => {
  test('the tools of the official server are offered and work', async () => {
    const view = await world.session({ env: { GREETING: 'hello-of-the-session' } });
    await stdio(view);
    const [echo, sum, image, env, wrong] = await tools(view, call('mcp__every__echo', { message: 'hi there' }), call('mcp__every__get-sum', { a: 2, b: 40 }),
      call('mcp__every__get-tiny-image', {}), call('mcp__every__get-env', {}), call('mcp__every__get-sum', { a: 'two' }));
    assert.deepEqual([echo.status, echo.result], ['done', 'Echo: hi there']);
    assert.equal(echo.display_name, 'every: Echo Tool');
    assert.match(sum.result, /42/);
    assert.match(image.result, /\[image, image\/png, \d+ bytes, not shown\]/);
    assert.equal(wrong.status, 'error');
    assert.match(wrong.result, /arguments/);
    // It sees its own environment and the session's, and nothing of the service's.
    assert.match(env.result, /s3cret-of-the-server/);
    assert.match(env.result, /hello-of-the-session/);
    assert.doesNotMatch(env.result, /DATA_DIR|BOOTSTRAP/);
    const [request] = await world.requests('mcp__every__echo');
    const offered = request.body.tools.map((t) => t.function.name);
    assert.ok(offered.includes('mcp__every__get-structured-content') && offered.includes('Bash'));

    const found = await connected(view);
    assert.ok(found.tools.length >= 10);
    assert.deepEqual([found.scope, found.transport, found.enabled], ['session', 'stdio', true]);
    const byName = Object.fromEntries(found.tools.map((t) => [t.name, t]));
    assert.equal(byName.echo.read_only, true);
    assert.equal(byName['toggle-simulated-logging'].read_only, false);
    assert.ok(!JSON.stringify(found).includes('s3cret'));
  });

  test('progress is shown while a call runs, and a stop ends it at once', async () => {
    const view = await world.session();
    const { mark } = await stdio(view);
    await connected(view);
    const short = await view.say(steps({ calls: [call('mcp__every__trigger-long-running-operation', { duration: 1, steps: 4 })] }, { text: 'done' }));
    const progress = await view.patch('tool_progress', (p) => p.stream === 'progress');
    assert.match(progress.text_delta, /\/4/);
    await view.ended(short.chat_id);
    assert.equal(view.callsOf(short.chat_id)[0].status, 'done');

    const seen = view.events.length;
    const { chat_id: chat } = await view.say(steps({ calls: [call('mcp__every__trigger-long-running-operation', { duration: 600, steps: 6000 })] }, { text: 'done' }));
    await view.patch('tool_progress', (p) => p.stream === 'progress' && /\/6000/.test(p.text_delta), { from: seen });
    const began = Date.now();
    await view.stop();
    const end = await view.ended(chat);
    assert.ok(Date.now() - began < 3000, `${Date.now() - began} ms`);
    assert.equal(end.status, 'interrupted');
    assert.equal(view.callsOf(chat)[0].status, 'cancelled');
    assert.equal(processes(mark).length > 0, true, 'the server itself goes on');
    const [echo] = await tools(view, call('mcp__every__echo', { message: 'still here' }));
    assert.equal(echo.result, 'Echo: still here');
  });

  test('a call that takes too long is given up, and the chat goes on', async () => {
    const view = await world.session();
    await stdio(view, { timeout_s: 1 });
    await connected(view);
    const [slow] = await tools(view, call('mcp__every__trigger-long-running-operation', { duration: 120, steps: 2 }));
    assert.equal(slow.status, 'error');
    assert.match(slow.result, /longer than 1s/);
    const [echo] = await tools(view, call('mcp__every__echo', { message: 'next' }));
    assert.equal(echo.result, 'Echo: next');
  });

  test('a server that is killed during a call is started again', async () => {
    const view = await world.session();
    // Its hints are not believed, so that its calls are not tried again.
    const { mark } = await stdio(view, { trust_hints: false });
    await connected(view);
    const { chat_id: chat } = await view.say(steps({ calls: [call('mcp__every__trigger-long-running-operation', { duration: 600, steps: 6000 })] },
      { calls: [call('mcp__every__echo', { message: 'back' })] }, { text: 'done' }));
    await view.patch('tool_progress', (p) => p.stream === 'progress');
    const before = processes(mark);
    assert.equal(before.length, 1);
    process.kill(before[0], 'SIGKILL');
    const end = await view.ended(chat);
    assert.equal(end.finish_reason, 'completed');
    const [lost, echo] = view.callsOf(chat);
    assert.equal(lost.status, 'error');
    assert.match(lost.result, /was lost while the call ran, which may have taken effect in part: its process ended by a signal \(killed\)/);
    assert.deepEqual([echo.status, echo.result], ['done', 'Echo: back']);
    const now = processes(mark);
    assert.equal(now.length, 1);
    assert.notEqual(now[0], before[0]);
  });

  test('a read that its server died with is tried again', async () => {
    const view = await world.session();
    const { mark } = await stdio(view);
    await connected(view);
    const { chat_id: chat } = await view.say(steps({ calls: [call('mcp__every__trigger-long-running-operation', { duration: 3, steps: 60 })] }, { text: 'done' }));
    await view.patch('tool_progress', (p) => p.stream === 'progress');
    process.kill(processes(mark)[0], 'SIGKILL');
    await view.ended(chat);
    assert.equal(view.callsOf(chat)[0].status, 'done', view.callsOf(chat)[0].result);
  });

  test('planning offers only what reads', async () => {
    const view = await world.session();
    await stdio(view);
    await connected(view);
    await view.run(steps({ text: 'planned-7781' }), { mode: 'planning' });
    const [request] = await world.requests('planned-7781');
    const offered = request.body.tools.map((t) => t.function.name);
    assert.ok(offered.includes('mcp__every__echo'));
    assert.ok(!offered.includes('mcp__every__toggle-simulated-logging') && !offered.includes('Bash'));
  });

  test('servers that do not work do not hold up a chat', async () => {
    const view = await world.session();
    await world.rest.post('/api/mcp-servers', { session_id: view.session, name: 'hang', transport: 'stdio', command: 'sleep', args: ['600'] });
    await world.rest.post('/api/mcp-servers', { session_id: view.session, name: 'gone', transport: 'stdio', command: 'no-such-program' });
    await world.rest.post('/api/mcp-servers', {
      session_id: view.session, name: 'noisy', transport: 'stdio', command: 'sh', args: ['-c', 'yes this is no message'],
    });
    const began = Date.now();
    await view.run(steps({ text: 'hello' }));
    assert.ok(Date.now() - began < 8000, `${Date.now() - began} ms`);
    const gone = await server(view, 'gone');
    assert.equal(gone.status, 'failed');
    assert.match(gone.error, /no-such-program/);
    await eventually('the noisy one has failed', async () => /no protocol message/.test((await server(view, 'noisy')).error ?? ''));
    assert.equal((await server(view, 'hang')).status, 'connecting');
  });

  test('processes end with their settings, and with their session', async () => {
    const view = await world.session();
    const made = await stdio(view);
    await connected(view);
    assert.equal(processes(made.mark).length, 1);
    await world.rest.patch(`/api/mcp-servers/${made.id}`, { enabled: false });
    await eventually('the process has ended', () => processes(made.mark).length === 0);
    const [refused] = await tools(view, call('mcp__every__echo', { message: 'x' }));
    assert.match(refused.result, /no tool named/);
    await world.rest.patch(`/api/mcp-servers/${made.id}`, { enabled: true });
    await connected(view);
    assert.equal(processes(made.mark).length, 1);

    const other = await world.rest.post('/api/sessions', {});
    const doomed = { session: other.session_id };
    const { mark, id } = await stdio(doomed);
    await connected(doomed);
    assert.equal(processes(mark).length, 1);
    await world.rest.delete(`/api/sessions/${doomed.session}`);
    await eventually('the process has ended', () => processes(mark).length === 0);
    await eventually('its settings are gone', async () => (await world.rest.call('GET', `/api/mcp-servers/${id}`)).status === 404);
  });

  test('a restart of the service finds its tools again', async () => {
    const view = await world.session();
    const { mark } = await stdio(view);
    await connected(view);
    await world.server.kill();
    await eventually('nothing of it is left', () => processes(mark).length === 0);
    await world.server.start();
    const again = await world.follow(view.session);
    const [echo] = await tools(again, call('mcp__every__echo', { message: 'after' }));
    assert.equal(echo.result, 'Echo: after');
  });
});

describe('by HTTP', () => {
  test('the service\'s server is there for every session, and comes back', async () => {
    let front = await http();
    const made = await world.rest.post('/api/mcp-servers', {
      scope: 'service', name: 'web', transport: 'http', url: front.url, headers: { Authorization: 'Bearer s3cret-of-the-service' },
    });
    try {
      assert.deepEqual(made.headers, { Authorization: '********' });
      const view = await world.session();
      await connected(view, 'web');
      const { calls: [echo, structured] } = await view.run(steps({ calls: [
        call('mcp__web__echo', { message: 'over HTTP' }), call('mcp__web__get-structured-content', { location: 'Chicago' })] }, { text: 'done' }));
      assert.equal(echo.result, 'Echo: over HTTP');
      assert.match(structured.result, /temperature/);

      const { chat_id: chat } = await view.say(steps({ calls: [call('mcp__web__trigger-long-running-operation', { duration: 600, steps: 6000 })] }, { text: 'done' }));
      await view.patch('tool_progress', (p) => p.stream === 'progress' && /\/6000/.test(p.text_delta));
      await view.stop();
      assert.equal((await view.ended(chat)).status, 'interrupted');

      await front.stop();
      const [down] = await tools(view, call('mcp__web__echo', { message: 'x' }));
      assert.equal(down.status, 'error');
      const { port } = front;
      front = await eventually('the port is free again', () => listen(port));
      await connected(view, 'web');
      const [back] = await tools(view, call('mcp__web__echo', { message: 'back' }));
      assert.equal(back.result, 'Echo: back');
      assert.ok(!world.server.log().includes('s3cret-of-the-service'));
    } finally {
      await front.stop();
      await world.rest.delete(`/api/mcp-servers/${made.id}`);
    }
  });

  test('users\' servers may not be on this machine', async () => {
    const { api_key: { plaintext: token } } = await world.rest.post('/api/admin/users', { username: `u${randomBytes(4).toString('hex')}` });
    const view = await world.session({}, { token });
    const rest = new world.rest.constructor(world.server.url, token);
    await rest.post('/api/mcp-servers', { session_id: view.session, name: 'inside', transport: 'http', url: `${world.server.url}/mcp` });
    const found = await eventually('it has failed', async () => {
      const [one] = (await rest.get(`/api/sessions/${view.session}/mcp-servers`)).items;
      return one.status === 'failed' && one;
    });
    assert.match(found.error, /may not be on this network/);
  });
});
