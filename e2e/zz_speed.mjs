import { World, call, order, steps } from './lib/world.mjs';
const world = await World.start();
const agent = (d) => call('Agent', { description: d, prompt: order({ steps: [{ text: 'x' }], note: d }) });
const gaps = [], plain = [];
for (let i = 0; i < 40; i++) {
  const view = await world.session();
  const run = await view.run(steps({ calls: [agent('s' + i)] }, { text: 'done' }));
  const end = view.events.find((e) => e.name === 'turn:end' && e.data.turn_id === run.turns[0].id);
  const start = view.events.find((e) => e.name === 'turn:start' && e.data.parent_fork_tool_call_id && e.data.role === 'assistant');
  gaps.push(new Date(start.data.ts) - new Date(end.data.ts));
  const v2 = await world.session();
  const r2 = await v2.run(steps({ calls: [call('TaskCreate', { subject: 'a' })] }, { text: 'done' }));
  const e2 = v2.events.find((e) => e.name === 'turn:end' && e.data.turn_id === r2.turns[0].id);
  const s2 = v2.events.find((e) => e.name === 'turn:start' && e.data.turn_id === r2.turns[1].id);
  plain.push(new Date(s2.data.ts) - new Date(e2.data.ts));
}
const q = (l, p) => l.toSorted((a, b) => a - b)[Math.floor(l.length * p)];
console.log('fork first call ms p50/p90', q(gaps, .5), q(gaps, .9), 'min', q(gaps, 0), '| after a tool', q(plain, .5), q(plain, .9), 'min', q(plain, 0));
await world.close();
