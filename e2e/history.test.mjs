// Checkpoints, rewind, checkout, branches, what-if and their comparison, over the
// public interface.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
// The messages of these sessions are those of one branch, so what was streamed
// is not compared with them as a whole.
afterEach(() => fixture.forget());

const checkpoints = (id) => fixture.rest.get(`/api/sessions/${id}/checkpoints`);
const history = (id) => fixture.rest.get(`/api/sessions/${id}/history`);
const rewind = (id, checkpoint) => fixture.rest.post(`/api/sessions/${id}/rewind`, { checkpoint_id: checkpoint });
const switchBranch = (id, checkpoint) => fixture.rest.post(`/api/sessions/${id}/switch-branch`, { checkpoint_id: checkpoint });
const checkout = (id, body) => fixture.rest.post(`/api/sessions/${id}/checkout`, body);
const before_ = async (id, turn) => (await checkpoints(id)).find((c) => c.turn_id === turn && c.kind === 'user_turn');

// listing gives every path of the workspace with what it is, as the agent sees it.
async function tree(view) {
  const { calls } = await view.run(
    steps(
      bash(
        `find . -path ./.everloop -prune -o -mindepth 1 -printf '%P %y %m %l ' -a \\( -type f -exec sha256sum {} \\; ` +
          `-o -printf '\\n' \\) | sort`,
      ),
      { text: 'seen' },
    ),
  );
  return calls[0].result;
}

const roles = (messages) => messages.map((m) => m.role);
const texts = (messages) => messages.map((m) => m.blocks.filter((b) => b.type === 'text').map((b) => b.content).join(''));

function dense(messages) {
  messages.forEach((m, i) => assert.equal(m.sequence, i, `message ${m.id}`));
}

describe('rewind', () => {
  test('takes conversation and files back, and a switch brings them forth', async () => {
    const view = await fixture.session();
    const id = view.session;
    const one = await view.run(steps(bash('echo 1 > a.txt; mkdir -p d; echo deep > d/x'), { text: 'first done' }));
    const two = await view.run(
      order({ said: 'second message', steps: [bash('echo 2 > a.txt; rm -r d; echo b > b.txt'), { text: 'second done' }] }),
    );
    // Files are captured beside the chat, and may come a moment after its end.
    const list = await eventually('the files are captured', async () => {
      const found = await checkpoints(id);
      return found.every((c) => c.files.complete) && found;
    });
    assert.deepEqual(list.map((c) => c.kind), ['user_turn', 'user_turn']);
    assert.deepEqual(list.map((c) => c.turn_id), [one.turn_id, two.turn_id]);
    assert.ok(list[1].label.startsWith('second message'));
    for (const c of list) {
      assert.deepEqual(Object.keys(c.files).sort(), ['added', 'bytes', 'changed', 'complete', 'deleted', 'snapshot_id']);
      assert.ok(c.files.snapshot_id);
    }
    assert.equal(list[0].files.added, 0);
    assert.ok(list[1].files.added >= 2, JSON.stringify(list[1].files));
    assert.equal(list[1].parent_checkpoint_id, list[0].checkpoint_id);
    assert.equal(list[1].message_count, 3);
    assert.equal(list[1].step, 2);
    assert.deepEqual(list.map((c) => c.current), [false, true]);
    const created = view.events.filter((e) => e.name === 'checkpoint:created').map((e) => e.data);
    assert.deepEqual(created.map((e) => e.checkpoint_id), list.map((c) => c.checkpoint_id));
    assert.deepEqual(created.map((e) => e.turn_id), [one.turn_id, two.turn_id]);

    const all = await fixture.rest.messages(id);
    assert.equal((await fixture.rest.detail(id)).last_end.chat_id, two.chat_id);
    const moved = await rewind(id, list[1].checkpoint_id);
    assert.equal((await fixture.rest.detail(id)).last_end, null, 'no chat has ended since');
    assert.equal(moved.session_id, id);
    assert.equal(moved.checkpoint_id, list[1].checkpoint_id);
    assert.ok(moved.message.startsWith('second message'));
    assert.deepEqual(moved.removed_turn_ids, all.slice(3).map((m) => m.turn_id));
    assert.equal(moved.head_turn_id, all[2].turn_id);
    assert.deepEqual(moved.files.skipped, []);
    assert.equal(moved.cancelled.questions, 0);
    assert.equal(await fixture.rest.file(id, 'a.txt'), '1\n');
    assert.equal(await fixture.rest.file(id, 'd/x'), 'deep\n');
    assert.equal((await fixture.rest.call('GET', `/api/sessions/${id}/files/b.txt`)).status, 404);
    assert.deepEqual(
      (await fixture.rest.messages(id)).map((m) => m.turn_id),
      all.slice(0, 3).map((m) => m.turn_id),
    );
    await view.wait(
      'the move',
      (e) => e.name === 'session:updated' && e.data.history?.reason === 'rewind' && e.data.history.branch_id === moved.branch_id,
    );

    const instead = await view.run(steps({ text: 'roundabout-path' }));
    const now = await fixture.rest.messages(id);
    dense(now);
    assert.equal(now.length, 5);
    assert.equal(view.rules.turns.get(instead.turn_id).sequence, 3);
    assert.equal(
      JSON.stringify(await fixture.requests('roundabout-path')).includes('second message'),
      false,
      'the model was sent the abandoned branch',
    );

    const back = await switchBranch(id, list[1].checkpoint_id);
    assert.equal(back.branch_id, moved.previous_branch_id);
    assert.equal(await fixture.rest.file(id, 'a.txt'), '2\n');
    assert.equal(await fixture.rest.file(id, 'b.txt'), 'b\n');
    assert.deepEqual(await fixture.rest.messages(id), all);
    const again = await view.run(steps(bash('cat a.txt'), { text: 'still usable' }));
    assert.equal(again.calls[0].result.trim(), '2');
  });

  const git = !spawnSync('git', ['--version']).error;
  test('keeps repositories, empty directories, links and modes', { skip: !git && 'git is not installed' }, async () => {
    const view = await fixture.session();
    const id = view.session;
    await view.run(
      steps(
        bash(
          [
            'git init -q outer && cd outer && git config user.email a@b && git config user.name n && echo 1 > f && git add f && ' +
              'git commit -qm one',
            'git init -q inner && cd inner && git config user.email a@b && git config user.name n && echo 2 > g && git add g && ' +
              'git commit -qm two && cd ..',
            'cd .. && mkdir -p empty/deeper && ln -s outer/f link && ln -s /nowhere dangling && echo x > run.sh && chmod 741 run.sh',
            'printf "%s" "name with spaces" > "a file" && printf x > .hidden && chmod 700 empty',
          ].join('\n'),
        ),
        { text: 'built' },
      ),
    );
    const was = await tree(view);
    assert.match(was, /inner\/\.git\/HEAD/);
    const two = await view.run(
      steps(
        bash('chmod -R u+w . ; rm -rf outer empty link dangling run.sh "a file" .hidden; mkdir link; echo y > link/y; echo z > empty'),
        { text: 'destroyed' },
      ),
    );
    const moved = await rewind(id, (await before_(id, two.turn_id)).checkpoint_id);
    assert.deepEqual(moved.files.skipped, []);
    assert.equal(await tree(view), was);
    const { calls } = await view.run(
      steps(bash('cd outer/inner && git log --oneline | wc -l && git status --porcelain | wc -l && cd .. && git log --oneline | wc -l'), {
        text: 'ok',
      }),
    );
    assert.deepEqual(calls[0].result.trim().split(/\s+/), ['1', '0', '1']);
  });

  test('brings a file of 100 MB back', async () => {
    const view = await fixture.session();
    const id = view.session;
    const made = await view.run(steps(bash('head -c 104857600 /dev/urandom > big; sha256sum big'), { text: 'made' }));
    const two = await view.run(
      steps(bash('printf changed | dd of=big bs=1 seek=50000000 conv=notrunc 2>/dev/null; sha256sum big'), { text: 'changed' }),
    );
    assert.notEqual(two.calls[0].result, made.calls[0].result);
    await rewind(id, (await before_(id, two.turn_id)).checkpoint_id);
    const again = await view.run(steps(bash('sha256sum big'), { text: 'seen' }));
    assert.equal(again.calls[0].result, made.calls[0].result);
  });

  test('needs an idle session and a checkpoint of it', async () => {
    const view = await fixture.session();
    const id = view.session;
    const one = await view.run(steps(bash('echo 1 > a.txt'), { text: 'first' }));
    const point = (await before_(id, one.turn_id)).checkpoint_id;
    const { chat_id: chat } = await view.say(steps({ text: 'one two three', hold: true, hold_after: 1 }));
    await view.said('one');
    for (const [path, body] of [['rewind', { checkpoint_id: point }], ['switch-branch', { checkpoint_id: point }]]) {
      const answer = await fixture.rest.call('POST', `/api/sessions/${id}/${path}`, body);
      assert.equal(answer.status, 409);
      assert.equal(answer.body.code, 'session_busy');
      assert.equal(answer.body.retryable, true);
    }
    assert.equal((await view.send('x', { whatif: { from_step: 1 } })).error.code, 'session_busy');
    const looked = await checkout(id, { checkpoint_id: point });
    assert.equal(looked.turns.length, 0, 'looking is allowed');
    await view.stop();
    await view.ended(chat);
    for (const path of ['rewind', 'switch-branch', 'checkout']) {
      const unknown = await fixture.rest.call('POST', `/api/sessions/${id}/${path}`, { checkpoint_id: 'none' });
      assert.equal(unknown.status, 404);
      assert.equal(unknown.body.code, 'checkpoint_not_found');
      assert.equal((await fixture.rest.call('POST', `/api/sessions/${id}/${path}`, {})).status, 422);
    }
    assert.equal(
      (await fixture.rest.call('POST', `/api/sessions/${id}/checkout`, { checkpoint_id: point, position: 'after' })).status,
      422,
    );
    const other = await fixture.session();
    assert.equal((await fixture.rest.call('POST', `/api/sessions/${other.session}/rewind`, { checkpoint_id: point })).status, 404);
  });

  test('two at once: one wins, twice to the same place is fine', async () => {
    const view = await fixture.session();
    const id = view.session;
    const one = await view.run(steps(bash('echo 1 > a.txt'), { text: 'first' }));
    await view.run(steps(bash('echo 2 > a.txt'), { text: 'second' }));
    const point = (await before_(id, one.turn_id)).checkpoint_id;
    const answers = await Promise.all(
      [1, 2, 3].map(() => fixture.rest.call('POST', `/api/sessions/${id}/rewind`, { checkpoint_id: point })),
    );
    assert.ok(answers.some((a) => a.status === 200));
    for (const a of answers) assert.ok(a.status === 200 || a.body.code === 'session_busy', JSON.stringify(a.body));
    const again = await rewind(id, point);
    assert.deepEqual(again.removed_turn_ids, []);
    assert.deepEqual(await fixture.rest.messages(id), []);
    assert.equal((await fixture.rest.call('GET', `/api/sessions/${id}/files/a.txt`)).status, 404);
    assert.equal((await view.run(steps(bash('echo 3 > a.txt'), { text: 'again' }))).end.status, 'completed');
    dense(await fixture.rest.messages(id));
  });

  test('cancels an open question in the same step', async () => {
    const view = await fixture.session();
    const id = view.session;
    await view.run(steps({ text: 'first' }));
    const asked = await view.run(
      steps(
        { calls: [call('AskUserQuestion', { questions: [{ question: 'Which?', options: [{ label: 'A' }, { label: 'B' }] }] })] },
        { text: 'thanks' },
      ),
    );
    assert.equal(asked.end.finish_reason, 'awaiting_answer');
    const moved = await rewind(id, (await before_(id, asked.turn_id)).checkpoint_id);
    assert.equal(moved.cancelled.questions, 1);
    assert.ok(moved.cancelled.run_id);
    await view.wait('question:resolved', (e) => e.name === 'question:resolved' && e.data.resolution === 'cancelled');
    assert.equal((await fixture.rest.detail(id)).status, 'interrupted');
    const late = await view.answer(asked.calls[0].id, { selections: { 0: [0] } });
    assert.equal(late.resolved, false);
    assert.equal((await view.run(steps({ text: 'on we go' }))).end.status, 'completed');
    assert.deepEqual(roles(await fixture.rest.messages(id)), ['user', 'assistant', 'user', 'assistant']);
    assert.deepEqual(view.rules.problems, []);
  });

  test('goes back over a compaction, and over it again', async () => {
    const view = await fixture.session({ session_setup: { compaction: { keep_last: 2 } } });
    const id = view.session;
    const chat = (word, ...more) =>
      view.run(order({ said: `${word}-was-said ${'abc def '.repeat(100)}`, steps: [...more, { text: `${word} answered` }] }));
    await chat('alpha', bash('echo alpha > a.txt'));
    const beta = await chat('beta', bash('echo beta > a.txt'));
    await chat('gamma');
    assert.equal((await fixture.rest.post(`/api/sessions/${id}/compact`)).status, 'completed');
    const delta = await chat('delta', bash('echo delta > a.txt'));
    const all = await fixture.rest.messages(id);
    const kinds = (messages) => messages.filter((m) => m.kind === 'compaction').length;
    assert.equal(kinds(all), 1);
    // What the model was sent by the last call that holds a text.
    const sentTo = async (word) => JSON.stringify((await fixture.requests(word)).at(-1).body.messages);

    // To before it: it is gone, and what it archived is sent in full again.
    await rewind(id, (await before_(id, beta.turn_id)).checkpoint_id);
    assert.equal(await fixture.rest.file(id, 'a.txt'), 'alpha\n');
    assert.equal(kinds(await fixture.rest.messages(id)), 0);
    await chat('epsilon');
    assert.match(await sentTo('epsilon-was-said'), /alpha-was-said/);
    assert.doesNotMatch(await sentTo('epsilon-was-said'), /summarised|beta-was-said/);
    dense(await fixture.rest.messages(id));

    // To after it, on the branch that has it: the summary stands for the rest.
    await switchBranch(id, (await before_(id, delta.turn_id)).checkpoint_id);
    assert.deepEqual(await fixture.rest.messages(id), all);
    assert.equal(await fixture.rest.file(id, 'a.txt'), 'delta\n');
    await rewind(id, (await before_(id, delta.turn_id)).checkpoint_id);
    assert.equal(await fixture.rest.file(id, 'a.txt'), 'beta\n');
    assert.equal(kinds(await fixture.rest.messages(id)), 1);
    await chat('zeta');
    assert.match(await sentTo('zeta-was-said'), /summarised/);
    assert.doesNotMatch(await sentTo('zeta-was-said'), /delta-was-said|epsilon-was-said/);
    dense(await fixture.rest.messages(id));
    const { nodes } = await history(id);
    assert.equal(nodes.filter((n) => n.kind === 'compaction' && n.on_active_branch).length, 1);
  });

  test('leaves background tasks running, detached', async () => {
    const view = await fixture.session();
    const id = view.session;
    const one = await view.run(
      steps(bash('for i in $(seq 6000); do echo tick $i; sleep 0.1; done', { run_in_background: true }), { text: 'started' }),
    );
    const running = (await fixture.rest.get(`/api/sessions/${id}/background-tasks`)).items[0];
    assert.equal(running.status, 'running');
    const moved = await rewind(id, (await before_(id, one.turn_id)).checkpoint_id);
    assert.equal(moved.cancelled.background_tasks, 0);
    const now = (await fixture.rest.get(`/api/sessions/${id}/background-tasks`)).items[0];
    assert.equal(now.status, 'running');
    assert.equal(now.detached, true);
    await fixture.rest.post(`/api/sessions/${id}/background-tasks/${running.task_id}/stop`);
  });
});

describe('looking back', () => {
  test('checkout before and at the end of a turn', async () => {
    const view = await fixture.session();
    const id = view.session;
    await view.run(steps(bash('echo 1 > a.txt'), { text: 'first' }));
    const two = await view.run(steps(bash('echo 22 > b.txt'), bash('rm a.txt'), { text: 'second' }));
    await view.run(steps(bash('echo 3 > c.txt'), { text: 'third' }));
    const messages = await fixture.rest.messages(id);
    const point = (await before_(id, two.turn_id)).checkpoint_id;
    const was = await checkout(id, { checkpoint_id: point });
    assert.equal(was.position, 'before');
    assert.deepEqual(was.turns, messages.slice(0, 3));
    assert.deepEqual(was.files.map((f) => [f.path, f.size]), [['a.txt', 2]]);
    const end = await checkout(id, { checkpoint_id: point, position: 'turn_end' });
    assert.deepEqual(end.turns, messages.slice(0, 7));
    assert.deepEqual(end.files.filter((f) => f.change !== 'unchanged'), [
      { path: 'b.txt', change: 'created', size: 3 }, { path: 'a.txt', change: 'deleted', size: 0 }]);
    assert.deepEqual(await fixture.rest.messages(id), messages);
    assert.equal(await fixture.rest.file(id, 'c.txt'), '3\n');
  });

  test('viewers may look, only the owner moves', async () => {
    const view = await fixture.session();
    const id = view.session;
    const one = await view.run(steps({ text: 'first' }));
    const point = (await before_(id, one.turn_id)).checkpoint_id;
    const { api_key: key } = await fixture.rest.post('/api/admin/users', { username: `viewer-${Date.now()}` });
    const viewer = new fixture.rest.constructor(fixture.server.url, key.plaintext);
    const status = async (method, path, body) => (await viewer.call(method, `/api/sessions/${id}/${path}`, body)).status;
    assert.equal(await status('GET', 'checkpoints'), 404);
    assert.equal(await status('POST', 'rewind', { checkpoint_id: point }), 404);
    await fixture.rest.patch(`/api/sessions/${id}/sharing`, { shared: true });
    assert.equal(await status('GET', 'checkpoints'), 200);
    assert.equal(await status('GET', 'history'), 200);
    assert.equal(await status('POST', 'checkout', { checkpoint_id: point }), 200);
    assert.equal(await status('POST', 'rewind', { checkpoint_id: point }), 403);
    assert.equal(await status('POST', 'switch-branch', { checkpoint_id: point }), 403);
  });
});

describe('changed files', () => {
  test('a checkpoint is compared with the workspace and with another one, and its files are read', async () => {
    const view = await fixture.session();
    const id = view.session;
    await view.run(steps(
      bash(`echo one > a.txt; printf '\\0\\377' > bytes; mkdir d; echo x > d/gone; ln -s a.txt link; ln -s /etc/passwd out`),
      { text: 'made' },
    ));
    const two = await view.run(steps(bash('echo changed > a.txt; rm -r d; echo new > new.txt'), { text: 'changed' }));
    const point = await eventually('the files are captured', async () => {
      const found = await before_(id, two.turn_id);
      return found.files.snapshot_id && found.checkpoint_id;
    });
    const at = `/api/sessions/${id}/checkpoints/${point}`;
    const first = (await checkpoints(id))[0].checkpoint_id;

    const changed = await fixture.rest.get(`${at}/changes`);
    assert.deepEqual(changed, {
      items: [
        { path: 'a.txt', change: 'modified', type: 'file', size_before: 4, size_after: 8 },
        { path: 'd/gone', change: 'deleted', type: 'file', size_before: 2, size_after: null },
        { path: 'new.txt', change: 'created', type: 'file', size_before: null, size_after: 4 },
      ],
      total: 3,
    });
    assert.deepEqual(await fixture.rest.get(`${at}/changes?offset=1&limit=1`), { items: [changed.items[1]], total: 3 });
    const between = await fixture.rest.get(`/api/sessions/${id}/checkpoints/${first}/changes?to=${point}`);
    assert.deepEqual(between.items.map((one) => `${one.change} ${one.type} ${one.path}`), [
      'created file a.txt', 'created file bytes', 'created file d/gone', 'created link link', 'created link out',
    ]);
    await fixture.rest.put(`/api/sessions/${id}/files/a.txt`, { content: 'one\n' }); // as it was
    assert.deepEqual((await fixture.rest.get(`${at}/changes`)).items.map((one) => one.path), ['d/gone', 'new.txt']);

    const read = (path, headers = {}) => fetch(`${fixture.server.url}${at}/files/${path}`, {
      headers: { authorization: `Bearer ${fixture.server.key}`, ...headers },
    });
    const gone = await read('d/gone');
    assert.equal(await gone.text(), 'x\n');
    assert.equal((await read('link')).headers.get('content-length'), '4');
    const bytes = await read('bytes');
    assert.equal(bytes.headers.get('content-type'), 'application/octet-stream');
    assert.deepEqual([...new Uint8Array(await bytes.arrayBuffer())], [0, 255]);
    assert.equal(await (await read('a.txt', { range: 'bytes=1-2' })).text(), 'ne');
    assert.equal((await read('d/gone', { 'if-none-match': gone.headers.get('etag') })).status, 304);
    for (const [path, status, code] of [
      ['new.txt', 404, 'file_not_found'], ['d', 422, 'is_a_directory'], ['..%2Fx', 400, 'path_outside_workspace'],
      ['out', 400, 'path_outside_workspace'], ['%2Fetc%2Fpasswd', 400, 'path_outside_workspace'],
    ]) {
      const answer = await read(path);
      assert.deepEqual([answer.status, (await answer.json()).code], [status, code], path);
    }
    for (const path of ['none/changes', `${point}/changes?to=none`, 'none/files/a.txt']) {
      const { status, body } = await fixture.rest.call('GET', `/api/sessions/${id}/checkpoints/${path}`);
      assert.deepEqual([status, body.code], [404, 'checkpoint_not_found'], path);
    }
  });
});

describe('what-if', () => {
  test('runs on from a step with the files of then', async () => {
    const view = await fixture.session();
    const id = view.session;
    await view.run(steps(bash('echo 1 > a.txt'), bash('echo 2 > a.txt'), { text: 'base done' }));
    const base = await fixture.rest.messages(id);
    const tried = await view.run(steps(bash('cat a.txt; echo other > o.txt'), { text: 'other done' }), { whatif: { from_step: 1 } });
    assert.equal(tried.calls[0].result.trim(), '1');
    const start = view.events.find((e) => e.name === 'chat:start' && e.data.chat_id === tried.chat_id).data;
    assert.equal(start.trigger, 'whatif');
    const now = await fixture.rest.messages(id);
    dense(now);
    assert.deepEqual(now.slice(0, 2), base.slice(0, 2));
    assert.deepEqual(roles(now), ['user', 'assistant', 'user', 'assistant', 'assistant']);
    const { branches, nodes } = await history(id);
    assert.deepEqual(branches.map((b) => b.reason), ['root', 'whatif']);
    assert.equal(branches[1].forked_from_id, base[1].turn_id);
    assert.deepEqual(branches.map((b) => b.base_branch_id), [null, branches[0].branch_id]);
    assert.deepEqual(nodes.filter((n) => n.on_active_branch).map((n) => n.turn_id), now.map((m) => m.turn_id));
    assert.equal(nodes.filter((n) => n.is_head).length, 1);

    const diff = await fixture.rest.get(`/api/sessions/${id}/compare?base=${branches[0].branch_id}&other=${branches[1].branch_id}`);
    assert.deepEqual(diff.files, [{ path: 'a.txt', change: 'modified', size: 2 }, { path: 'o.txt', change: 'created', size: 6 }]);
    assert.deepEqual([diff.base.turns, diff.other.turns], [2, 3]);
    assert.ok(diff.other.usage.input_tokens > 0);
    assert.equal(diff.turns.length, 5);
    assert.equal((await fixture.rest.call('GET', `/api/sessions/${id}/compare?base=none&other=${branches[1].branch_id}`)).status, 404);
    assert.equal((await fixture.rest.call('GET', `/api/sessions/${id}/compare?base=${branches[0].branch_id}`)).status, 422);
  });

  test('without a message the loop simply runs on', async () => {
    const view = await fixture.session();
    const id = view.session;
    await view.run(steps(bash('echo 1 > a.txt'), { text: 'base done' }));
    const tried = await view.run('', { whatif: { from_step: 0 } });
    assert.equal(tried.turn_id, '');
    assert.equal(tried.end.status, 'completed');
    const now = await fixture.rest.messages(id);
    assert.deepEqual(roles(now), ['user', 'assistant', 'assistant']);
    assert.notEqual(now[1].chat_id, now[0].chat_id);
  });

  test('quotes go before the message, deprecated entries leave the context', async () => {
    const view = await fixture.session();
    const id = view.session;
    await view.run(steps({ text: 'an-answer-to-forget' }));
    const base = await fixture.rest.messages(id);
    const tried = await view.run(order({ said: 'think again', steps: [{ echo: true }] }), {
      whatif: { from_step: 1, quotes: [{ entry_id: base[1].id, text: 'a quoted line\nand another' }], deprecate_entry_ids: [base[1].id] },
    });
    assert.equal(tried.end.status, 'completed');
    const now = await fixture.rest.messages(id);
    assert.deepEqual(now.map((m) => m.deprecated), [false, true, false, false]);
    const said = texts(now)[2];
    assert.ok(said.indexOf('> a quoted line\n> and another') < said.indexOf('think again') && said.includes('> a quoted line'), said);
    const asked = (await fixture.requests('think again')).at(-1);
    assert.ok(!asked.body.messages.some((m) => m.role === 'assistant'), 'the deprecated answer was sent');
  });

  test('refuses what is out of range', async () => {
    const view = await fixture.session();
    const code = async (whatif) => (await view.send('x', { whatif })).error?.code;
    assert.equal(await code({ from_step: 0 }), 'invalid_request', 'there is nothing to run again');
    await view.run(steps({ text: 'one step' }));
    assert.equal(await code({ from_step: 2 }), 'invalid_request');
    assert.equal(await code({ from_step: -1 }), 'invalid_request');
    assert.equal(await code({}), 'invalid_request');
    assert.equal(await code({ from_step: 1, deprecate_entry_ids: ['none'] }), 'invalid_request');
    assert.equal((await view.run(steps({ text: 'fine' }), { whatif: { from_step: 1 } })).end.status, 'completed');
  });

  test('from a step of a sub-agent\'s turn keeps the sub-agent\'s turns', async (t) => {
    const view = await fixture.session();
    const id = view.session;
    const first = await view.run(
      steps(
        { calls: [call('Agent', { description: 'look', prompt: steps(bash('echo by-agent > agent.txt'), { text: 'agent done' }) })] },
        { text: 'main done' },
      ),
    );
    const base = await fixture.rest.messages(id);
    const inner = base.filter((m) => m.parent_fork_tool_call_id);
    assert.ok(inner.length > 0);
    const tried = await view.run(steps(bash('cat agent.txt'), { text: 'other' }), { whatif: { from_step: 1 } });
    assert.equal(tried.calls[0].result.trim(), 'by-agent');
    const now = await fixture.rest.messages(id);
    dense(now);
    assert.equal(now.filter((m) => m.parent_fork_tool_call_id).length, inner.length);
    await rewind(id, (await before_(id, first.turn_id)).checkpoint_id);
    assert.deepEqual(await fixture.rest.messages(id), []);
  });
});

test('steered messages have checkpoints of their own', async () => {
  const view = await fixture.session();
  const id = view.session;
  const { chat_id: chat, turn_id: one } = await view.say(
    order({ sticky: true, steps: [bash('echo 1 > a.txt; until [ -e go ]; do sleep 0.05; done'), { text: 'done' }] }),
  );
  await view.patch('add_tool_call');
  const steered = await view.say('and this', { delivery: 'steer' });
  assert.equal(steered.chat_id, chat);
  await fixture.rest.put(`/api/sessions/${id}/files/go`, { content: '' });
  await view.ended(chat);
  const list = await eventually('both are captured', async () => {
    const all = await checkpoints(id);
    return all.every((c) => c.files.snapshot_id) && all;
  });
  assert.deepEqual(list.map((c) => c.turn_id), [one, steered.turn_id]);
  await rewind(id, list[1].checkpoint_id);
  assert.equal(await fixture.rest.file(id, 'a.txt'), '1\n');
  assert.deepEqual(roles(await fixture.rest.messages(id)), ['user', 'assistant']);
});

test('the history says what the standing instructions cost', async () => {
  const view = await fixture.session();
  await view.run(steps({ text: 'x' }));
  const tree = await history(view.session);
  assert.ok(tree.system_prompt_tokens > 0);
  assert.ok(tree.tools_tokens > 0);
  assert.ok(tree.tokenizer_model);
  for (const n of tree.nodes) {
    for (const field of [
      'id',
      'parent_id',
      'children',
      'branch_id',
      'kind',
      'role',
      'turn_id',
      'sequence',
      'step',
      'label',
      'status',
      'tokens',
      'tool_names',
      'checkpoint_id',
      'is_head',
      'on_active_branch',
      'deprecated',
      'created_at',
    ])
      assert.ok(field in n, field);
  }
});
