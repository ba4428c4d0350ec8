// The Python SDK against a real service: its examples, and chats over connections that break.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { bash, call, Fixture, steps } from './lib/fixture.mjs';
import { Proxy } from './lib/proxy.mjs';

// Debian's Python has Debian's packages; another one in PATH has not.
const python = process.env.EVERLOOP_PYTHON ?? '/usr/bin/python3';
const sdk = fileURLToPath(new URL('../sdk/python/', import.meta.url));
const strict = ['-W', 'error', '-B'];

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());

const environment = (url) => ({ PATH: process.env.PATH, PYTHONPATH: sdk, EVERLOOP_URL: url, EVERLOOP_KEY: fixture.server.key });

// example runs one of the SDK's examples and gives the lines that it prints.
async function example(name, ...messages) {
  const { stdout, stderr } = await promisify(execFile)(python, [...strict, `${sdk}examples/${name}.py`, ...messages], {
    env: environment(fixture.server.url), timeout: 180_000,
  });
  assert.equal(stderr, '');
  return stdout.split('\n');
}

const colour = { question: 'Which colour?', options: [{ label: 'red' }, { label: 'blue' }] };

describe('examples of the Python SDK', () => {
  test('chat', async () => {
    const text = (
      await example(
        'chat',
        steps(
          { text: 'I look.', ...bash('echo seen') },
          { calls: [call('AskUserQuestion', { questions: [colour] })] },
          { text: 'It is done.' },
        ),
      )
    ).join('\n');
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

  test('queueing', async () => {
    const lines = await example(
      'queueing',
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

describe('a session of the Python SDK over connections that break', () => {
  let proxy;
  before(async () => { proxy = await Proxy.listen({ host: fixture.server.host, port: fixture.server.ports.agent }); });
  after(() => proxy?.close());

  for (const transport of ['websocket', 'polling']) {
    test(`has each event once and the view of the messages list, over ${transport}`, async () => {
      const text = 'Zwölf Boxkämpfer 🥊 jagen Viktor quer über den Deich. '.repeat(12);
      const order = steps(
        { thinking: 'I think.', text: 'I look.', ...bash('for i in 1 2 3 4 5; do echo $i; sleep 0.1; done') },
        { calls: [call('AskUserQuestion', { questions: [colour] })] }, { text, delay_ms: 10, chunk: 4 });
      const found = await broken(transport, order);
      assert.ok(found.cuts >= 3, `only ${found.cuts} cuts`);
      assert.equal(found.finish, 'completed');
      assert.equal(found.text, text);
      assert.deepEqual(found.questions, []);

      const kept = await fixture.follow(found.session, 0);
      await kept.wait('the last event', (e) => e.data.seq === found.seq);
      assert.deepEqual(found.events, kept.events.filter((e) => e.data.seq <= found.seq).map(({ name, data }) => ({ name, data })));
      kept.client.close();
      assert.deepEqual(found.turns, (await fixture.rest.messages(found.session)).map(plain));
    });
  }

  // broken runs the program and cuts its connections when it asks for that.
  async function broken(transport, order) {
    const child = spawn(python, [...strict, '-m', 'tests.broken_line', transport, order], {
      cwd: sdk, env: environment(`http://127.0.0.1:${proxy.port}`), stdio: ['ignore', 'pipe', 'pipe'], timeout: 180_000,
    });
    let said = '';
    child.stderr.on('data', (data) => { said += data; });
    const closed = new Promise((resolve) => child.once('close', resolve));
    let last;
    for await (const line of createInterface(child.stdout)) {
      if (line !== 'cut') last = line;
      else {
        proxy.reset();
        proxy.heal();
      }
    }
    assert.equal(await closed, 0, said);
    assert.equal(said, '');
    return JSON.parse(last);
  }
});

const plain = (turn) => ({
  id: turn.turn_id, role: turn.role, status: turn.status,
  blocks: turn.blocks.filter((b) => b.type !== 'tool_use' && b.type !== 'tool_result').map((b) => [b.type, b.content]),
  calls: turn.tool_calls.map((c) => [c.id, c.tool_name, c.arguments, c.status, c.result]),
});
