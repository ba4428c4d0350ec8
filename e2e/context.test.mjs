// What the model is sent of a conversation, and how it is made to fit: compaction,
// context statistics, tokenization (docs/context.md).
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

const window = 8000;
const filler = (tokens) => 'abc def '.repeat(tokens / 2);
const small = (compaction) => fixture.session({ model: 'everloop-demo-small', ...(compaction ? { session_setup: { compaction } } : {}) });
const plain = (i, tokens) => order({ said: `message ${i} ${filler(tokens)}`, steps: [{ text: `answer ${i}` }] });
const entries = async (view) => (await fixture.rest.messages(view.session)).filter((m) => m.kind === 'compaction');
const stats = (view) => fixture.rest.get(`/api/sessions/${view.session}/context-stats`);

// grow has a conversation of n chats that each take so many tokens.
async function grow(view, n, tokens, from = 0) {
  for (let i = from; i < from + n; i++) {
    const { end } = await view.run(plain(i, tokens));
    assert.equal(end.finish_reason, 'completed', JSON.stringify(end));
  }
}

// fill has chats until the model server reports a prompt of about so many tokens,
// whatever the service itself says in it. The first says how its summary is made.
async function fill(view, target, summary, said = 'message 0') {
  let reported = 0;
  for (let i = 0; reported < target - 60; i++) {
    const { end } = await view.run(
      i === 0 ? order({ said, steps: [{ text: 'answer 0' }], summary }) : plain(i, 2 * Math.floor(Math.min(700, target - reported) / 2)),
    );
    assert.equal(end.finish_reason, 'completed', JSON.stringify(end));
    reported = (await fixture.rest.messages(view.session)).filter((m) => m.role === 'assistant').at(-1).usage.input_tokens;
  }
  assert.deepEqual(await entries(view), [], 'nothing is summarised below the threshold');
}

// summaryAsked waits until the model is asked to summarise a text.
const summaryAsked = (text) => eventually('a request for a summary', async () =>
  (await fixture.requests('Write the summary now')).some((r) => JSON.stringify(r.body).includes(text)));

describe('automatic compaction', () => {
  test('comes before the call that would pass the threshold', async () => {
    const view = await small();
    await grow(view, 8, 900);
    const all = await fixture.rest.messages(view.session);
    const found = all.filter((m) => m.kind === 'compaction');
    assert.ok(found.length >= 1);
    const [c] = found;
    assert.equal(c.role, 'system');
    assert.equal(c.trigger, 'auto');
    assert.equal(c.status, 'completed');
    assert.ok(c.archived_count > 0);
    assert.ok(c.tokens_before > c.tokens_after && c.tokens_after < 0.8 * window);
    assert.ok(c.saved_ratio > 0 && c.saved_ratio < 1);
    assert.match(c.summary_full, /message 0/);
    assert.ok(c.summary_full.startsWith(c.summary_preview.replace(/…$/, '')));
    assert.ok(c.usage.input_tokens > 0);
    assert.equal(all[c.sequence - 1].role, 'user');
    assert.equal(all[c.sequence + 1].role, 'assistant');
    const compacted = view.events.find((e) => e.name === 'session:compacted').data;
    assert.equal(compacted.turn.compaction_id, c.compaction_id);
    assert.deepEqual({ ...compacted.turn, blocks: [], tool_calls: [] }, { ...c, blocks: [], tool_calls: [] });
    assert.equal(all.filter((m) => m.role === 'user').length, 8, 'archived turns stay');
    // The model was sent the summary in place of the archived turns, and the
    // last ones as they were.
    const calls = (await fixture.requests('answer 7')).concat(await fixture.requests('message 7'));
    const { body } = calls.at(-1);
    const texts = body.messages.map((m) => JSON.stringify(m.content));
    assert.ok(body.tools.length > 0);
    assert.match(texts[1], /system-reminder.*summarised/);
    assert.ok(!texts.slice(2).some((t) => t.includes('message 0')));
    // Summaries carry no tools.
    for (const r of await fixture.requests('Write the summary now')) assert.equal(r.body.tools, undefined);
  });

  test('happens inside a loop, which then goes on where it was', async () => {
    const view = await small();
    const { end, calls } = await view.run(
      order({
        said: 'count',
        loop: { n: 25, call: { name: 'Bash', arguments: { command: "echo {{i}} >> n; head -c 2400 /dev/zero | tr '\\0' x" } } },
        closing: 'counted',
      }),
    );
    assert.equal(end.finish_reason, 'completed', JSON.stringify(end));
    assert.equal(end.steps, 26);
    assert.equal(calls.length, 25);
    assert.equal((await fixture.rest.file(view.session, 'n')).trim().split('\n').length, 25);
    assert.ok((await entries(view)).length >= 1);
    const sum = (await fixture.rest.messages(view.session)).reduce((n, m) => n + m.usage.input_tokens, 0);
    assert.equal(end.usage.input_tokens, sum, "the chat's usage holds that of its summaries");
  });

  test('is left out when the session says so, and then a refusal compacts', async () => {
    const view = await small({ auto: false });
    assert.deepEqual((await fixture.rest.detail(view.session)).session_setup.compaction, { auto: false, threshold_pct: 80, keep_last: 6 });
    await grow(view, 9, 900);
    const found = await entries(view);
    assert.ok(found.length >= 1);
    assert.ok(found.every((c) => c.trigger === 'overflow'));
  });

  test('respects the threshold and the turns to keep of the session', async () => {
    const view = await small({ threshold_pct: 60, keep_last: 3 });
    await grow(view, 6, 700);
    const all = await fixture.rest.messages(view.session);
    const [c] = all.filter((m) => m.kind === 'compaction');
    assert.ok(c.tokens_before > 0.6 * window && c.tokens_before < 0.8 * window, `${c.tokens_before}`);
    assert.equal(c.archived_count, c.sequence - 3);
    const bad = await fixture.rest.call('POST', '/api/sessions', { session_setup: { compaction: { threshold_pct: 5 } } });
    assert.equal(bad.status, 422);
  });

  test('two in a row that do not help end the chat', async () => {
    const view = await small();
    const { end } = await view.run(order({ said: filler(4800), loop: { n: 5, call: { name: 'Bash', arguments: { command: 'true' } } } }));
    assert.equal(end.status, 'failed');
    assert.equal(end.finish_reason, 'context_overflow');
    assert.equal(end.error.code, 'context_overflow');
    assert.equal((await view.run(plain(1, 10))).end.finish_reason, 'completed', 'the session can go on');
  });

  test('a message larger than the window ends its chat with the cause', async () => {
    const view = await small();
    const { end } = await view.run(order({ said: filler(9000), steps: [{ text: 'no' }] }));
    assert.equal(end.finish_reason, 'context_overflow');
  });

  test('a summary that cannot be made does not lose the chat', async () => {
    const view = await small();
    await fill(view, 5600, { status: 400, error_message: 'no summaries today' });
    const { end } = await view.run(order({ said: `x ${filler(1400)}`, steps: [{ text: 'went on' }] }));
    assert.equal(end.finish_reason, 'completed', JSON.stringify(end));
    const [c] = await entries(view);
    assert.equal(c.status, 'failed');
    assert.match(c.failure_reason, /no summaries today/);
    assert.equal(view.rules.text(view.rules.assistants(end.chat_id)[0].id), 'went on');
  });

  test('works in planning mode', async () => {
    const view = await small();
    for (let i = 0; i < 8; i++) {
      const { end } = await view.run(plain(i, 900), { mode: 'planning' });
      assert.equal(end.finish_reason, 'completed');
    }
    assert.ok((await entries(view)).length >= 1);
  });
});

describe('compaction by hand', () => {
  test('over REST gives the result', async () => {
    const view = await small({ keep_last: 2 });
    const none = await fixture.rest.post(`/api/sessions/${view.session}/compact`);
    assert.equal(none.status, 'skipped');
    assert.ok(none.reason);
    await grow(view, 4, 300);
    const result = await fixture.rest.post(`/api/sessions/${view.session}/compact`);
    assert.equal(result.status, 'completed', JSON.stringify(result));
    assert.equal(result.archived_count, 6);
    assert.ok(result.tokens_before > result.tokens_after);
    assert.ok(result.duration_ms >= 0 && result.summary_preview);
    const [c] = await entries(view);
    assert.equal(c.id, result.compaction_id);
    assert.equal(c.trigger, 'manual');
    await view.wait('session:compacted', (e) => e.name === 'session:compacted');
    assert.equal((await fixture.rest.post(`/api/sessions/${view.session}/compact`)).status, 'skipped');
    await grow(view, 1, 10, 9);
    assert.equal((await fixture.rest.call('POST', '/api/sessions/01900000-0000-7000-8000-000000000000/compact')).status, 404);
  });

  test('keeps the newest plan word for word, also the second time', async () => {
    const view = await small({ keep_last: 2 });
    const plan = {
      title: 'Rename the module',
      steps: [{ id: 'a', title: 'Find the uses', detail: 'grep -rn for each of the 17 old names' }],
    };
    await view.run(
      order({ steps: [{ calls: [call('SubmitPlan', plan)] }, { text: 'is it right?' }], summary: { text: 'There was talk of a module.' } }),
      { mode: 'planning' },
    );
    for (const round of [0, 4]) {
      await grow(view, 4, 300, round);
      assert.equal((await fixture.rest.post(`/api/sessions/${view.session}/compact`)).status, 'completed');
    }
    const { end } = await view.run('carry it out [[now]]');
    assert.equal(end.finish_reason, 'completed');
    const { body } = (await fixture.requests('carry it out [[now]]')).at(-1);
    const summary = body.messages.map((m) => JSON.stringify(m.content)).find((text) => text.includes('summarised'));
    assert.ok(summary.includes('each of the 17 old names'), summary);
    assert.equal(summary.split('17 old names').length, 2, 'it is there twice');
  });

  test('over the socket is acknowledged and reported', async () => {
    const view = await fixture.session();
    await grow(view, 2, 50);
    const ack = await view.client.emit('chat:compact', { session_id: view.session });
    assert.equal(ack.ok, true);
    const { data } = await view.wait('session:compacted', (e) => e.name === 'session:compacted');
    assert.equal(data.turn.compaction_id, ack.compaction_id);
    assert.equal(data.turn.kind, 'compaction');
    assert.equal((await fixture.rest.detail(view.session)).status, 'completed');
  });

  test('over the socket reports that there was nothing to summarise', async () => {
    const view = await small({ keep_last: 2 });
    await grow(view, 1, 10);
    const ack = await view.client.emit('chat:compact', { session_id: view.session });
    const { data } = await view.wait('session:compaction_skipped', (e) => e.name === 'session:compaction_skipped');
    assert.equal(data.compaction_id, ack.compaction_id);
    assert.match(data.reason, /nothing to summarise/);
    assert.deepEqual(await entries(view), []);
  });

  test('beside a running chat leaves the chat alone', async () => {
    const view = await small({ keep_last: 2 });
    await grow(view, 4, 300);
    const ack = await view.say(order({ said: 'long', steps: [bash('while [ ! -e go ]; do sleep 0.05; done'), { text: 'done' }] }));
    await view.patch('add_tool_call');
    const result = await fixture.rest.post(`/api/sessions/${view.session}/compact`);
    assert.equal(result.status, 'completed', JSON.stringify(result));
    await fixture.rest.put(`/api/sessions/${view.session}/files/go`, { content: 'x' });
    const end = await view.ended(ack.chat_id);
    assert.equal(end.finish_reason, 'completed');
    assert.equal(end.steps, 2);
    const { body } = (await fixture.requests('while [ ! -e go ]')).at(-1);
    assert.match(JSON.stringify(body.messages[1].content), /summarised/, 'the next call finds the summary');
    assert.equal(body.messages.at(-1).role, 'tool');
  });

  test('keeps an open question open', async () => {
    const view = await small({ keep_last: 1 });
    await grow(view, 3, 200);
    const asked = {
      name: 'AskUserQuestion',
      arguments: { questions: [{ question: 'Which?', header: 'Choice', options: [{ label: 'red' }, { label: 'blue' }] }] },
    };
    const { end, chat_id: chat } = await view.run(steps({ calls: [asked] }, { text: 'thanks' }));
    assert.equal(end.finish_reason, 'awaiting_answer');
    assert.equal((await fixture.rest.post(`/api/sessions/${view.session}/compact`)).status, 'completed');
    const [call] = view.callsOf(chat);
    assert.equal((await view.answer(call.id, { selections: { 0: [1] } })).resolved, true);
    const again = await view.wait(
      'the end',
      (e) => e.name === 'chat:end' && e.data.chat_id === chat && e.data.finish_reason === 'completed',
    );
    assert.ok(again);
  });

  test('only the owner may ask for it', async () => {
    const view = await fixture.session();
    const { plaintext } = (await fixture.rest.post('/api/admin/users', { username: `other-${Date.now()}` })).api_key;
    const other = await fixture.client({ token: plaintext });
    const ack = await other.emit('chat:compact', { session_id: view.session });
    assert.equal(ack.ok, false);
    assert.equal(ack.error.code, 'session_not_found');
  });
});

describe('while a summary is made', () => {
  test('a stop ends the chat and leaves the history as it was', async () => {
    const view = await small();
    await fill(view, 5600, { text: 'the summary', hold: true }, 'held-stop');
    const ack = await view.say(order({ said: filler(1400), steps: [{ text: 'no' }] }));
    await summaryAsked('held-stop');
    assert.equal((await view.stop()).stopped, true);
    assert.equal((await view.ended(ack.chat_id)).finish_reason, 'interrupted');
    assert.deepEqual(await entries(view), []);
    // The next call has no more room than that one.
    const next = await view.say(plain(9, 10));
    assert.equal((await fixture.releaseUntil(view.ended(next.chat_id))).finish_reason, 'completed');
    assert.equal((await entries(view)).length, 1);
  });

  test('a steered message joins behind it', async () => {
    const view = await small();
    await fill(view, 5600, { text: 'the summary', hold: true }, 'held-steer');
    const ack = await view.say(order({ said: filler(1400), steps: [{ text: 'first' }] }));
    await summaryAsked('held-steer');
    const steered = await view.say(steps({ text: 'steered answer' }), { delivery: 'steer' });
    assert.equal(steered.chat_id, ack.chat_id);
    assert.equal((await fixture.releaseUntil(view.ended(ack.chat_id))).finish_reason, 'completed');
    assert.equal((await entries(view)).length, 1);
    assert.equal(view.rules.text(view.rules.assistants(ack.chat_id).at(-1).id), 'steered answer');
  });
});

describe('context statistics', () => {
  const names = ['system_prompt', 'tools', 'skills', 'memories', 'messages', 'tool_results', 'files', 'summary'];

  test('of an empty session, a used one and a compacted one', async () => {
    const view = await small({ keep_last: 2 });
    const empty = await stats(view);
    assert.deepEqual(empty.categories.map((c) => c.name), names);
    const of = (s, name) => s.categories.find((c) => c.name === name);
    assert.equal(empty.context_window, window);
    assert.equal(empty.model, 'everloop-demo-small');
    assert.ok(of(empty, 'system_prompt').tokens > 0 && of(empty, 'tools').tokens > 0);
    assert.equal(of(empty, 'messages').tokens, 0);
    assert.deepEqual(empty.largest, []);
    assert.equal(empty.estimated, true);
    assert.equal(empty.tokenizer, 'estimate');
    await view.run(order({ said: filler(1500), steps: [bash('seq 1 300'), { text: 'done' }] }));
    const used = await stats(view);
    assert.equal(of(used, 'messages').count, 3);
    assert.equal(of(used, 'tool_results').count, 1);
    assert.ok(of(used, 'tool_results').tokens > 100);
    assert.equal(used.used_tokens, used.categories.reduce((n, c) => n + c.tokens, 0));
    assert.equal(used.threshold_pct, 80);
    assert.equal(used.reserved_output, 1600);
    assert.match(used.largest[0].label, /^user: abc def/);
    // The server's own count is what they come to, and what the prompt begins with
    // takes the same whatever is said.
    const reported = (await fixture.rest.messages(view.session)).filter((m) => m.role === 'assistant').at(-1).usage;
    assert.ok(
      Math.abs(used.used_tokens - reported.input_tokens) < 0.1 * reported.input_tokens,
      `${used.used_tokens} ${reported.input_tokens}`,
    );
    // Before the first report it is an estimate, to half or to twice as much.
    for (const name of ['system_prompt', 'tools']) {
      const ratio = of(used, name).tokens / of(empty, name).tokens;
      assert.ok(ratio > 0.4 && ratio < 2.5, `${name}: ${ratio}`);
    }
    await grow(view, 2, 1000);
    const longer = await stats(view);
    // What is learnt about the model meanwhile moves the rounding of each text.
    for (const name of ['system_prompt', 'tools', 'skills']) {
      const [was, is] = [of(used, name).tokens, of(longer, name).tokens];
      assert.ok(Math.abs(is - was) <= 1 + of(used, name).count + 0.01 * was, `${name}: ${was}, then ${is}`);
    }
    await fixture.rest.post(`/api/sessions/${view.session}/compact`);
    const after = await stats(view);
    assert.equal(after.compactions, 1);
    assert.equal(of(after, 'summary').count, 1);
    assert.ok(after.used_tokens < used.used_tokens);
    assert.equal(after.used_pct, Math.round((after.used_tokens / window) * 10_000) / 100);
  });
});

describe('tokenization', () => {
  const tokenize = (what, body) => fixture.rest.call('POST', `/api/sessions/tokenize/${what}`, body);

  test('is exact where the tokenizer is known', async () => {
    const { body } = await tokenize('prompt', { prompt: 'hello world', model: 'gpt-4o' });
    assert.deepEqual(body, { model: 'gpt-4o', tokenizer: 'o200k_base', count: 2, exact: true, token_ids: [24912, 2375], truncated: false });
  });

  test('says when it is an estimate', async () => {
    const { status, body } = await tokenize('prompt', { prompt: 'hello world' });
    assert.equal(status, 200);
    assert.equal(body.exact, false);
    assert.equal(body.tokenizer, 'estimate');
    assert.ok(body.count > 0);
    assert.equal((await tokenize('prompt', { prompt: 'x', model: 'no-such-model' })).body.code, 'unknown_model');
    assert.equal((await tokenize('prompt', {})).status, 422);
  });

  test('counts messages one by one, with the chat template', async () => {
    const messages = [
      { role: 'system', content: 'be brief' },
      { role: 'user', content: [{ type: 'text', text: 'hello world' }] },
      { role: 'assistant', content: null },
    ];
    const { body } = await tokenize('messages', { model: 'gpt-4o', add_generation_prompt: true, enable_thinking: false, messages });
    assert.equal(body.exact, true);
    assert.equal(body.tokenizer, 'o200k_base');
    assert.equal(body.chat_template, 'openai');
    assert.deepEqual(body.per_message.map((m) => [m.index, m.role]), [[0, 'system'], [1, 'user'], [2, 'assistant']]);
    assert.equal(body.per_message[1].tokens, 2);
    assert.equal(body.template_overhead, 3 * 4 + 3);
    assert.equal(body.tools_tokens, 0);
    assert.ok(body.rendered_chars > 19 && body.fits);
    const sum = (b) => b.per_message.reduce((n, m) => n + m.tokens, 0) + b.tools_tokens + b.template_overhead;
    assert.equal(body.count, sum(body));
    const open = (await tokenize('messages', { model: 'gpt-4o', add_generation_prompt: false, messages })).body;
    assert.equal(body.count - open.count, 3);
    const tools = (
      await tokenize('messages', { model: 'gpt-4o', messages, tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] })
    ).body;
    assert.ok(tools.tools_tokens > 5);
    assert.equal(tools.count, sum(tools));
    assert.equal(tools.exact, false, 'only its server knows how it writes tools');
    const named = (await tokenize('messages', { model: 'gpt-4o', messages: [{ role: 'user', content: 'hello world', name: 'ann' }] })).body;
    assert.ok(
      named.count > (await tokenize('messages', { model: 'gpt-4o', messages: [{ role: 'user', content: 'hello world' }] })).body.count + 1,
    );
    const picture = (
      await tokenize('messages', {
        model: 'gpt-4o',
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }],
      })
    ).body;
    assert.equal(picture.exact, false);
    const unknown = (await tokenize('messages', { messages })).body;
    assert.equal(unknown.exact, false);
    assert.equal(unknown.chat_template, 'generic');
    const quiet = (await tokenize('messages', { messages, enable_thinking: false })).body;
    assert.ok(quiet.count > unknown.count, 'an empty thinking block');
    const large = (await tokenize('messages', { model: 'everloop-demo-small', messages: [{ role: 'user', content: filler(100_000) }] }))
      .body;
    assert.equal(large.context_window, window);
    assert.equal(large.fits, false);
  });

  test('answers hostile input quickly', async () => {
    const within = async (ms, what, body, status) => {
      const began = Date.now();
      assert.equal((await tokenize(what, body)).status, status);
      assert.ok(Date.now() - began < ms, `${Date.now() - began} ms`);
    };
    await within(60_000, 'prompt', { prompt: 'a'.repeat(9_900_000), model: 'gpt-4o' }, 200);
    await within(60_000, 'prompt', { prompt: 'a'.repeat(11_000_000) }, 413);
    await within(
      60_000,
      'messages',
      { messages: Array.from({ length: 10_000 }, () => ({ role: 'user', content: 'word '.repeat(150) })), model: 'gpt-4o' },
      200,
    );
    await within(60_000, 'messages', { messages: Array.from({ length: 10_001 }, () => ({ role: 'user', content: '' })) }, 422);
    await within(60_000, 'messages', { messages: [{ role: 'user', content: [[]] }] }, 422);
    await within(60_000, 'messages', { messages: [{ role: 'user', content: 5 }] }, 422);
    await within(60_000, 'messages', { messages: 'x' }, 422);
    const deep = await fetch(`${fixture.server.url}/api/sessions/tokenize/messages`, {
      method: 'POST', headers: { authorization: `Bearer ${fixture.server.key}`, 'content-type': 'application/json' },
      body: `{"messages": [{"role": "user", "content": ${'['.repeat(2_000_000)}${']'.repeat(2_000_000)}}]}`,
    });
    assert.ok([400, 422].includes(deep.status), `${deep.status}`);
  });
});

test('a session of 60 turns stays within its window', async () => {
  const view = await small();
  for (let i = 0; i < 30; i++) {
    const { end } = await view.run(plain(i, 500));
    assert.equal(end.finish_reason, 'completed');
  }
  const used = await stats(view);
  assert.ok(used.used_tokens < window);
  assert.ok(used.compactions >= 1);
  const { body } = (await fixture.requests('message 29')).at(-1);
  assert.ok(JSON.stringify(body).length < 60_000);
});
