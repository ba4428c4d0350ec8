// Publishes a DAG of a tool and a person, runs it, answers its question and prints each change.
import { connect } from './connect.mjs';

const client = connect();
const { id } = await client.api.createProdSolution({ name: `SDK example ${Date.now()}` });
const { version } = await client.api.getDag(id);
await client.api.saveDag(id, {
  base_version: version,
  dag: {
    nodes: [
      { id: 'start', type: 'start' },
      { id: 'work', type: 'tool', config: { tool: 'Bash', arguments: { command: 'echo made' } } },
      { id: 'gate', type: 'human', config: { prompt: 'Publish {{nodes.work.output}}?', options: ['yes', 'no'] } },
      { id: 'end', type: 'end' },
    ],
    edges: [
      { id: 'e1', source: 'start', target: 'work' }, { id: 'e2', source: 'work', target: 'gate' },
      { id: 'e3', source: 'gate', target: 'end', source_handle: 'yes' },
    ],
  },
});
await client.api.publishDag(id, {});
const run = await client.api.createDagRun(id, {});
const answered = new Set();
for await (const { event, data } of client.api.streamDagRun(id, run.id)) {
  console.log(`${event} ${data.node_id ?? 'run'} ${data.status}`);
  const { items } = await client.api.listInbox();
  for (const one of items.filter((item) => item.session_id === data.session_id && !answered.has(item.question_id))) {
    answered.add(one.question_id);
    await client.api.answerInbox(one.question_id, { selections: { 0: [0] } });
  }
}
console.log((await client.api.getDagRun(id, run.id)).status);
client.close();
