// kill -9 of the whole service under sub-agents, background tasks and headless
// runs: no effect twice, each chat ends once, what was lost says so, and the
// sessions go on.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';

const recovery = 180_000;

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

const agent = (description, list, more = {}) => call('Agent', { description, prompt: order({ steps: list, note: description }), ...more });
const ask = () => call('AskUserQuestion', { questions: [{ question: 'Which colour?', options: [{ label: 'red' }, { label: 'blue' }] }] });
const of = (messages, loop) => messages.filter((m) => m.loop_id === loop);
const ends = (view, chat) => view.events.filter((e) => e.name === 'chat:end' && e.data.chat_id === chat).map((e) => e.data.finish_reason);

// crash kills the service, starts it again and follows the session again.
async function crash(view) {
  assert.deepEqual(view.rules.problems, []);
  assert.equal((await fixture.server.kill()).signal, 'SIGKILL');
  await fixture.server.start();
  return fixture.follow(view.session, 0);
}

async function usable(view) {
  assert.equal((await view.run(steps(bash('echo alive'), { text: 'still usable' }))).end.status, 'completed');
}

async function lines(view, file) {
  return (await fixture.rest.file(view.session, file)).trim().split('\n').length;
}

test('sub-agents, nested and asking, go on and repeat nothing', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(
    steps(
      {
        calls: [
          agent('counts', [bash('echo x >> count'), { text: 'word by word and on', delay_ms: 400 }]),
          agent('nests', [
            { calls: [agent('inner', [bash('echo y >> inner'), { text: 'inside', first_delay_ms: 1500 }])] },
            { text: 'nested' },
          ]),
          agent('asks', [{ calls: [ask()] }, { text: 'asked' }]),
        ],
      },
      { text: 'done' },
    ),
  );
  await view.wait('the question', (e) => e.data.tool_call?.tool_name === 'AskUserQuestion');
  await view.wait('the marks', () => view.events.filter((e) => e.data.patch_type === 'tool_result').length >= 2);
  const again = await crash(view);
  assert.equal((await again.ended(chat, { timeout: recovery })).finish_reason, 'awaiting_answer');
  const question = [...again.rules.turns.values()].flatMap((t) => [...t.calls.values()]).find((c) => c.tool_name === 'AskUserQuestion');
  assert.equal((await again.answer(question.id, { selections: { 0: [0] } })).resolved, true);
  await again.wait('the second end', () => ends(again, chat).length === 2);
  assert.deepEqual(ends(again, chat), ['awaiting_answer', 'completed']);
  const calls = of(await fixture.rest.messages(view.session), 'root')[1].tool_calls;
  assert.deepEqual(calls.map((c) => [c.status, c.result]), [['done', 'word by word and on'], ['done', 'nested'], ['done', 'asked']]);
  for (const file of ['count', 'inner']) assert.equal(await lines(view, file), 1, `${file} was written more than once`);
  await usable(again);
});

test('a command of a sub-agent that was under way is not run again', async () => {
  const view = await fixture.session();
  const { chat_id: chat } = await view.say(
    steps(
      {
        calls: [
          agent('writes', [bash('echo z >> once; echo begun; sleep 600'), { text: 'went on' }]),
          agent('beside', [{ text: 'beside' }]),
        ],
      },
      { text: 'done' },
    ),
  );
  await view.patch('tool_progress');
  const again = await crash(view);
  assert.equal((await again.ended(chat, { timeout: recovery })).finish_reason, 'completed');
  const messages = await fixture.rest.messages(view.session);
  const [writes, beside] = of(messages, 'root')[1].tool_calls;
  assert.deepEqual([writes.result, beside.result], ['went on', 'beside']);
  const [command] = of(messages, writes.id).flatMap((m) => m.tool_calls);
  assert.equal(command.status, 'error');
  assert.match(command.result, /not run again|unknown|lost/);
  assert.equal(await lines(view, 'once'), 1);
  await usable(again);
  assert.deepEqual(ends(again, chat), ['completed']);
});

test('background work: a sub-agent goes on, a command is lost with a reason and not run again', async () => {
  const view = await fixture.session();
  const run = await view.run(steps(
    { calls: [
      agent('digs', [bash('echo a >> dug'), { text: 'gold, word by word, until it is all', hold: true }], { run_in_background: true }),
      call('Bash', { command: 'echo b >> ran; echo begun; sleep 600', run_in_background: true }),
    ] },
    { text: 'they work' },
  ));
  assert.equal(run.end.finish_reason, 'completed');
  const path = `/api/sessions/${view.session}/background-tasks`;
  const task = async (kind) => (await fixture.rest.get(path)).items.find((t) => t.kind === kind);
  await view.said('gold,');
  await eventually('the command began', async () =>
    (await fixture.rest.get(`${path}/${(await task('shell')).task_id}`)).lines.join().includes('begun'),
  );
  const again = await crash(view);
  await eventually('the command is lost', async () => (await task('shell')).status === 'lost', recovery);
  assert.match((await task('shell')).reason, /worker/);
  assert.match((await fixture.rest.get(`${path}/${(await task('shell')).task_id}`)).lines.join(), /begun/, 'what it wrote is kept');
  await fixture.releaseUntil(eventually('the sub-agent has ended', async () => (await task('agent')).status === 'completed', recovery));
  for (const file of ['dug', 'ran']) assert.equal(await lines(view, file), 1, `${file} was written more than once`);
  const next = await again.run(steps({ text: 'good' }));
  const notes = (await fixture.rest.messages(view.session))
    .filter((m) => m.role === 'system' && m.chat_id === next.chat_id)
    .map((m) => m.blocks[0].content)
    .join('\n');
  assert.match(notes, /until it is all/);
  assert.match(notes, /lost/);
  assert.deepEqual(ends(again, run.chat_id), ['completed']);
});

test('a headless run goes on to one result', async () => {
  const view = await fixture.session();
  const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
  const { chat_id: chat } = await view.say(steps(
    { calls: [call('Bash', { command: 'echo h >> did' }), agent('helps', [{ text: 'slowly but surely there', delay_ms: 400 }])] },
    { text: '{"n": "no"}' },
    { text: '{"n": 7}', first_delay_ms: 500 },
  ), { output_schema: schema });
  await view.said('slowly');
  const again = await crash(view);
  const end = await again.ended(chat, { timeout: recovery });
  assert.deepEqual([end.finish_reason, end.result], ['completed', { output: { n: 7 }, schema }]);
  assert.equal(await lines(view, 'did'), 1);
  assert.deepEqual(ends(again, chat), ['completed']);
  await usable(again);
});
