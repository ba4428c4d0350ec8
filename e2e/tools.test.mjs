// The tools of the agent and the sandbox that they run in (docs/tools.md).
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

// tools runs one step of calls and gives the calls with their results.
async function tools(view, ...calls) {
  const { end, calls: made } = await view.run(steps({ calls }, { text: 'done' }));
  assert.equal(end.finish_reason, 'completed');
  return made;
}

const run = async (view, command, more = {}) => (await tools(view, call('Bash', { command, ...more })))[0];

describe('files', () => {
  test('Write, Read, Edit, Glob and Grep work on the workspace', async () => {
    const view = await fixture.session();
    const [written] = await tools(view, call('Write', { file_path: 'src/a.txt', content: 'alpha\nbeta\ngamma\n' }));
    assert.equal(written.status, 'done');
    assert.equal(await fixture.rest.file(view.session, 'src/a.txt'), 'alpha\nbeta\ngamma\n');
    const changed = view.events.find((e) => e.name === 'file:changed').data;
    assert.equal(changed.path, 'src/a.txt');
    const [read] = await tools(view, call('Read', { file_path: 'src/a.txt' }));
    assert.match(read.result, /1\s+alpha[\s\S]*3\s+gamma/);
    const [page] = await tools(view, call('Read', { file_path: 'src/a.txt', offset: 2, limit: 1 }));
    assert.match(page.result, /beta/);
    assert.doesNotMatch(page.result, /alpha|gamma/);
    const [edit] = await tools(view, call('Edit', { file_path: 'src/a.txt', old_string: 'beta', new_string: 'BETA' }));
    assert.equal(edit.status, 'done', edit.result);
    assert.equal(await fixture.rest.file(view.session, 'src/a.txt'), 'alpha\nBETA\ngamma\n');
    const [glob, grep, count] = await tools(view, call('Glob', { pattern: '**/*.txt' }), call('Grep', { pattern: 'B.TA' }),
      call('Grep', { pattern: 'beta', '-i': true, output_mode: 'files_with_matches' }));
    assert.match(glob.result, /src\/a\.txt/);
    assert.match(grep.result, /src\/a\.txt.*BETA/);
    assert.match(count.result, /src\/a\.txt/);
  });

  test('Edit refuses what was not read, or changed since', async () => {
    const view = await fixture.session();
    await fixture.rest.put(`/api/sessions/${view.session}/files/b.txt`, { content: 'one\n' });
    const edit = call('Edit', { file_path: 'b.txt', old_string: 'one', new_string: 'two' });
    const [unread] = await tools(view, edit);
    assert.equal(unread.status, 'error');
    await tools(view, call('Read', { file_path: 'b.txt' }));
    await fixture.rest.put(`/api/sessions/${view.session}/files/b.txt`, { content: 'one, changed\n' });
    const [stale] = await tools(view, edit);
    assert.equal(stale.status, 'error');
    assert.equal(await fixture.rest.file(view.session, 'b.txt'), 'one, changed\n');
    await tools(view, call('Read', { file_path: 'b.txt' }));
    const [ambiguous] = await tools(view, call('Edit', { file_path: 'b.txt', old_string: 'n', new_string: 'm' }));
    assert.equal(ambiguous.status, 'error');
    const [good] = await tools(view, edit);
    assert.equal(good.status, 'done', good.result);
  });

  test('paths that leave the workspace are refused', async () => {
    const view = await fixture.session();
    await run(view, 'ln -s /etc link');
    for (const path of ['../other', '/etc/passwd', 'link/passwd', '../../../../etc/hostname']) {
      const [read, write] = await tools(view, call('Read', { file_path: path }), call('Write', { file_path: path, content: 'x' }));
      assert.deepEqual([read.status, write.status], ['error', 'error'], path);
      assert.doesNotMatch(read.result, /root:x:0/);
    }
  });
});

describe('Bash', () => {
  test('gives output, errors and the exit code', async () => {
    const view = await fixture.session();
    const [ok, failed, slow] = await tools(
      view,
      call('Bash', { command: 'echo out; echo err >&2' }),
      call('Bash', { command: 'echo before; exit 3' }),
      call('Bash', { command: 'echo early; sleep 600', timeout: 20_000 }),
    );
    assert.equal(ok.status, 'done');
    assert.match(ok.result, /out/);
    assert.match(ok.result, /err/);
    assert.equal(failed.status, 'error');
    assert.match(failed.result, /before[\s\S]*3/);
    assert.equal(slow.status, 'error');
    assert.match(slow.result, /early[\s\S]*timed out/);
    assert.ok(slow.duration_ms < 300_000, `${slow.duration_ms} ms`);
  });

  test('calls of one turn run at the same time', async () => {
    const view = await fixture.session();
    const made = await tools(view, ...['a', 'b', 'c', 'd'].map((n) =>
      call('Bash', { command: `touch here-${n}; until [ $(ls here-* | wc -l) = 4 ]; do sleep 0.02; done; echo met`, timeout: 60000 })));
    assert.deepEqual(made.map((c) => [c.status, c.result.trim()]), Array(4).fill(['done', 'met']));
  });

  test('shows its output while it runs', async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(
      steps(bash('echo first; until [ -e go ]; do sleep 0.02; done; echo second'), { text: 'done' }),
    );
    const progress = await view.patch('tool_progress', (p) => p.text_delta.includes('first'));
    assert.equal(progress.tool_call_id, view.callsOf(chat)[0].id);
    assert.ok(['stdout', 'stderr'].includes(progress.stream));
    assert.equal((await fixture.rest.detail(view.session)).waiting_reason, 'tool');
    await fixture.rest.put(`/api/sessions/${view.session}/files/go`, { content: '' });
    await view.ended(chat);
    assert.equal(view.callsOf(chat)[0].result.trim(), 'first\nsecond');
  });

  test('a long output is kept as a file that Read can page', async () => {
    const view = await fixture.session();
    const long = await run(view, 'for i in $(seq 1 40000); do echo "line number $i"; done');
    assert.equal(long.status, 'done');
    assert.ok([...long.result].length <= 100_000, `${[...long.result].length} characters`);
    const path = /(\.everloop\/\S+?)[,\s]/.exec(long.result)?.[1];
    assert.ok(path, 'the result names no file');
    const [page] = await tools(view, call('Read', { file_path: path, offset: 20_000, limit: 2 }));
    assert.equal(page.status, 'done', page.result);
    assert.match(page.result, /line number 20000/);
    assert.doesNotMatch(page.result, /line number 20002/);
  });

  test('output that is no text harms nothing', async () => {
    const view = await fixture.session();
    const made = await run(view, "printf 'a\\x00b\\xff\\xfec\\x1b[31m'; printf '\\xf0\\x9f\\x98'");
    assert.equal(made.status, 'done');
    assert.ok(!made.result.includes('\u0000'));
  });

  test('the environment of the session reaches Bash and nothing else', async () => {
    const view = await fixture.session({ env: { GREETING: 'hello-6021', SECRET_TOKEN: 's3cr3t-6021' } });
    const printed = await run(view, 'echo "[$GREETING]"; test "$SECRET_TOKEN" = s3cr3t-6021 && echo same');
    assert.equal(printed.result.trim(), '[hello-6021]\nsame');
    const requests = await fixture.requests('echo \\\\\\"[$GREETING]');
    assert.ok(requests.length > 0 || (await fixture.requests('GREETING')).length > 0);
    assert.equal((await fixture.requests('s3cr3t-6021" ')).length, 0);
    await fixture.rest.put(`/api/sessions/${view.session}/env`, { env: { GREETING: 'changed' } });
    assert.equal((await run(view, 'echo "$GREETING,$SECRET_TOKEN"')).result.trim(), 'changed,');
    const text = JSON.stringify(await fixture.rest.detail(view.session));
    assert.ok(!text.includes('6021'), 'values of the environment are shown');
  });

  test('the environment of the service does not reach it', async () => {
    const view = await fixture.session();
    const { result } = await run(
      view,
      'env; cat /proc/1/environ 2>/dev/null | tr "\\0" "\\n"; cat /proc/*/environ 2>/dev/null | tr "\\0" "\\n"',
    );
    assert.ok(!result.includes(fixture.server.key));
    assert.doesNotMatch(result, /BOOTSTRAP_API_KEY|DATA_DIR/);
  });

  test('processes left behind do not outlive the call', async () => {
    const view = await fixture.session();
    await run(view, '(setsid sleep 1; echo late > late) >/dev/null 2>&1 & echo gone');
    await new Promise((resolve) => setTimeout(resolve, 1500)); // a survivor would write by now
    assert.equal((await fixture.rest.call('GET', `/api/sessions/${view.session}/files/late`)).status, 404);
  });
});

describe('the sandbox', () => {
  test('hides the service, its files, its processes and the other sessions', async () => {
    const other = await fixture.session();
    await run(other, 'echo neighbour-7033 > private-7033');
    const view = await fixture.session();
    const data = fixture.server.dir;
    const made = await tools(view,
      call('Bash', { command: `ls -la ${data} ${data}/data 2>&1; cat ${data}/data/config/* 2>&1` }),
      call('Bash', {
        command:
          'find / -name private-7033 -not -path "/proc/*" 2>/dev/null; grep -rs neighbour-7033 / --include=private-7033 2>/dev/null; true',
      }),
      call('Bash', { command: 'ps ax 2>/dev/null || ls /proc | grep -E "^[0-9]+$"' }),
      call('Bash', { command: 'ls /tmp | head -50' }));
    assert.match(made[0].result, /No such file|cannot access|denied/i);
    assert.doesNotMatch(made[1].result, /7033/);
    assert.doesNotMatch(made[2].result, /everloop up|postgres/);
    assert.doesNotMatch(made[3].result, /everloop-e2e/);
  });

  test('reaches no port of the host by loopback', async () => {
    const view = await fixture.session();
    for (const port of Object.values(fixture.server.ports)) {
      const { status, result } = await run(view, `exec 3<>/dev/tcp/127.0.0.1/${port} && echo CONNECTED`, { timeout: 5000 });
      assert.equal(status, 'error');
      assert.doesNotMatch(result, /CONNECTED/);
    }
  });

  test('cannot signal or become anybody', async () => {
    const view = await fixture.session();
    const { result } = await run(
      view,
      `kill -0 ${fixture.server.pid} 2>&1 && echo REACHED; id -u; mount -t tmpfs x /mnt 2>&1 || true; echo x > /etc/marker 2>&1 || true; ` +
        `test -e /etc/marker && echo WRITTEN`,
    );
    assert.doesNotMatch(result, /REACHED|WRITTEN/);
  });

  test('a fork bomb and a memory hog end by themselves', async () => {
    const view = await fixture.session();
    const made = await tools(view, call('Bash', { command: 'f() { f | f & }; f; sleep 2; echo survived', timeout: 8000 }));
    assert.ok(['done', 'error'].includes(made[0].status));
    assert.equal((await run(view, 'echo fine')).result.trim(), 'fine');
  });
});

describe('calls that cannot be carried out', () => {
  test('malformed arguments, unknown and disabled tools', async () => {
    const view = await fixture.session({ disable_tools: ['Grep'] });
    const { end, calls } = await view.run(steps({
      calls: [
        { name: 'Bash', raw: '{"command": "ec' }, { name: 'Bash', raw: '[]' }, { name: 'Bash', arguments: { comand: 'true' } },
        { name: 'Read', arguments: {} }, { name: 'NoSuchTool', arguments: {} }, { name: 'Grep', arguments: { pattern: 'x' } },
        { name: 'Glob', arguments: { pattern: '*' } },
      ],
    }, { text: 'I see' }));
    assert.equal(end.finish_reason, 'completed');
    assert.deepEqual(calls.map((c) => c.status), ['error', 'error', 'error', 'error', 'error', 'error', 'done']);
    for (const c of calls.slice(0, 6)) assert.ok(c.result.length > 0, `${c.tool_name} says nothing`);
    const results = (await fixture.requests('NoSuchTool')).at(-1).body.messages.filter((m) => m.role === 'tool');
    assert.equal(results.length, 7);
    assert.ok(!(await fixture.requests('NoSuchTool')).at(-1).body.tools.some((t) => t.function.name === 'Grep'));
  });

  test('more than 32 calls in one turn all run', async () => {
    const view = await fixture.session();
    const made = await tools(view, ...[...Array(40).keys()].map((i) => call('Write', { file_path: `f${i}`, content: `${i}` })));
    assert.deepEqual(made.map((c) => c.status), Array(40).fill('done'));
    assert.equal((await fixture.rest.get(`/api/sessions/${view.session}/ls/`)).filter((e) => /^f\d+$/.test(e.name)).length, 40);
  });
});

test('TaskCreate makes and changes the tasks of the session', async () => {
  const view = await fixture.session();
  const [made] = await tools(view, call('TaskCreate', { subject: 'first step', description: 'do it' }));
  assert.equal(made.status, 'done', made.result);
  const { items } = await fixture.rest.get(`/api/sessions/${view.session}/tasks`);
  assert.deepEqual([items.length, items[0].subject, items[0].status], [1, 'first step', 'pending']);
  await tools(view, call('TaskCreate', { task_id: items[0].id, subject: 'first step', status: 'completed' }));
  assert.equal((await fixture.rest.get(`/api/sessions/${view.session}/tasks`)).items[0].status, 'completed');
});

test('a background command goes on after its call and its chat', async () => {
  const view = await fixture.session();
  const started = await run(view, 'echo started; until [ -e go ]; do sleep 0.05; done; echo ended > ended', { run_in_background: true });
  assert.equal(started.status, 'done', started.result);
  const tasks = async () => (await fixture.rest.get(`/api/sessions/${view.session}/background-tasks`));
  const list = async () => { const t = await tasks(); return t.items ?? t; };
  await eventually('it is listed as running', async () => (await list()).some((t) => t.status === 'running'));
  await fixture.rest.put(`/api/sessions/${view.session}/files/go`, { content: '' });
  await eventually('it has ended', async () => (await list()).every((t) => t.status !== 'running'));
  assert.equal(await fixture.rest.file(view.session, 'ended'), 'ended\n');
});
