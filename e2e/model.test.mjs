// Faults of the model server, and the requests that reach it
// (docs/operators/stuck-runs.md#when-the-model-server-is-away).
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, bash, call, order, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

let notes = 0;
// once makes a script of its own, so that fail_times counts only this test.
const once = (...list) => order({ steps: list, note: `n${notes++}` });

describe('faults that pass', () => {
  test('429 with Retry-After is waited for, and says so', async () => {
    const view = await fixture.session();
    const began = Date.now();
    const { chat_id: chat } = await view.say(once({ text: 'after the wait', status: 429, retry_after: 4, fail_times: 1 }));
    const retry = await view.patch('retry');
    assert.equal(retry.attempt, 1);
    assert.ok(Date.parse(retry.next_attempt_at) - began > 3500, retry.next_attempt_at);
    const updated = await view.wait('waiting_reason', (e) => e.name === 'session:updated' && e.data.waiting_reason === 'rate_limit');
    assert.equal(updated.data.status, 'running');
    const { waiting_reason: reason } = await fixture.rest.detail(view.session);
    if (Date.now() < Date.parse(retry.next_attempt_at)) assert.equal(reason, 'rate_limit');
    assert.equal((await view.ended(chat)).status, 'completed');
    assert.ok(Date.now() - began >= 3900, 'it did not wait');
    const turns = view.rules.assistants(chat);
    assert.deepEqual(turns.map((t) => t.status), ['completed']); // nothing was shown: the same turn
  });

  test('503 twice', async () => {
    const view = await fixture.session();
    const { end, turns } = await view.run(once({ text: 'third time lucky', fail_times: 2 }));
    assert.equal(end.status, 'completed');
    assert.deepEqual(turns.map((t) => t.status), ['completed']);
    assert.equal(view.events.filter((e) => e.data.patch_type === 'retry').length, 2);
  });

  for (const [what, fault] of Object.entries({
    'a connection that is cut': { cut_after: 4 },
    'an error in the stream': { cut_after: 4, error_mid_stream: true },
    'a broken chunk': { cut_after: 4, malformed: true },
  })) {
    test(`${what} fails the turn; the next one starts again`, async () => {
      const view = await fixture.session();
      const text = 'these are the words of the answer, all of them';
      const { chat_id: chat, end, turns } = await view.run(once({ text, delay_ms: 30, fail_times: 1, ...fault }));
      assert.equal(end.status, 'completed');
      assert.deepEqual(turns.map((t) => t.status), ['failed', 'completed']);
      assert.ok(text.startsWith(view.rules.text(turns[0].id)) && view.rules.text(turns[0].id) !== '');
      assert.equal(view.rules.text(turns[1].id), text);
      const failed = view.events.find((e) => e.name === 'turn:end' && e.data.turn_id === turns[0].id).data;
      assert.ok(failed.failure_reason);
      const stored = (await fixture.rest.messages(view.session)).filter((m) => m.chat_id === chat || m.role === 'assistant');
      assert.ok(stored.some((m) => m.status === 'failed' && m.failure_reason));
      // The broken turn's text is not part of what the model is sent.
      await view.run(steps({ text: 'next' }));
      const last = (await fixture.requests(view.session.slice(0, 0) + text)).at(-1).body.messages.filter((m) => m.role === 'assistant');
      assert.deepEqual(last.map((m) => (typeof m.content === 'string' ? m.content : m.content[0].text)), [text]);
    });
  }

  test('a stream that ends without a finish reason has failed', async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(steps({ text: 'half a sentence', no_finish: true }));
    const turn = await view.wait('the failed turn', (e) => e.name === 'turn:end' && e.data.status === 'failed');
    assert.ok(turn.data.failure_reason);
    await view.stop();
    assert.equal((await view.ended(chat)).status, 'interrupted');
  });

  test('a stream without [DONE] but with its finish reason is whole', async () => {
    const view = await fixture.session();
    const { end, turns } = await view.run(steps({ text: 'whole all the same', no_done: true }));
    assert.deepEqual([end.status, turns.length], ['completed', 1]);
  });
});

describe('faults that do not pass', () => {
  for (const status of [400, 401, 403, 422]) {
    test(`${status} ends the chat with a cause`, async () => {
      const view = await fixture.session();
      const { end, turns, chat_id: chat } = await view.run(once({ status, error_message: 'no, thank you' }));
      assert.deepEqual([end.status, end.finish_reason], ['failed', 'failed']);
      assert.equal(end.error.code, 'model_refused');
      assert.ok(end.error.message);
      assert.deepEqual(turns.map((t) => t.status), ['failed']);
      assert.equal((await fixture.rest.detail(view.session)).status, 'failed');
      assert.equal(view.shape(chat).filter((n) => n === 'retry').length, 0);
      assert.equal((await view.run(steps({ text: 'on we go' }))).end.status, 'completed');
    });
  }

  test('a context that is too long', async () => {
    const view = await fixture.session({ model: 'everloop-demo-small' });
    const { end } = await view.run(`${steps({ text: 'never' })} ${'many words '.repeat(8000)}`);
    assert.deepEqual([end.status, end.finish_reason], ['failed', 'context_overflow']);
    assert.equal(end.error.code, 'context_overflow');
  });

  test('a server that refuses each prompt for its length', async () => {
    const view = await fixture.session();
    const long = once({ status: 400, error_code: 'context_length_exceeded', error_message: 'too long' });
    const { end } = await view.run(`refused-for-length ${long}`);
    assert.deepEqual([end.status, end.finish_reason], ['failed', 'context_overflow']);
    assert.equal(end.error.code, 'context_overflow');
    const calls = (await fixture.requests('refused-for-length')).length;
    assert.ok(calls >= 1 && calls <= 4, `${calls} model calls`);
    assert.equal((await view.run(steps({ text: 'on we go' }))).end.status, 'completed');
  });

  test('an outage that outlasts max_model_retry_s', async () => {
    const view = await fixture.session({ max_model_retry_s: 2 });
    assert.equal((await fixture.rest.detail(view.session)).session_setup.max_model_retry_s, 2);
    const { end } = await view.run(once({ status: 503 }));
    assert.deepEqual([end.status, end.finish_reason], ['failed', 'failed']);
    assert.deepEqual([end.error.code, end.error.retryable], ['model_unavailable', true]);
    const attempts = view.events.filter((e) => e.data.patch_type === 'retry').map((e) => e.data.attempt);
    assert.ok(attempts.length >= 1 && attempts.length <= 3, JSON.stringify(attempts));
    assert.ok(view.events.some((e) => e.name === 'session:updated' && e.data.waiting_reason === 'model_unavailable'));
    assert.equal((await view.run(steps({ text: 'on we go' }))).end.status, 'completed');
  });

  test('a stop while the model is waited for', async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(once({ status: 429, retry_after: 600 }));
    await view.patch('retry');
    await view.stop();
    assert.equal((await view.ended(chat)).finish_reason, 'interrupted');
  });

  test('an unknown model', async () => {
    const answer = await fixture.rest.call('POST', '/api/sessions', { model: 'no-such-model' });
    if (answer.status === 200) { // then the message is what is refused
      const view = await fixture.follow(answer.body.session_id);
      assert.equal((await view.send('hello')).error.code, 'unknown_model');
    } else {
      assert.equal(answer.status, 422);
      assert.equal(answer.body.code, 'unknown_model');
    }
  });

  test('a model that never stops to fail', async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(once({ status: 500 }));
    await view.patch('retry', (p) => p.attempt === 3);
    await view.stop();
    assert.equal((await view.ended(chat)).finish_reason, 'interrupted');
  });
});

describe('what reaches the model', () => {
  const pixel = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

  test('images come as data URLs, and are served to the user', async () => {
    const view = await fixture.session();
    const { end, turn_id: turn } = await view.run([
      { type: 'text', text: `picture-5512 ${steps({ text: 'I see a pixel' })}` }, { type: 'image_url', image_url: { url: pixel } },
    ]);
    assert.equal(end.status, 'completed');
    const user = (await fixture.requests('picture-5512'))[0].body.messages.at(-1);
    assert.deepEqual(user.content.find((p) => p.type === 'image_url').image_url.url, pixel);
    const stored = (await fixture.rest.messages(view.session)).find((m) => m.turn_id === turn);
    const image = stored.blocks.find((b) => b.type === 'image');
    const served = await fetch(fixture.server.url + image.content, { headers: { authorization: `Bearer ${fixture.server.key}` } });
    assert.equal(served.status, 200);
    assert.equal(Buffer.from(await served.arrayBuffer()).toString('base64'), pixel.split(',')[1]);
    assert.equal((await fetch(fixture.server.url + image.content)).status, 401);
  });

  test('the conversation with every call and its result, streamed with usage', async () => {
    const view = await fixture.session();
    await view.run(
      steps({ text: 'I write', calls: [call('Write', { file_path: 'x', content: 'history-8841' })] }, { text: 'done writing' }),
    );
    await view.run(steps({ text: 'second-8841' }));
    const { body } = (await fixture.requests('history-8841')).at(-1);
    assert.deepEqual(body.messages.map((m) => m.role), ['system', 'user', 'assistant', 'tool', 'assistant', 'user']);
    assert.equal(body.messages[2].tool_calls[0].id, body.messages[3].tool_call_id);
    assert.equal(body.stream, true);
    assert.equal(body.stream_options.include_usage, true);
    const names = body.tools.map((t) => t.function.name);
    for (const name of ['Bash', 'Read', 'Write', 'Edit', 'Glob', 'Grep', 'AskUserQuestion', 'TaskCreate'])
      assert.ok(names.includes(name), name);
  });

  test('the text of an interrupted turn', async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(steps({ text: 'cut-7431 here and not there', hold: true, hold_after: 2 }));
    await view.said('cut-7431');
    await view.stop();
    await view.ended(chat);
    await view.run(steps({ text: 'and on' }));
    const last = (await fixture.requests('cut-7431')).at(-1).body.messages;
    assert.match(JSON.stringify(last.find((m) => m.role === 'assistant')), /cut-7431/);
  });

  test('in planning, only tools that look', async () => {
    const view = await fixture.session();
    await view.run(`plan-3321 ${steps({ text: 'a plan' })}`, { mode: 'planning' });
    const names = (await fixture.requests('plan-3321')).at(-1).body.tools.map((t) => t.function.name).sort();
    assert.deepEqual(names, ['AskUserQuestion', 'Glob', 'Grep', 'Read', 'SubmitPlan']);
  });
});

test('usage is summed over the model calls of a chat', async () => {
  const view = await fixture.session();
  const usage = (i, o) => ({ prompt_tokens: i, completion_tokens: o, total_tokens: i + o });
  const { end, turns } = await view.run(
    steps({ ...bash('true'), usage: usage(100, 7) }, { ...bash('true'), usage: usage(200, 8) }, { text: 'end', usage: usage(300, 9) }),
  );
  const tokens = ({ cost_usd: _, ...rest }) => rest; // a stack may know prices
  assert.deepEqual(tokens(end.usage), { input_tokens: 600, output_tokens: 24 });
  const counts = [[100, 7], [200, 8], [300, 9]].map(([i, o]) => ({ input_tokens: i, output_tokens: o }));
  assert.deepEqual(turns.map((t) => tokens(t.usage)), counts);
  assert.equal(end.steps, 3);
  assert.ok(end.duration_ms >= 0);
});

describe('thinking', () => {
  test('is streamed and stored as a block of its own', async () => {
    const view = await fixture.session();
    const { turns } = await view.run(steps({ thinking: 'let me see', text: 'there it is' }));
    const stored = (await fixture.rest.messages(view.session)).find((m) => m.turn_id === turns[0].id);
    const blocks = stored.blocks.map((b) => [b.type, b.content]);
    assert.deepEqual(blocks.at(-1), ['text', 'there it is']);
    if (blocks.length > 1) assert.deepEqual(blocks[0], ['thinking', 'let me see']);
  });
});

describe('headless', () => {
  const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false };

  test('the result comes with the end', async () => {
    const view = await fixture.session();
    const { end } = await view.run(steps(bash('echo work'), { text: 'the whole result' }), { headless: true });
    assert.deepEqual([end.status, end.finish_reason], ['completed', 'completed']);
    assert.deepEqual(end.result, { output: 'the whole result' });
    assert.equal(view.events.find((e) => e.name === 'chat:start').data.headless, true);
  });

  test('a result that follows its schema', async () => {
    const view = await fixture.session();
    const { end } = await view.run(steps(bash('echo work'), { text: ' {"n": 42} ' }), { headless: true, output_schema: schema });
    assert.deepEqual(end.result, { output: { n: 42 }, schema });
  });

  test('an answer that does not fit gets another try, with the errors', async () => {
    const view = await fixture.session();
    const { end, turns } = await view.run(steps({ text: 'schema-6673' }, { text: '{"n": "x"}' }, { text: '{"n": 1}' }), {
      output_schema: schema,
    });
    assert.deepEqual(end.result, { output: { n: 1 }, schema });
    assert.equal(turns.length, 3);
    const last = (await fixture.requests('schema-6673')).at(-1).body.messages;
    assert.ok(last.filter((m) => JSON.stringify(m).includes('does not follow')).length >= 2);
  });

  test('three answers that do not fit end it', async () => {
    const view = await fixture.session();
    const { end, turns } = await view.run(order({ steps: [{ text: 'no' }, { text: '{}' }, { text: '[1]' }], closing: '{"n": 1}' }), {
      output_schema: schema,
    });
    assert.deepEqual([end.status, end.finish_reason], ['failed', 'schema_mismatch']);
    assert.equal(end.error.code, 'schema_mismatch');
    assert.equal(end.result, undefined);
    assert.equal(turns.length, 3);
  });

  test('a later chat of the session is not headless', async () => {
    const view = await fixture.session();
    await view.run(steps({ text: '{"n": 1}' }), { output_schema: schema });
    const { end } = await view.run(steps({ text: 'free text' }));
    assert.equal(end.finish_reason, 'completed');
    assert.equal(end.result, undefined);
  });

  test('a schema of draft-07', async () => {
    const view = await fixture.session();
    const old = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      definitions: { n: { type: 'number', exclusiveMinimum: 0 } },
      $ref: '#/definitions/n',
    };
    const { end } = await view.run(steps({ text: '-1' }, { text: '0.5' }), { output_schema: old });
    assert.equal(end.result.output, 0.5);
  });
});

test('hostile text goes through unharmed', async () => {
  const view = await fixture.session();
  const text = 'nul\u0000 lone\ud800 bell\u0007 line\u2028 rtl\u202e end🥊';
  const { end, turns } = await view.run(`${text} ${steps({ text: 'a\u0000b 🥊 \u2028 end', chunk: 1 })}`);
  assert.equal(end.status, 'completed');
  assert.match(view.rules.text(turns[0].id), /^a.?b 🥊 \u2028 end$/);
});
