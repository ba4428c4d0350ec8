// DAGs of production solutions and their runs, through the REST interface.
import { eventually } from './fixture.mjs';

export const dagOf = (id, rest = '') => `/api/prod_solution/dag/${id}${rest}`;

// graph puts nodes between a start `s` and an end `z`; an edge is [from, to, more].
export const graph = (nodes, ...edges) => ({
  nodes: [{ id: 's', type: 'start' }, ...nodes, { id: 'z', type: 'end' }],
  edges: edges.map((e, i) => ({ id: `e${i}`, source: e[0], target: e[1], ...e[2] })),
});

// publish makes a solution whose DAG is published; given one, it publishes its next version.
export async function publish(rest, dag, id) {
  id ??= (await rest.post('/api/prod_solution', { name: 'Runs' })).id;
  const base = (await rest.get(dagOf(id))).version;
  await rest.put(dagOf(id), { base_version: base, dag });
  await rest.post(dagOf(id, '/publish'));
  return id;
}

export const read = (rest, id, runID) => rest.get(dagOf(id, `/runs/${runID}`));

export const nodeOf = (run, id) => run.nodes.find((n) => n.node_id === id);

export const over = (rest, id, runID) => eventually(`run ${runID} is over`, async () => {
  const now = await read(rest, id, runID);
  return ['completed', 'failed', 'cancelled'].includes(now.status) ? now : undefined;
});

export const reach = (rest, id, runID, node, status) => eventually(`node ${node} is ${status}`, async () => {
  const found = nodeOf(await read(rest, id, runID), node);
  return found.status === status ? found : undefined;
});

// answer answers the question of a session with one of its options.
export async function answer(rest, session, option) {
  const asked = await eventually('the question is in the inbox', async () =>
    (await rest.get('/api/inbox')).items.find((i) => i.session_id === session),
  );
  await rest.post(`/api/sessions/${session}/chat`, {
    askuser_answer: { tool_call_id: asked.tool_call_id, selections: { 0: [option] }, custom: {} },
  });
  return asked;
}
