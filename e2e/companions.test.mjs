// A stack of containers whose companions are killed one at a time in the middle of their
// work: nothing that was acknowledged is lost. Those of `everloop up` are one process with
// the service; the suites registry and githost kill the skill registry and the git hosting.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { Client } from './lib/client.mjs';
import { Fixture, bash, eventually, steps } from './lib/fixture.mjs';
import { given } from './lib/stack.mjs';

const options = { skip: given ? false : 'needs a stack of containers: make test-compose' };

let fixture;
before(async () => { if (given) fixture = await Fixture.start(); });
afterEach(() => fixture?.settle());
after(() => fixture?.close());

const words = Array.from({ length: 60 }, (_, i) => `word-${i}`).join(' ');

for (const companion of ['gateway', 'mock']) {
  test(`chats go on when ${companion} is killed while a model answers`, options, async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(steps(bash('echo once >> effects'), { text: words, delay_ms: 150, chunk: 8 }));
    await view.said('word-5');
    await fixture.server.kill(companion);
    const other = await fixture.session();
    const { chat_id: sent } = await other.say(steps(bash('echo once >> effects'), { text: 'was sent meanwhile' }));
    await fixture.server.start(companion);
    for (const [one, id, text] of [[view, chat, words], [other, sent, 'was sent meanwhile']]) {
      const end = await one.ended(id);
      assert.equal(end.finish_reason, 'completed', JSON.stringify(end));
      assert.equal(one.rules.text(one.rules.assistants(id).at(-1).id), text);
      assert.equal(await fixture.rest.file(one.session, 'effects'), 'once\n');
    }
  });
}

test('a client of the desktop goes on when it is killed while a chat runs', options, async () => {
  const join = () => Client.connect(fixture.server.desktopURL, fixture.server.key);
  const { session_id: id } = await fixture.rest.post('/api/sessions', {});
  const view = await (await join()).subscribe(id);
  const { chat_id: chat } = await view.say(steps({ text: words, delay_ms: 50, chunk: 8 }));
  await view.said('word-5');
  await fixture.server.kill('desktop');
  await eventually('the client notices', () => !view.client.socket.connected);
  await fixture.server.start('desktop');
  const again = await (await join()).subscribe(id, 0);
  assert.equal((await again.ended(chat)).finish_reason, 'completed');
  assert.equal(again.rules.text(again.rules.assistants(chat).at(-1).id), words);
  assert.deepEqual([...view.rules.problems, ...again.rules.problems], []);
  again.client.close();
});

test('people whose accounts were acknowledged sign in after the identity service is killed', options, async () => {
  const { identityURL, key } = fixture.server;
  const post = async (path, body) => fetch(identityURL + path, {
    method: 'POST', headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` }, body: JSON.stringify(body),
  }).then(({ status }) => status, () => 0);
  const secretOf = (username) => `a password of ${username}`;
  const names = Array.from({ length: 12 }, (_, i) => `killed-${i}`);
  const made = names.map(async (username) => {
    const person = { username, password: secretOf(username), email: `${username}@example.org`, name: username };
    return { username, status: await post('/api/v1/users', person) };
  });
  await Promise.race(made);
  await fixture.server.kill('identity');
  const all = await Promise.all(made);
  await fixture.server.start('identity');
  const acknowledged = all.filter(({ status }) => status === 201);
  assert.ok(acknowledged.length > 0, JSON.stringify(all));
  for (const { username } of acknowledged) {
    assert.equal(await post('/api/v1/auth/login', { username, password: secretOf(username) }), 200, username);
  }
});
