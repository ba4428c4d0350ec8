// Webhooks, the inbox and default policies of questions (docs/webhooks.md) through the
// public interface: events are signed, sent at least once also over a crash, and
// questions that no user answers are answered in time.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';
import { listen } from './lib/outside.mjs';

// Receiver is an endpoint: it keeps what it is sent by path, and answers as configured.
class Receiver {
  requests = new Map(); // path -> requests
  answers = new Map(); // path -> (request) => status

  static async start() {
    const receiver = new Receiver();
    receiver.server = createServer((request, response) => receiver.take(request, response));
    receiver.host = `127.0.0.1:${await listen(receiver.server)}`;
    return receiver;
  }

  take(request, response) {
    let body = '';
    request.setEncoding('utf8').on('data', (text) => { body += text; }).on('end', () => {
      const got = { headers: request.headers, body, event: JSON.parse(body), id: request.headers['webhook-id'] };
      this.requests.set(request.url, [...this.of(request.url), got]);
      const status = this.answers.get(request.url)?.(got) ?? 200;
      if (status !== 'hang') response.writeHead(status).end(`answer ${status}`);
    });
  }

  of(path) { return this.requests.get(path) ?? []; }
  got(path, what, probe) { return eventually(what, async () => this.of(path).find(probe)); }
  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

let fixture, receiver;
before(async () => {
  receiver = await Receiver.start();
  fixture = await Fixture.start({ WEBHOOK_ALLOW: receiver.host });
});
after(async () => {
  await fixture?.close();
  receiver?.close();
});

// signature of a request by a secret, as Standard Webhooks says.
const signature = (secret, { headers, body }) => 'v1,' + createHmac('sha256', Buffer.from(secret.replace('whsec_', ''), 'base64'))
  .update(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`).digest('base64');

const hook = (path, more = {}) => fixture.rest.post('/api/webhooks', { url: `http://${receiver.host}${path}`, ...more });
const deliveries = async (webhook, query = '') => (await fixture.rest.get(`/api/webhooks/${webhook.id}/deliveries${query}`)).items;
const drop = (webhook) => fixture.rest.delete(`/api/webhooks/${webhook.id}`);
const question = (options = [{ label: 'red' }, { label: 'blue' }]) =>
  call('AskUserQuestion', { questions: [{ question: 'Which?', options }] });
const send = (session, message) => fixture.rest.post(`/api/sessions/${session}/chat`, { message });
const session = async (settings = {}) => (await fixture.rest.post('/api/sessions', settings)).session_id;
const completed = (id) => eventually(`session ${id} has completed`, async () => (await fixture.rest.detail(id)).status === 'completed');
const asked = (id) =>
  eventually(`session ${id} asks`, async () => (await fixture.rest.get('/api/inbox')).items.find((i) => i.session_id === id));

test('a webhook is sent the end of a chat, signed, and rotated secrets sign together', async () => {
  const made = await hook('/signed');
  const id = await session({ intent: 'Signed' });
  await send(id, steps({ text: 'done' }));
  const got = await receiver.got('/signed', 'the event', (r) => r.event.data.session_id === id);
  assert.deepEqual([got.event.type, got.event.data.finish_reason, got.event.data.intent], ['chat.completed', 'completed', 'Signed']);
  assert.equal(got.headers['webhook-signature'], signature(made.secret, got));
  assert.ok(Math.abs(Number(got.headers['webhook-timestamp']) - Date.now() / 1000) < 300);

  const rotated = await fixture.rest.post(`/api/webhooks/${made.id}/rotate-secret`);
  const next = await session();
  await send(next, steps({ text: 'done' }));
  const both = await receiver.got('/signed', 'the second event', (r) => r.event.data.session_id === next);
  assert.equal(both.headers['webhook-signature'], [rotated.secret, made.secret].map((s) => signature(s, both)).join(' '));
  const delivered = await eventually('both are recorded', async () => {
    const all = await deliveries(made, '?status=delivered');
    return all.length === 2 ? all : undefined;
  });
  assert.deepEqual([delivered[1].id, delivered[1].attempts[0].status_code, delivered[1].attempts[0].response], [got.id, 200, 'answer 200']);
  assert.deepEqual(delivered[1].request, got.event);
  await drop(made);
});

test('an endpoint that fails is tried again under the same id; one that hangs delays no other', async () => {
  let failures = 2;
  receiver.answers.set('/failing', () => (failures-- > 0 ? 503 : 200));
  receiver.answers.set('/hanging', () => 'hang');
  const hanging = await Promise.all(Array.from({ length: 5 }, () => hook('/hanging')));
  const failing = await hook('/failing'), quick = await hook('/quick');
  const id = await session();
  await send(id, steps({ text: 'done' }));
  await receiver.got('/quick', 'the event of the quick one', (r) => r.event.data.session_id === id);
  assert.equal((await deliveries(hanging[0]))[0].status, 'pending', 'the hanging ones are still tried');
  const delivered = await eventually('it succeeds at last', async () => (await deliveries(failing, '?status=delivered'))[0]);
  assert.deepEqual(delivered.attempts.map((a) => a.status_code), [503, 503, 200]);
  assert.equal(new Set(receiver.of('/failing').map((r) => r.id)).size, 1);

  const sent = receiver.of('/failing').length;
  await fixture.rest.post(`/api/webhooks/${failing.id}/deliveries/${delivered.id}/redeliver`);
  await eventually('it is sent again', async () => receiver.of('/failing').length > sent);
  assert.equal(receiver.of('/failing').at(-1).id, delivered.id);
  await Promise.all([...hanging, failing, quick].map(drop));
});

test('addresses that are not public are refused when they are connected to', async () => {
  const made = await fixture.rest.post('/api/webhooks', { url: 'http://localhost:9999/inside' });
  const own = await fixture.rest.post('/api/webhooks', { url: `${fixture.server.url}/api/version` });
  await send(await session(), steps({ text: 'done' }));
  for (const webhook of [made, own]) {
    const tried = await eventually('an attempt', async () => (await deliveries(webhook))[0]?.attempts[0]);
    assert.match(tried.error, /not on the public Internet|service itself/);
    assert.equal(tried.status_code, 0);
  }
  await Promise.all([made, own].map(drop));
});

test('the events of a scheduled task reach the webhooks that it names', async () => {
  const named = await hook('/named', { events: [] });
  const task = await fixture.rest.post('/api/scheduled-tasks', {
    title: 'T', cron: '@yearly', timezone: 'UTC', notify: [named.id], pause_on_failure_after: 1, output_schema: { type: 'object' },
    prompt: steps({ text: 'no' }, { text: 'no' }, { text: 'no' }),
  });
  const run = await fixture.rest.post(`/api/scheduled-tasks/${task.id}/run`);
  const failed = await receiver.got('/named', 'the failed run', (r) => r.event.type === 'schedule.run_failed');
  assert.deepEqual(
    [failed.event.data.task_id, failed.event.data.runs[0].id, failed.event.data.runs[0].error_code],
    [task.id, run.id, 'schema_mismatch'],
  );
  const paused = await receiver.got('/named', 'the pause', (r) => r.event.type === 'schedule.paused');
  assert.match(paused.event.data.paused_reason, /^1 runs in a row failed/);
  assert.deepEqual(
    receiver
      .of('/named')
      .map((r) => r.event.type)
      .sort(),
    ['schedule.paused', 'schedule.run_failed'],
    'not the end of its chat',
  );

  await fixture.rest.patch(`/api/scheduled-tasks/${task.id}`, {
    output_schema: null,
    prompt: steps({ calls: [question()] }, { text: 'blue then' }),
  });
  await fixture.rest.post(`/api/scheduled-tasks/${task.id}/run`);
  const waits = await receiver.got('/named', 'the question', (r) => r.event.type === 'chat.waiting');
  assert.equal(waits.event.data.task_id, task.id);
  const item = await asked(waits.event.data.session_id);
  assert.deepEqual([item.trigger, item.task_id, item.run_id], ['schedule', task.id, waits.event.data.run_id]);
  assert.equal(item.question_id, waits.event.data.questions[0].question_id);

  const odd = await fixture.rest.call('POST', `/api/inbox/${item.question_id}/answer`, { selections: { 0: [7] } });
  assert.deepEqual([odd.status, odd.body.code, odd.body.errors[0].location], [422, 'invalid_answer', 'body']);
  assert.equal((await fixture.rest.call('POST', '/api/inbox/none/answer', { selections: { 0: [1] } })).body.code, 'question_not_found');
  const ack = await fixture.rest.post(`/api/inbox/${item.question_id}/answer`, { selections: { 0: [1] } });
  assert.deepEqual([ack.resolved, ack.chat_id], [true, item.chat_id]);
  assert.equal((await fixture.rest.post(`/api/inbox/${item.question_id}/answer`, { selections: { 0: [0] } })).resolved, false);
  await receiver.got('/named', 'the completed run', (r) => r.event.type === 'schedule.run_completed');
  await Promise.all([fixture.rest.delete(`/api/scheduled-tasks/${task.id}`), drop(named)]);
});

test('a question that no user answers is escalated, and answered by its policy over a restart', async () => {
  const escalated = await hook('/escalated', { events: ['question.escalated'] });
  const setup = (question_policy) => ({ session_setup: { question_policy } });
  const first = await session(setup({ timeout_s: 60, on_timeout: 'first_option', escalate_after_s: 1 }));
  const choose = await session(setup({ timeout_s: 60 }));
  for (const id of [first, choose]) await send(id, steps({ calls: [question()] }, { text: 'so be it' }));
  const item = await asked(first);
  assert.equal(item.default_policy, 'first_option');
  assert.equal(new Date(item.expires_at) - new Date(item.asked_at), 60_000);
  const [ref] = (await fixture.rest.messages(first)).at(-1).tool_calls.map((c) => c.pending_question_ref);
  assert.deepEqual([ref.question_id, ref.default_policy], [item.question_id, 'first_option']);
  await asked(choose);
  await fixture.server.kill();
  await fixture.server.start();
  const notice = await receiver.got('/escalated', 'the escalation', (r) => r.event.data.session_id === first);
  assert.equal(notice.event.data.question.question_id, item.question_id);

  await Promise.all([first, choose].map(completed));
  const result = async (id) =>
    JSON.parse((await fixture.rest.messages(id)).flatMap((m) => m.tool_calls ?? []).find((c) => c.tool_name === 'AskUserQuestion').result);
  assert.deepEqual((await result(first)).answers, [{ question: 'Which?', selected: ['red'], custom: '' }]);
  assert.deepEqual(
    [(await result(first)).answered_by, (await result(choose)).answered_by, (await result(choose)).answers.length],
    ['default_policy', 'default_policy', 0],
  );
  const view = await fixture.follow(first, 0);
  const resolved = await view.wait('the resolution', (e) => e.name === 'question:resolved');
  assert.deepEqual([resolved.data.resolution, resolved.data.by], ['answered', 'default_policy']);
  await drop(escalated);
});

test('a permission request that no user answers is denied', async () => {
  const id = await session({
    session_setup: { permissions: [{ tool: 'Bash', decision: 'ask' }], question_policy: { timeout_s: 1, on_timeout: 'first_option' } },
  });
  await send(id, steps(bash('echo done > effect'), { text: 'I was not allowed to' }));
  await completed(id);
  const calls = (await fixture.rest.messages(id)).flatMap((m) => m.tool_calls ?? []);
  assert.match(calls.find((c) => c.tool_name === 'Bash').result, /no user said in time/);
  assert.equal((await fixture.rest.call('GET', `/api/sessions/${id}/files/effect`)).status, 404);
});

test('SIGKILL of everything: no event is lost', async () => {
  receiver.answers.set('/killed', () => 503);
  const made = await hook('/killed');
  const ids = [];
  for (let i = 0; i < 5; i++) {
    ids.push(await session());
    await send(ids.at(-1), i % 2 ? steps({ text: 'done' }) : order({ steps: [bash('echo x'), { text: 'done' }] }));
  }
  await completed(ids[0]);
  await fixture.server.kill();
  receiver.answers.set('/killed', () => 200);
  await fixture.server.start();
  for (const id of ids) {
    await completed(id);
    const got = await receiver.got('/killed', `the event of ${id}`, (r) => r.event.data.session_id === id);
    assert.equal(got.event.type, 'chat.completed');
    const same = receiver.of('/killed').filter((r) => r.event.data.session_id === id).map((r) => r.id);
    assert.equal(new Set(same).size, 1, 'an event has one id however often it is sent');
  }
  await eventually('all are delivered', async () => (await deliveries(made, '?status=delivered')).length === ids.length);
  await drop(made);
});

test('a DAG run and an issue run send each state once', async () => {
  const all = await hook('/runs', {
    events: ['dag_run.started', 'dag_run.waiting', 'dag_run.completed', 'dag_run.failed', 'issue_run.started', 'issue_run.completed'],
  });
  const { id } = await fixture.rest.post('/api/prod_solution', { name: 'Gate' });
  const at = `/api/prod_solution/dag/${id}`;
  const nodes = [
    { id: 's', type: 'start' },
    { id: 'ask', type: 'human', config: { prompt: 'Go on?', options: ['yes', 'no'] } },
    { id: 'z', type: 'end' },
  ];
  await fixture.rest.put(at, {
    base_version: 1,
    dag: {
      nodes,
      edges: [
        { id: 'e1', source: 's', target: 'ask' },
        { id: 'e2', source: 'ask', target: 'z' },
      ],
    },
  });
  await fixture.rest.post(`${at}/publish`);
  const run = await fixture.rest.post(`${at}/runs`, {});
  const of = (type) => receiver.of('/runs').filter((r) => r.event.type === type && r.event.data.run_id === run.id);
  const waits = (await eventually('the run waits', async () => of('dag_run.waiting')[0])).event.data;
  assert.deepEqual(
    [waits.status, waits.prod_solution_id, waits.name, waits.version, waits.questions.length],
    ['waiting', id, 'Gate', 2, 1],
  );
  await fixture.rest.post(`/api/inbox/${waits.questions[0].question_id}/answer`, { selections: { 0: [0] } });
  const { event } = await eventually('the run has completed', async () => of('dag_run.completed')[0]);
  assert.deepEqual([event.data.status, event.data.error, event.data.session_id], ['completed', null, null]);
  const written = (await deliveries(all)).filter((d) => d.request.data.run_id === run.id).map((d) => d.event).sort();
  assert.deepEqual(written, ['dag_run.completed', 'dag_run.started', 'dag_run.waiting']);

  const board = `/api/prod_workspaces/${(await fixture.rest.post('/api/prod_workspaces', { name: 'Hooks' })).id}`;
  const agent = (await fixture.rest.post('/api/agent-instances', { name: 'Builder', runtime_id: 'builtin' })).instance_id;
  const issue = await fixture.rest.post(`${board}/issues`, {
    title: 'Do it',
    description: steps({ text: 'Done.' }),
    assignee_type: 'agent',
    assignee_id: agent,
  });
  const done = await receiver.got(
    '/runs',
    'the issue run has completed',
    (r) => r.event.type === 'issue_run.completed' && r.event.data.issue_id === issue.id,
  );
  assert.deepEqual(
    [done.event.data.identifier, done.event.data.title, done.event.data.agent_id, done.event.data.status, done.event.data.attempt],
    [issue.identifier, 'Do it', agent, 'completed', 1],
  );
  assert.deepEqual(
    (await deliveries(all))
      .filter((d) => d.request.data.issue_id === issue.id)
      .map((d) => d.event)
      .sort(),
    ['issue_run.completed', 'issue_run.started'],
  );
  await drop(all);
});

test('runs that fail, are tried again or cancelled send each state once', async () => {
  const kinds = ['started', 'completed', 'failed', 'cancelled'];
  const all = await hook('/ends', { events: kinds.flatMap((k) => [`dag_run.${k}`, `issue_run.${k}`]) });
  const of = (probe) => receiver.of('/ends').map((r) => r.event).filter((e) => probe(e.data));
  const sent = (probe, ...types) => eventually(
    `${types} were sent`, async () => types.every((t) => of(probe).some((e) => e.type === t)) && of(probe),
  );
  const written = async (probe) => (await deliveries(all, '?limit=200')).filter((d) => probe(d.request.data)).map((d) => d.event).sort();

  // A run of a DAG fails, and is retried.
  const { id } = await fixture.rest.post('/api/prod_solution', { name: 'Ends' });
  const at = `/api/prod_solution/dag/${id}`;
  const publish = async (node) => {
    const nodes = [{ id: 's', type: 'start' }, { id: 'n', ...node }, { id: 'z', type: 'end' }];
    const edges = [{ id: 'e1', source: 's', target: 'n' }, { id: 'e2', source: 'n', target: 'z' }];
    await fixture.rest.put(at, { base_version: (await fixture.rest.get(at)).version, dag: { nodes, edges } });
    return (await fixture.rest.post(`${at}/publish`)).version;
  };
  const shell = (command) => ({ type: 'tool', config: { tool: 'Bash', arguments: { command } } });
  await publish(shell('echo broken; exit 3'));
  const run = await fixture.rest.post(`${at}/runs`, {});
  const ofRun = (data) => data.run_id === run.id;
  const [failed] = (await sent(ofRun, 'dag_run.started', 'dag_run.failed')).filter((e) => e.type === 'dag_run.failed');
  assert.deepEqual([failed.data.status, failed.data.error.code, failed.data.retries], ['failed', 'tool_failed', 0]);
  assert.match(failed.data.error.message, /broken/);
  assert.notEqual(failed.data.finished_at, null);
  await fixture.rest.post(`${at}/runs/${run.id}/retry`, { version: await publish(shell('echo repaired')) });
  const again = await sent(ofRun, 'dag_run.completed');
  assert.deepEqual(again.filter((e) => e.type === 'dag_run.started').map((e) => e.data.retries).sort(), [0, 1]);
  const [completed] = again.filter((e) => e.type === 'dag_run.completed');
  assert.deepEqual([completed.data.retries, completed.data.error], [1, null]);
  assert.deepEqual(await written(ofRun), ['dag_run.completed', 'dag_run.failed', 'dag_run.started', 'dag_run.started']);

  // One is cancelled while it waits for a person.
  await publish({ type: 'human', config: { prompt: 'Go on?' } });
  const waits = await fixture.rest.post(`${at}/runs`, {});
  const ofWaits = (data) => data.run_id === waits.id;
  await sent(ofWaits, 'dag_run.started');
  await fixture.rest.post(`${at}/runs/${waits.id}/cancel`);
  const [cancelled] = (await sent(ofWaits, 'dag_run.cancelled')).filter((e) => e.type === 'dag_run.cancelled');
  assert.deepEqual([cancelled.data.status, cancelled.data.error], ['cancelled', null]);
  assert.deepEqual(await written(ofWaits), ['dag_run.cancelled', 'dag_run.started']);

  // An issue's run fails, and so does its second attempt.
  const board = `/api/prod_workspaces/${(await fixture.rest.post('/api/prod_workspaces', { name: 'Ends' })).id}`;
  const agent = (await fixture.rest.post(
    '/api/agent-instances', { name: 'Builder', runtime_id: 'builtin', max_concurrent_tasks: 1 },
  )).instance_id;
  const assign = (description) => fixture.rest.post(
    `${board}/issues`, { title: 'T', description, assignee_type: 'agent', assignee_id: agent },
  );
  const refused = await assign(order({ sticky: true, steps: [{ status: 400, error_message: 'no such thing' }] }));
  const ofIssue = (issue) => (data) => data.issue_id === issue.id;
  await eventually('both attempts have failed', async () => of(ofIssue(refused)).filter((e) => e.type === 'issue_run.failed').length === 2);
  const attempts = of(ofIssue(refused)).filter((e) => e.type === 'issue_run.failed').map((e) => e.data)
    .sort((a, b) => a.attempt - b.attempt);
  assert.deepEqual(attempts.map((a) => [a.attempt, a.status]), [[1, 'failed'], [2, 'failed']]);
  assert.ok(attempts.every((a) => a.error.code && a.session_id === attempts[0].session_id), JSON.stringify(attempts));
  assert.deepEqual(await written(ofIssue(refused)), ['issue_run.failed', 'issue_run.failed', 'issue_run.started', 'issue_run.started']);
  assert.equal((await fixture.rest.get(`${board}/issues/${refused.id}`)).status, 'blocked');

  // One is cancelled while it works, and one before it had its turn.
  const held = await assign(order({ steps: [{ text: 'held back', hold: true }] }));
  await sent(ofIssue(held), 'issue_run.started');
  const queued = await assign(steps({ text: 'never' }));
  for (const issue of [queued, held]) {
    const [{ id: runID }] = (await fixture.rest.get(`${board}/issues/${issue.id}/task-runs`)).items;
    await fixture.rest.post(`${board}/issues/${issue.id}/task-runs/${runID}/cancel`);
    const [event] = (await sent(ofIssue(issue), 'issue_run.cancelled')).filter((e) => e.type === 'issue_run.cancelled');
    assert.deepEqual([event.data.run_id, event.data.status], [runID, 'cancelled']);
  }
  assert.deepEqual(
    [await written(ofIssue(queued)), await written(ofIssue(held))], [['issue_run.cancelled'], ['issue_run.cancelled', 'issue_run.started']],
  );
  await drop(all);
});

test('the question of a DAG node is escalated to the webhooks that it names', async () => {
  const named = await hook('/approvals', { events: [] });
  const { id } = await fixture.rest.post('/api/prod_solution', { name: 'Approval' });
  const at = `/api/prod_solution/dag/${id}`;
  const approval = { policy: 'required', escalation: { timeout_s: 3600, escalate_after_s: 1, webhooks: [named.id] } };
  const nodes = [{ id: 's', type: 'start' }, { id: 'gate', type: 'join', approval }, { id: 'z', type: 'end' }];
  await fixture.rest.put(
    at, { base_version: 1, dag: { nodes, edges: [{ id: 'e1', source: 's', target: 'gate' }, { id: 'e2', source: 'gate', target: 'z' }] } },
  );
  await fixture.rest.post(`${at}/publish`);
  const run = await fixture.rest.post(`${at}/runs`, {});
  const { event } = await receiver.got('/approvals', 'the escalation', (r) => r.event.type === 'question.escalated');
  assert.match(JSON.stringify(event.data.question.questions), /Approve the start of node gate/);
  assert.equal(event.data.question.default_policy, 'answer');
  await fixture.rest.post(`/api/inbox/${event.data.question.question_id}/answer`, { selections: { 0: [1] } });
  const over = await eventually('the run is over', async () => {
    const now = await fixture.rest.get(`${at}/runs/${run.id}`);
    return now.finished_at && now;
  });
  assert.deepEqual([over.status, over.error.code], ['failed', 'not_approved']);
  assert.deepEqual(receiver.of('/approvals').map((r) => r.event.type), ['question.escalated']);
  await drop(named);
});
