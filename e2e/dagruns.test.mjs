// Runs of DAGs (docs/dag-runs.md) through the public interface: agents, tools, maps,
// people and subflows, what is reused by a retry, and a service that is killed.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Rest } from './lib/rest.mjs';
import * as dags from './lib/dags.mjs';
import { dagOf, graph, nodeOf } from './lib/dags.mjs';
import { Fixture, eventually, order, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());

const agent = (id, prompt, more = {}) => ({ id, type: 'agent', config: { prompt }, ...more });
const bashNode = (id, command, more = {}) => ({ id, type: 'tool', config: { tool: 'Bash', arguments: { command } }, ...more });
const publish = (dag, id, rest = fixture.rest) => dags.publish(rest, dag, id);
const run = (id, body = {}) => fixture.rest.post(dagOf(id, '/runs'), body);
const read = (id, runID) => dags.read(fixture.rest, id, runID);
const over = (id, runID) => dags.over(fixture.rest, id, runID);
const reach = (id, runID, node, status) => dags.reach(fixture.rest, id, runID, node, status);
const answer = (session, option) => dags.answer(fixture.rest, session, option);
const statuses = (found) => Object.fromEntries(found.nodes.map((n) => [n.node_id, n.status]));

// follow opens the events of a run: shows(text) waits until they hold a text, rest()
// gives all of them once the run is over.
async function follow(id, runID) {
  const answer = await fetch(fixture.server.url + dagOf(id, `/runs/${runID}/events`), {
    headers: { authorization: `Bearer ${fixture.server.key}` },
  });
  assert.equal(answer.status, 200);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  const read = async () => {
    const { done, value } = await reader.read();
    text += value ?? '';
    return !done;
  };
  return {
    async shows(wanted) { while (!text.includes(wanted)) assert.ok(await read(), `the stream ended without ${wanted}`); },
    async rest() {
      while (await read());
      return text.split('\n\n').filter((block) => block.startsWith('event: ')).map((block) => {
        const [name, data] = block.split('\n');
        return { name: name.slice('event: '.length), data: JSON.parse(data.slice('data: '.length)) };
      });
    },
  };
}

test('three agents and a human gate', async () => {
  const id = await publish(graph([
    agent('draft', steps({ text: '{"text": "ALPHA draft"}' }), { output_schema: { type: 'object', required: ['text'] } }),
    agent('facts', `Facts of {{nodes.draft.output.text}}${steps({ text: 'facts hold' })}`),
    agent('style', `Style${steps({ text: 'style is fine' })}`),
    { id: 'both', type: 'join' },
    { id: 'gate', type: 'human', config: { prompt: 'Publish? {{nodes.facts.output}}', options: ['yes', 'no'] } },
  ], ['s', 'draft'], ['draft', 'facts'], ['draft', 'style'], ['facts', 'both'], ['style', 'both'], ['both', 'gate'],
  ['gate', 'z', { condition: '{{nodes.gate.output}} == "yes"' }]));
  const made = await run(id, { inputs: { topic: 'June' } });
  assert.deepEqual([made.version, made.trigger, made.inputs], [2, 'api', { topic: 'June' }]);
  const progress = await follow(id, made.id);

  const gate = await reach(id, made.id, 'gate', 'waiting');
  const waiting = await read(id, made.id);
  assert.deepEqual([waiting.status, waiting.waiting_reason, gate.waiting_reason], ['waiting', 'question', 'question']);
  await progress.shows('"waiting_reason":"question"');
  const open = (await fixture.rest.get('/api/inbox')).items.find((i) => i.session_id === gate.session_id);
  assert.deepEqual([open.trigger, open.prod_solution_id, open.run_id, open.node_id], ['dag', id, made.id, 'gate']);
  assert.deepEqual([open.task_id, open.workspace_id, open.issue_id], [null, null, null]);
  const asked = await answer(gate.session_id, 0);
  assert.equal(asked.questions[0].question, 'Publish? facts hold');

  const done = await over(id, made.id);
  assert.equal(done.status, 'completed', JSON.stringify(done));
  assert.equal(done.outputs, 'yes');
  assert.deepEqual(nodeOf(done, 'draft').outputs, { text: 'ALPHA draft' });
  assert.ok(done.usage.output_tokens > 0);
  assert.ok(
    (await fixture.requests('Style')).some((r) => JSON.stringify(r.body).includes('ALPHA draft')),
    'the request lacks what came before',
  );
  const session = await fixture.rest.detail(nodeOf(done, 'facts').session_id);
  assert.deepEqual([session.intent, session.status], ['facts', 'completed']);

  const events = await progress.rest();
  const seen = events.filter((e) => e.name === 'node:updated').map((e) => e.data);
  assert.ok(seen.some((n) => n.node_id === 'gate' && n.status === 'waiting'), JSON.stringify(seen));
  assert.ok(seen.some((n) => n.node_id === 'z' && n.status === 'completed'));
  assert.deepEqual([events.at(-1).name, events.at(-1).data.status], ['run:updated', 'completed']);
  const solution = await fixture.rest.get(`/api/prod_solution/${id}`);
  assert.deepEqual([solution.last_run.id, solution.last_run.status], [made.id, 'completed']);
  assert.equal((await fixture.rest.get(dagOf(id, '/versions'))).items.find((v) => v.version === 2).runs, 1);
  assert.deepEqual((await fixture.rest.get(dagOf(id, '/runs'))).items.map((r) => r.id), [made.id]);
});

test('a code node runs its script on what it is given', async () => {
  const code = (id, script, more = {}) => ({ id, type: 'code', config: { code: script }, ...more });
  const object = { type: 'object' };
  const id = await publish(graph([
    code('given', 'echo "$INPUTS"', { inputs: { word: '{{input.word}}', count: 3 }, output_schema: object }),
    code('before', 'text="{{no reference}}"\necho "$INPUTS"', { output_schema: object }),
    code('broken', 'echo "it broke" >&2; exit 3', { on_error: 'continue' }),
  ], ['s', 'given'], ['given', 'before'], ['before', 'broken'], ['broken', 'z']));
  const made = await run(id, { inputs: { word: "it's $HOME" } });
  const done = await over(id, made.id);
  assert.equal(done.status, 'completed', JSON.stringify(done));
  const given = { word: "it's $HOME", count: 3 };
  assert.deepEqual([nodeOf(done, 'given').outputs, nodeOf(done, 'before').outputs], [given, { given }]);
  const broken = nodeOf(done, 'broken');
  assert.deepEqual([broken.status, broken.error.code, broken.attempt], ['failed', 'tool_failed', 1]);
  assert.match(broken.error.message, /it broke[^]*exit code 3/);
  const [, turn] = await fixture.rest.messages(nodeOf(done, 'given').session_id);
  assert.deepEqual(turn.tool_calls.map((c) => [c.tool_name, c.status]), [['Bash', 'done']]);

  const empty = graph([code('a', ' ')], ['s', 'a'], ['a', 'z']);
  const { valid, errors } = await fixture.rest.post(dagOf(id, '/validate'), { dag: empty });
  assert.deepEqual([valid, errors.map((e) => [e.code, e.node_id, e.path])], [false, [['missing_config', 'a', 'nodes[1].config.code']]]);
});

test('a node that shows no activity is stopped and tried again', async () => {
  const hung = bashNode('hung', 'sleep 600', { heartbeat_s: 1, retry: { max_attempts: 2, initial_interval_s: 1 }, on_error: 'continue' });
  const id = await publish(graph([hung], ['s', 'hung'], ['hung', 'z']));
  const made = await run(id);
  const done = await over(id, made.id);
  assert.equal(done.status, 'completed', JSON.stringify(done));
  const node = nodeOf(done, 'hung');
  assert.deepEqual([node.status, node.error.code, node.attempt], ['failed', 'heartbeat_timeout', 2]);
  const view = await fixture.follow(node.session_id, 0);
  await view.wait('its end', (e) => e.name === 'chat:end' && e.data.finish_reason === 'interrupted');
  const mark = await fixture.rest.post(`/api/payloads/${node.run_node_id}/annotations`, { kind: 'comment', text: 'it hangs' });
  assert.deepEqual((await fixture.rest.get(`/api/payloads/${node.run_node_id}/annotations`)).items, [mark]);
});

test('what cannot run is refused', async () => {
  const made = await fixture.rest.post('/api/prod_solution', { name: 'Refused' });
  const post = (rest, body = {}) => rest.call('POST', dagOf(made.id, '/runs'), body);
  assert.equal((await post(fixture.rest)).body.code, 'dag_not_published');
  assert.equal((await post(fixture.rest, { version: 1 })).body.code, 'validation_failed');
  const dag = graph([], ['s', 'z']);
  dag.nodes[0].output_schema = { type: 'object', required: ['topic'] };
  await publish(dag, made.id);
  assert.deepEqual([(await post(fixture.rest)).status, (await post(fixture.rest)).body.code], [422, 'invalid_inputs']);
  assert.equal((await post(fixture.rest, { version: 99, inputs: {} })).body.code, 'version_not_found');
  const { id: runID } = await run(made.id, { inputs: { topic: 'x' } });
  assert.deepEqual((await over(made.id, runID)).outputs, { topic: 'x' });
  assert.equal((await fixture.rest.call('POST', dagOf(made.id, `/runs/${runID}/retry`), {})).body.code, 'dag_run_not_failed');

  const added = await fixture.rest.post('/api/admin/users', { username: `runner-${process.pid}` });
  const other = new Rest(fixture.server.url, added.api_key.plaintext);
  assert.equal((await post(other)).status, 404);
  assert.equal((await other.call('GET', dagOf(made.id, `/runs/${runID}`))).status, 404);
  assert.equal((await other.call('POST', dagOf(made.id, `/runs/${runID}/cancel`))).status, 404);
});

test('a retry on another version reuses what is the same', async () => {
  const nodes = (command) => [
    agent('draft', steps({ text: 'drafted' })),
    bashNode('check', command),
    agent('last', `After {{nodes.check.output}}${steps({ text: 'end' })}`),
  ];
  const links = [
    ['s', 'draft'],
    ['draft', 'check'],
    ['check', 'last'],
    ['last', 'z'],
  ];
  const id = await publish(graph(nodes('echo broken; exit 3'), ...links));
  const made = await run(id);
  const failed = await over(id, made.id);
  assert.deepEqual([failed.status, failed.error.code], ['failed', 'tool_failed'], JSON.stringify(failed));
  assert.match(nodeOf(failed, 'check').error.message, /broken/);
  assert.equal(nodeOf(failed, 'last').status, 'cancelled');

  await publish(graph(nodes('echo repaired'), ...links), id);
  const retried = await fixture.rest.post(dagOf(id, `/runs/${made.id}/retry`), { version: 3 });
  assert.deepEqual([retried.id, retried.version, retried.retries], [made.id, 3, 1]);
  const done = await over(id, made.id);
  assert.equal(done.status, 'completed', JSON.stringify(done));
  assert.deepEqual([nodeOf(done, 'draft').status, nodeOf(done, 'draft').reuse_reason, nodeOf(done, 'draft').reused_from],
    ['reused', 'same_inputs', nodeOf(failed, 'draft').run_node_id]);
  assert.match(nodeOf(done, 'check').outputs, /repaired/);
  assert.equal((await fixture.rest.call('POST', dagOf(id, `/runs/${made.id}/retry`), {})).status, 409);
});

test('a map works on its items', async () => {
  const id = await publish(
    graph(
      [
        {
          id: 'each',
          type: 'map',
          concurrency: 3,
          inputs: { items: '{{input.names}}' },
          config: { tool: 'Bash', arguments: { command: 'echo hello {{item}}' } },
        },
      ],
      ['s', 'each'],
      ['each', 'z'],
    ),
  );
  const made = await run(id, { inputs: { names: ['ann', 'bob', 'cleo', 'dan'] } });
  const done = await over(id, made.id);
  assert.equal(done.status, 'completed', JSON.stringify(done));
  assert.deepEqual(done.outputs.map((o) => o.trim()), ['hello ann', 'hello bob', 'hello cleo', 'hello dan']);
  assert.deepEqual(nodeOf(done, 'each').items, { total: 4, running: 0, completed: 4, failed: 0 });
  const items = await fixture.rest.get(dagOf(id, `/runs/${made.id}/nodes/each/items?limit=2&offset=1`));
  assert.deepEqual([items.total, items.items.map((i) => i.item)], [4, [1, 2]]);
});

test('a failure is routed, retried and waited for; an approval is asked for', async () => {
  const id = await publish(graph([
    bashNode('first', 'exit 1', { on_error: 'route', retry: { max_attempts: 2, initial_interval_s: 1 } }),
    { id: 'pause', type: 'wait', config: { wait_s: 1 } },
    bashNode('second', 'echo done', { approval: { policy: 'required' } }),
  ], ['s', 'first'], ['first', 'z'], ['first', 'pause', { kind: 'error' }], ['pause', 'second'], ['second', 'z']));
  const made = await run(id);
  const asks = await reach(id, made.id, 'second', 'waiting');
  assert.equal(asks.waiting_reason, 'approval');
  await answer(asks.session_id, 0);
  const done = await over(id, made.id);
  assert.deepEqual([done.status, statuses(done).first, nodeOf(done, 'first').attempt], ['completed', 'failed', 2], JSON.stringify(done));
  assert.match(nodeOf(done, 'second').outputs, /done/);
});

test('a question that no user answers is escalated to another user, or answered by default', async () => {
  const person = async (name) => {
    const added = await fixture.rest.post('/api/admin/users', { username: `${name}-${process.pid}` });
    return { id: added.user.id, rest: new Rest(fixture.server.url, added.api_key.plaintext) };
  };
  const [deputy, viewer, other] = [await person('deputy'), await person('viewer'), await person('other')];
  const board = `/api/prod_workspaces/${(await fixture.rest.post('/api/prod_workspaces', { name: 'Approvals' })).id}`;
  await fixture.rest.join(board, deputy.rest, deputy.id, 'member');
  await fixture.rest.join(board, viewer.rest, viewer.id, 'viewer');

  const gated = (escalation) => graph(
    [bashNode('gate', 'echo done', { approval: { policy: 'required', escalation } })], ['s', 'gate'], ['gate', 'z'],
  );
  const probe = await publish(gated({ timeout_s: 60 }));
  for (const user of [viewer, other]) {
    const found = await fixture.rest.post(dagOf(probe, '/validate'), { dag: gated({ escalate_after_s: 1, user_id: user.id }) });
    assert.deepEqual(found.errors.map((e) => [e.code, e.path]), [['unknown_reference', 'nodes[1].approval.escalation.user_id']]);
  }
  const text = await fixture.rest.call('POST', dagOf(probe, '/validate'), { dag: gated('by telephone') });
  assert.equal(text.status, 422);

  // Another user answers.
  const id = await publish(gated({ escalate_after_s: 1, user_id: deputy.id }));
  const made = await run(id);
  const asked = await eventually('the question is escalated', async () => (await deputy.rest.get('/api/inbox')).items[0]);
  assert.deepEqual([asked.escalated, asked.questions[0].options.map((o) => o.label)], [true, ['Approve', 'Reject']]);
  assert.deepEqual(
    (await fixture.rest.get('/api/inbox')).items.filter((i) => i.question_id === asked.question_id).map((i) => i.escalated), [false],
  );
  assert.equal((await deputy.rest.call('GET', `/api/sessions/${asked.session_id}`)).status, 404, 'the session stays its owner\'s');
  for (const user of [viewer, other]) {
    assert.equal((await user.rest.get('/api/inbox')).total, 0);
    assert.equal(
      (await user.rest.call('POST', `/api/inbox/${asked.question_id}/answer`, { selections: { 0: [0] } })).body.code, 'question_not_found',
    );
  }
  assert.equal((await deputy.rest.post(`/api/inbox/${asked.question_id}/answer`, { selections: { 0: [0] } })).resolved, true);
  const done = await over(id, made.id);
  assert.deepEqual([done.status, nodeOf(done, 'gate').outputs.trim()], ['completed', 'done'], JSON.stringify(done));
  assert.equal((await deputy.rest.get('/api/inbox')).total, 0);
  const view = await fixture.follow(asked.session_id, 0);
  const resolved = await view.wait('the resolution', (e) => e.name === 'question:resolved');
  assert.equal(resolved.data.by, deputy.id);

  // No user answers.
  const human = {
    id: 'ask', type: 'human', config: { prompt: 'Which?', options: ['yes', 'no'] },
    approval: { policy: 'none', escalation: { timeout_s: 1, default_answer: 'no' } },
  };
  const byDefault = await publish(graph([human], ['s', 'ask'], ['ask', 'z']));
  assert.equal((await over(byDefault, (await run(byDefault)).id)).outputs, 'no');
  const rejected = await publish(gated({ timeout_s: 1 }));
  const failed = await over(rejected, (await run(rejected)).id);
  assert.deepEqual([failed.status, failed.error.code], ['failed', 'not_approved'], JSON.stringify(failed));
  const approved = await publish(gated({ timeout_s: 1, default_answer: 'Approve' }));
  assert.equal((await over(approved, (await run(approved)).id)).status, 'completed');
});

test('an administrator ends a run with a reason', async () => {
  const id = await publish(graph([agent('slow', order({ steps: [{ text: 'held', hold: true }] }))], ['s', 'slow'], ['slow', 'z']));
  const made = await run(id);
  const slow = await eventually('the agent works', async () => {
    const found = nodeOf(await read(id, made.id), 'slow');
    const session = found.session_id && (await fixture.rest.call('GET', `/api/sessions/${found.session_id}`)).body;
    return session?.status === 'running' ? found : undefined;
  });
  const workflow = `dag/${id}/${made.id}`;
  const user = await fixture.rest.get('/api/auth/me');
  const list = async (owner) => (await fixture.rest.get(`/api/admin/runs?kind=dag&status=running&limit=200&owner_id=${owner}`)).items;
  const listed = await eventually('the run is listed', async () => (await list(user.id)).find((r) => r.workflow_id === workflow));
  assert.deepEqual(await list('01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21'), []);
  assert.deepEqual(
    [listed.work.part_of, listed.work.waiting.reason, listed.actions], [id, 'child', ['cancel', 'force_fail', 'resume']],
    JSON.stringify(listed),
  );
  await fixture.rest.post(`/api/admin/runs/${encodeURIComponent(workflow)}/force-fail`, { reason: 'The source is gone.' });
  const failed = await over(id, made.id);
  assert.deepEqual([failed.status, failed.error], ['failed', { code: 'run_lost', message: 'The source is gone.' }]);
  await eventually('its chat is stopped', async () => (await fixture.rest.detail(slow.session_id)).status === 'interrupted');
  await eventually(
    'its workflow has closed',
    async () => (await fixture.rest.call('POST', `/api/admin/runs/${encodeURIComponent(workflow)}/cancel`)).body.code === 'run_not_found',
  );
});

test('an administrator resumes a run from the database', async () => {
  const id = await publish(graph(
    [bashNode('first', 'echo once'), { id: 'gate', type: 'human', config: { prompt: 'Go on?', options: ['yes', 'no'] } }],
    ['s', 'first'], ['first', 'gate'], ['gate', 'z'],
  ));
  const made = await run(id);
  const gate = await reach(id, made.id, 'gate', 'waiting');
  const workflow = `dag/${id}/${made.id}`;
  const resume = (of) => fixture.rest.call('POST', `/api/admin/runs/${encodeURIComponent(of)}/resume`);
  const runs = async () => (await fixture.rest.get('/api/admin/runs?kind=dag&limit=200')).items.filter((r) => r.workflow_id === workflow);
  const [old] = await eventually('the run is listed', async () => (await runs()).length && runs());
  assert.equal((await resume(workflow)).status, 200);
  const again = await eventually('another workflow carries the run', async () =>
    (await runs()).find((r) => r.status === 'running' && r.run_id !== old.run_id));
  assert.equal(again.work.waiting.reason, 'question', JSON.stringify(again));
  const { status, body } = await resume(`session/${gate.session_id}`);
  assert.deepEqual([status, body.code], [409, 'run_waits_for_answer']);
  await answer(gate.session_id, 0);
  const done = await over(id, made.id);
  assert.deepEqual([done.status, nodeOf(done, 'first').attempt], ['completed', 1], JSON.stringify(done));
  const [, turn] = await fixture.rest.messages(nodeOf(done, 'first').session_id);
  assert.equal(turn.tool_calls.length, 1, 'a finished node ran again');
});

test('a subflow is a run of its own', async () => {
  const inner = await publish(graph([agent('work', `On {{input.word}}${steps({ text: 'inner result' })}`)], ['s', 'work'], ['work', 'z']));
  const id = await publish(graph([
    { id: 'sub', type: 'subflow', config: { prod_solution_id: inner }, inputs: { word: '{{input.word}}' } },
  ], ['s', 'sub'], ['sub', 'z']));
  const made = await run(id, { inputs: { word: 'OMEGA' } });
  const done = await over(id, made.id);
  assert.deepEqual([done.status, done.outputs], ['completed', 'inner result'], JSON.stringify(done));
  const child = await read(inner, nodeOf(done, 'sub').child_run_id);
  assert.deepEqual([child.trigger, child.parent_run_id, child.inputs], ['subflow', made.id, { word: 'OMEGA' }]);
});

test('a run waits for what its subflow waits for', async () => {
  const inner = await publish(graph(
    [{ id: 'ask', type: 'human', config: { prompt: 'Sure?', options: ['yes'] } }], ['s', 'ask'], ['ask', 'z'],
  ));
  const middle = await publish(graph([{ id: 'sub', type: 'subflow', config: { prod_solution_id: inner } }], ['s', 'sub'], ['sub', 'z']));
  const id = await publish(graph([{ id: 'sub', type: 'subflow', config: { prod_solution_id: middle } }], ['s', 'sub'], ['sub', 'z']));
  const made = await run(id);
  const sub = await reach(id, made.id, 'sub', 'waiting');
  const waiting = await read(id, made.id);
  assert.deepEqual([waiting.status, waiting.waiting_reason, sub.waiting_reason], ['waiting', 'question', 'question']);
  const solution = await fixture.rest.get(`/api/prod_solution/${id}`);
  assert.deepEqual([solution.last_run.id, solution.last_run.status], [made.id, 'waiting']);
  const asked = await eventually('the question is in the inbox', async () =>
    (await fixture.rest.get('/api/inbox')).items.find((i) => i.prod_solution_id === inner),
  );
  await answer(asked.session_id, 0);
  assert.deepEqual([(await over(id, made.id)).outputs], ['yes']);
});

test('a cancelled run stops what its nodes do', async () => {
  const id = await publish(graph([agent('slow', order({ steps: [{ text: 'held', hold: true }] }))], ['s', 'slow'], ['slow', 'z']));
  const made = await run(id);
  const slow = await eventually('the agent works', async () => {
    const found = nodeOf(await read(id, made.id), 'slow');
    if (!found.session_id) return undefined;
    const session = await fixture.rest.call('GET', `/api/sessions/${found.session_id}`);
    return session.body.status === 'running' ? found : undefined;
  });
  await fixture.rest.post(dagOf(id, `/runs/${made.id}/cancel`));
  const done = await over(id, made.id);
  assert.deepEqual([done.status, statuses(done).slow], ['cancelled', 'cancelled']);
  await eventually('the chat is stopped', async () => (await fixture.rest.detail(slow.session_id)).status === 'interrupted');
  assert.equal((await fixture.rest.post(dagOf(id, `/runs/${made.id}/cancel`))).status, 'cancelled');
});

test('SIGKILL of everything in the middle of a run', async () => {
  const id = await publish(graph([
    bashNode('one', 'echo once >> effects'),
    agent('two', order({ steps: [{ text: 'held back', hold: true }] })),
    bashNode('three', 'echo once >> effects'),
  ], ['s', 'one'], ['one', 'two'], ['two', 'three'], ['three', 'z']));
  const made = await run(id);
  const first = await reach(id, made.id, 'one', 'completed');
  await eventually('the agent has begun', async () => nodeOf(await read(id, made.id), 'two').session_id);
  await fixture.server.kill();
  await fixture.server.start();
  const done = await fixture.releaseUntil(over(id, made.id));
  assert.equal(done.status, 'completed', JSON.stringify(done));
  assert.deepEqual(done.nodes.map((n) => [n.node_id, n.status, n.attempt]).filter(([, , attempt]) => attempt > 0),
    [['one', 'completed', 1], ['two', 'completed', 1], ['three', 'completed', 1]]);
  assert.equal(nodeOf(done, 'one').session_id, first.session_id);
  for (const node of ['one', 'three']) {
    assert.equal(await fixture.rest.file(nodeOf(done, node).session_id, 'effects'), 'once\n');
  }
  const view = await fixture.follow(nodeOf(done, 'two').session_id, 0);
  await view.wait('the end', (e) => e.name === 'chat:end');
  assert.equal(view.events.filter((e) => e.name === 'chat:end').length, 1);
  assert.ok(view.events.filter((e) => e.name === 'chat:start').every((e) => e.data.trigger === 'dag'));
});
