// Planning mode, and headless runs over both edges (docs/modes.md).
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, bash, call, order, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

const plan = {
  title: 'Rename the module',
  steps: [
    { id: '1', title: 'Look', detail: 'find plan-4471 everywhere' },
    { id: '2', title: 'Change', detail: 'rename it', depends_on: ['1'] },
  ],
};

describe('planning', () => {
  test('looks, asks, submits a plan as a block, and executing follows it', async () => {
    const view = await fixture.session();
    await fixture.rest.put(`/api/sessions/${view.session}/files/go.mod`, { content: 'module old\n' });
    const first = await view.say(
      steps(
        {
          calls: [
            call('Read', { file_path: 'go.mod' }),
            call('Write', { file_path: 'go.mod', content: 'x' }),
            call('Agent', { description: 'd', prompt: 'p' }),
          ],
        },
        { calls: [call('AskUserQuestion', { questions: [{ question: 'Which name?', options: [{ label: 'new' }, { label: 'newer' }] }] })] },
        { calls: [call('SubmitPlan', plan)] },
        { text: 'This is my plan.' },
      ),
      { mode: 'planning' },
    );
    assert.equal((await view.started(first.chat_id)).mode, 'planning');
    assert.equal((await view.ended(first.chat_id)).finish_reason, 'awaiting_answer');
    const question = view.callsOf(first.chat_id).find((c) => c.tool_name === 'AskUserQuestion');
    await view.answer(question.id, { selections: { 0: [0] } });
    await view.wait('the end', (e) => e.name === 'chat:end' && e.data.finish_reason === 'completed');
    const calls = view.callsOf(first.chat_id);
    assert.deepEqual(calls.map((c) => [c.tool_name, c.status]),
      [['Read', 'done'], ['Write', 'error'], ['Agent', 'error'], ['AskUserQuestion', 'done'], ['SubmitPlan', 'done']]);
    assert.match(calls[1].result, /while a plan is made/);
    assert.equal(await fixture.rest.file(view.session, 'go.mod'), 'module old\n', 'nothing was changed');
    const blocks = (await fixture.rest.messages(view.session)).flatMap((m) => m.blocks);
    const [kept, ...more] = blocks.filter((b) => b.type === 'plan');
    assert.deepEqual([JSON.parse(kept.content), more], [plan, []]);

    const { end } = await view.run(`go on, as planned 7719 ${steps(bash('sed -i s/old/new/ go.mod'), { text: 'renamed' })}`, {
      mode: 'executing',
    });
    assert.equal(end.finish_reason, 'completed');
    assert.equal(await fixture.rest.file(view.session, 'go.mod'), 'module new\n');
    const [request] = await fixture.requests('as planned 7719');
    assert.match(JSON.stringify(request.body.messages), /find plan-4471 everywhere/, 'the plan is before the model');
    const names = request.body.tools.map((t) => t.function.name);
    assert.ok(names.includes('Bash') && !names.includes('SubmitPlan'));
  });

  test('a plan that cannot be done is returned with the reason', async () => {
    const view = await fixture.session();
    const wrong = [
      { ...plan, steps: [plan.steps[0], plan.steps[0]] },
      { ...plan, steps: [{ ...plan.steps[0], depends_on: ['9'] }] },
      { ...plan, steps: [{ ...plan.steps[0], depends_on: ['2'] }, plan.steps[1]] },
      { title: 'Nothing', steps: [] },
    ];
    const { calls } = await view.run(steps({ calls: wrong.map((p) => call('SubmitPlan', p)) }, { text: 'no plan' }), { mode: 'planning' });
    assert.deepEqual(
      calls.map((c) => c.status),
      Array(4).fill('error'),
    );
    for (const [i, words] of [/two steps have the id/, /not a step of the plan/, /circle/, /steps/].entries())
      assert.match(calls[i].result, words);
    assert.equal(
      (await fixture.rest.messages(view.session)).some((m) => m.blocks.some((b) => b.type === 'plan')),
      false,
    );
  });

  test('executing takes no plan, and an unknown mode is refused', async () => {
    const view = await fixture.session();
    const { calls } = await view.run(steps({ calls: [call('SubmitPlan', plan)] }, { text: 'well' }));
    assert.deepEqual([calls[0].status, /planning mode/.test(calls[0].result)], ['error', true]);
    const ack = await view.send('x', { mode: 'dreaming' });
    assert.deepEqual([ack.ok, ack.error.code], [false, 'invalid_request']);
  });
});

// Both edges give the end of a headless chat.
const socket = async (message, options) => (await (await fixture.session()).run(message, { headless: true, ...options })).end;
const rest = async (message, options) => {
  const { session_id: id } = await fixture.rest.post('/api/sessions', {});
  const events = await fixture.rest.stream(
    'POST',
    `/api/sessions/${id}/chat`,
    { message, headless: true, ...options },
    (e) => e.name === 'chat:end',
  );
  fixture.adopt(id, fixture.rest);
  return events.at(-1).data;
};

// said is what a chat:end says, and nothing of its place in the stream.
const said = ({ session_id: _session, seq: _seq, prev_seq: _prev, ts: _ts, ...end }) => end;

test('a client that comes after the end of a chat learns how it ended', async () => {
  const view = await fixture.session();
  assert.equal(view.ack.last_end, null);
  assert.equal((await fixture.rest.detail(view.session)).last_end, null);
  const ends = [
    await view.run(steps({ text: '{"pair": ["a", 2]}' }), { output_schema: old07 }),
    await view.run(order({ steps: [{ text: '1' }, { text: '2' }, { text: '3' }], closing: '1' }), { output_schema: new2020 }),
  ].map((run) => run.end);
  assert.deepEqual(ends.map((end) => end.finish_reason), ['completed', 'schema_mismatch']);

  const later = await fixture.follow(view.session);
  assert.deepEqual(later.ack.last_end, said(ends[1]));
  assert.deepEqual((await fixture.rest.detail(view.session)).last_end, said(ends[1]));

  // While another chat runs it is still that one.
  const ack = await view.say(steps({ text: 'This is held back', hold: true, hold_after: 2 }));
  await view.started(ack.chat_id);
  assert.deepEqual((await fixture.follow(view.session)).ack.last_end, said(ends[1]));
  await view.stop();
  const stopped = await view.ended(ack.chat_id);
  assert.deepEqual((await fixture.follow(view.session)).ack.last_end, said(stopped));
});

const new2020 = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: { pair: { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }], items: false } },
  required: ['pair'],
  unevaluatedProperties: false,
};
const old07 = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  definitions: { pair: { type: 'array', items: [{ type: 'string' }, { type: 'integer' }], additionalItems: false } },
  type: 'object', properties: { pair: { $ref: '#/definitions/pair' } }, required: ['pair'],
};

for (const [edge, headless] of [['Socket.IO', socket], ['REST', rest]]) {
  describe(`headless over ${edge}`, () => {
    test('without a schema the result is the last text', async () => {
      const end = await headless(steps(bash('echo work'), { text: 'all of it' }));
      assert.deepEqual([end.status, end.finish_reason, end.result], ['completed', 'completed', { output: 'all of it' }]);
    });

    for (const [draft, schema] of [['2020-12', new2020], ['draft-07', old07]]) {
      test(`an answer that does not follow a schema of ${draft} is tried again with the errors`, async () => {
        const mark = `${edge} ${draft}`.replace(/\W/g, '');
        const end = await headless(
          `${mark} ${steps({ text: '{"pair": ["a", "b"]}' }, { text: 'not JSON' }, { text: '{"pair": ["a", 2]}' })}`,
          { output_schema: schema },
        );
        assert.deepEqual(end.result, { output: { pair: ['a', 2] }, schema });
        const prompts = (await fixture.requests(mark)).map((r) => JSON.stringify(r.body.messages));
        assert.equal(prompts.length, 3);
        assert.match(prompts[1], /does not follow the required JSON Schema.*pair\/1.*want integer/);
        assert.match(prompts[2], /not one JSON value/);
      });
    }

    test('three answers that do not fit end it with schema_mismatch', async () => {
      const end = await headless(order({ steps: [{ text: '1' }, { text: '2' }, { text: '3' }], closing: '{"pair": ["a", 2]}' }), {
        output_schema: new2020,
      });
      assert.deepEqual(
        [end.status, end.finish_reason, end.error.code, end.result, end.steps],
        ['failed', 'schema_mismatch', 'schema_mismatch', undefined, 3],
      );
      assert.match(end.error.message, /^no answer followed the output_schema: .*got number, want object/);
    });
  });
}

test('no question is asked, not by a sub-agent of a headless chat either', async () => {
  const view = await fixture.session();
  const ask = { calls: [call('AskUserQuestion', { questions: [{ question: 'Which?', options: [{ label: 'a' }, { label: 'b' }] }] })] };
  const agent = call('Agent', { description: 'asks', prompt: steps(ask, { text: 'decided' }) });
  const { end } = await view.run(steps({ calls: [...ask.calls, agent] }, { text: 'done' }), { headless: true });
  assert.deepEqual([end.finish_reason, end.result], ['completed', { output: 'done' }]);
  const calls = (await fixture.rest.messages(view.session)).flatMap((m) => m.tool_calls);
  assert.deepEqual(
    calls.map((c) => [c.tool_name, c.status]),
    [
      ['AskUserQuestion', 'error'],
      ['Agent', 'done'],
      ['AskUserQuestion', 'error'],
    ],
  );
});

test('a sub-agent does not follow the schema of its chat', async () => {
  const view = await fixture.session();
  const { end } = await view.run(
    steps({ calls: [call('Agent', { description: 'free', prompt: steps({ text: 'plain words' }) })] }, { text: '{"pair": ["a", 2]}' }),
    { output_schema: new2020 },
  );
  assert.deepEqual(end.result.output, { pair: ['a', 2] });
  const [agent] = (await fixture.rest.messages(view.session)).flatMap((m) => m.tool_calls);
  assert.deepEqual([agent.status, agent.result], ['done', 'plain words']);
});

describe('hostile schemas', () => {
  const doubling = (n) => {
    const defs = { [`d${n}`]: { type: 'string' } };
    for (let i = 0; i < n; i++) defs[`d${i}`] = { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] };
    return { $ref: '#/$defs/d0', $defs: defs };
  };
  let deep = {};
  for (let i = 0; i < 100; i++) deep = { not: deep };
  const bad = {
    'an unknown type': { type: 'nothing' },
    'another document': { $ref: 'http://127.0.0.1:1/x' },
    'a file': { $ref: 'file:///etc/passwd' },
    'an unknown draft': { $schema: 'http://elsewhere.example/s' },
    'a bad pattern': { pattern: '(?=x)' },
    'no end': { $ref: '#/$defs/missing' },
    'too deep': deep,
    'too much work': doubling(40),
    'too large': { title: 'x'.repeat(300_000) },
  };
  test('are refused at both edges, at once', async () => {
    const view = await fixture.session();
    for (const [what, schema] of Object.entries(bad)) {
      const began = Date.now();
      const ack = await view.send('x', { output_schema: schema });
      assert.deepEqual([ack.ok, ack.error?.code], [false, 'invalid_schema'], what);
      const answer = await fixture.rest.call('POST', `/api/sessions/${view.session}/chat`, { message: 'x', output_schema: schema });
      assert.deepEqual([answer.status, answer.body.code], [422, 'invalid_schema'], what);
      assert.ok(Date.now() - began < 60_000, `${what} took ${Date.now() - began} ms`);
    }
    assert.deepEqual(await fixture.rest.messages(view.session), []);
  });

  test('an answer made to hurt its check is rejected', async () => {
    const numbers = await socket(order({ steps: [{ text: '1e99999999' }, { text: '9'.repeat(5000) }, { text: '3' }] }), {
      output_schema: { type: 'number', minimum: 2 },
    });
    assert.deepEqual(numbers.result.output, 3);
    const twice = { $defs: { a: { allOf: [{ items: { $ref: '#/$defs/a' } }, { items: { $ref: '#/$defs/a' } }] } }, $ref: '#/$defs/a' };
    const nested = await socket(order({ closing: '['.repeat(60) + ']'.repeat(60) }), { output_schema: twice });
    assert.equal(nested.finish_reason, 'schema_mismatch');
  });
});
