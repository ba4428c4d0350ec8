// What is remembered from session to session (docs/memory.md): the
// agent keeps memories with its tool, the user sees and edits them over REST, and
// a later session's agent is reminded of them, which its turns record.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Rest } from './lib/rest.mjs';
import { Fixture, call, order, steps } from './lib/fixture.mjs';

let fixture;
let users = 0;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

// person is a new user, so that no test finds another's memories.
async function person() {
  const made = await fixture.rest.post('/api/admin/users', { username: `person-${users++}-${process.pid}` });
  const rest = new Rest(fixture.server.url, made.api_key.plaintext);
  return { rest, id: made.user.id, session: (settings = { memory_enabled: true }) => fixture.session(settings, { token: rest.key }) };
}

const memory = (args, id) => ({ calls: [call('Memory', args, id)] });
const list = (who, query = '') => who.rest.get(`/api/memories${query}`);
const keep = (who, content, more = {}) => who.rest.post('/api/memories', { content, ...more });
const refs = (turns) => turns.filter((t) => t.role === 'assistant').map((t) => t.memory_refs);

// runFor runs a chat and gives the prompts that the model got for it, as text, and
// its turns.
let said = 0;
async function runFor(who, view, text, ...more) {
  const mark = `chat-${said++}-${process.pid}`;
  const { end, chat_id: chat } = await view.run(order({ said: `${text} ${mark}`, steps: more.length ? more : [{ text: 'noted' }] }));
  assert.equal(end.finish_reason, 'completed', JSON.stringify(end));
  const prompts = (await fixture.requests(mark)).map((r) => r.body.messages);
  const turns = await who.rest.messages(view.session);
  return {
    prompts: prompts.map((p) => JSON.stringify(p)),
    raw: prompts,
    turns: turns.filter((t) => view.rules.turns.get(t.turn_id)?.chat === chat),
  };
}

describe('from session to session', () => {
  test('what the agent keeps comes back in the next one, and is counted', async () => {
    const who = await person();
    const first = await who.session();
    const { calls } = await first.run(
      steps(
        memory({
          action: 'save',
          type: 'feedback',
          topic: 'reports',
          content: 'Reports go out as PDF, in German.',
          write_reason: 'The user corrected it.',
        }),
        { text: 'kept' },
      ),
    );
    assert.equal(calls[0].status, 'done');
    assert.match(calls[0].result, /^Memory \d+ is kept\.$/);
    const { items: [kept], total } = await list(who);
    assert.equal(total, 1);
    assert.equal(calls[0].result, `Memory ${kept.id} is kept.`);
    assert.deepEqual(
      { ...kept, created_at: '' },
      {
        id: kept.id,
        type: 'feedback',
        content: 'Reports go out as PDF, in German.',
        skill_name: null,
        record_type: null,
        scope: null,
        owner: null,
        topic: 'reports',
        external_id: null,
        superseded_by: null,
        write_reason: 'The user corrected it.',
        created_at: '',
        updated_at: null,
        hit_count: 0,
        last_hit_at: null,
        disabled: false,
        source_session: first.session,
      },
    );

    const second = await who.session();
    const { prompts, raw, turns } = await runFor(who, second, 'Write the report on sales', memory({ action: 'search', query: 'german' }), {
      text: 'done',
    });
    assert.equal(prompts.length, 2, 'two model calls');
    for (const p of prompts) assert.match(p, /remembered from earlier sessions.*\(feedback \d+\) Reports go out as PDF, in German\./);
    for (const messages of raw) {
      const at = messages.findIndex((m) => JSON.stringify(m.content).includes('remembered from earlier sessions'));
      assert.equal(messages.filter((m) => JSON.stringify(m.content).includes('remembered from earlier sessions')).length, 1);
      assert.match(JSON.stringify(messages[at].content), /remembered from earlier sessions.*Write the report on sales/,
        'directly before what the user asked');
    }
    const [ref, ...others] = refs(turns);
    assert.equal(ref.length, 1);
    assert.equal(ref[0].memory_id, kept.id);
    assert.equal(ref[0].used, true);
    assert.ok(ref[0].score > 0, 'it shares words with the question');
    assert.deepEqual(others, [null], 'the turn that was given it first records it');
    assert.equal(turns.find((t) => t.role === 'user').memory_refs, null);

    const hit = await who.rest.get(`/api/memories/${kept.id}`);
    assert.equal(hit.hit_count, 1, 'once for a chat, however many model calls it makes');
    assert.ok(Date.parse(hit.last_hit_at) >= Date.parse(hit.created_at));
    assert.equal(hit.updated_at, null, 'a hit is no change');
    await runFor(who, second, 'And the report on costs');
    assert.equal((await who.rest.get(`/api/memories/${kept.id}`)).hit_count, 2, 'once for each chat');
    const stats = await who.rest.get(`/api/sessions/${second.session}/context-stats`);
    const { count, tokens } = stats.categories.find((c) => c.name === 'memories');
    assert.equal(count, 1, 'they are part of the context');
    assert.ok(tokens > 10);
  });

  test('what a client keeps and edits is recalled as it is now', async () => {
    const who = await person();
    const made = await who.rest.call('POST', '/api/memories', {
      content: 'The harbour database listens on port 6432',
      type: 'experience',
      topic: 'harbour',
    });
    assert.equal(made.status, 201);
    assert.equal(made.body.source_session, '');
    const changed = await who.rest.put(`/api/memories/${made.body.id}`, { content: 'The harbour database listens on port 7777' });
    assert.ok(changed.updated_at);
    assert.equal(changed.topic, 'harbour', 'what is left out stays');
    const view = await who.session();
    const { prompts, turns } = await runFor(who, view, 'Connect to the harbour database');
    assert.match(prompts[0], /port 7777/);
    assert.doesNotMatch(prompts[0], /6432/);
    assert.equal(refs(turns)[0][0].memory_id, made.body.id);
    await who.rest.delete(`/api/memories/${made.body.id}`);
    const after = await runFor(who, view, 'Connect to the harbour database again');
    assert.doesNotMatch(after.prompts[0].split('again')[0].split('noted').at(-1), /port 7777/);
    assert.deepEqual(refs(after.turns), [[]], 'looked for, and nothing found');
  });

  test('what has nothing to do with the question is left out, but for how the user likes things', async () => {
    const who = await person();
    const cheese = await keep(who, 'The cheese is delivered on Thursdays', { type: 'experience' });
    const tabs = await keep(who, 'Prefers tabulators over blanks', { type: 'feedback' });
    const view = await who.session();
    const { prompts, turns } = await runFor(who, view, 'What is the fault in the compiler?');
    assert.match(prompts[0], /Prefers tabulators/);
    assert.doesNotMatch(prompts[0], /Thursdays/);
    assert.deepEqual(refs(turns)[0], [{ memory_id: tabs.id, used: true }]);
    assert.equal((await who.rest.get(`/api/memories/${cheese.id}`)).hit_count, 0);
    const asked = await runFor(who, view, 'When is cheese delivered?');
    assert.match(asked.prompts[0], /Thursdays/);
    assert.ok(refs(asked.turns)[0].find((r) => r.memory_id === cheese.id).score > 0);
  });
});

describe('what is not recalled', () => {
  test('disabled memories, until they are enabled again', async () => {
    const who = await person();
    const m = await keep(who, 'The zebra server is called marty');
    const view = await who.session();
    await who.rest.patch(`/api/memories/${m.id}`, { disabled: true });
    const off = await runFor(who, view, 'Where is the zebra server?');
    assert.doesNotMatch(off.prompts[0], /marty/);
    assert.deepEqual(refs(off.turns), [[]]);
    assert.deepEqual(await who.rest.post('/api/memories/batch', { action: 'enable', ids: [m.id] }), { ok: true, count: 1 });
    const on = await runFor(who, view, 'Where is the zebra server now?');
    assert.match(on.prompts[0], /marty/);
    // The agent takes it out of use itself.
    const { calls } = await view.run(steps(memory({ action: 'disable', id: m.id }), { text: 'gone' }));
    assert.equal(calls[0].result, `Memory ${m.id} is no longer used.`);
    assert.equal((await who.rest.get(`/api/memories/${m.id}`)).disabled, true);
    assert.deepEqual(refs((await runFor(who, view, 'And the zebra server?')).turns), [[]]);
    assert.equal((await list(who, '?status=disabled')).total, 1);
    assert.equal((await list(who, '?status=active')).total, 0);
  });

  test('superseded memories', async () => {
    const who = await person();
    const old = await keep(who, 'The walrus queue has four workers', { type: 'experience' });
    const view = await who.session();
    const { calls } = await view.run(
      steps(memory({ action: 'supersede', id: old.id, content: 'The walrus queue has nine workers' }), { text: 'corrected' }),
    );
    const [, made] = calls[0].result.match(/^Memory (\d+) is kept in place of \d+\.$/);
    const was = await who.rest.get(`/api/memories/${old.id}`);
    assert.equal(was.superseded_by, Number(made));
    assert.deepEqual((await list(who, '?status=superseded')).items.map((m) => m.id), [old.id]);
    const next = await who.session();
    const { prompts, turns } = await runFor(who, next, 'How many workers has the walrus queue?');
    assert.match(prompts[0], /nine workers/);
    assert.doesNotMatch(prompts[0], /four workers/);
    assert.deepEqual(refs(turns)[0].map((r) => r.memory_id), [Number(made)]);
    assert.equal((await who.rest.get(`/api/memories/${old.id}`)).hit_count, was.hit_count);
  });

  test("another user's", async () => {
    const [who, other] = [await person(), await person()];
    const m = await keep(who, 'The yak farm has its key under the mat');
    const view = await other.session();
    const { prompts, turns } = await runFor(other, view, 'Where is the key of the yak farm?', memory({ action: 'search', query: 'yak' }),
      memory({ action: 'disable', id: m.id }), memory({ action: 'supersede', id: m.id, content: 'It is mine' }), { text: 'unknown' });
    assert.equal(prompts.length, 4);
    for (const p of prompts) assert.doesNotMatch(p, /under the mat/);
    assert.deepEqual(refs(turns), [[], null, null, null]);
    const results = turns.flatMap((t) => t.tool_calls).map((c) => [c.status, c.result]);
    assert.deepEqual(results[0], ['done', 'No memory holds that.']);
    for (const [status, result] of results.slice(1)) {
      assert.equal(status, 'error');
      assert.match(result, new RegExp(`memory ${m.id} does not exist`, 'i'));
    }
    for (const [method, body] of [['GET'], ['PUT', { content: 'x' }], ['PATCH', { disabled: true }], ['DELETE']]) {
      const { status, body: problem } = await other.rest.call(method, `/api/memories/${m.id}`, body);
      assert.equal(status, 404, method);
      assert.equal(problem.code, 'memory_not_found');
    }
    assert.deepEqual(await other.rest.post('/api/memories/batch', { action: 'delete', ids: [m.id] }), { ok: true, count: 0 });
    assert.equal((await list(other)).total, 0);
    const { hit_count: hits, disabled, superseded_by: superseded } = await who.rest.get(`/api/memories/${m.id}`);
    assert.deepEqual([hits, disabled, superseded], [0, false, null]);
  });

  test('any, in a session that does not use memories', async () => {
    const who = await person();
    const m = await keep(who, 'The heron task runs at noon');
    const view = await who.session({});
    const off = await runFor(who, view, 'When does the heron task run?');
    assert.doesNotMatch(off.prompts[0], /noon/);
    assert.deepEqual(refs(off.turns), [null]);
    const offered = (await fixture.requests('When does the heron task run?')).at(-1).body.tools.map((t) => t.function.name);
    assert.ok(!offered.includes('Memory'));
    assert.deepEqual(await who.rest.patch(`/api/sessions/${view.session}/memory`, { memory_enabled: true }), { memory_enabled: true });
    const on = await runFor(who, view, 'When does the heron task run, please?');
    assert.match(on.prompts[0], /noon/);
    assert.equal(refs(on.turns)[0][0].memory_id, m.id);
    await who.rest.patch(`/api/sessions/${view.session}/memory`, { memory_enabled: false });
    assert.deepEqual(refs((await runFor(who, view, 'And the heron task?')).turns), [null]);
  });
});

test('the tool refuses what cannot be kept', async () => {
  const who = await person();
  const view = await who.session();
  const { calls } = await view.run(
    steps(
      {
        calls: [
          call('Memory', { action: 'save', content: 'x'.repeat(501) }),
          call('Memory', { action: 'save', content: '  ' }),
          call('Memory', { action: 'save' }),
          call('Memory', { action: 'disable' }),
          call('Memory', { action: 'forget' }),
          call('Memory', { action: 'supersede', id: 999_999_999, content: 'of nothing' }),
        ],
      },
      { text: 'understood' },
    ),
  );
  assert.deepEqual(
    calls.map((c) => c.status),
    Array(6).fill('error'),
  );
  assert.equal((await list(who)).total, 0);
});

test('a recall is bounded, whatever there is to recall', async () => {
  const who = await person();
  for (let i = 0; i < 30; i++) await keep(who, `Penguin number ${i} likes fish`, { type: i % 2 ? 'feedback' : 'experience' });
  const view = await who.session();
  const { prompts, turns } = await runFor(who, view, 'What do penguins like?');
  const given = refs(turns)[0];
  assert.ok(given.length >= 6 && given.length <= 10, `${given.length}`);
  assert.equal((prompts[0].match(/likes fish/g) ?? []).length, given.length);
  assert.deepEqual(given.map((r) => r.memory_id), given.map((r) => r.memory_id).sort((a, b) => a - b), 'in a stable order');
});
