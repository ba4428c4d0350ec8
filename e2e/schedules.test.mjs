// Scheduled tasks (docs/schedules.md) through the public interface: changed and shown,
// due when they should be, run once, and repaired after a crash.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Rest } from './lib/rest.mjs';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());

const yearly = { title: 'T', cron: '@yearly', timezone: 'UTC' };
const create = (body) => fixture.rest.post('/api/scheduled-tasks', { ...yearly, prompt: steps({ text: 'done' }), ...body });
const read = (task) => fixture.rest.get(`/api/scheduled-tasks/${task.id}`);
const runs = (task, query = '') => fixture.rest.get(`/api/scheduled-tasks/${task.id}/runs${query}`);
const runNow = (task) => fixture.rest.post(`/api/scheduled-tasks/${task.id}/run`);
const remove = (task) => fixture.rest.delete(`/api/scheduled-tasks/${task.id}`);
const ended = (task, run) =>
  eventually(`run ${run.id} is over`, async () => (await runs(task)).find((r) => r.id === run.id && r.status !== 'running'));
const begun = (task, run) =>
  eventually(`run ${run.id} has begun`, async () => {
    const now = (await runs(task)).find((r) => r.id === run.id);
    if (!now.session_id) return undefined;
    const session = await fixture.rest.call('GET', `/api/sessions/${now.session_id}`);
    return session.status === 200 && session.body.status !== 'created' ? { ...now, session: session.body } : undefined;
  });
const held = () => order({ steps: [{ text: 'held back', hold: true }] });
const release = (awaited) => fixture.releaseUntil(awaited);

// The next times of an expression are those that npm croner finds.
test('a cron expression is previewed in words and with its next times', async () => {
  const preview = (query) => fixture.rest.call('GET', `/api/scheduled-tasks/preview?${new URLSearchParams(query)}`);
  const cases = [
    ['30 9 * * MON-FRI', 'Europe/Berlin', 'At 09:30, on Monday to Friday'],
    ['15 0,12 * * *', 'Asia/Kolkata'],
  ];
  for (const [cron, timezone, words] of cases) {
    const from = Math.floor(Date.now() / 60_000) * 60;
    const { status, body } = await preview({ cron, timezone, count: 4 });
    const asked = Date.now();
    assert.deepEqual([status, body.timezone, body.occurrences?.length], [200, timezone, 4], JSON.stringify(body));
    if (words) assert.equal(body.cron_text, words);

    const question = JSON.stringify({ expression: cron, zone: timezone, from, to: from + 8 * 86_400 });
    const croner = fileURLToPath(new URL('lib/croner.mjs', import.meta.url));
    const due = JSON.parse(execFileSync(process.execPath, [croner], { input: question })).map((s) => s * 1000);
    const found = body.occurrences.map((at) => Date.parse(at));
    const first = due.indexOf(found[0]);
    assert.deepEqual(found, due.slice(first, first + 4));
    assert.ok(due.slice(0, first).every((at) => at <= asked), 'no time is left out');
  }
  assert.deepEqual(await fixture.rest.get('/api/scheduled-tasks'), [], 'nothing is created');

  const wrong = await preview({ cron: '61 * * * *' });
  assert.deepEqual([wrong.status, wrong.body.code], [422, 'invalid_cron']);
  assert.match(wrong.body.detail, /minute/);
  const nowhere = await preview({ cron: '@daily', timezone: 'Mars/Olympus' });
  assert.deepEqual([nowhere.status, nowhere.body.code], [422, 'invalid_timezone']);
});

test('a task is created, shown, changed, stopped, started and deleted', async () => {
  const made = await fixture.rest.call('POST', '/api/scheduled-tasks', {
    title: 'Report',
    prompt: 'Write it.',
    cron: '30 9 * * MON-FRI',
    timezone: 'Europe/Berlin',
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const task = made.body;
  assert.deepEqual([task.cron_text, task.overlap, task.catchup_window_s, task.pause_on_failure_after, task.enabled],
    ['At 09:30, on Monday to Friday', 'skip', 3600, 5, true]);
  assert.ok(new Date(task.next_run_at) > new Date());
  assert.ok((await fixture.rest.get('/api/scheduled-tasks')).some((t) => t.id === task.id));

  const changed = await fixture.rest.patch(`/api/scheduled-tasks/${task.id}`, {
    cron: '@daily',
    jitter_s: 30,
    expires_at: '2099-01-01T00:00:00Z',
  });
  assert.deepEqual([changed.cron_text, changed.jitter_s, changed.title], ['At 00:00', 30, 'Report']);
  assert.equal((await fixture.rest.patch(`/api/scheduled-tasks/${task.id}`, { expires_at: null })).expires_at, null);
  const stopped = await fixture.rest.post(`/api/scheduled-tasks/${task.id}/stop`);
  assert.deepEqual([stopped.enabled, stopped.next_run_at], [false, null]);
  const started = await fixture.rest.post(`/api/scheduled-tasks/${task.id}/start`);
  assert.equal(started.enabled, true);
  assert.notEqual(started.next_run_at, null);

  const gone = await fixture.rest.call('DELETE', `/api/scheduled-tasks/${task.id}`);
  assert.equal(gone.status, 204);
  assert.equal((await fixture.rest.call('GET', `/api/scheduled-tasks/${task.id}`)).body.code, 'scheduled_task_not_found');
});

test('what cannot be carried out is refused', async () => {
  for (const [body, code, location] of [
    [{ cron: '60 * * * *' }, 'invalid_cron', 'body.cron'],
    [{ cron: '0 0 30 2 *' }, 'invalid_cron', 'body.cron'],
    [{ cron: '@every 5m' }, 'invalid_cron', 'body.cron'],
    [{ timezone: 'Mars/Olympus' }, 'invalid_timezone', 'body.timezone'],
    [{ timezone: 'Local' }, 'invalid_timezone', 'body.timezone'],
    [{ expires_at: '2020-01-01T00:00:00Z' }, 'invalid_request', 'body.expires_at'],
    [{ prompt: '  ' }, 'invalid_request', 'body.prompt'],
    [{ overlap: 'never' }, 'invalid_request', 'body.overlap'],
  ]) {
    const answer = await fixture.rest.call('POST', '/api/scheduled-tasks', { ...yearly, prompt: 'p', ...body });
    assert.deepEqual([answer.status, answer.body.code], [422, code], JSON.stringify(body));
    assert.equal(answer.body.errors?.[0].location, location, JSON.stringify(answer.body));
  }
});

test('the calendar follows the clocks', async () => {
  const task = await create({ cron: '30 2 * * *', timezone: 'Europe/Berlin' });
  const off = await create({ enabled: false });
  const calendar = (from, to) => fixture.rest.get(`/api/scheduled-tasks/calendar?from=${from}&to=${to}`);
  const of = async (id, ...range) => (await calendar(...range)).find((e) => e.task_id === id).occurrences;
  assert.deepEqual(await of(task.id, '2030-03-30T00:00:00Z', '2030-04-02T00:00:00Z'),
    ['2030-03-30T01:30:00Z', '2030-03-31T01:00:00Z', '2030-04-01T00:30:00Z']);
  assert.deepEqual(await of(task.id, '2030-10-26T00:30:00Z', '2030-10-28T01:30:00Z'), ['2030-10-26T00:30:00Z', '2030-10-27T00:30:00Z']);
  assert.deepEqual(await of(off.id, '2030-01-01T00:00:00Z', '2030-02-01T00:00:00Z'), []);
  assert.equal(
    (await fixture.rest.call('GET', '/api/scheduled-tasks/calendar?from=2030-01-01T00:00:00Z&to=2032-01-01T00:00:00Z')).status,
    422,
  );
  await Promise.all([task, off].map(remove));
});

test('members of the workspace of a task read it, its runs and its sessions', async () => {
  const board = `/api/prod_workspaces/${(await fixture.rest.post('/api/prod_workspaces', { name: 'Reports' })).id}`;
  const workspace = board.split('/').at(-1);
  const added = await fixture.rest.post('/api/admin/users', { username: `reader-${process.pid}` });
  const reader = new Rest(fixture.server.url, added.api_key.plaintext);
  const elsewhere = (await reader.post('/api/prod_workspaces', { name: 'Theirs' })).id;
  const foreign = await fixture.rest.call('POST', '/api/scheduled-tasks', { ...yearly, prompt: 'p', workspace_id: elsewhere });
  assert.deepEqual([foreign.status, foreign.body.code], [404, 'workspace_not_found']);

  const task = await create({ workspace_id: workspace });
  assert.equal((await read(task)).workspace_id, workspace);
  const { session_id: session } = await ended(task, await runNow(task));
  assert.equal((await reader.call('GET', `/api/sessions/${session}`)).status, 404);
  await fixture.rest.join(board, reader, added.user.id, 'viewer');
  const seen = await reader.detail(session);
  assert.deepEqual([seen.viewer_role, seen.workspace_id], ['viewer', workspace]);
  assert.deepEqual((await reader.get(`/api/scheduled-tasks?workspace_id=${workspace}`)).map((t) => t.id), [task.id]);
  assert.equal((await reader.get(`/api/scheduled-tasks/${task.id}/runs`))[0].session_id, session);
  assert.equal((await reader.call('POST', `/api/scheduled-tasks/${task.id}/run`)).body.code, 'forbidden');

  const other = await fixture.rest.call('PATCH', `/api/scheduled-tasks/${task.id}`, { workspace_id: elsewhere });
  assert.equal(other.body.code, 'workspace_not_found');
  assert.equal((await fixture.rest.patch(`/api/scheduled-tasks/${task.id}`, { title: 'Same' })).workspace_id, workspace);
  assert.equal((await fixture.rest.patch(`/api/scheduled-tasks/${task.id}`, { workspace_id: null })).workspace_id, null);
  const next = await ended(task, await runNow(task));
  assert.equal((await reader.call('GET', `/api/sessions/${next.session_id}`)).status, 404);
  await remove(task);
});

test('a tick runs at its time, in a session of its own', async () => {
  const task = await create({ cron: '* * * * *', prompt: steps({ text: 'ticked' }) });
  const run = await eventually('a tick has run', async () => (await runs(task)).find((r) => r.status === 'completed'), 150_000);
  assert.equal(run.outcome, 'fired');
  assert.equal(new Date(run.scheduled_for).getUTCSeconds(), 0);
  assert.ok(run.drift_ms >= 0 && run.drift_ms < 60_000, `drift ${run.drift_ms} ms`);
  assert.ok(run.usage.output_tokens > 0);
  const session = await fixture.rest.detail(run.session_id);
  assert.deepEqual([session.intent, session.status], ['T', 'completed']);
  const { last_status: status, next_run_at: next } = await read(task);
  assert.equal(status, 'completed');
  assert.ok(new Date(next) > new Date(run.scheduled_for));
  await remove(task);
});

test('a persistent task keeps its session', async () => {
  const task = await create({ persistent: true });
  const first = await ended(task, await runNow(task));
  const second = await ended(task, await runNow(task));
  assert.deepEqual([first.status, second.status, second.reason_code], ['completed', 'completed', 'run_now']);
  assert.equal(second.session_id, first.session_id);
  assert.equal((await read(task)).session_id, first.session_id);
  assert.deepEqual((await runs(task)).map((r) => r.id), [second.id, first.id]);
  assert.deepEqual((await runs(task, '?limit=1&offset=1')).map((r) => r.id), [first.id]);
  await remove(task);
});

test('a run that is not over: skip, buffer_one, cancel_other', async () => {
  const task = await create({ prompt: held() });
  const first = await runNow(task);
  await begun(task, first);
  const skipped = await runNow(task);
  assert.deepEqual(
    [skipped.status, skipped.outcome, skipped.reason_code, skipped.session_id],
    ['failed', 'skipped', 'previous_run_active', null],
  );

  await fixture.rest.patch(`/api/scheduled-tasks/${task.id}`, { overlap: 'buffer_one' });
  const waits = await runNow(task);
  assert.deepEqual([waits.status, waits.session_id], ['running', null]);
  assert.equal((await runNow(task)).outcome, 'coalesced');

  await fixture.rest.patch(`/api/scheduled-tasks/${task.id}`, { overlap: 'cancel_other' });
  const last = await runNow(task);
  for (const run of [first, waits]) {
    const over = await ended(task, run);
    assert.deepEqual([over.status, over.reason_code, over.error_code], ['failed', 'run_now', 'cancelled_by_next_run']);
  }
  assert.equal((await release(ended(task, last))).status, 'completed');
  assert.equal((await read(task)).consecutive_failures, 0);
  await remove(task);
});

test('buffered runs follow one another', async () => {
  const task = await create({ overlap: 'buffer_all', prompt: held() });
  const all = [await runNow(task), await runNow(task), await runNow(task)];
  await release(ended(task, all[2]));
  const over = await Promise.all(all.map((run) => ended(task, run)));
  assert.deepEqual(over.map((r) => r.status), ['completed', 'completed', 'completed']);
  assert.ok(new Date(over[1].finished_at) <= new Date(over[2].finished_at));
  await remove(task);
});

test('a result that does not follow the schema fails the run, and failures disable the task', async () => {
  const schema = { type: 'object', required: ['total'], properties: { total: { type: 'number' } } };
  const task = await create({
    output_schema: schema,
    pause_on_failure_after: 2,
    prompt: steps({ text: 'no' }, { text: 'no' }, { text: 'no' }),
  });
  for (let i = 0; i < 2; i++) {
    const run = await ended(task, await runNow(task));
    assert.deepEqual([run.status, run.reason_code, run.error_code], ['failed', 'run_now', 'schema_mismatch']);
  }
  const paused = await read(task);
  assert.deepEqual([paused.enabled, paused.consecutive_failures], [false, 2]);
  assert.match(paused.paused_reason, /^2 runs in a row failed/);

  await fixture.rest.patch(`/api/scheduled-tasks/${task.id}`, { prompt: steps({ text: '{"total": 3}' }) });
  const again = await fixture.rest.post(`/api/scheduled-tasks/${task.id}/start`);
  assert.deepEqual([again.consecutive_failures, again.paused_reason], [0, null]);
  assert.equal((await ended(task, await runNow(task))).status, 'completed');
  await remove(task);
});

test('a run whose outcome contract is not met has failed, and says what is missing', async () => {
  const prompt = steps(bash('mkdir report; echo Total 3 > report/today.md'), { text: 'It is written.' });
  const contract = { files: ['report/*.md'], commands: ['grep -q Total report/today.md'] };
  const task = await create({ ...contract, prompt });
  const met = await ended(task, await runNow(task));
  assert.deepEqual([met.status, met.error_code], ['completed', null]);
  assert.deepEqual(met.checks.map((check) => [check.kind, check.met]), [['command', true], ['file', true]]);

  await fixture.rest.patch(`/api/scheduled-tasks/${task.id}`, { commands: ['echo why >&2; exit 3'], files: ['missing/*.csv'] });
  const failed = await ended(task, await runNow(task));
  assert.deepEqual([failed.status, failed.error_code], ['failed', 'outcome_not_met']);
  assert.match(failed.error, /exit code 3; file "missing\/\*\.csv": no file matches/);
  const [command, file] = failed.checks;
  assert.deepEqual([command.exit_code, command.output, command.met, file.met], [3, 'why\n', false, false]);
  assert.equal((await fixture.rest.detail(failed.session_id)).status, 'completed', 'the chat itself went well');
  await remove(task);
});

test('with skip_confirmations a question never holds a run', async () => {
  const question = call('AskUserQuestion', { questions: [{ question: 'Which?', options: [{ label: 'a' }, { label: 'b' }] }] });
  const prompt = steps({ calls: [question] }, { text: 'I chose a' });
  const skips = await create({ skip_confirmations: true, prompt });
  const run = await ended(skips, await runNow(skips));
  assert.equal(run.status, 'completed', JSON.stringify(run));
  const stored = JSON.stringify(await fixture.rest.messages(run.session_id));
  assert.match(stored, /skip_confirmations/, 'the record does not say who answered');

  const asks = await create({ prompt });
  const waiting = await runNow(asks);
  const { session_id: session } = await begun(asks, waiting);
  const asked = await eventually('the question is in the inbox', async () =>
    (await fixture.rest.get('/api/inbox')).items.find((i) => i.session_id === session),
  );
  assert.ok(asked);
  assert.equal((await runs(asks))[0].status, 'running');
  const view = await fixture.follow(session, 0);
  const { tool_call_id: id } = [...view.rules.questions?.values?.() ?? []][0] ?? asked;
  await fixture.rest.post(`/api/sessions/${session}/chat`, { askuser_answer: { tool_call_id: id, selections: { 0: [1] }, custom: {} } });
  assert.equal((await ended(asks, waiting)).status, 'completed');
  await Promise.all([skips, asks].map(remove));
});

test('an unknown model is refused', async () => {
  const refused = await create({ model: 'no-such-model' }).catch((err) => err);
  assert.match(String(refused.message), /unknown_model/);
});

test('SIGKILL of everything in the middle of a run', async () => {
  const task = await create({
    cron: '@yearly',
    prompt: order({ steps: [bash('echo once >> effects'), { text: 'finished', hold: true }] }),
  });
  const run = await runNow(task);
  const { session_id: session } = await begun(task, run);
  await eventually('the effect', async () => (await fixture.rest.call('GET', `/api/sessions/${session}/files/effects`)).status === 200);
  await fixture.server.kill();
  await fixture.server.start();
  const over = await release(ended(task, run));
  assert.deepEqual([over.status, over.session_id], ['completed', session]);
  assert.equal(await fixture.rest.file(session, 'effects'), 'once\n');
  assert.equal((await runs(task)).length, 1);
  const view = await fixture.follow(session, 0);
  await view.wait('the end', (e) => e.name === 'chat:end');
  assert.equal(view.events.filter((e) => e.name === 'chat:end').length, 1);
  assert.ok(view.events.filter((e) => e.name === 'chat:start').every((e) => e.data.trigger === 'schedule'));
  await remove(task);
});

test('ticks that were due while the service was down are caught up or missed', async () => {
  const task = await create({ cron: '* * * * *', catchup_window_s: 0, overlap: 'allow_all' });
  await fixture.server.kill();
  await new Promise((resolve) => setTimeout(resolve, 125_000)); // the service is away for two minutes: nothing can be awaited
  await fixture.server.start();
  const missed = await eventually('a missed tick', async () => (await runs(task)).find((r) => r.outcome === 'missed'));
  assert.deepEqual([missed.status, missed.reason_code, missed.session_id], ['failed', 'catchup_window_over', null]);
  const all = await runs(task);
  assert.equal(new Set(all.map((r) => r.scheduled_for)).size, all.length, 'a tick has two records');
  assert.equal((await read(task)).consecutive_failures, 0);
  await remove(task);
});
