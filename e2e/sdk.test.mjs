// The JavaScript SDK (sdk/js) against a real service: its examples as users run them, and
// sessions whose connection is cut again and again.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';
import { Proxy } from './lib/proxy.mjs';
import { buildSDK, sdk } from './lib/sdk.mjs';

let fixture;
let Everloop;
before(async () => {
  ({ Everloop } = await buildSDK());
  fixture = await Fixture.start();
});
after(() => fixture?.close());

// example runs one of the SDK's examples and gives the lines that it prints.
async function example(name, ...messages) {
  const { stdout } = await promisify(execFile)(process.execPath, [fileURLToPath(new URL(`examples/${name}.mjs`, sdk)), ...messages], {
    env: { PATH: process.env.PATH, EVERLOOP_URL: fixture.server.url, EVERLOOP_KEY: fixture.server.key }, timeout: 180_000,
  });
  return stdout.split('\n');
}

const colour = { question: 'Which colour?', options: [{ label: 'red' }, { label: 'blue' }] };

describe('examples of the JavaScript SDK', () => {
  test('chat', async () => {
    const lines = await example('chat', steps(
      { text: 'I look.', ...bash('echo seen') }, { calls: [call('AskUserQuestion', { questions: [colour] })] }, { text: 'It is done.' }));
    const text = lines.join('\n');
    for (const part of [
      'I look.',
      '[Bash {"command":"echo seen"}]',
      '[done: seen',
      '[Which colour? -> red]',
      'It is done.',
      'completed: ',
    ]) {
      assert.ok(text.includes(part), `${part} is missing in:\n${text}`);
    }
  });

  test('headless', async () => {
    assert.deepEqual(await example('headless', steps({ text: '{"colour": "blue"}' })), ['blue', '']);
  });

  test('queue', async () => {
    const lines = await example(
      'queue',
      steps({ ...bash('sleep 60') }, { text: 'counted' }),
      steps({ text: 'ten' }),
      'even ones',
      steps({ text: 'hello' }),
    );
    assert.deepEqual(lines, [
      'enqueue at 1',
      'steer into the first chat',
      'first: interrupted',
      'urgent: completed',
      'next: completed',
      '',
    ]);
  });

  test('files', async () => {
    const lines = await example('files');
    assert.deepEqual(lines, ['notes/today.md data.csv', lines[1], '# Today', 'done', '', 'a,b', '1,2', '', '']);
    assert.match(lines[1], /^[a-z_]+$/);
  });

  test('schedule', async () => {
    const lines = await example('schedule', steps({ text: 'reported' }));
    assert.match(lines[0], /, next at \d{4}-/);
    assert.equal(lines[1], 'completed: fired');
  });

  test('dag', async () => {
    const lines = await example('dag');
    assert.equal(lines.at(-2), 'completed');
    assert.ok(lines.includes('node:updated work completed'), lines.join('\n'));
  });
});

describe('a session over connections that break', () => {
  let proxy;
  before(async () => { proxy = await Proxy.listen({ host: fixture.server.host, port: fixture.server.ports.agent }); });
  after(() => proxy?.close());

  for (const transports of [['websocket'], ['polling']]) {
    test(`has each event once and the view of the messages list, over ${transports}`, async () => {
      const client = new Everloop({ baseUrl: `http://127.0.0.1:${proxy.port}`, token: fixture.server.key, transports });
      try {
        const session = await client.createSession();
        const events = [];
        session.on((event) => events.push(event));
        const text = 'Zwölf Boxkämpfer 🥊 jagen Viktor quer über den Deich. '.repeat(12);
        const running = session.run(steps(
          { thinking: 'I think.', text: 'I look.', ...bash('for i in 1 2 3 4 5; do echo $i; sleep 0.1; done') },
          { calls: [call('AskUserQuestion', { questions: [colour] })] }, { text, delay_ms: 10, chunk: 4 }),
        { onQuestion: () => { cut(); return [1]; } });
        let cuts = 0;
        const cut = () => {
          cuts++;
          proxy.reset();
          proxy.heal();
        };
        const off = session.on(() => { if (events.length % 25 === 24 && cuts < 12) cut(); });
        const ran = await running;
        off();
        assert.ok(cuts >= 3, `only ${cuts} cuts`);
        assert.equal(ran.end.finish_reason, 'completed');
        assert.equal(ran.text, text);
        await eventually('the last update', async () => session.view.snapshot().status === 'completed');
        await sameAsKept(session, events);
        await sameAsStored(session);
      } finally {
        client.close();
      }
    });
  }

  test('sends a message once, whatever becomes of its acknowledgement', async () => {
    const client = new Everloop({ baseUrl: `http://127.0.0.1:${proxy.port}`, token: fixture.server.key });
    try {
      const session = await client.createSession();
      for (let i = 0; i < 6; i++) {
        const running = session.run(steps({ text: `answer ${i}` }));
        proxy.reset();
        proxy.heal();
        assert.equal((await running).text, `answer ${i}`);
      }
      const messages = await fixture.rest.messages(session.id);
      assert.equal(messages.filter((turn) => turn.role === 'user').length, 6);
    } finally {
      client.close();
    }
  });

  test('joins in the middle of a turn, in another process with the position of the first', async () => {
    const first = new Everloop({ baseUrl: fixture.server.url, token: fixture.server.key });
    const second = new Everloop({ baseUrl: fixture.server.url, token: fixture.server.key });
    try {
      const session = await first.createSession();
      const events = [];
      session.on((event) => events.push(event));
      const text = 'one two three four five six seven eight '.repeat(10);
      const sent = await session.send(order({ steps: [{ ...bash('echo before') }, { text, hold: true, hold_after: 60 }] }));
      await eventually('half of the text', async () => session.view.snapshot().turns.at(-1)?.blocks.at(-1)?.content.length >= 20);
      const { seq } = session;
      await session.close();

      const other = await second.session(session.id, { after: seq });
      other.on((event) => events.push(event));
      const fresh = await second.session(session.id).catch((error) => error.code);
      assert.equal(fresh, 'invalid_argument');
      await fixture.releaseUntil(other.ended(sent.chat_id));
      await eventually('the last update', async () => other.view.snapshot().status === 'completed' && other.view.snapshot().loaded);
      await sameAsKept(other, events);
      await sameAsStored(other);

      // A rewind shows the turns of the new branch alone.
      const [checkpoint] = await first.api.listCheckpoints(session.id);
      await first.api.rewind(session.id, { checkpoint_id: checkpoint.checkpoint_id });
      await eventually('the turns of the branch', async () => other.view.snapshot().loaded && other.view.snapshot().turns.length === 0);
    } finally {
      first.close();
      second.close();
    }
  });

  test('ends when the session is deleted', async () => {
    const client = new Everloop({ baseUrl: fixture.server.url, token: fixture.server.key });
    try {
      const session = await client.createSession();
      const next = assert.rejects(session.events().next(), { code: 'session_not_found' });
      const closed = new Promise((resolve) => session.onClose(resolve));
      await client.api.deleteSession(session.id);
      assert.equal((await closed).code, 'session_not_found');
      await next;
      await assert.rejects(client.session(session.id), { code: 'session_not_found' });
    } finally {
      client.close();
    }
  });
});

// sameAsKept compares what listeners got with what the service has kept.
async function sameAsKept(session, events) {
  const kept = await fixture.follow(session.id, 0);
  await kept.wait('the last event', (e) => e.data.seq === session.seq);
  assert.deepEqual(events, kept.events.filter((e) => e.data.seq <= session.seq).map(({ name, data }) => ({ name, data })));
  kept.client.close();
}

// sameAsStored compares the assembled turns with the messages list.
async function sameAsStored(session) {
  const plain = (turn) => ({
    id: turn.turn_id, role: turn.role, status: turn.status,
    blocks: turn.blocks.filter((b) => b.type !== 'tool_use' && b.type !== 'tool_result').map((b) => [b.type, b.content]),
    calls: turn.tool_calls.map((c) => [c.id, c.tool_name, c.arguments, c.status, c.result]),
  });
  const stored = (await fixture.rest.messages(session.id)).map(plain);
  assert.deepEqual(session.view.snapshot().turns.map(plain), stored);
  assert.deepEqual(session.view.snapshot().questions, []);
}
