// kill -9 while a history is summarised: at the request for the summary, between
// two of its pieces, and at any moment around its end. Started again on the same
// data, the session is compacted once or not at all, and goes on.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';

const recovery = 180_000;

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

const filler = (tokens) => 'abc def '.repeat(tokens / 2);
const small = () => fixture.session({ model: 'everloop-demo-small' });
const plain = (i, tokens) => order({ said: `message ${i} ${filler(tokens)}`, steps: [{ text: `answer ${i}` }] });
const entries = async (view) => (await fixture.rest.messages(view.session)).filter((m) => m.kind === 'compaction');
const reported = async (view) =>
  (await fixture.rest.messages(view.session)).filter((m) => m.role === 'assistant').at(-1).usage.input_tokens;

async function grow(view, n, tokens, from = 0) {
  for (let i = from; i < from + n; i++) {
    const { end } = await view.run(plain(i, tokens));
    assert.equal(end.finish_reason, 'completed', JSON.stringify(end));
  }
}

// fill has chats until the prompt is about so large. The first says how its
// summary is made.
async function fill(view, target, said, summary) {
  await view.run(order({ said, steps: [{ text: 'answer 0' }], summary }));
  for (let i = 1, size = await reported(view); size < target - 60; i++, size = await reported(view)) {
    await grow(view, 1, 2 * Math.floor(Math.min(700, target - size) / 2), i);
  }
}

const summaries = async (text) => (await fixture.requests('Write the summary now')).filter((r) => JSON.stringify(r.body).includes(text));
const summaryAsked = (text, n = 1) => eventually(`${n} requests for a summary`, async () => (await summaries(text)).length >= n);
const release = () => eventually('a held summary', async () => (await fixture.mock.post('/control/release')).released > 0, recovery);

async function crash(view) {
  const { signal } = await fixture.server.kill();
  assert.equal(signal, 'SIGKILL');
  await fixture.server.start();
  return fixture.follow(view.session, 0);
}

// goesOn holds what is true of a session whatever happened to it: what it says of
// itself fits together, and its next message is answered.
async function goesOn(view) {
  const all = await fixture.rest.messages(view.session);
  all.forEach((m, i) => assert.equal(m.sequence, i));
  const { end } = await view.run(order({ said: 'is the model there?', steps: [{ text: 'yes' }] }));
  assert.equal(end.finish_reason, 'completed', JSON.stringify(end));
  const { body } = (await fixture.requests('is the model there?')).at(-1);
  const done = all.filter((m) => m.kind === 'compaction' && m.status === 'completed');
  const inserted = body.messages.filter((m) => JSON.stringify(m.content).includes('was summarised to make room'));
  assert.equal(inserted.length, done.length > 0 ? 1 : 0);
  if (done.length > 0)
    assert.ok(
      JSON.stringify(inserted[0].content).includes(JSON.stringify(done.at(-1).summary_full).slice(1, 12)),
      'the newest summary counts',
    );
  const stats = await fixture.rest.get(`/api/sessions/${view.session}/context-stats`);
  assert.equal(stats.compactions, done.length);
  assert.equal((await fixture.rest.get(`/api/sessions/${view.session}`)).status, 'completed');
}

for (const how of ['automatic', 'by hand']) {
  test(`while the model writes the summary (${how})`, async () => {
    const view = await small();
    const mark = `held-kill-${how.replace(' ', '-')}`;
    const held = { text: 'the held summary', hold: true };
    let chat;
    let ack;
    if (how === 'automatic') {
      await fill(view, 5600, mark, held);
      ({ chat_id: chat } = await view.say(order({ said: filler(1400), steps: [{ text: 'got through' }] })));
    } else {
      await fill(view, 3000, mark, held);
      await grow(view, 7, 10, 10);
      ack = await view.client.emit('chat:compact', { session_id: view.session });
      assert.equal(ack.ok, true);
    }
    await summaryAsked(mark);
    const seen = await crash(view);
    await release();
    if (chat) assert.equal((await seen.ended(chat, { timeout: recovery })).finish_reason, 'completed');
    const { data } = await seen.wait('session:compacted', (e) => e.name === 'session:compacted', { timeout: recovery });
    const found = await entries(view);
    assert.equal(found.length, 1, 'one entry for each compaction');
    assert.equal(found[0].id, data.turn.compaction_id);
    if (ack) assert.equal(found[0].id, ack.compaction_id);
    assert.equal(found[0].status, 'completed');
    await goesOn(seen);
  });
}

test('between two pieces: what was summarised is not summarised again', async () => {
  const view = await fixture.session({ model: 'everloop-demo-small', session_setup: { compaction: { auto: false, keep_last: 1 } } });
  const dense = (tokens) => '}{]['.repeat(tokens); // counted as more than the mock model says, so that a piece holds one message
  await view.run(order({ said: `first piece ${dense(2800)}`, steps: [{ text: 'one' }] }));
  await view.run(order({ said: `second piece ${dense(2600)}`, steps: [{ text: 'two' }], summary: { text: 'the last piece', hold: true } }));
  await grow(view, 1, 10, 9);
  const { compaction_id: id } = await view.client.emit('chat:compact', { session_id: view.session });
  await summaryAsked('second piece');
  assert.equal((await summaries('first piece')).length, 2, 'one piece, and the next with its summary');
  const seen = await crash(view);
  await release();
  const { data } = await seen.wait('session:compacted', (e) => e.name === 'session:compacted', { timeout: recovery });
  assert.equal(data.turn.compaction_id, id);
  assert.equal(data.turn.status, 'completed');
  // The model server was killed too: it has seen what came after.
  const [rest, ...others] = await summaries('second piece');
  assert.deepEqual(others, []);
  const [soFar, conversation] = JSON.stringify(rest.body.messages.at(-1).content).split('<conversation>');
  assert.match(soFar, /first piece/);
  assert.doesNotMatch(conversation, /first piece/, 'the first piece was kept');
  assert.equal((await entries(view)).length, 1);
  await goesOn(seen);
});

describe('at any moment', () => {
  for (const wait of [0, 20, 60, 140]) {
    test(`${wait} ms after it was asked for, beside a running chat`, async () => {
      const view = await small();
      await grow(view, 5, 100);
      const { chat_id: chat } = await view.say(order({ said: 'work', steps: [bash('sleep 0.2; echo once >> ran'), { text: 'worked' }] }));
      const asked = fixture.rest.call('POST', `/api/sessions/${view.session}/compact`).catch(() => undefined);
      await pause(wait);
      const seen = await crash(view);
      const answer = await asked;
      assert.equal((await seen.ended(chat, { timeout: recovery })).status, 'completed');
      if (answer?.status === 200 && answer.body.status === 'completed') {
        assert.deepEqual((await entries(view)).map((e) => e.id), [answer.body.compaction_id], 'what was said to be done is done');
      }
      // Whatever became of that one, the next finds its way.
      const next = await fixture.rest.post(`/api/sessions/${view.session}/compact`);
      assert.ok(['completed', 'skipped'].includes(next.status), JSON.stringify(next));
      const announced = () => seen.events.filter((e) => e.name === 'session:compacted').length;
      const found = await eventually('all that is stored is announced', async () => {
        const stored = await entries(view);
        return stored.length === announced() && stored;
      });
      assert.ok(found.length >= 1 && found.length <= 2);
      assert.equal(new Set(found.map((e) => e.compaction_id)).size, found.length);
      assert.ok(found.every((e) => e.status === 'completed'), JSON.stringify(found.map((e) => e.failure_reason)));
      await goesOn(seen);
      assert.equal(announced(), found.length, 'each is announced once');
    });
  }
});

test('with a question open: it stays open and can be answered', async () => {
  const view = await small();
  await grow(view, 4, 200);
  const asked = call('AskUserQuestion', {
    questions: [{ question: 'Which?', header: 'Choice', options: [{ label: 'red' }, { label: 'blue' }] }],
  });
  const { end, chat_id: chat } = await view.run(
    order({ said: 'held-question', steps: [{ calls: [asked] }, { text: 'thanks' }], summary: { text: 'the summary', hold: true } }),
  );
  assert.equal(end.finish_reason, 'awaiting_answer');
  const ack = await view.client.emit('chat:compact', { session_id: view.session });
  assert.equal(ack.ok, true);
  await pause(100);
  const seen = await crash(view);
  const again = await fixture.rest.post(`/api/sessions/${view.session}/compact`).catch((err) => err);
  assert.ok(again.status, String(again));
  const [question] = view.callsOf(chat);
  assert.equal((await seen.answer(question.id, { selections: { 0: [1] } })).resolved, true);
  await seen.wait('the end', (e) => e.name === 'chat:end' && e.data.chat_id === chat && e.data.finish_reason === 'completed', {
    timeout: recovery,
  });
  await goesOn(seen);
});
