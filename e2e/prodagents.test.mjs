// Production agents, agent instances and runtimes (docs/agents.md) through the public
// interface: sessions are made of them, with an init script that runs once.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Fixture, eventually, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());

const base = { name: 'Reviewer', solution_id: 'software_factory', biz_role_id: 'reviewer' };
const create = (body) => fixture.rest.post('/api/prod_agents', { ...base, ...body });
const start = async (agent) => (await fixture.rest.post(`/api/prod_agents/${agent.record_id}/start-session`)).session_id;
const say = (session, text) => fixture.rest.call('POST', `/api/sessions/${session}/chat`, { message: text });
const idle = (session) =>
  eventually(`session ${session} has ended its chat`, async () => {
    const now = await fixture.rest.detail(session);
    return ['completed', 'failed', 'interrupted'].includes(now.status) ? now : undefined;
  });
const task = (session, id) =>
  fixture.rest.get(`/api/sessions/${session}/background-tasks`).then((all) => all.items.find((t) => t.task_id === id));
const taskEnded = (session, id) =>
  eventually(`task ${id} has ended`, async () => {
    const now = await task(session, id);
    return now.status === 'running' ? undefined : now;
  });
const text = (turn) => turn.blocks.map((b) => b.content).join('');

test('a production agent is created, shown, replaced and deleted', async () => {
  const made = await create({
    agent_id: 'first',
    skills: ['skill-authoring'],
    skills_data: { depth: 2 },
    preview_urls: [{ name: 'App', url: 'http://127.0.0.1:5173/' }],
  });
  assert.deepEqual([made.agent_id, made.version], ['first', 1]);
  assert.equal((await fixture.rest.call('POST', '/api/prod_agents', { ...base, agent_id: 'first' })).body.code, 'agent_id_taken');
  const { provider, runtime, agent } = await fixture.rest.get(`/api/prod_agents/${made.record_id}`);
  assert.deepEqual(
    [provider, runtime.id, agent.status, agent.visibility, agent.layout_type],
    ['builtin', 'builtin', 'active', 'workspace', 'default'],
  );
  assert.deepEqual([agent.skills_data, agent.preview_urls[0].name, agent.initial_mode], [{ depth: 2 }, 'App', null]);

  const changed = await fixture.rest.put(`/api/prod_agents/${made.record_id}`, { ...base, name: 'Second' });
  assert.deepEqual([changed.agent_id, changed.version], ['first', 2]);
  const { items, total } = await fixture.rest.get('/api/prod_agents');
  assert.deepEqual([total, items[0].name, items[0].skills], [1, 'Second', []]);
  const { items: catalog } = await fixture.rest.get('/api/prod_agents/solution-catalog');
  assert.ok(catalog.find((s) => s.id === 'software_factory').roles.some((r) => r.id === 'reviewer'));
  assert.deepEqual(await fixture.rest.delete(`/api/prod_agents/${made.record_id}`), { ok: true });
  assert.equal((await fixture.rest.call('GET', `/api/prod_agents/${made.record_id}`)).status, 404);
});

test('what sessions cannot be made of is refused', async () => {
  for (const [body, location] of [
    [{ solution_id: 'nope' }, 'body.solution_id'],
    [{ biz_role_id: 'nope' }, 'body.biz_role_id'],
    [{ initial_mode: 'dreaming' }, 'body.initial_mode'],
    [{ preview_urls: [{ name: 'x', url: 'javascript:alert(1)' }] }, 'body.preview_urls[0].url'],
    [{ name: ' ' }, 'body.name'],
  ]) {
    const answer = await fixture.rest.call('POST', '/api/prod_agents', { ...base, ...body });
    assert.deepEqual([answer.status, answer.body.errors?.[0].location], [422, location], JSON.stringify(answer.body));
  }
});

test('a session has what its agent says, after its init script', async () => {
  const agent = await create({
    agent_template: 'You are Ada.',
    instructions: 'Answer in one word. UNIQUE-A',
    skills_data: { depth: 2 },
    init_script: 'echo preparing; sleep 2; echo ready > mark',
    layout_type: 'wide',
    preview_urls: [{ name: 'App', url: '/apps/x/' }],
  });
  const session = await start(agent);
  const setup = (await fixture.rest.detail(session)).session_setup;
  assert.deepEqual(
    [setup.agent.record_id, setup.layout_type, setup.preview_urls],
    [agent.record_id, 'wide', [{ name: 'App', url: '/apps/x/' }]],
  );
  assert.equal((await say(session, steps({ text: 'Yes' }))).status, 202);
  const over = await idle(session);
  assert.deepEqual([over.status, over.solution_id, over.biz_role_id], ['completed', 'software_factory', 'reviewer']);

  const ended = await task(session, setup.init_script.task_id);
  assert.deepEqual([ended.status, ended.exit_code, ended.title], ['completed', 0, 'Init script']);
  assert.deepEqual((await fixture.rest.get(`/api/sessions/${session}/background-tasks/${ended.task_id}`)).lines, ['preparing']);
  assert.equal(await fixture.rest.file(session, 'mark'), 'ready\n');
  const turns = await fixture.rest.messages(session);
  assert.deepEqual(turns.map((t) => t.role), ['user', 'system', 'assistant']);
  assert.match(text(turns[1]), /Init script\) has ended: completed, exit code 0/);
  const [request] = await fixture.requests('UNIQUE-A');
  const system = JSON.stringify(request.body.messages[0]);
  assert.match(system, /You are Ada\./);
  assert.match(system, /depth/);
});

test('the failure of an init script is shown, and the chat goes on', async () => {
  const session = await start(await create({ init_script: 'echo broken >&2; exit 3' }));
  await say(session, steps({ text: 'I saw it' }));
  assert.equal((await idle(session)).status, 'completed');
  const { session_setup: { init_script: { task_id: id } } } = await fixture.rest.detail(session);
  const failed = await task(session, id);
  assert.deepEqual([failed.status, failed.exit_code], ['failed', 3]);
  assert.match(text((await fixture.rest.messages(session))[1]), /Init script\) has ended: failed, exit code 3/);
});

test('a script that is longer than a command line may be runs', async () => {
  const session = await start(await create({ init_script: `# ${'x'.repeat(190_000)}\necho long > mark` }));
  const { session_setup: { init_script: { task_id: id } } } = await fixture.rest.detail(session);
  assert.equal((await taskEnded(session, id)).status, 'completed');
  assert.equal(await fixture.rest.file(session, 'mark'), 'long\n');
});

test('SIGKILL while the init script runs: it does not run twice, and the chat goes on', async () => {
  const session = await start(await create({ init_script: 'echo once >> effects; sleep 300' }));
  await say(session, steps({ text: 'Going on' }));
  await eventually('the effect', async () => (await fixture.rest.call('GET', `/api/sessions/${session}/files/effects`)).status === 200);
  await fixture.server.kill();
  await fixture.server.start();
  const over = await idle(session);
  assert.equal(over.status, 'completed');
  const lost = await task(session, over.session_setup.init_script.task_id);
  assert.equal(lost.status, 'lost');
  assert.equal(await fixture.rest.file(session, 'effects'), 'once\n');
  assert.match(text((await fixture.rest.messages(session))[1]), /has ended: lost/);
});

test('an instance has a runtime, a status and an environment that is never shown', async () => {
  const { items } = await fixture.rest.get('/api/agent-runtimes');
  const builtin = await eventually('the runtime is online', async () =>
    (await fixture.rest.get('/api/agent-runtimes')).items.find((r) => r.status === 'online'),
  );
  assert.deepEqual([items[0].id, builtin.mode, builtin.metadata.workers], ['builtin', 'builtin', 1]);
  assert.ok(builtin.capacity.slots > 0 && builtin.device_info.cpus > 0 && builtin.version);

  const agent = await create({ agent_id: 'template' });
  const made = await fixture.rest.post(`/api/prod_agents/${agent.record_id}/instantiate`);
  assert.deepEqual([made.agent_id, made.runtime_id, made.status, made.session_id], ['template', 'builtin', 'idle', null]);
  const instance = await fixture.rest.get(`/api/agent-instances/${made.instance_id}`);
  assert.deepEqual([instance.name, instance.record_id, instance.runtime_bound], ['Reviewer', agent.record_id, true]);

  const own = await fixture.rest.post('/api/agent-instances', { name: 'Own', runtime_id: 'builtin', env: { TOKEN: 'hidden-1' } });
  assert.deepEqual([own.id, own.has_env, own.env_key_count, own.visibility], [own.instance_id, true, 1, 'workspace']);
  assert.ok(!JSON.stringify(await fixture.rest.get('/api/agent-instances')).includes('hidden-1'));
  const archived = await fixture.rest.patch(`/api/agent-instances/${own.id}`, { archived: true });
  assert.notEqual(archived.archived_at, null);
  assert.ok(!(await fixture.rest.get('/api/agent-instances')).items.some((i) => i.id === own.id));
  assert.ok((await fixture.rest.get('/api/agent-instances?include_archived=true')).items.some((i) => i.id === own.id));
  assert.equal((await fixture.rest.call('POST', '/api/agent-instances', { name: 'x', runtime_id: 'nope' })).body.code, 'runtime_not_found');
});

test('an instance can have a session from the beginning', async () => {
  const agent = await create({ agent_id: 'begun', name: 'Beginner', init_script: 'echo prepared > mark' });
  const begin = (body) => fixture.rest.call('POST', `/api/prod_agents/${agent.record_id}/instantiate`, body);
  assert.equal((await begin({ start_session: false })).body.session_id, null);
  const made = (await begin({ start_session: true })).body;
  const detail = await fixture.rest.detail(made.session_id);
  assert.deepEqual([detail.viewer_role, detail.intent], ['owner', 'Beginner']);
  assert.equal(detail.session_setup.agent.instance_id, made.instance_id);
  assert.equal((await taskEnded(made.session_id, detail.session_setup.init_script.task_id)).status, 'completed');
  assert.equal(await fixture.rest.file(made.session_id, 'mark'), 'prepared\n');

  const wrong = await begin({ start_session: 'yes' });
  assert.deepEqual([wrong.status, wrong.body.errors[0].location], [422, 'body.start_session']);
});

test('a DAG names production agents', async () => {
  const { id } = await fixture.rest.post('/api/prod_solution', { name: 'DAG' });
  const dag = (agent) => ({
    nodes: [{ id: 'start', type: 'start' }, { id: 'a', type: 'agent', config: { agent_id: agent } }, { id: 'end', type: 'end' }],
    edges: [{ id: 'e1', source: 'start', target: 'a' }, { id: 'e2', source: 'a', target: 'end' }],
  });
  const validate = (agent) => fixture.rest.post(`/api/prod_solution/dag/${id}/validate`, { dag: dag(agent) });
  assert.deepEqual((await validate('worker')).errors.map((e) => e.code), ['missing_agent']);
  await create({ agent_id: 'worker' });
  assert.deepEqual((await validate('worker')).errors, []);
});
