// AskUserQuestion: the loop pauses until the user answers (docs/events.md,
// docs/concepts.md#questions).
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, call, eventually, order, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

const colours = { question: 'Which colour?', header: 'Colour', options: [{ label: 'red', description: 'warm' }, { label: 'blue' }] };
const ask = (...questions) => call('AskUserQuestion', { questions });

// asked runs a chat that asks one question and stands there.
async function asked(view, { questions = [colours], then = { text: 'as you wish' } } = {}) {
  const run = await view.run(steps({ text: 'I have to ask.', calls: [ask(...questions)] }, then));
  assert.deepEqual([run.end.status, run.end.finish_reason], ['completed', 'awaiting_answer']);
  return run;
}

const ends = (view, chat) => view.events.filter((e) => e.name === 'chat:end' && e.data.chat_id === chat).map((e) => e.data.finish_reason);
const resumedEnd = (view, chat) => view.wait('the end of the second round', (e) =>
  e.name === 'chat:end' && e.data.chat_id === chat && e.data.finish_reason !== 'awaiting_answer').then((e) => e.data);

test('a question pauses the turn and ends the chat; its answer resumes the same chat', async () => {
  const view = await fixture.session();
  const { chat_id: chat, turns, calls } = await asked(view);
  assert.equal(turns[0].status, 'paused');
  assert.deepEqual([calls[0].tool_name, calls[0].status], ['AskUserQuestion', 'awaiting_answer']);
  assert.deepEqual(JSON.parse(calls[0].arguments), { questions: [colours] });
  const shape = view.shape(chat).filter((n) => n !== 'add_content');
  assert.deepEqual(shape, ['chat:start', 'turn:start', 'turn:end', 'turn:start', 'add_tool_call', 'turn:end', 'chat:end']);
  const detail = await fixture.rest.detail(view.session);
  assert.deepEqual([detail.status, detail.waiting_reason], ['waiting_for_input', 'question']);

  const late = await fixture.follow(view.session);
  assert.equal(late.ack.status, 'waiting_for_input');
  assert.equal(late.ack.waiting_reason, 'question');
  assert.equal(late.ack.pending_questions[0].tool_call_id, calls[0].id);
  assert.deepEqual(late.ack.pending_questions[0].questions, [colours]);
  assert.equal(late.ack.open_turns[0].status, 'paused');
  const stored = (await fixture.rest.messages(view.session)).at(-1);
  assert.equal(stored.status, 'paused');
  assert.ok(stored.tool_calls[0].pending_question_ref);

  const mark = view.events.length;
  const ack = await view.answer(calls[0].id, { selections: { 0: [1] } });
  assert.deepEqual([ack.ok, ack.resolved], [true, true]);
  assert.equal(ack.question_id, late.ack.pending_questions[0].question_id);
  const end = await resumedEnd(view, chat);
  assert.equal(end.finish_reason, 'completed');
  const start = view.events.slice(mark).find((e) => e.name === 'chat:start').data;
  assert.deepEqual([start.chat_id, start.trigger, start.resumed], [chat, 'answer', false]);
  assert.deepEqual(view.rules.turns.get(turns[0].id).ends, ['paused', 'completed']);
  const [first] = view.callsOf(chat);
  assert.equal(first.status, 'done');
  assert.deepEqual(JSON.parse(first.result), { answers: [{ question: 'Which colour?', selected: ['blue'], custom: '' }] });
  const resolved = view.events.find((e) => e.name === 'question:resolved').data;
  assert.deepEqual([resolved.question_id, resolved.resolution], [ack.question_id, 'answered']);
  const request = (await fixture.requests(calls[0].id)).at(-1) ?? (await fixture.requests('Which colour?')).at(-1);
  assert.match(JSON.stringify(request.body.messages), /blue/);
  assert.deepEqual(ends(view, chat), ['awaiting_answer', 'completed']);
});

test('free text answers too', async () => {
  const view = await fixture.session();
  const { chat_id: chat, calls } = await asked(view);
  const ack = await view.answer(calls[0].id, { selections: {}, custom: { 0: 'a „grün“ one' } });
  assert.equal(ack.resolved, true);
  await resumedEnd(view, chat);
  assert.deepEqual(JSON.parse(view.callsOf(chat)[0].result).answers[0], {
    question: 'Which colour?',
    selected: [],
    custom: 'a „grün“ one',
  });
});

test('answers that do not fit are refused and keep the question open', async () => {
  const view = await fixture.session();
  const many = { question: 'Which ones?', options: [{ label: 'a' }, { label: 'b' }, { label: 'c' }], multiSelect: true };
  const { chat_id: chat, calls } = await asked(view, { questions: [colours, many] });
  const id = calls[0].id;
  const refused = {
    'leaves a question out': { selections: { 0: [0] } },
    'an option that is not there': { selections: { 0: [2], 1: [0] } },
    'a negative option': { selections: { 0: [-1], 1: [0] } },
    'two options of a single choice': { selections: { 0: [0, 1], 1: [0] } },
    'a question that is not there': { selections: { 0: [0], 1: [0], 2: [0] } },
    'an empty selection': { selections: { 0: [], 1: [0] } },
    'an option by its label': { selections: { 0: ['red'], 1: [0] } },
    'blank text': { selections: { 1: [0] }, custom: { 0: '  ' } },
    'nothing at all': {},
  };
  for (const [what, answer] of Object.entries(refused)) {
    const ack = await view.answer(id, answer);
    assert.equal(ack.ok, false, what);
    assert.equal(ack.error.code, 'invalid_answer', what);
  }
  assert.equal((await view.answer('call_none', { selections: { 0: [0], 1: [0] } })).error.code, 'invalid_answer');
  assert.equal((await fixture.rest.detail(view.session)).status, 'waiting_for_input');
  assert.equal((await view.answer(id, { selections: { 0: [0], 1: [2, 0] } })).resolved, true);
  await resumedEnd(view, chat);
  assert.deepEqual(JSON.parse(view.callsOf(chat)[0].result).answers[1].selected.sort(), ['a', 'c']);
});

test('of two racing answers one wins', async () => {
  const view = await fixture.session();
  const others = [await fixture.follow(view.session), await fixture.follow(view.session, undefined, { transports: ['polling'] })];
  const { chat_id: chat, calls } = await asked(view);
  const acks = await Promise.all([view, ...others, view].map((v, i) => v.answer(calls[0].id, { selections: { 0: [i % 2] } })));
  assert.deepEqual(acks.map((a) => a.ok), [true, true, true, true]);
  assert.equal(acks.filter((a) => a.resolved).length, 1);
  const winner = acks.findIndex((a) => a.resolved);
  await resumedEnd(view, chat);
  assert.deepEqual(JSON.parse(view.callsOf(chat)[0].result).answers[0].selected, [['red', 'blue'][winner % 2]]);
  assert.equal(view.events.filter((e) => e.name === 'question:resolved').length, 1);
  const late = await view.answer(calls[0].id, { selections: { 0: [0] } });
  assert.deepEqual([late.ok, late.resolved], [true, false]);
});

test('an answer through REST', async () => {
  const view = await fixture.session();
  const { chat_id: chat, calls } = await asked(view);
  const body = { message: '', askuser_answer: { tool_call_id: calls[0].id, selections: { 0: [0] } } };
  const accepted = await fixture.rest.post(`/api/sessions/${view.session}/chat`, body);
  assert.deepEqual([accepted.chat_id, accepted.resolved], [chat, true]);
  await resumedEnd(view, chat);
  assert.equal((await fixture.rest.post(`/api/sessions/${view.session}/chat`, body)).resolved, false);
});

test('a message instead of an answer cancels the question and is a chat of its own', async () => {
  const view = await fixture.session();
  const { chat_id: chat, calls, turns } = await asked(view);
  const { chat_id: next, end } = await view.run(steps({ text: 'another matter then' }));
  assert.notEqual(next, chat);
  assert.equal(end.status, 'completed');
  assert.equal(view.callsOf(chat)[0].status, 'cancelled');
  assert.deepEqual(view.rules.turns.get(turns[0].id).ends, ['paused', 'completed']);
  assert.deepEqual(ends(view, chat), ['awaiting_answer']);
  const late = await view.answer(calls[0].id, { selections: { 0: [0] } });
  assert.deepEqual([late.ok, late.resolved], [true, false]);
  assert.equal((await fixture.rest.detail(view.session)).status, 'completed');
});

test('a stop while the question waits cancels it without a second chat:end', async () => {
  const view = await fixture.session();
  const { chat_id: chat, calls, turns } = await asked(view);
  assert.deepEqual(await view.stop(), { ok: true, stopped: true });
  await view.wait('the second turn:end', (e) => e.name === 'turn:end' && e.data.turn_id === turns[0].id && e.data.status === 'interrupted');
  await eventually('interrupted', async () => (await fixture.rest.detail(view.session)).status === 'interrupted');
  assert.equal(view.callsOf(chat)[0].status, 'cancelled');
  assert.deepEqual(await view.stop(), { ok: true, stopped: false });
  const late = await view.answer(calls[0].id, { selections: { 0: [0] } });
  assert.deepEqual([late.ok, late.resolved], [true, false]);
  const { end } = await view.run(steps({ text: 'and on' }));
  assert.equal(end.status, 'completed');
  assert.deepEqual(ends(view, chat), ['awaiting_answer']);
});

test('two questions at once: the chat goes on with the last answer', async () => {
  const view = await fixture.session();
  const {
    chat_id: chat,
    calls,
    end,
  } = await view.run(steps({ calls: [ask(colours), ask({ ...colours, question: 'And the other?' })] }, { text: 'both known' }));
  assert.equal(end.finish_reason, 'awaiting_answer');
  assert.deepEqual(calls.map((c) => c.status), ['awaiting_answer', 'awaiting_answer']);
  assert.equal((await view.answer(calls[1].id, { selections: { 0: [0] } })).resolved, true);
  await view.patch('tool_result', (p) => p.tool_call_id === calls[1].id);
  assert.equal((await fixture.rest.detail(view.session)).status, 'waiting_for_input');
  assert.equal(view.events.filter((e) => e.name === 'chat:start').length, 1);
  assert.equal((await view.answer(calls[0].id, { selections: { 0: [1] } })).resolved, true);
  assert.equal((await resumedEnd(view, chat)).finish_reason, 'completed');
  assert.deepEqual(view.callsOf(chat).map((c) => c.status), ['done', 'done']);
});

test('tools beside a question finish first', async () => {
  const view = await fixture.session();
  const { chat_id: chat, calls, end } = await view.run(steps(
    { calls: [ask(colours), call('Bash', { command: 'sleep 0.5; echo finished' })] }, { text: 'all known' }));
  assert.equal(end.finish_reason, 'awaiting_answer');
  assert.deepEqual(calls.map((c) => c.status), ['awaiting_answer', 'done']);
  assert.equal((await view.answer(calls[0].id, { selections: { 0: [1] } })).resolved, true);
  assert.equal((await resumedEnd(view, chat)).finish_reason, 'completed');
});

test('an answer while a tool beside the question still runs', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(
    steps(
      { calls: [ask(colours), call('Bash', { command: 'echo begun; until [ -e go ]; do sleep 0.05; done; echo finished' })] },
      { text: 'all known' },
    ),
  );
  await view.patch('tool_progress', (p) => p.text_delta.includes('begun'));
  const question = view.callsOf(chat)[0];
  assert.equal((await view.answer(question.id, { selections: { 0: [1] } })).resolved, true);
  await fixture.rest.put(`/api/sessions/${view.session}/files/go`, { content: '' });
  const end = await view.ended(chat);
  assert.equal(end.finish_reason, 'completed', 'the answered question made the chat wait');
  assert.deepEqual(ends(view, chat), ['completed']);
});

test('a message while a tool beside the question still runs joins the chat', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(
    steps(
      { calls: [ask(colours), call('Bash', { command: 'echo begun; until [ -e go ]; do sleep 0.05; done; echo finished' })] },
      { text: 'never said' },
    ),
  );
  await view.patch('tool_progress', (p) => p.text_delta.includes('begun'));
  const ack = await view.say(steps({ text: 'then without a colour' }));
  assert.equal(ack.chat_id, chat);
  await fixture.rest.put(`/api/sessions/${view.session}/files/go`, { content: '' });
  assert.equal((await view.ended(chat)).finish_reason, 'completed');
  assert.equal(view.callsOf(chat)[0].status, 'cancelled');
  assert.equal(view.rules.text(view.rules.assistants(chat).at(-1).id), 'then without a colour');
});

test('a stop while a tool beside the question still runs', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps({ calls: [ask(colours), call('Bash', { command: 'echo begun; sleep 600' })] }));
  await view.patch('tool_progress', (p) => p.text_delta.includes('begun'));
  assert.deepEqual(await view.stop(), { ok: true, stopped: true });
  assert.equal((await view.ended(chat)).finish_reason, 'interrupted');
  assert.deepEqual(view.callsOf(chat).map((c) => c.status), ['cancelled', 'cancelled']);
  assert.equal(view.rules.assistants(chat)[0].status, 'interrupted');
  assert.equal((await view.run(steps({ text: 'next' }))).end.status, 'completed');
});

test('several questions in one chat, one after the other', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.run(
    order({ loop: { n: 3, call: { name: 'AskUserQuestion', arguments: { questions: [{ ...colours, question: 'Round {{i}}?' }] } } } }),
  );
  for (let round = 0; round < 3; round++) {
    await eventually(`round ${round}`, () => ends(view, chat).length === round + 1);
    const open = view.callsOf(chat).at(-1);
    assert.equal(open.status, 'awaiting_answer');
    assert.equal((await view.answer(open.id, { selections: { 0: [0] } })).resolved, true);
  }
  assert.equal((await resumedEnd(view, chat)).steps, 4);
  assert.deepEqual(ends(view, chat), ['awaiting_answer', 'awaiting_answer', 'awaiting_answer', 'completed']);
});

describe('a question that cannot be asked', () => {
  test('malformed', async () => {
    const view = await fixture.session();
    const { end, calls } = await view.run(
      steps({ calls: [call('AskUserQuestion', { questions: [] }), call('AskUserQuestion', { questions: 'x' })] }, { text: 'then not' }),
    );
    assert.equal(end.finish_reason, 'completed');
    assert.deepEqual(calls.map((c) => c.status), ['error', 'error']);
  });

  test('in a headless chat', async () => {
    const view = await fixture.session();
    const { end, calls } = await view.run(steps({ calls: [ask(colours)] }, { text: 'alone' }), { headless: true });
    assert.equal(end.finish_reason, 'completed');
    assert.deepEqual(end.result, { output: 'alone' });
    assert.equal(calls[0].status, 'error');
    const [request] = (await fixture.requests('"alone"')).slice(-1);
    assert.ok(request === undefined || !request.body.tools.some((t) => t.function.name === 'AskUserQuestion'));
  });
});

test('a queued message waits no longer than the stop of a question', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(steps({ text: 'let me ask soon', ...{ calls: [ask(colours)] }, hold: true, hold_after: 2 }));
  await view.said('let me');
  const queued = await view.say(steps({ text: 'from the queue' }));
  assert.equal((await fixture.releaseUntil(view.ended(chat))).finish_reason, 'awaiting_answer');
  await view.stop();
  assert.equal((await view.ended(queued.chat_id)).status, 'completed');
});

// A message steered into a model call that turns out to ask.
async function steeredIntoQuestion() {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(
    steps({ text: 'let me ask soon', calls: [ask(colours)], hold: true, hold_after: 2 }, { text: 'thank you' }),
  );
  await view.said('let me');
  const steered = await view.say(steps({ text: 'I heard the other thing' }), { delivery: 'steer' });
  assert.equal(steered.chat_id, chat);
  assert.equal((await fixture.releaseUntil(view.ended(chat))).finish_reason, 'awaiting_answer');
  const joined = () =>
    view.wait('the steered turn', (e) => e.name === 'turn:start' && e.data.turn_id === steered.turn_id).then((e) => e.data);
  return { view, chat, joined };
}

describe('a message that was steered into the call that asks', () => {
  test('joins after the answer', async () => {
    const { view, chat, joined } = await steeredIntoQuestion();
    assert.equal((await view.answer(view.callsOf(chat)[0].id, { selections: { 0: [0] } })).resolved, true);
    assert.equal((await joined()).chat_id, chat);
    assert.equal((await resumedEnd(view, chat)).status, 'completed');
  });

  test('is not lost with a message instead of the answer', async () => {
    const { view, chat, joined } = await steeredIntoQuestion();
    const next = await view.run(steps({ text: 'something else' }));
    assert.equal(next.end.status, 'completed');
    const turn = await joined();
    assert.notEqual(turn.chat_id, chat);
    assert.equal((await view.ended(turn.chat_id)).status, 'completed');
  });

  test('is not lost with a stop', async () => {
    const { view, joined } = await steeredIntoQuestion();
    await view.stop();
    assert.equal((await view.ended((await joined()).chat_id)).status, 'completed');
  });
});
