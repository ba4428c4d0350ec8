// No data of one user reaches another (docs/security.md).
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { Rest } from './lib/rest.mjs';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';

let fixture, users;
before(async () => {
  fixture = await Fixture.start();
  users = await Promise.all(['ann', 'ben'].map(async (username) => {
    const answer = await fixture.rest.call('POST', '/api/admin/users', { username });
    assert.equal(answer.status, 201);
    const { user, api_key: { key, plaintext } } = answer.body;
    return { id: user.id, keyID: key.id, token: plaintext, rest: new Rest(fixture.server.url, plaintext) };
  }));
});
after(() => fixture?.close());
afterEach(() => fixture.settle());

const refused = async (client, name, data) => (await client.emit(name, data)).error?.code;

test('another user’s session does not exist', async () => {
  const [ann, ben] = users;
  const view = await fixture.session({ intent: 'private-9917' }, { token: ann.token });
  const { calls } = await view.run(
    steps(
      { calls: [call('AskUserQuestion', { questions: [{ question: 'Yes?', options: [{ label: 'a' }, { label: 'b' }] }] })] },
      { text: 'ok' },
    ),
  );
  await ann.rest.put(`/api/sessions/${view.session}/files/secret.txt`, { content: 'secret' });
  const path = `/api/sessions/${view.session}`;
  const requests = [
    ['GET', ''], ['PATCH', '', { intent: 'mine' }], ['DELETE', ''], ['PUT', '/env', { env: {} }], ['PATCH', '/pin', { pinned: true }],
    ['PATCH', '/sharing', { shared: true }], ['PATCH', '/memory', { memory_enabled: true }], ['GET', '/messages'], ['GET', '/ls/'],
    ['GET', '/files/secret.txt'], ['PUT', '/files/secret.txt', { content: 'x' }], ['DELETE', '/files/secret.txt'],
    ['POST', '/chat', { message: 'hello' }], ['POST', '/stop', {}],
    ['GET', '/events'], ['GET', '/tasks'],
    ['POST', '/chat', { message: '', askuser_answer: { tool_call_id: calls[0].id, selections: { 0: [0] } } }],
  ];
  for (const [method, rest, body] of requests) {
    const answer = await ben.rest.call(method, path + rest, body);
    assert.equal(answer.status, 404, `${method} ${rest}`);
    assert.equal(answer.body.code, 'session_not_found', `${method} ${rest}`);
    assert.equal((await new Rest(fixture.server.url).call(method, path + rest, body)).status, 401, `${method} ${rest} without a key`);
  }
  const client = await fixture.client({ token: ben.token });
  const on = { session_id: view.session };
  assert.equal(await refused(client, 'session:subscribe', on), 'session_not_found');
  assert.equal(await refused(client, 'session:subscribe', { ...on, after_seq: 0 }), 'session_not_found');
  assert.equal(await refused(client, 'chat:send', { ...on, message: 'hi' }), 'session_not_found');
  assert.equal(
    await refused(client, 'chat:send', { ...on, message: '', askuser_answer: { tool_call_id: calls[0].id, selections: { 0: [0] } } }),
    'session_not_found',
  );
  assert.equal(await refused(client, 'chat:stop', on), 'session_not_found');
  assert.equal(await refused(client, 'chat:compact', on), 'session_not_found');
  const list = await ben.rest.get('/api/sessions?q=private-9917');
  assert.deepEqual([list.items, list.total], [[], 0]);
  assert.equal((await ann.rest.get('/api/sessions?q=private-9917')).total, 1);
  assert.equal(client.stray, undefined);
  assert.equal((await ann.rest.detail(view.session)).status, 'waiting_for_input', 'another user changed it');
  assert.equal(await ann.rest.file(view.session, 'secret.txt'), 'secret');
});

test('a shared session can be read by others and changed only by its owner', async () => {
  const [ann, ben] = users;
  const view = await fixture.session({}, { token: ann.token });
  await view.run(steps({ text: 'to be shared' }));
  await ann.rest.patch(`/api/sessions/${view.session}/sharing`, { shared: true });
  assert.equal((await ben.rest.detail(view.session)).viewer_role, 'viewer');
  assert.equal((await ben.rest.messages(view.session)).length, 2);
  const reader = await fixture.follow(view.session, 0, { token: ben.token });
  const live = await view.run(steps({ text: 'seen by both' }));
  await reader.ended(live.chat_id);
  for (const [method, rest, body] of [['PATCH', '', { intent: 'mine' }], ['DELETE', ''], ['POST', '/chat', { message: 'x' }],
    ['PUT', '/files/x', { content: 'x' }], ['PATCH', '/sharing', { shared: false }], ['POST', '/stop', {}]]) {
    const answer = await ben.rest.call(method, `/api/sessions/${view.session}${rest}`, body);
    assert.ok([403, 404].includes(answer.status), `${method} ${rest}: ${answer.status}`);
  }
  const sent = await reader.send('me too');
  assert.equal(sent.ok, false);
  assert.equal((await reader.stop()).ok, false);
  assert.ok(!('env' in (await ben.rest.detail(view.session))));
  // No longer shared, no longer heard.
  await ann.rest.patch(`/api/sessions/${view.session}/sharing`, { shared: false });
  await eventually('it is gone', async () => (await ben.rest.call('GET', `/api/sessions/${view.session}`)).status === 404);
  const next = await view.run(steps({ text: 'private again' }));
  assert.ok(!reader.events.some((e) => e.data.chat_id === next.chat_id && e.name === 'chat:end'), 'the other still hears it');
});

test('an administrator reads any session and changes only their own', async () => {
  const [ann] = users;
  const view = await fixture.session({}, { token: ann.token });
  await view.run(steps({ text: 'mine' }));
  assert.equal((await fixture.rest.detail(view.session)).viewer_role, 'admin');
  assert.equal((await fixture.rest.messages(view.session)).length, 2);
  const changed = await fixture.rest.call('PATCH', `/api/sessions/${view.session}`, { intent: 'taken over' });
  assert.ok([403, 404].includes(changed.status));
  assert.equal((await users[1].rest.call('GET', '/api/admin/users')).status, 403);
  assert.equal((await users[1].rest.call('POST', '/api/admin/users', { username: 'eve' })).status, 403);
});

test('tools of one user’s session do not reach another’s files', async () => {
  const [ann, ben] = users;
  const mine = await fixture.session({}, { token: ann.token });
  await mine.run(steps(bash('echo ann-4409 > note'), { text: 'written' }));
  const other = await fixture.session({}, { token: ben.token });
  const { calls } = await other.run(
    steps(
      {
        calls: [
          call('Bash', {
            command: `find / -name note -newermt "-10 minutes" -not -path "/proc/*" 2>/dev/null | xargs -r cat; ` +
              `ls /workspace/.. 2>/dev/null; true`,
          }),
          call('Read', { file_path: `../${mine.session}/note` }),
          call('Glob', { pattern: '../**/note' }),
        ],
      },
      { text: 'looked' },
    ),
  );
  for (const c of calls) {
    assert.doesNotMatch(c.result, /ann-4409/, c.tool_name);
    if (c.tool_name === 'Bash') assert.ok(!c.result.includes(mine.session));
  }
});

test('a revoked key is shut out of REST at once, and of the socket within its recheck', async () => {
  const { body: { key, plaintext } } = await users[1].rest.call('POST', '/api/user/api-keys/', { name: 'to be revoked' });
  const rest = new Rest(fixture.server.url, plaintext);
  const view = await fixture.session({}, { token: plaintext });
  await view.run(steps({ text: 'while it holds' }));
  assert.equal((await users[1].rest.call('DELETE', `/api/user/api-keys/${key.id}`)).status, 204);
  assert.equal((await rest.call('GET', '/api/auth/me')).status, 401);
  const ack = await view.client.emit('chat:send', { session_id: view.session, message: 'still there?' }, 5000).catch((err) => err);
  assert.ok(ack instanceof Error || ack.error?.code === 'unauthorized', JSON.stringify(ack));
  await eventually('the connection is closed', () => !view.client.socket.connected);
  await assert.rejects(fixture.client({ token: plaintext }), { message: 'unauthorized' });
  fixture.adopt(view.session, users[1].rest);
});

test('a closed account is shut out everywhere', async () => {
  const { body } = await fixture.rest.call('POST', '/api/admin/users', { username: 'carl' });
  const token = body.api_key.plaintext;
  const rest = new Rest(fixture.server.url, token);
  const client = await fixture.client({ token });
  assert.equal((await rest.call('GET', '/api/auth/me')).status, 200);
  await fixture.rest.delete(`/api/admin/users/${body.user.id}`);
  assert.equal((await rest.call('GET', '/api/auth/me')).status, 401);
  await eventually('the connection is closed', () => !client.socket.connected);
});
