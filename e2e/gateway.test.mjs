// The model gateway with the official clients of OpenAI and Anthropic (docs/gateway.md).
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { Fixture, order, steps } from './lib/fixture.mjs';
import { given } from './lib/stack.mjs';

let fixture, server, key, client;
before(async () => {
  fixture = await Fixture.start();
  server = fixture.server;
  key = server.secret('gateway-key');
  client = new OpenAI({ baseURL: `${server.gatewayURL}/v1`, apiKey: key, maxRetries: 0 });
});
after(() => fixture?.close());

const ask = (text, more = {}) => client.chat.completions.create({ model: 'gpt-4o', messages: [{ role: 'user', content: text }], ...more });
const tools = [
  {
    type: 'function',
    function: { name: 'Bash', description: 'runs', parameters: { type: 'object', properties: { command: { type: 'string' } } } },
  },
];

describe('the Responses interface with the client of OpenAI', () => {
  const respond = (input, more = {}) => client.responses.create({ model: 'gpt-4o', input, ...more });
  const bash = {
    type: 'function', name: 'Bash', parameters: { type: 'object', properties: { command: { type: 'string' } } }, strict: false,
  };

  test('a response, and what the model is given', async () => {
    const answer = await respond(steps({ text: 'plain words' }), { instructions: 'of-this-responses-test' });
    assert.deepEqual([answer.output_text, answer.status, answer.model, answer.store], ['plain words', 'completed', 'gpt-4o', false]);
    assert.ok(answer.usage.total_tokens > 0);
    const { body } = (await fixture.requests('of-this-responses-test')).at(-1);
    assert.deepEqual(body.messages[0], { role: 'system', content: 'of-this-responses-test' });
  });

  test('a conversation with a tool, streamed and not', async () => {
    const script = steps(
      { thinking: 'let me see', text: 'I run it', calls: [{ name: 'Bash', arguments: { command: 'true' } }] }, { text: 'it ran' },
    );
    const input = [{ role: 'user', content: script }];
    const whole = await respond(input, { tools: [bash] });
    const stream = client.responses.stream({ model: 'gpt-4o', input, tools: [bash] });
    const kinds = new Set();
    let thought = '';
    for await (const event of stream) {
      kinds.add(event.type);
      if (event.type === 'response.reasoning_text.delta') thought += event.delta;
    }
    assert.equal(thought, 'let me see');
    for (const kind of ['response.created', 'response.output_text.delta', 'response.function_call_arguments.done', 'response.completed']) {
      assert.ok(kinds.has(kind), `${kind} of ${[...kinds]}`);
    }
    for (const answer of [whole, await stream.finalResponse()]) {
      assert.deepEqual(answer.output.map((item) => item.type), ['reasoning', 'message', 'function_call']);
      const called = answer.output.at(-1);
      assert.deepEqual([called.name, JSON.parse(called.arguments)], ['Bash', { command: 'true' }]);
      const result = { type: 'function_call_output', call_id: called.call_id, output: 'done' };
      const next = await respond([...input, ...answer.output, result], { tools: [bash] });
      assert.equal(next.output_text, 'it ran');
    }
  });

  test('a custom tool, streamed and not', async () => {
    const patch = { type: 'custom', name: 'apply_patch', description: 'edits', format: { type: 'text' } };
    const script = steps({ calls: [{ name: 'apply_patch', arguments: { input: '*** Begin Patch' } }] }, { text: 'it is applied' });
    const input = [{ role: 'user', content: script }];
    const more = { tools: [patch, { type: 'web_search' }], include: ['reasoning.encrypted_content'], store: false };
    const { data: whole, response } = await respond(input, more).withResponse();
    assert.match(response.headers.get('x-everloop-omitted-tools'), /web_search/);
    const stream = client.responses.stream({ model: 'gpt-4o', input, ...more });
    const kinds = [];
    for await (const event of stream) kinds.push(event.type);
    assert.ok(kinds.includes('response.custom_tool_call_input.done'), `${kinds}`);
    for (const answer of [whole, await stream.finalResponse()]) {
      const called = answer.output.at(-1);
      assert.deepEqual([called.type, called.name, called.input], ['custom_tool_call', 'apply_patch', '*** Begin Patch']);
      const result = { type: 'custom_tool_call_output', call_id: called.call_id, output: 'done' };
      assert.equal((await respond([...input, ...answer.output, result], more)).output_text, 'it is applied');
    }
  });

  test('errors, before and in a stream', async () => {
    await assert.rejects(respond('x', { model: 'no-such' }), (e) => e.status === 404 && e.code === 'model_not_found');
    await assert.rejects(respond('x', { previous_response_id: 'resp_1' }), (e) => e.status === 400 && /keeps no responses/.test(e.message));
    await assert.rejects(respond(order({ steps: [{ status: 429, retry_after: 3 }] })), (e) => e.headers.get('retry-after') === '3');
    const events = [];
    const broken = await respond(order({ steps: [{ text: 'many words that end', cut_after: 2 }] }), { stream: true });
    for await (const event of broken) events.push(event);
    assert.equal(events.at(-1).type, 'response.failed');
    assert.equal(events.at(-1).response.error.code, 'source_cut');
  });
});

describe('the client of OpenAI', () => {
  test('models, the default one first', async () => {
    const { data } = await client.models.list();
    assert.equal(data[0].id, 'everloop-demo');
    assert.equal(data[0].context_window, 128_000);
    assert.ok(data[0].aliases.includes('gpt-4o'));
    assert.equal((await client.models.retrieve('gpt-4o')).id, 'everloop-demo');
  });

  test('a completion under an alias', async () => {
    const { data, response } = await ask(steps({ text: 'plain words' })).withResponse();
    assert.equal(data.choices[0].message.content, 'plain words');
    assert.equal(data.model, 'gpt-4o');
    assert.equal(response.headers.get('x-resolved-model'), 'everloop-demo');
    assert.ok(data.usage.total_tokens > 0);
  });

  test('a stream, with usage only where it is asked for', async () => {
    for (const more of [{}, { stream_options: { include_usage: true } }]) {
      let text = '';
      let usage = 0;
      let finish;
      for await (const chunk of await ask(steps({ text: 'words in a stream' }), { stream: true, ...more })) {
        assert.equal(chunk.model, 'gpt-4o');
        text += chunk.choices[0]?.delta?.content ?? '';
        finish ??= chunk.choices[0]?.finish_reason ?? undefined;
        if (chunk.usage) usage++;
      }
      assert.deepEqual([text, finish, usage], ['words in a stream', 'stop', more.stream_options ? 1 : 0]);
    }
  });

  test('tool calls, streamed and not', async () => {
    const script = steps({ calls: [{ name: 'Bash', arguments: { command: 'true' } }] });
    const { choices } = await ask(script, { tools });
    assert.equal(choices[0].finish_reason, 'tool_calls');
    assert.deepEqual(JSON.parse(choices[0].message.tool_calls[0].function.arguments), { command: 'true' });
    const stream = client.chat.completions.stream({ model: 'everloop-demo', tools, messages: [{ role: 'user', content: script }] });
    const [call] = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
    assert.deepEqual([call.function.name, JSON.parse(call.function.arguments)], ['Bash', { command: 'true' }]);
  });

  test('images and unknown fields reach the model', async () => {
    const content = [{ type: 'text', text: 'look' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }];
    await client.chat.completions.create({
      model: 'everloop-demo-echo', messages: [{ role: 'user', content }], chat_template_kwargs: { enable_thinking: false }, x_odd: [1],
    });
    const { body } = (await fixture.requests('iVBORw0KGgo=')).at(-1);
    assert.deepEqual(body.messages[0].content, content);
    assert.deepEqual([body.chat_template_kwargs, body.x_odd], [{ enable_thinking: false }, [1]]);
  });

  test('errors', async () => {
    await assert.rejects(ask('x', { model: 'no-such' }), (e) => e.status === 404 && e.code === 'model_not_found');
    const other = new OpenAI({ baseURL: client.baseURL, apiKey: 'wrong', maxRetries: 0 });
    await assert.rejects(other.models.list(), (e) => e.status === 401 && e.code === 'invalid_api_key');
    await assert.rejects(
      ask(order({ steps: [{ status: 429, retry_after: 3 }] })),
      (e) => e.status === 429 && e.headers.get('retry-after') === '3',
    );
    const broken = await ask(order({ steps: [{ text: 'many words that end', cut_after: 2 }] }), { stream: true });
    await assert.rejects(async () => { for await (const chunk of broken) assert.ok(chunk); }, /source_cut|ended the stream/);
  });

  test('a client that leaves ends the request of the source', async () => {
    const stream = await ask(`leaves-early ${steps({ text: 'some words', hold: true })}`, { stream: true });
    for await (const chunk of stream) { assert.ok(chunk); break; }
    stream.controller.abort();
    for (;;) {
      const [entry] = await fixture.requests('leaves-early');
      if (entry.outcome === 'client gone') break;
    }
  });
});

describe('the client of Anthropic', () => {
  const ofAnthropic = (more) => new Anthropic({ baseURL: server.gatewayURL, apiKey: key, authToken: null, maxRetries: 0, ...more });
  const message = (text, more) => ({ model: 'claude-haiku-4-5', max_tokens: 1000, messages: [{ role: 'user', content: text }], ...more });
  const Bash = { name: 'Bash', description: 'runs', input_schema: { type: 'object', properties: { command: { type: 'string' } } } };

  test('a message with a system prompt', async () => {
    const answer = await ofAnthropic().messages.create(message(steps({ text: 'plain words' }), { system: 'of-this-anthropic-test' }));
    assert.deepEqual(answer.content, [{ type: 'text', text: 'plain words' }]);
    assert.deepEqual([answer.role, answer.model, answer.stop_reason], ['assistant', 'claude-haiku-4-5', 'end_turn']);
    assert.ok(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0 && answer._request_id);
    const { body } = (await fixture.requests('of-this-anthropic-test')).at(-1);
    assert.deepEqual(body.messages[0], { role: 'system', content: 'of-this-anthropic-test' });
  });

  test('a stream', async () => {
    const seen = new Set();
    const stream = ofAnthropic().messages.stream(message(steps({ text: 'words in a stream' })));
    for await (const event of stream) seen.add(event.type);
    const answer = await stream.finalMessage();
    assert.deepEqual(answer.content, [{ type: 'text', text: 'words in a stream' }]);
    assert.equal(answer.stop_reason, 'end_turn');
    assert.ok(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0);
    assert.deepEqual(
      [...seen],
      ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop'],
    );
  });

  test('a tool and its result with an image, streamed and not', async () => {
    const anthropic = ofAnthropic();
    const asked = message(steps({ calls: [{ name: 'Bash', arguments: { command: 'true' } }] }, { text: 'the tool ran' }), {
      tools: [Bash],
    });
    const streamed = await anthropic.messages.stream(asked).finalMessage();
    const answer = await anthropic.messages.create(asked);
    for (const { content, stop_reason } of [streamed, answer]) {
      assert.equal(stop_reason, 'tool_use');
      const call = content.find((block) => block.type === 'tool_use');
      assert.deepEqual([call.name, call.input], ['Bash', { command: 'true' }]);
      const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'YW50aHJvcGlj' } };
      const result = { type: 'tool_result', tool_use_id: call.id, content: [{ type: 'text', text: 'done' }, image] };
      await anthropic.messages.create({
        ...asked,
        messages: [...asked.messages, { role: 'assistant', content }, { role: 'user', content: [result] }],
      });
      const { body } = (await fixture.requests('YW50aHJvcGlj')).at(-1);
      assert.deepEqual(body.messages.slice(2), [
        { role: 'tool', tool_call_id: call.id, content: 'done' },
        { role: 'user', content: [
          { type: 'text', text: `Image of the tool result ${call.id}:` },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,YW50aHJvcGlj' } },
        ] },
      ]);
    }
  });

  test('the tokens of a message', async () => {
    const count = (more) => ofAnthropic().messages.countTokens({ model: 'claude-haiku-4-5', messages: [{ role: 'user', content: 'x' }], ...more });
    const [short, long] = [await count({}), await count({ system: 'word '.repeat(2000), tools: [Bash] })];
    assert.ok(short.input_tokens > 0 && long.input_tokens > short.input_tokens + 1000, `${short.input_tokens} ${long.input_tokens}`);
  });

  test('thinking has a signature that is read back', async () => {
    const asked = message(steps({ thinking: 'hm', calls: [{ name: 'Bash', arguments: { command: 'true' } }] }, { text: 'it ran' }), {
      tools: [Bash], system: 'of-this-signature-test',
    });
    for (const { content } of [await ofAnthropic().messages.create(asked), await ofAnthropic().messages.stream(asked).finalMessage()]) {
      const [thinking, call] = [content[0], content.find((block) => block.type === 'tool_use')];
      assert.equal(thinking.thinking, 'hm');
      assert.match(thinking.signature, /^everloop-1:/);
      const result = { type: 'tool_result', tool_use_id: call.id, content: 'done' };
      const next = await ofAnthropic().messages.create({
        ...asked, messages: [...asked.messages, { role: 'assistant', content }, { role: 'user', content: [result] }],
      });
      assert.equal(next.content[0].text, 'it ran');
      const { body } = (await fixture.requests('of-this-signature-test')).at(-1);
      assert.equal(body.messages[2].reasoning_content, 'hm');
    }
  });

  test('the tool runner, streamed and not', async () => {
    for (const stream of [false, true]) {
      let ran = 0;
      const runner = ofAnthropic().beta.messages.toolRunner({
        ...message(steps({ calls: [{ name: 'Bash', arguments: { command: 'true' } }] }, { text: 'the tool ran' })),
        tools: [{ ...Bash, run: async (input) => { ran++; return input.command; }, parse: (input) => input }], stream,
      });
      const last = await runner;
      assert.equal(last.content.find((block) => block.type === 'text').text, 'the tool ran');
      assert.equal(ran, 1);
    }
  });

  test('an image', async () => {
    const source = { type: 'base64', media_type: 'image/png', data: 'aW1hZ2Utb2YtYQ==' };
    const content = [{ type: 'text', text: 'look' }, { type: 'image', source }];
    await ofAnthropic().messages.create({ ...message('', { model: 'everloop-demo-echo' }), messages: [{ role: 'user', content }] });
    const { body } = (await fixture.requests('aW1hZ2Utb2YtYQ==')).at(-1);
    assert.equal(body.messages[0].content[1].image_url.url, 'data:image/png;base64,aW1hZ2Utb2YtYQ==');
  });

  test('errors', async () => {
    const anthropic = ofAnthropic();
    const fails = (asked, status, type, words, by = anthropic) => assert.rejects(by.messages.create(asked), (e) => {
      assert.deepEqual([e.status, e.error.error.type], [status, type]);
      assert.match(e.message, words);
      return true;
    });
    await fails(message('x'), 401, 'authentication_error', /x-api-key/, ofAnthropic({ apiKey: 'wrong' }));
    await fails(message('x', { model: 'no-such' }), 404, 'not_found_error', /no-such/);
    await fails(message('x', { container: 'c' }), 400, 'invalid_request_error', /container/);
    await fails(message(order({ steps: [{ status: 429, retry_after: 3 }] })), 429, 'rate_limit_error', /./);
    const broken = anthropic.messages.stream(message(order({ steps: [{ text: 'many words that end', cut_after: 2 }] })));
    await assert.rejects(broken.finalMessage(), /ended the stream/);
  });
});

test('health needs no key', async () => {
  const body = await fetch(`${server.gatewayURL}/health`).then((r) => r.json());
  assert.equal(body.ok, true);
  assert.deepEqual([body.sources[0].name, body.sources[0].kind, body.sources[0].healthy], ['demo', 'demo', true]);
});

test('the agent works through the gateway, and says that the model is a demo', async () => {
  const usage = () => fetch(`${server.gatewayURL}/admin/usage`, { headers: { authorization: `Bearer ${key}` } }).then((r) => r.json());
  const before = (await usage()).usage.operator?.['everloop-demo']?.requests ?? 0;
  const view = await fixture.session();
  assert.equal((await view.run(steps({ text: 'through the gateway' }))).end.status, 'completed');
  assert.ok((await usage()).usage.operator['everloop-demo'].requests > before);
  if (!given) assert.match(server.log(200_000), /DEMO: scripted/); // in the summary of `everloop up`
});

test('the management interface writes config.yaml and keeps its comments', async () => {
  const admin = (more) => fetch(`${server.gatewayURL}/admin/config`, { ...more, headers: { authorization: `Bearer ${key}` } });
  const config = await admin().then((r) => r.json());
  config.aliases['of-this-test'] = 'everloop-demo-echo';
  assert.equal((await admin({ method: 'PUT', body: JSON.stringify(config) })).status, 200);
  assert.equal((await client.models.retrieve('of-this-test')).id, 'everloop-demo-echo');
  const text = readFileSync(join(server.dir, 'data/config/config.yaml'), 'utf8');
  assert.match(text, /# Configuration of the model gateway/);
  assert.match(text, /of-this-test: everloop-demo-echo/);
});

test('a new key in config.yaml opens the gateway without a restart', async () => {
  const file = join(server.dir, 'data/config/config.yaml');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.replace('keys: []', 'keys: [{name: small, key: key-of-this-one-test, models: [everloop-demo-echo]}]'));
  const small = new OpenAI({ baseURL: client.baseURL, apiKey: 'key-of-this-one-test', maxRetries: 0 });
  for (;;) {
    const list = await small.models.list().catch((e) => { if (e.status !== 401) throw e; });
    if (!list) continue;
    assert.deepEqual(list.data.map((m) => m.id), ['everloop-demo-echo']);
    break;
  }
  writeFileSync(file, text);
});

// It stands for llama-server: it loads for two looks, and says who it is.
const llama = `#!/usr/bin/env node
const { createServer } = require('node:http');
const value = (name) => process.argv[process.argv.indexOf(name) + 1];
let looks = 0;
createServer((req, res) => {
  const send = (status, body) => res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  if (req.url === '/health') return send(++looks > 2 ? 200 : 503, {});
  if (req.headers.authorization !== 'Bearer ' + process.env.LLAMA_API_KEY) return send(401, {});
  if (req.url === '/v1/models') return send(200, { data: [{ id: value('--alias') }] });
  const message = { role: 'assistant', content: String(process.pid) };
  send(200, { model: 'x', choices: [{ index: 0, message, finish_reason: 'stop' }] });
}).listen(Number(value('--port')), value('--host'));
`;

test('a model on this machine: the gateway runs its server', async () => {
  const dir = join(server.dir, 'models');
  mkdirSync(dir);
  const [program, model] = [join(dir, 'llama'), join(dir, 'small.gguf')];
  writeFileSync(program, llama, { mode: 0o755 });
  writeFileSync(model, 'GGUF');

  const file = join(server.dir, 'data/config/config.yaml');
  const text = readFileSync(file, 'utf8');
  const source = `  - {name: local, kind: llama_server, model_file: ${model}, program: ${program}, slots: 2}`;
  writeFileSync(file, text.replace(/^sources:$/m, `sources:\n${source}`));

  let answer;
  while (!answer) {
    answer = await ask('who is it', { model: 'small' }).catch((e) => {
      if (!['model_not_found', 'source_starting'].includes(e.code)) throw e;
    });
  }
  assert.equal(answer.model, 'small');
  const pid = Number(answer.choices[0].message.content);
  process.kill(pid, 0); // it runs

  const health = await fetch(`${server.gatewayURL}/health`).then((r) => r.json());
  const [local] = health.sources;
  assert.deepEqual([local.name, local.healthy, local.server], ['local', true, { state: 'ready', restarts: 0 }]);

  const admin = (more) => fetch(`${server.gatewayURL}/admin/config`, { ...more, headers: { authorization: `Bearer ${key}` } });
  const config = await admin().then((r) => r.json());
  config.sources[0].program = '/bin/sh';
  const refused = await admin({ method: 'PUT', body: JSON.stringify(config) });
  assert.deepEqual([refused.status, (await refused.json()).error.code], [403, 'only_in_file']);

  process.kill(pid, 'SIGKILL');
  let next = pid;
  while (next === pid) {
    next = await ask('who is it', { model: 'small' }).then((a) => Number(a.choices[0].message.content), (e) => {
      if (!['source_unavailable', 'source_starting'].includes(e.code)) throw e;
      return pid;
    });
  }

  writeFileSync(file, text);
  for (;;) {
    try { process.kill(next, 0); } catch { break; }
    await fetch(`${server.gatewayURL}/health`);
  }
});
