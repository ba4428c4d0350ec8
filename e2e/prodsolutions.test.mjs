// Production solutions through REST (docs/production.md): the life of one, its
// documents and their versions, two writers, other users, and a service that is killed.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Rest } from './lib/rest.mjs';
import { call, Fixture, steps } from './lib/fixture.mjs';

let fixture;
let users = 0;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());

async function person() {
  const made = await fixture.rest.post('/api/admin/users', { username: `builder-${users++}-${process.pid}` });
  return { rest: new Rest(fixture.server.url, made.api_key.plaintext), id: made.user.id };
}

const dagOf = (id, rest = '') => `/api/prod_solution/dag/${id}${rest}`;
const architectureOf = (id, rest = '') => `/api/prod_solution/architecture/${id}${rest}`;
const codes = (findings) => findings.map((f) => [f.code, f.node_id ?? f.edge_id, f.path]);

// review is a DAG of three agents with a human gate.
function review(prompt = 'Draft a report on {{input.topic}}') {
  return {
    nodes: [
      {
        id: 'start',
        type: 'start',
        output_schema: { type: 'object', properties: { topic: { type: 'string' } }, additionalProperties: false },
      },
      {
        id: 'draft',
        type: 'agent',
        name: 'Draft',
        config: { prompt },
        output_schema: { type: 'object', properties: { text: { type: 'string' } } },
      },
      { id: 'facts', type: 'agent', name: 'Facts', config: { prompt: 'Check the facts of {{nodes.draft.output.text}}' } },
      { id: 'style', type: 'agent', name: 'Style', config: { prompt: 'Check the style of {{nodes.draft.output.text}}' } },
      { id: 'both', type: 'join' },
      { id: 'gate', type: 'human', config: { prompt: 'Publish? {{nodes.facts.output}} {{nodes.style.output}}', options: ['yes', 'no'] } },
      { id: 'end', type: 'end' },
    ],
    edges: [
      ['start', 'draft'], ['draft', 'facts'], ['draft', 'style'], ['facts', 'both'], ['style', 'both'], ['both', 'gate'],
    ].map(([source, target], i) => ({ id: `e${i}`, source, target }))
      .concat([{ id: 'e9', source: 'gate', target: 'end', condition: '{{nodes.gate.output}} == "yes"' }]),
    viewport: { x: 0, y: 0, zoom: 1 },
  };
}

describe('the life of a production solution', () => {
  test('create, save, publish, roll back, compare, delete', async () => {
    const { rest, id: userID } = await person();
    const made = await rest.post('/api/prod_solution', { name: 'Review', description: 'Three agents' });
    assert.equal(made.status, 'draft');
    assert.deepEqual([made.dag, made.architecture], [{ current_version: 1 }, { current_version: 1 }]);
    const empty = await rest.get(dagOf(made.id));
    assert.deepEqual(empty.dag, { steps: [], nodes: [], edges: [], viewport: { x: 0, y: 0, zoom: 1 } });

    const saved = await rest.put(dagOf(made.id), { base_version: 1, dag: review(), message: 'first' });
    assert.equal(saved.version, 2);
    assert.deepEqual(saved.warnings, []);
    const read = await rest.get(dagOf(made.id));
    assert.deepEqual(
      read.dag.nodes.map((n) => n.id),
      review().nodes.map((n) => n.id),
    );
    assert.deepEqual(read.dag.steps.map((s) => [s.order, s.node_id, s.title]).slice(0, 3), [
      [1, 'start', 'start'],
      [2, 'draft', 'Draft'],
      [3, 'facts', 'Facts'],
    ]);
    assert.equal(read.updated_by, userID);
    assert.equal(read.message, 'first');

    const published = await rest.post(dagOf(made.id, '/publish'), { message: 'go' });
    assert.deepEqual(
      [published.version, published.previous_version, published.published_by, published.digest],
      [2, null, userID, saved.digest],
    );
    assert.equal((await rest.get(`/api/prod_solution/${made.id}`)).status, 'published');

    await rest.put(dagOf(made.id), { base_version: 2, dag: review('Draft something on {{input.topic}}') });
    const diff = await rest.get(dagOf(made.id, '/diff?from=2&to=3'));
    assert.deepEqual(diff.nodes, { added: [], removed: [], changed: [{ id: 'draft', fields: [
      { field: 'config.prompt', from: 'Draft a report on {{input.topic}}', to: 'Draft something on {{input.topic}}' }] }] });
    assert.deepEqual(diff.edges, { added: [], removed: [], changed: [] });
    const back = await rest.post(dagOf(made.id, '/rollback'), { from_version: 2, message: 'back' });
    assert.deepEqual([back.version, back.from_version, back.digest], [4, 2, saved.digest]);

    const kept = await rest.call('DELETE', dagOf(made.id, '/versions/2'));
    assert.deepEqual([kept.status, kept.body.code], [409, 'version_published']);
    assert.deepEqual(await rest.delete(dagOf(made.id, '/versions/3')), { ok: true });
    const { items, total } = await rest.get(dagOf(made.id, '/versions'));
    assert.equal(total, 3);
    assert.deepEqual(items.map((v) => [v.version, v.status, v.node_count, v.edge_count, v.message]),
      [[4, 'draft', 7, 7, 'back'], [2, 'published', 7, 7, 'first'], [1, 'draft', 0, 0, '']]);
    assert.equal((await rest.call('GET', dagOf(made.id, '/versions/3'))).body.code, 'version_not_found');

    assert.deepEqual(await rest.delete(dagOf(made.id, '/versions/4')), { ok: true }, 'the newest, which is a draft');
    assert.equal((await rest.get(dagOf(made.id))).version, 2);

    const { session_id: session } = await rest.post('/api/sessions', {});
    await rest.put(`/api/prod_solution/${made.id}/session`, { session_id: session });
    assert.equal((await rest.get(`/api/prod_solution/${made.id}`)).session_id, session);
    assert.equal((await rest.patch(`/api/prod_solution/${made.id}`, { status: 'archived', name: 'Old' })).name, 'Old');
    const refused = await rest.call('PUT', dagOf(made.id), { base_version: 4, dag: {} });
    assert.deepEqual([refused.status, refused.body.code], [409, 'prod_solution_archived']);
    assert.deepEqual(await rest.delete(`/api/prod_solution/${made.id}`), { ok: true });
    assert.equal((await rest.call('GET', dagOf(made.id))).body.code, 'prod_solution_not_found');
    assert.deepEqual(await rest.get('/api/prod_solution'), { items: [], total: 0 });
  });

  test('the architecture has the same operations', async () => {
    const { rest } = await person();
    const { id } = await rest.post('/api/prod_solution', { name: 'Shop' });
    const orders = { id: 'orders', type: 'service', parent_id: 'shop', links: [{ target_id: 'db', label: 'reads', direction: 'out' }] };
    const nodes = [{ id: 'shop', type: 'group' }, orders, { id: 'db', type: 'data_store', technology: 'PostgreSQL' }];
    assert.deepEqual((await rest.put(architectureOf(id), { base_version: 1, architecture: { nodes } })).warnings, []);
    const wrong = [
      { id: 'a', type: 'group', parent_id: 'a' },
      { id: 'b', type: 'user', links: [{ target_id: 'x' }] },
      { id: 'b', type: 'user' },
    ];
    const checked = await rest.post(architectureOf(id, '/validate'), { architecture: { nodes: wrong } });
    assert.equal(checked.valid, false);
    assert.deepEqual(codes(checked.errors).sort(), [
      ['dangling_link', 'b', 'nodes[1].links[0].target_id'],
      ['duplicate_id', 'b', 'nodes[2].id'],
      ['parent_cycle', 'a', 'nodes[0].parent_id'],
    ]);
    const refused = await rest.call('POST', architectureOf(id, '/publish'), { architecture: { nodes: wrong } });
    assert.deepEqual([refused.status, refused.body.code, refused.body.valid], [422, 'validation_failed', false]);
    assert.equal((await rest.post(architectureOf(id, '/publish'))).version, 2);
    await rest.put(architectureOf(id), { base_version: 2, architecture: { nodes: nodes.slice(0, 2) } });
    const diff = await rest.get(architectureOf(id, '/diff?from=2&to=3'));
    assert.deepEqual(diff.nodes.removed.map((n) => n.id), ['db']);
    assert.equal((await rest.post(architectureOf(id, '/rollback'), { from_version: 2 })).version, 4);
    await rest.delete(architectureOf(id, '/versions/1'));
    assert.deepEqual((await rest.get(architectureOf(id, '/versions'))).items.map((v) => v.version), [4, 3, 2]);
    assert.equal((await rest.get(architectureOf(id, '/versions/2'))).architecture.nodes.length, 3);
  });
});

describe('what is refused', () => {
  test('of two writers one wins, and the other learns who and when', async () => {
    const owner = await person();
    const { id } = await owner.rest.post('/api/prod_solution', { name: 'Two' });
    const save = (rest) => rest.call('PUT', dagOf(id), { base_version: 1, dag: review() });
    const answers = await Promise.all([save(owner.rest), save(owner.rest)]);
    assert.deepEqual(answers.map((a) => a.status).sort(), [200, 409]);
    const lost = answers.find((a) => a.status === 409).body;
    const now = await owner.rest.get(dagOf(id));
    assert.deepEqual(
      [lost.code, lost.current_version, lost.changed_by, lost.changed_at],
      ['version_conflict', 2, now.updated_by, now.updated_at],
    );
  });

  test('every finding names its place', async () => {
    const { rest } = await person();
    const { id } = await rest.post('/api/prod_solution', { name: 'Wrong' });
    const dag = {
      nodes: [
        { id: 's', type: 'start' },
        {
          id: 'a',
          type: 'agent',
          config: { agent_id: 'unknown', skill: 'none', prompt: '{{nodes.zz.output}} sk-abcdefghijklmnopqrstuvwx' },
        },
        { id: 'b', type: 'tool', retry: { backoff: 2 } },
        { id: 'alone', type: 'subflow', config: { prod_solution_id: id } },
        { id: 'c', type: 'tool', config: { tool: 'Telnet' } },
        { id: 'd', type: 'tool', config: { tool: 'mcp__files__list' } },
      ],
      edges: [{ id: 'e1', source: 's', target: 'a' }, { id: 'e2', source: 'a', target: 'b' }, { id: 'e3', source: 'b', target: 'a' },
        { id: 'e4', source: 'b', target: 'gone' }, { id: 'e4', source: 's', target: 'b', condition: '1 +' },
        { id: 'e5', source: 's', target: 'c' }, { id: 'e6', source: 'c', target: 'd' }],
    };
    const { valid, errors } = await rest.post(dagOf(id, '/validate'), { dag });
    assert.equal(valid, false);
    assert.deepEqual(
      codes(errors).sort(),
      [
        ['cycle', 'a', 'nodes[1]'],
        ['dangling_edge', 'e4', 'edges[3].target'],
        ['duplicate_id', 'e4', 'edges[4].id'],
        ['missing_agent', 'a', 'nodes[1].config.agent_id'],
        ['missing_config', 'b', 'nodes[2].config.tool'],
        ['missing_end', undefined, 'nodes'],
        ['missing_skill', 'a', 'nodes[1].config.skill'],
        ['secret_in_prompt', 'a', 'nodes[1].config.prompt'],
        ['type_mismatch', 'e4', 'edges[4].condition'],
        ['unbounded_loop', 'alone', 'nodes[3].config.prod_solution_id'],
        ['unbounded_loop', 'b', 'nodes[2].retry.max_attempts'],
        ['unknown_reference', 'a', 'nodes[1].config.prompt'],
        ['unknown_reference', 'c', 'nodes[4].config.tool'],
        ['unreachable', 'alone', 'nodes[3]'],
      ].sort(),
    );
    const saved = await rest.put(dagOf(id), { base_version: 1, dag });
    assert.equal(saved.warnings.length >= errors.length, true, 'a draft may be wrong');
    const refused = await rest.call('POST', dagOf(id, '/publish'), {});
    assert.deepEqual([refused.status, refused.body.code, refused.body.errors.length], [422, 'validation_failed', errors.length]);
    const unknown = await rest.call('PUT', dagOf(id), { base_version: 2, dag: { nodes: [{ id: 'a', type: 'agent', promt: 'x' }] } });
    assert.deepEqual([unknown.status, unknown.body.warnings?.some((w) => w.code === 'missing_config')], [200, true]);
  });

  test('a solution of another user is not found, and administrators see it', async () => {
    const [owner, other] = [await person(), await person()];
    const { id } = await owner.rest.post('/api/prod_solution', { name: 'Mine' });
    for (const [method, path, body] of [
      ['GET', `/api/prod_solution/${id}`],
      ['PATCH', `/api/prod_solution/${id}`, { name: 'x' }],
      ['DELETE', `/api/prod_solution/${id}`],
      ['GET', dagOf(id)],
      ['PUT', dagOf(id), { base_version: 1, dag: {} }],
      ['POST', dagOf(id, '/validate'), { dag: {} }],
      ['POST', dagOf(id, '/publish'), { dag: review() }],
      ['POST', dagOf(id, '/rollback'), { from_version: 1 }],
      ['GET', dagOf(id, '/versions')],
      ['GET', dagOf(id, '/versions/1')],
      ['DELETE', dagOf(id, '/versions/1')],
      ['GET', dagOf(id, '/diff?from=1&to=1')],
      ['GET', architectureOf(id)],
      ['PUT', architectureOf(id), { base_version: 1, architecture: { nodes: [] } }],
    ]) {
      const answer = await other.rest.call(method, path, body);
      assert.deepEqual([answer.status, answer.body.code], [404, 'prod_solution_not_found'], `${method} ${path}`);
    }
    assert.equal((await fixture.rest.get(`/api/prod_solution/${id}`)).owner_id, owner.id);
    assert.deepEqual((await other.rest.get('/api/prod_solution')).items, []);
  });
});

describe('assistance by an agent', () => {
  // edit has the agent of a session make these calls, one a step.
  async function edit(view, ...calls) {
    const { end, calls: made } = await view.run(steps(...calls.map((c) => ({ calls: [c] })), { text: 'done' }));
    assert.equal(end.finish_reason, 'completed');
    return made;
  }
  const say = (name, args) => call(name, args);

  test('edits the DAG in versions, and an edit that is wrong or stale changes nothing', async () => {
    const { rest, id: userID } = await person();
    const made = await rest.post('/api/prod_solution', { name: 'Helped', flow_ai_assist: true });
    assert.deepEqual([made.ai_assist, made.flow_ai_assist, made.architecture_ai_assist], [false, true, false]);
    assert.ok(made.flow_session_id, 'a session was made');
    fixture.adopt(made.flow_session_id, rest);
    const view = await fixture.follow(made.flow_session_id, undefined, { token: rest.key });
    const detail = await rest.detail(made.flow_session_id);
    assert.deepEqual(
      ['ReadDAG', 'EditDAG', 'ReadArchitecture'].map((t) => detail.session_setup.tools_enabled.includes(t)),
      [true, true, false],
    );

    const { nodes, edges } = review();
    const [read, saved] = await edit(view, say('ReadDAG', {}),
      say('EditDAG', { base_version: 1, set_nodes: nodes, set_edges: edges, message: 'A review' }));
    assert.deepEqual(JSON.parse(read.result), { version: 1, nodes: [] });
    assert.equal(saved.result, 'The DAG is saved as version 2: 7 nodes, 7 edges.');
    const stored = await rest.get(dagOf(made.id));
    assert.deepEqual([stored.version, stored.message, stored.updated_by, stored.status], [2, 'A review', userID, 'draft']);
    assert.deepEqual(stored.dag.nodes.map((n) => n.id), nodes.map((n) => n.id));
    assert.equal(stored.dag.steps.length, 7);

    // One edit refers to a node that does not exist, one has a type and a name that do not.
    const facts = { ...nodes[2], config: { prompt: 'Check {{nodes.drafft.output.text}}' } };
    const [wrong, unknown, cyclic] = await edit(view,
      say('EditDAG', { base_version: 2, set_nodes: [facts], message: 'typo' }),
      say('EditDAG', { base_version: 2, set_nodes: [{ id: 'x', type: 'robot', promt: 'y' }] }),
      say('EditDAG', { base_version: 2, set_edges: [{ id: 'back', source: 'facts', target: 'draft' }], remove_nodes: ['missing'] }),
    );
    assert.deepEqual(
      [wrong, unknown, cyclic].map((c) => c.status),
      ['error', 'error', 'error'],
    );
    assert.match(
      wrong.result,
      /^The DAG was not changed \(validation_failed\):\n- unknown_reference, node facts, at nodes\[2\]\.config\.prompt: .*drafft/,
    );
    assert.match(unknown.result, /set_nodes.*0.*type/);
    assert.match(unknown.result, /promt/);
    assert.match(cyclic.result, /unknown_element, at remove_nodes\[0\]: "missing"/);
    assert.deepEqual(await rest.get(dagOf(made.id)), stored, 'nothing was changed');

    // The user saves in the meantime: the agent learns who, and goes on from there.
    await rest.put(dagOf(made.id), { base_version: 2, dag: review('Draft it, with {{input.topic}}') });
    const better = { ...nodes[2], config: { prompt: 'Check each fact of {{nodes.draft.output.text}}' } };
    const [stale, part, again] = await edit(view, say('EditDAG', { base_version: 2, set_nodes: [better] }),
      say('ReadDAG', { node_ids: ['facts'] }), say('EditDAG', { base_version: 3, set_nodes: [better], remove_nodes: ['style'] }));
    assert.equal(stale.status, 'error');
    assert.match(stale.result, new RegExp(`^The DAG was not changed \\(version_conflict\\): version 3 was saved by user ${userID} at `));
    const shown = JSON.parse(part.result);
    assert.deepEqual([shown.version, shown.nodes.map((n) => n.id), shown.edges.map((e) => e.id)], [3, ['facts'], ['e1', 'e3']]);
    // Node gate refers to the node that would go: the edit is refused with the place.
    assert.match(again.result, /unknown_reference, node gate, at nodes\[\d\]\.config\.prompt/);
    const gate = { ...nodes[5], config: { ...nodes[5].config, prompt: 'Publish? {{nodes.facts.output}}' } };
    const [last] = await edit(
      view,
      say('EditDAG', { base_version: 3, set_nodes: [better, gate], remove_nodes: ['style'], message: 'No style' }),
    );
    assert.equal(last.result, 'The DAG is saved as version 4: 6 nodes, 5 edges.');
    const diff = await rest.get(dagOf(made.id, '/diff?from=3&to=4'));
    assert.deepEqual(
      [diff.nodes.removed.map((n) => n.id), diff.nodes.changed.map((n) => n.id).sort(), diff.edges.removed.map((e) => e.id).sort()],
      [['style'], ['facts', 'gate'], ['e2', 'e4']],
    );
    assert.equal((await rest.get(`/api/prod_solution/${made.id}`)).dag.published_version, undefined, 'only users publish');
  });

  test('the main session edits both documents, until assistance is switched off', async () => {
    const { rest } = await person();
    const view = await fixture.session({}, { token: rest.key });
    const { id } = await rest.post('/api/prod_solution', { name: 'Both', session_id: view.session });
    assert.ok(!(await rest.detail(view.session)).session_setup.tools_enabled.includes('EditArchitecture'));
    await rest.patch(`/api/prod_solution/${id}`, { ai_assist: true });
    const nodes = [
      { id: 'orders', type: 'service', links: [{ target_id: 'db' }], position: { x: 1, y: 2 } },
      { id: 'db', type: 'data_store' },
    ];
    const [made, dangling, kept] = await edit(
      view,
      say('EditArchitecture', { base_version: 1, set_nodes: nodes }),
      say('EditArchitecture', { base_version: 2, remove_nodes: ['db'] }),
      say('EditArchitecture', { base_version: 2, set_nodes: [{ id: 'orders', type: 'service', name: 'Orders' }], remove_nodes: ['db'] }));
    assert.equal(made.result, 'The architecture is saved as version 2: 2 nodes.');
    assert.match(dangling.result, /dangling_link, node orders, at nodes\[0\]\.links\[0\]\.target_id/);
    assert.equal(kept.result, 'The architecture is saved as version 3: 1 nodes.');
    const stored = await rest.get(architectureOf(id));
    assert.deepEqual(stored.architecture.nodes, [{
      id: 'orders', type: 'service', name: 'Orders', position: { x: 1, y: 2 }, links: [], refs: [], tags: [],
    }]);

    // A second solution is bound: the model has to say which one it means.
    const other = await rest.post('/api/prod_solution', { name: 'Other', session_id: view.session, ai_assist: true });
    const [which, theirs, named] = await edit(
      view,
      say('ReadDAG', {}),
      say('ReadDAG', { solution_id: 'missing' }),
      say('ReadDAG', { solution_id: other.id }),
    );
    assert.match(which.result, /give solution_id/);
    assert.match(theirs.result, /does not assist/);
    assert.equal(JSON.parse(named.result).version, 1);
    await rest.patch(`/api/prod_solution/${other.id}`, { status: 'archived' });
    await rest.patch(`/api/prod_solution/${id}`, { ai_assist: false });
    const [archived] = await edit(view, say('EditDAG', { base_version: 1, set_nodes: [{ id: 's', type: 'join' }] }));
    assert.match(archived.result, /not changed/);
    await rest.delete(`/api/prod_solution/${other.id}`);
    const [gone] = await edit(view, say('EditDAG', { base_version: 1 }));
    assert.match(gone.result, /There is no tool named "EditDAG"/);
    assert.equal((await rest.get(dagOf(id))).version, 1);
  });
});

test('big documents, and a service that is killed keep everything', async () => {
  const { rest } = await person();
  const { id } = await rest.post('/api/prod_solution', { name: 'Big' });
  const nodes = [{ id: 'start', type: 'start' }];
  for (let i = 1; i < 999; i += 1)
    nodes.push({ id: `n${i}`, type: 'agent', config: { prompt: `${'x'.repeat(2000)} {{nodes.start.output}}` } });
  nodes.push({ id: 'end', type: 'end' });
  const edges = nodes.slice(1).map((n, i) => ({ id: `e${i}`, source: nodes[i].id, target: n.id }));
  const saved = await rest.put(dagOf(id), { base_version: 1, dag: { nodes, edges } });
  assert.deepEqual(saved.warnings, []);
  assert.equal((await rest.post(dagOf(id, '/publish'))).version, 2);
  const tooMany = await rest.call('PUT', dagOf(id), { base_version: 2, dag: { nodes: [...nodes, { id: 'more', type: 'join' }], edges } });
  assert.deepEqual([tooMany.status, tooMany.body.errors[0].location], [422, 'body.dag.nodes']);
  const large = nodes.map((n) => (n.type === 'agent' ? { ...n, config: { prompt: 'y'.repeat(5000) } } : n));
  const tooLarge = await rest.call('PUT', dagOf(id), { base_version: 2, dag: { nodes: large, edges } });
  assert.deepEqual([tooLarge.status, tooLarge.body.code], [413, 'document_too_large']);

  // Saves go on while the service is killed: every one that was answered is there.
  let version = 2;
  const digests = [];
  const writer = (async () => {
    for (;;) {
      let answer;
      try {
        answer = await rest.call('PUT', architectureOf(id), {
          base_version: version - 1, architecture: { nodes: [{ id: `v${version}`, type: 'service' }] },
        });
      } catch {
        return;
      }
      if (answer.status !== 200) return;
      digests[answer.body.version] = answer.body.digest;
      version = answer.body.version + 1;
    }
  })();
  while (version < 5) await new Promise((resolve) => setTimeout(resolve, 5));
  await fixture.server.kill();
  await writer;
  await fixture.server.start();
  const again = new Rest(fixture.server.url, rest.key);
  const { items, total } = await again.get(architectureOf(id, '/versions?limit=1000'));
  const stored = new Map(items.map((v) => [v.version, v.digest]));
  digests.forEach((digest, v) => assert.equal(stored.get(v), digest, `version ${v}`));
  assert.ok(total <= digests.length, 'at most one save more than was answered');
  const kept = await again.get(dagOf(id));
  assert.deepEqual([kept.status, kept.digest, kept.dag.nodes.length, kept.dag.steps.length], ['published', saved.digest, 1000, 1000]);
});
