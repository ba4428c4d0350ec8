// Secrets at rest (docs/security.md#secrets): what clients give the service as a secret, and
// what it makes as one, is nowhere in plain text: not in the database and its log, in
// Temporal's, in the event log, in objects, in events, or in what the service writes.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { openSync, closeSync, fstatSync, readSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { after, before, test } from 'node:test';
import { Fixture, bash, steps } from './lib/fixture.mjs';
import { Rest } from './lib/rest.mjs';

let fixture;
before(async () => {
  fixture = await Fixture.start();
});
after(() => fixture?.close());

// Where secrets are kept as they are, for the service itself or for the operator to edit; all
// are of mode 0600 (TestBox, TestEventsNeedToken and others).
const kept = /^(config\/config\.yaml|identity-admin-password|[\w-]*key)$/;

const secrets = new Map(); // by what they are
const plant = (name) => {
  const value = `planted${randomBytes(12).toString('hex')}`;
  secrets.set(name, value);
  return value;
};
const made = (name, value) => {
  assert.ok(typeof value === 'string' && value.length >= 16, `${name}: ${value}`);
  secrets.set(name, value);
};

// files gives the files below a directory that hold a text of the list, with which.
function* files(dir, texts) {
  for (const entry of readdirSync(dir, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = relative(dir, path);
    if (!entry.isFile() || kept.test(name)) continue;
    const fd = openSync(path, 'r');
    const content = Buffer.alloc(fstatSync(fd).size);
    readSync(fd, content);
    closeSync(fd);
    for (const [what, text] of texts) {
      if (content.includes(text)) yield `${what} in ${name}`;
    }
  }
}

test('nothing that was given or made as a secret is kept in plain text', async () => {
  const { rest } = fixture;
  const again = (body) => rest.call('POST', body.path, body.body, { 'Idempotency-Key': randomBytes(8).toString('hex') });
  const post = async (path, body) => {
    const answer = await again({ path, body });
    assert.ok(answer.status < 300, `${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };

  // What users give.
  await rest.put('/api/env/buckets/default', { env: { BUCKET: plant('a bucket') } });
  const { session_id: session } = await post('/api/sessions', { intent: 'Use secrets', env: { SESSION: plant('env of a new session') } });
  await rest.put(`/api/sessions/${session}/env`, { env: { CHANGED: plant('env of a session') } });
  await post('/api/mcp-servers', {
    name: 'local', scope: 'session', session_id: session, transport: 'stdio', command: 'true', env: { KEY: plant('env of a tool server') },
  });
  const remote = await post('/api/mcp-servers', {
    name: 'remote', scope: 'service', transport: 'http', url: 'http://127.0.0.1:9/mcp',
    headers: { Authorization: `Bearer ${plant('a header')}` },
  });
  await rest.patch(`/api/mcp-servers/${remote.id}`, { headers: { Authorization: `Bearer ${plant('a changed header')}` } });
  const { instance_id: agent } = await post('/api/agent-instances', {
    name: 'Builder', runtime_id: 'builtin', env: { AGENT: plant('env of an agent') },
  });

  // What the service makes.
  made('an API key', (await post('/api/user/api-keys/', { name: 'k' })).plaintext);
  made('the first key of a user', (await post('/api/admin/users', { username: 'carla' })).api_key.plaintext);
  const hook = await post('/api/webhooks', { url: 'https://hooks.example.org/x', events: ['chat.failed'] });
  made('the secret of a webhook', hook.secret);
  made('the next secret of a webhook', (await post(`/api/webhooks/${hook.id}/rotate-secret`, {})).secret);
  made('the token of a link', (await post(`/api/sessions/${session}/share`, {})).token);

  // The identity service.
  const identity = new Rest(fixture.server.identityURL, fixture.server.key);
  const password = plant('a password');
  await identity.post('/api/v1/users', { username: 'dora', password });
  const login = await identity.call('POST', '/api/v1/auth/login', { username: 'dora', password });
  made('an access token', login.body.access_token);
  for (const cookie of login.headers.getSetCookie()) made(`the cookie ${cookie.split('=')[0]}`, cookie.split('=')[1].split(';')[0]);
  const dora = new Rest(fixture.server.identityURL, login.body.access_token);
  made('a personal token', (await dora.get('/api/v1/pat/v3/default')).token);
  await new Rest(fixture.server.url, login.body.access_token).get('/api/auth/me');

  // They are used: by commands, by an agent's session, in a background task.
  const view = await fixture.follow(session);
  fixture.adopt(session, rest);
  const { calls } = await view.run(steps(
    bash('test -n "$CHANGED" && test -n "$BUCKET" && echo used'), bash('sleep 0.1', { run_in_background: true }), { text: 'done' }));
  assert.equal(calls[0].result.trim(), 'used', JSON.stringify(calls[0]));
  const board = `/api/prod_workspaces/${(await post('/api/prod_workspaces', { name: 'Web' })).id}/issues`;
  const issue = { title: 'T', description: steps(bash('test -n "$AGENT"'), { text: 'ok' }) };
  await post(board, { ...issue, assignee_type: 'agent', assignee_id: agent });
  await rest.call('GET', `/api/sessions/${session}/mcp-servers`);
  await rest.call('GET', `/api/sessions/${session}/export`);
  await view.run(steps({ text: 'the second chat' }));

  const shown = [
    ['events', JSON.stringify(view.events)],
    ['messages', JSON.stringify(await rest.messages(session))],
    ['history', JSON.stringify(await rest.get(`/api/sessions/${session}/history`))],
    ['audit trail', JSON.stringify(await rest.get('/api/admin/audit?limit=200'))],
    ['runs', JSON.stringify(await rest.get('/api/admin/runs'))],
    ['requests to the model', JSON.stringify(await fixture.requests(''))],
  ];
  const log = () => ['log', fixture.server.said()];
  await fixture.server.stop();
  const texts = [...secrets];
  for (const [where, text] of [...shown, log()]) {
    assert.deepEqual(texts.filter(([, secret]) => text.includes(secret)).map(([what]) => `${what} in ${where}`), []);
  }
  assert.deepEqual([...files(join(fixture.server.dir, 'data'), texts)], []);
});
