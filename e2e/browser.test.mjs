// The browser tools (docs/browser.md): the preset in the session's sandbox, its network,
// and what of it reaches the workspace. They need Chromium; the tool server comes with
// the packages of these tests.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { Desktop } from './lib/desktop.mjs';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';
import { modulesInSandboxes } from './lib/modules.mjs';
import { listen } from './lib/outside.mjs';

const chromium = ['/usr/lib/chromium/chromium', '/usr/bin/chromium'].find((path) => existsSync(path));
const required = Boolean(process.env.EVERLOOP_E2E_BROWSER); // there nothing is left out
const only = { skip: chromium || required ? false : 'Chromium is missing: install it (Debian: chromium)' };

let fixture;
let allowed;
let forbidden;

// site listens on the loopback and keeps what was asked of it.
async function site(body, nth) {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(request.url);
    response.setHeader('content-type', 'text/html');
    response.end(body);
  });
  const at = `127.0.0.1:${await listen(server, nth)}`;
  const close = () => { server.closeAllConnections(); server.close(); };
  return { server, at, asked, close };
}

before(async () => {
  assert.ok(chromium || !required, 'Chromium is missing');
  allowed = await site('<title>A page</title><h1>Seen by the browser</h1>', 0);
  forbidden = await site('<title>Secret</title><h1>Never seen</h1>', 1);
  // Both may be reached, as far as the operator is concerned: what decides is the session's rule.
  fixture = await Fixture.start({
    BROWSER_TOOLS: dirname(modulesInSandboxes()), SANDBOX_NETWORK_ALLOW: `${allowed.at},${forbidden.at}`,
  });
});
after(async () => {
  await fixture?.close();
  allowed?.close();
  forbidden?.close();
});
afterEach(() => fixture.settle());

// browsing makes a session with the browser tools, whose rules allow one site.
async function browsing(more = {}) {
  const rule = { tool: 'Network', pattern: allowed.at, decision: 'allow' };
  const view = await fixture.session({ session_setup: { permissions: [rule] } });
  const made = await fixture.rest.post('/api/mcp-servers', {
    session_id: view.session, name: 'browser', preset: 'browser', timeout_s: 600, ...more,
  });
  assert.deepEqual([made.preset, made.transport, made.command, made.args], ['browser', 'stdio', '', []]);
  const server = await eventually('the browser tools are connected', async () => {
    const [one] = (await fixture.rest.get(`/api/sessions/${view.session}/mcp-servers`)).items;
    assert.notEqual(one.status, 'failed', one.error);
    return one.status === 'connected' && one;
  });
  return { view, server };
}

const get = (path, key = fixture.server.key) => fetch(fixture.server.url + path, { headers: { authorization: `Bearer ${key}` } });

// served gives an attachment as the service sends it to the caller with a key.
async function served(session, name, key) {
  const answer = await get(`/api/sessions/${session}/attachments/${name}`, key);
  return { status: answer.status, type: answer.headers.get('content-type'), data: Buffer.from(await answer.arrayBuffer()) };
}

// imagesFor gives the images of the newest request to the model that holds a text.
async function imagesFor(mark) {
  const { body } = (await fixture.requests(mark)).at(-1);
  const parts = body.messages.flatMap((m) => (Array.isArray(m.content) ? m.content : []));
  return parts.filter((p) => p.type === 'image_url').map((p) => p.image_url.url);
}

const go = (url) => call('mcp__browser__browser_navigate', { url });

test('a page that a rule allows is opened, read and photographed', only, async () => {
  const { view } = await browsing();
  const { calls } = await view.run(steps(
    { calls: [go(`http://${allowed.at}/first`)] },
    { calls: [call('mcp__browser__browser_find', { text: 'Seen by the browser' })] },
    { calls: [call('mcp__browser__browser_take_screenshot', { type: 'png', scale: 'css' })] },
    bash('head -c 8 browser/*.png | od -An -c; ls -A'),
    { text: 'done' },
  ));
  const [opened, found, shot, files] = calls;
  assert.deepEqual(calls.map((c) => c.status), ['done', 'done', 'done', 'done'], JSON.stringify(calls));
  assert.match(opened.result, /Page Title: A page/);
  assert.ok(allowed.asked.includes('/first'));
  assert.match(found.result, /Seen by the browser/);
  assert.match(shot.result, /\[image, image\/png, \d+ bytes/);
  // The file is in the workspace; profile, caches and settings of the browser are not.
  assert.match(files.result, /211\s+P\s+N\s+G/);
  assert.deepEqual(files.result.trim().split('\n').slice(1).filter((name) => name !== '.everloop'), ['browser']);
});

test('a screenshot reaches the model, clients, the desktop and an imported session', only, async () => {
  const { view } = await browsing();
  const mark = 'screenshot-7301';
  const { calls } = await view.run(`${mark} ${steps(
    { calls: [go(`http://${allowed.at}/shown`)] },
    { calls: [call('mcp__browser__browser_take_screenshot', { type: 'png', scale: 'css' })] },
    { text: 'done' },
  )}`);
  assert.equal(calls[0].images, undefined);
  assert.equal(calls[1].images.length, 1, JSON.stringify(calls[1]));
  const [image] = calls[1].images;

  const kept = await served(view.session, image.attachment);
  assert.deepEqual([kept.status, kept.type, kept.data.length], [200, 'image/png', image.bytes]);
  assert.equal(createHash('sha256').update(kept.data).digest('hex'), image.attachment);
  assert.deepEqual(await imagesFor(mark), [`data:image/png;base64,${kept.data.toString('base64')}`]);

  const { api_key: onlooker } = await fixture.rest.post('/api/admin/users', { username: 'onlooker' });
  assert.equal((await served(view.session, image.attachment, onlooker.plaintext)).status, 404);
  const link = await fixture.rest.post(`/api/sessions/${view.session}/share`);
  const shared = await fetch(`${link.url}/attachments/${image.attachment}`);
  assert.deepEqual(Buffer.from(await shared.arrayBuffer()), kept.data);

  const desktop = await Desktop.start(fixture, chromium);
  try {
    const page = await desktop.open(`/s/${view.session}`);
    await page.getByRole('button', { name: /Take a screenshot|take_screenshot/i }).click();
    const shown = page.getByRole('img', { name: 'Picture of the tool (image/png)' });
    await shown.waitFor();
    await page.waitForFunction((one) => one.complete && one.naturalWidth > 0, await shown.elementHandle());
    await desktop.clean(page, 'a screenshot of the browser tools');
  } finally {
    await desktop.close();
  }

  const form = new FormData();
  form.append('file', new Blob([await (await get(`/api/sessions/${view.session}/export`)).arrayBuffer()]), 'session.zip');
  const made = await fetch(`${fixture.server.url}/api/sessions/import`, {
    method: 'POST', body: form, headers: { authorization: `Bearer ${fixture.server.key}` },
  });
  assert.equal(made.status, 200);
  const { id: copy } = await made.json();
  const copied = (await fixture.rest.messages(copy)).flatMap((turn) => turn.tool_calls);
  assert.deepEqual(copied.map((one) => one.images), [undefined, [image]]);
  assert.deepEqual((await served(copy, image.attachment)).data, kept.data);
  await fixture.rest.post(`/api/sessions/${copy}/chat`, { message: steps({ text: 'seen again' }) });
  await eventually('the copy goes on', async () => (await fixture.requests('seen again')).length > 0);
  assert.equal((await imagesFor('seen again')).length, 1);
});

test('what no rule allows is not reached, by no way around the proxy', only, async () => {
  const { view } = await browsing();
  const around = `async () => { try { await fetch('http://${forbidden.at}/fetched', { mode: 'no-cors' }); } catch {} return 'tried'; }`;
  const { calls } = await view.run(steps(
    { calls: [go(`http://${forbidden.at}/opened`)] },
    { calls: [go(`http://${allowed.at}/second`)] },
    { calls: [call('mcp__browser__browser_evaluate', { function: around })] },
    { calls: [go('file:///etc/passwd')] },
    { text: 'done' },
  ));
  assert.match(calls[0].result, /403|ERR_/);
  assert.equal(calls[1].status, 'done', calls[1].result);
  assert.match(calls[2].result, /tried/);
  assert.equal(calls[3].status, 'error');
  assert.match(calls[3].result, /file:/);
  assert.ok(allowed.asked.includes('/second'));
  assert.deepEqual(forbidden.asked, []);
});

test('a program beside the page is offered only when it is named', only, async () => {
  const offered = async (more) => {
    const { view } = await browsing(more);
    const { session_setup: setup } = await fixture.rest.detail(view.session);
    return setup.tools_enabled.filter((name) => name.startsWith('mcp__browser__'));
  };
  const usual = await offered();
  assert.ok(usual.includes('mcp__browser__browser_click') && !usual.includes('mcp__browser__browser_run_code_unsafe'), `${usual}`);
  assert.deepEqual(await offered({ tools: ['browser_run_code_unsafe'] }), ['mcp__browser__browser_run_code_unsafe']);
});
