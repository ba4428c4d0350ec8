// What operators see of a running service from outside: its traces.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { Fixture, bash, eventually, order } from './lib/fixture.mjs';
import { Collector } from './lib/otlp.mjs';

let collector;
let fixture;
before(async () => {
  collector = await Collector.start();
  fixture = await Fixture.start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
});
after(async () => {
  await fixture?.close();
  collector?.close();
});

test('a chat is one trace, from the request over the workflow to the model, the tool and the database', async () => {
  const { session_id: id } = await fixture.rest.post('/api/sessions', {});
  const [trace, client] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  const answer = await fetch(`${fixture.server.url}/api/sessions/${id}/chat`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${fixture.server.key}`, 'content-type': 'application/json', traceparent: `00-${trace}-${client}-01`,
    },
    body: JSON.stringify({ message: `said-secret ${order({ steps: [bash('echo argument-secret'), { text: 'answer-secret' }] })}` }),
  });
  assert.equal(answer.status, 202);
  await eventually('the chat ends', async () => (await fixture.rest.detail(id)).status === 'completed');

  const mine = () => collector.spans.filter((span) => span.trace === trace);
  const model = (span) => span.attributes['gen_ai.operation.name'] === 'chat';
  const tool = (span) => span.attributes['gen_ai.operation.name'] === 'execute_tool';
  await eventually('the spans come', () => mine().filter(model).length === 2 && mine().some(tool));

  const spans = new Map(mine().map((span) => [span.id, span]));
  const ancestors = (span) => {
    const path = [];
    for (let one = span; one; one = spans.get(one.parent)) path.push(one);
    return path;
  };
  const [call] = mine().filter(model);
  assert.equal(call.attributes['gen_ai.request.model'], 'everloop-demo');
  assert.ok(call.attributes['gen_ai.usage.input_tokens'] > 0);
  assert.ok(ancestors(call).length > 2, 'the model call is below the workflow');
  assert.equal(ancestors(call).at(-1).parent, client, 'the trace is the one of the client');
  assert.equal(mine().find(tool).attributes['gen_ai.tool.name'], 'Bash');
  assert.ok(mine().some((span) => span.attributes['db.system.name'] === 'postgresql'), 'statements have spans');
  for (const body of collector.bodies) assert.ok(!body.includes('secret'), 'nothing that was said is in a trace');
});

test('what no request asked for leaves no spans', async () => {
  const roots = collector.spans.filter((span) => span.parent === '');
  assert.ok(roots.length > 0);
  for (const span of roots) assert.ok(span.attributes['http.route'] ?? span.attributes['everloop.event'], JSON.stringify(span));
});
