// What model calls use and cost (docs/usage.md), and the outcome contract of scheduled
// tasks (docs/schedules.md), through the public interface.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Rest } from './lib/rest.mjs';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start({ MODEL_PRICES: 'everloop-demo=2/6/0.5/2.5' }); });
after(() => fixture?.close());

const read = 400;
const usage = { prompt_tokens: 1000, completion_tokens: 50, prompt_tokens_details: { cached_tokens: read } };
const cost = 0.0017; // 600 tokens at 2, 400 at 0.5, 50 at 6, for a million each

test('turns, chats, the session, the user and administrators see the same tokens and cost', async () => {
  const { user, api_key: key } = await fixture.rest.post('/api/admin/users', { username: 'spender' });
  const own = new Rest(fixture.server.url, key.plaintext);
  const view = await fixture.session({}, { token: key.plaintext });
  const { end, turns } = await view.run(steps({ usage, ...bash('echo 1') }, { usage, text: 'done' }));
  const spent = { input_tokens: 1000, output_tokens: 50, cache_read_tokens: read, cost_usd: cost };
  assert.deepEqual(turns.filter((t) => t.role === 'assistant').map((t) => t.usage), [spent, spent]);
  const both = { input_tokens: 2000, output_tokens: 100, cache_read_tokens: 800, cost_usd: 0.0034 };
  assert.deepEqual(end.usage, both);

  // A model without a price: its tokens are apart.
  const apart = await fixture.session({ model: 'everloop-demo-small' }, { token: key.plaintext });
  const free = await apart.run(steps({ usage, text: 'free' }));
  assert.deepEqual(free.end.usage, { input_tokens: 1000, output_tokens: 50, cache_read_tokens: read });

  const none = { input_tokens: 0, output_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 };
  const {
    by_model: models,
    first_at: first,
    last_at: last,
    session_id: id,
    ...total
  } = await own.get(`/api/sessions/${view.session}/usage`);
  assert.deepEqual(total, { ...both, calls: 2, cache_write_tokens: 0, uncosted: none });
  assert.equal(id, view.session);
  assert.ok(new Date(first) <= new Date(last));
  assert.deepEqual(models.map((m) => [m.model, m.calls, m.cost_usd]), [['everloop-demo', 2, 0.0034]]);
  const uncosted = { ...none, input_tokens: 1000, output_tokens: 50, cache_read_tokens: read };
  assert.deepEqual((await own.get(`/api/sessions/${apart.session}/usage`)).uncosted, uncosted);

  const sums = {
    calls: 3,
    input_tokens: 3000,
    output_tokens: 150,
    cache_read_tokens: 1200,
    cache_write_tokens: 0,
    cost_usd: 0.0034,
    uncosted,
  };
  const mine = await own.get('/api/user/usage?group_by=day_model');
  assert.deepEqual(mine.total, sums);
  assert.deepEqual(mine.items.map((m) => [m.model, m.calls, m.cost_usd]), [['everloop-demo', 2, 0.0034], ['everloop-demo-small', 1, 0]]);
  const all = await fixture.rest.get('/api/admin/usage?group_by=user');
  const line = all.items.find((i) => i.user_id === user.id);
  assert.deepEqual([line.username, line.calls, line.cost_usd], ['spender', 3, 0.0034]);
  assert.equal((await own.call('GET', '/api/admin/usage')).status, 403);
  assert.equal((await own.call('GET', '/api/user/usage?from=2020-01-01&to=2024-01-01')).status, 422);

  // What was used stays used when the session is gone.
  await fixture.settle();
  await own.delete(`/api/sessions/${view.session}`);
  const now = async () => (await own.get('/api/user/usage')).total;
  assert.deepEqual(await now(), sums);
});

test('a budget by cost ends the chat before the next model call', async () => {
  const view = await fixture.session({ session_setup: { budget: { max_cost: 2 * cost } } });
  const answer = { usage, ...bash('echo 1') };
  const { end, turns } = await view.run(steps(answer, { usage, ...bash('echo 2') }, { usage, text: 'never' }));
  assert.deepEqual([end.finish_reason, end.usage.cost_usd], ['budget_exhausted', 0.0034]);
  assert.match(end.error.message, /has cost 0\.0034 of the 0\.0034/);
  assert.equal(turns.filter((t) => t.role === 'assistant').length, 2);
  const raised = await fixture.rest.patch(`/api/sessions/${view.session}/budget`, { max_cost: 1 });
  assert.equal(raised.used_cost, 0.0034);
  assert.equal((await view.run(steps({ usage, text: 'on we go' }))).end.finish_reason, 'completed');
  await fixture.settle();
});

test('sub-agents count for their chat', async () => {
  const view = await fixture.session();
  const sub = call('Agent', { description: 'look', prompt: steps({ usage, text: 'seen' }) });
  const { end } = await view.run(steps({ usage, calls: [sub] }, { usage, text: 'done' }));
  assert.deepEqual([end.usage.input_tokens, end.usage.cost_usd], [3000, 0.0051]);
  const { calls, cost_usd: sum } = await fixture.rest.get(`/api/sessions/${view.session}/usage`);
  assert.deepEqual([calls, sum], [3, 0.0051]);
  await fixture.settle();
});

const create = (body) => fixture.rest.post('/api/scheduled-tasks', { title: 'T', cron: '@yearly', timezone: 'UTC', ...body });
const runs = (task) => fixture.rest.get(`/api/scheduled-tasks/${task.id}/runs`);
const runNow = (task) => fixture.rest.post(`/api/scheduled-tasks/${task.id}/run`);
const ended = (task, run) =>
  eventually(`run ${run.id} is over`, async () => (await runs(task)).find((r) => r.id === run.id && r.status !== 'running'));

test('a run that meets its outcome contract is completed, with its usage', async () => {
  const task = await create({
    prompt: steps({ usage, ...bash('mkdir -p report && echo total 3 > report/today.md') }, { usage, text: 'written' }),
    files: ['report/*.md'], commands: ['grep -q total report/today.md', 'cat report/today.md'],
  });
  assert.deepEqual([task.files, task.commands.length], [['report/*.md'], 2]);
  const run = await ended(task, await runNow(task));
  assert.equal(run.status, 'completed', JSON.stringify(run));
  assert.deepEqual(
    run.checks.map((c) => [c.kind, c.met, c.exit_code]),
    [
      ['command', true, 0],
      ['command', true, 0],
      ['file', true, undefined],
    ],
  );
  assert.equal(run.checks[1].output, 'total 3\n');
  assert.deepEqual([run.usage.cache_read_tokens, run.usage.cost_usd], [800, 0.0034]);
});

test('a run that does not meet it is failed, and says what is missing', async () => {
  const task = await create({
    prompt: steps({ text: 'nothing done' }), pause_on_failure_after: 1, files: ['report/*.md'], commands: ['echo why >&2; exit 3'],
  });
  const run = await ended(task, await runNow(task));
  assert.deepEqual([run.status, run.reason_code, run.error_code], ['failed', 'run_now', 'outcome_not_met']);
  assert.equal(
    run.error,
    'the outcome contract is not met: command "echo why >&2; exit 3": exit code 3; file "report/*.md": no file matches',
  );
  assert.deepEqual(
    run.checks.map((c) => [c.met, c.output]),
    [
      [false, 'why\n'],
      [false, undefined],
    ],
  );
  const disabled = await fixture.rest.get(`/api/scheduled-tasks/${task.id}`);
  assert.equal(disabled.enabled, false);
  assert.match(disabled.paused_reason, /outcome contract is not met/);

  const changed = await fixture.rest.patch(`/api/scheduled-tasks/${task.id}`, { files: [], commands: [] });
  assert.deepEqual([changed.files, changed.commands], [[], []]);
  assert.equal((await ended(task, await runNow(task))).status, 'completed');
});

test('an outcome contract that cannot be checked is refused', async () => {
  for (const [body, location] of [
    [{ files: ['../secret'] }, 'body.files[0]'], [{ files: ['/etc/passwd'] }, 'body.files[0]'], [{ files: ['a', '['] }, 'body.files[1]'],
    [{ commands: ['true', ' '] }, 'body.commands[1]'], [{ commands: Array(11).fill('true') }, 'body.commands'],
  ]) {
    const answer = await fixture.rest.call('POST', '/api/scheduled-tasks', { title: 'T', cron: '@yearly', prompt: 'p', ...body });
    assert.deepEqual([answer.status, answer.body.errors?.[0].location], [422, location], JSON.stringify(answer.body));
  }
});

test('a run that the next one replaces is not checked to its end', async () => {
  const task = await create({
    overlap: 'cancel_other',
    prompt: steps({ text: 'done' }),
    commands: ['touch checking; test -e stop || sleep 280'],
  });
  const first = await runNow(task);
  const { session_id: session } = await checking(task, first);
  await fixture.rest.patch(`/api/scheduled-tasks/${task.id}`, { commands: [] });
  const second = await runNow(task);
  assert.deepEqual([(await ended(task, first)).error_code, (await ended(task, second)).status], ['cancelled_by_next_run', 'completed']);
  assert.ok(session);
});

test('SIGKILL of everything while an outcome is checked', async () => {
  const task = await create({
    prompt: steps({ usage, text: 'done' }),
    commands: ['echo x >> tries; touch checking; test $(wc -l < tries) -gt 1 || sleep 280'],
  });
  const run = await runNow(task);
  const { session_id: session } = await checking(task, run);
  await fixture.server.kill();
  await fixture.server.start();
  const over = await ended(task, run);
  assert.deepEqual([over.status, over.session_id, over.checks.length, over.usage.cost_usd], ['completed', session, 1, cost]);
  assert.equal(await fixture.rest.file(session, 'tries'), 'x\nx\n');
  assert.equal((await fixture.rest.get(`/api/sessions/${session}/usage`)).calls, 1, 'a call was counted twice');
  assert.equal((await runs(task)).length, 1);
});

// checking waits until a command of the outcome contract runs.
const checking = (task, run) => eventually('the check runs', async () => {
  const now = (await runs(task)).find((r) => r.id === run.id);
  if (!now.session_id) return undefined;
  return (await fixture.rest.call('GET', `/api/sessions/${now.session_id}/files/checking`)).status === 200 ? now : undefined;
});
