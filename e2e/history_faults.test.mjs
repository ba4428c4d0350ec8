// kill -9 while files are captured and while a session is moved. Started again on
// the same data, the session is whole, before or after the move, and goes on.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Fixture, bash, eventually, order, steps } from './lib/fixture.mjs';

const recovery = 180_000;

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.forget());

const checkpoints = (id) => fixture.rest.get(`/api/sessions/${id}/checkpoints`);
const point = async (id, turn) => (await checkpoints(id)).find((c) => c.turn_id === turn && c.kind === 'user_turn').checkpoint_id;

async function crash(view) {
  const { signal } = await fixture.server.kill();
  assert.equal(signal, 'SIGKILL');
  await fixture.server.start();
  return fixture.follow(view.session, 0);
}

// many writes n files below 50 directories, by the shell alone.
const many = (n, word) => `mkdir -p d{0..49}; for i in {1..${n}}; do echo ${word} $i > d$((i % 50))/f$i; done`;
const sum = (view) =>
  view
    .run(
      steps(
        bash(
          'find . -path ./.everloop -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum; ' +
            'find . -path ./.everloop -prune -o -type f -print | wc -l',
        ),
        { text: 'seen' },
      ),
    )
    .then(({ calls }) => calls[0].result);

test('during a snapshot: it is made by the next process that needs it', async () => {
  const view = await fixture.session();
  const id = view.session;
  const one = await view.run(steps(bash(many(3000, 'one')), { text: 'first' }));
  const was = await sum(view);
  const { chat_id: chat, turn_id: two } = await view.say(
    order({
      said: 'two',
      steps: [
        bash('head -c 60000000 /dev/urandom > big; rm -r d1'),
        { text: 'wait here', first_delay_ms: 4000 },
        bash('rm big; rm -r d2'),
        { text: 'second' },
      ],
    }),
  );
  await view.patch('tool_result', (p) => view.rules.turns.get(p.turn_id)?.chat === chat);
  const again = await crash(view); // the 60 MB are being stored
  assert.equal((await again.ended(chat, { timeout: recovery })).status, 'completed');
  const list = await eventually('everything is captured', async () => {
    const all = await checkpoints(id);
    return all.every((c) => c.files.snapshot_id) && all;
  }, recovery);
  assert.deepEqual(list.filter((c) => c.turn_id === two).map((c) => c.files.complete), [true]);

  // After the step that was killed, the files are those of the step.
  const tried = await again.run(steps(bash('ls -d d1 d2 big; stat -c %s big'), { text: 'tried' }), { whatif: { from_step: 5 } });
  assert.match(tried.calls[0].result, /d2/);
  assert.match(tried.calls[0].result, /60000000/);
  await fixture.rest.post(`/api/sessions/${id}/rewind`, { checkpoint_id: await point(id, two) });
  assert.equal(await sum(again), was);
  assert.ok(one.turn_id);
});

const root = (id) => join(fixture.server.workspace, id);

// until polls the workspace closely, so that the kill falls where it should.
async function until(what, probe) {
  const deadline = Date.now() + 180_000;
  while (!probe()) {
    assert.ok(Date.now() < deadline, what);
    await pause(2);
  }
}

const backIn = (path) => {
  try {
    return readFileSync(path, 'utf8').startsWith('one');
  } catch {
    return false; // it is not there, or no longer
  }
};

// Where a rewind is killed: what is waited for after it was asked for. It writes
// some 2,500 files, those of d10 as the third directory of fifty.
const points = {
  'at once': async () => {},
  'when it is claimed': (view) =>
    view.wait('the checkpoint of what is left', (e) => e.name === 'checkpoint:created' && e.data.kind === 'pre_rewind'),
  'in the middle of the files': (view) => until('the first files of d10 are back', () => backIn(join(root(view.session), 'd10', 'f10'))),
  'when it was answered': (view, asked) => asked,
};

for (const [name, reached] of Object.entries(points)) {
  test(`during a rewind, ${name}`, async () => {
    const view = await fixture.session();
    const id = view.session;
    await view.run(steps(bash(many(2500, 'one')), { text: 'first' }));
    const was = await sum(view);
    const two = await view.run(steps(bash(`rm -r d1? ; ${many(1500, 'two')}; head -c 20000000 /dev/urandom > big`), { text: 'second' }));
    const then = await sum(view);
    const target = await point(id, two.turn_id);
    const all = await fixture.rest.messages(id);
    const asked = fixture.rest.call('POST', `/api/sessions/${id}/rewind`, { checkpoint_id: target }).catch(() => undefined);
    await reached(view, asked);
    const again = await crash(view);
    const answer = await asked;

    // What is sent meanwhile waits until the session is whole.
    const next = await again.say(steps(bash('echo next > next.txt'), { text: 'next done' }));
    assert.equal((await again.ended(next.chat_id, { timeout: recovery })).status, 'completed');
    const messages = await fixture.rest.messages(id);
    messages.forEach((m, i) => assert.equal(m.sequence, i));
    const back = messages.length < all.length;
    if (name !== 'at once') assert.ok(back, 'what was claimed is finished');
    if (answer?.status === 200) assert.ok(back, 'it was said to be done');
    if (name === 'when it was answered') assert.equal(answer?.status, 200);
    const kept = back ? all.findIndex((m) => m.turn_id === two.turn_id) : all.length;
    assert.deepEqual(messages.slice(0, kept).map((m) => m.turn_id), all.slice(0, kept).map((m) => m.turn_id));
    const { calls } = await again.run(steps(bash('rm next.txt'), { text: 'ok' }));
    assert.equal(calls[0].status, 'done');
    assert.equal(await sum(again), back ? was : then, back ? 'the rewind was finished' : 'the rewind was never begun');

    // Both ends of the move can still be gone to.
    if (back) {
      await fixture.rest.post(`/api/sessions/${id}/switch-branch`, { checkpoint_id: target });
      assert.equal(await sum(again), then);
    }
    const { body } = await fixture.rest.call('POST', `/api/sessions/${id}/rewind`, { checkpoint_id: target });
    assert.equal(body.checkpoint_id, target, JSON.stringify(body));
    assert.equal(await sum(again), was);
  });
}

test('during a what-if: the message survives, and its chat runs once', async () => {
  const view = await fixture.session();
  const id = view.session;
  await view.run(steps(bash(many(3000, 'one')), bash(many(3000, 'two')), { text: 'first' }));
  const { chat_id: chat } = await view.say(steps(bash('cat d1/f1; echo ran >> ran.txt; wc -l < ran.txt'), { text: 'tried' }), {
    whatif: { from_step: 1 },
  });
  const again = await crash(view);
  assert.equal((await again.ended(chat, { timeout: recovery })).status, 'completed');
  const results = again.callsOf(chat).map((c) => c.result);
  assert.match(results.at(-1), /one 1/);
  assert.equal(again.events.filter((e) => e.name === 'chat:end' && e.data.chat_id === chat).length, 1);
  assert.deepEqual(again.rules.problems, []);
});
