// Sharing, export and import, extra info (docs/sharing.md): what leaves a session, who can see it, and what comes in.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { Rest } from './lib/rest.mjs';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';
import { unzip, zip } from './lib/zip.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
const hash = (data) => createHash('sha256').update(data).digest('hex');

// bytes is a request whose answer is taken as it comes.
async function bytes(rest, path, headers = {}) {
  const answer = await fetch(rest.url + path, { headers: { ...(rest.key ? { authorization: `Bearer ${rest.key}` } : {}), ...headers } });
  return { status: answer.status, headers: answer.headers, data: Buffer.from(await answer.arrayBuffer()) };
}

// upload sends an archive as a form.
async function upload(rest, path, archive, fields = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  if (archive) form.append('file', new Blob([archive]), 'session.zip');
  const answer = await fetch(rest.url + path, { method: 'POST', headers: { authorization: `Bearer ${rest.key}` }, body: form });
  return { status: answer.status, body: await answer.json() };
}
const preview = async (archive, rest = fixture.rest) => {
  const { status, body } = await upload(rest, '/api/sessions/preview-import', archive);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
};
const load = (archive, fields, rest = fixture.rest) => upload(rest, '/api/sessions/import', archive, fields);
const exported = async (id, rest = fixture.rest) => {
  const { status, headers, data } = await bytes(rest, `/api/sessions/${id}/export`);
  assert.equal(status, 200);
  assert.match(headers.get('content-type'), /^application\/zip/);
  assert.match(headers.get('content-disposition'), /attachment; filename="session-.*\.zip"/);
  return data;
};
const person = async (name) => {
  const { api_key: key } = await fixture.rest.post('/api/admin/users', { username: `${name}-${Date.now()}` });
  return new Rest(fixture.server.url, key.plaintext);
};
const sessions = async () => (await fixture.rest.get('/api/sessions?limit=1')).total;

// list gives the files below a directory of a session, with their contents.
async function files(id, dir = '') {
  const all = {};
  for (const entry of await fixture.rest.get(`/api/sessions/${id}/ls/${dir}`)) {
    const path = dir ? `${dir}/${entry.name}` : entry.name;
    if (entry.type === 'directory') Object.assign(all, { [`${path}/`]: '' }, await files(id, path));
    else {
      const { status, data } = await bytes(fixture.rest, `/api/sessions/${id}/files/${encodeURI(path)}`);
      all[path] = status === 200 ? hash(data) : status; // a link that leads nowhere
    }
  }
  return all;
}

// anonymous gives turns without what is another one's by right: ids, in the order in
// which they come.
function anonymous(turns, session) {
  const names = new Map([[session, 'SESSION']]);
  const note = (id) => { if (id && !names.has(id)) names.set(id, `ID${names.size}`); };
  for (const t of turns) {
    [t.id, t.turn_id, t.chat_id, t.compaction_id].forEach(note);
    for (const c of t.tool_calls) { note(c.id); note(c.pending_question_ref?.question_id); }
  }
  let text = JSON.stringify(turns);
  for (const [id, name] of names) text = text.replaceAll(id, name);
  return JSON.parse(text);
}

// tree gives the shape of a history: its branches and nodes by their places.
async function tree(id) {
  const history = await fixture.rest.get(`/api/sessions/${id}/history`);
  const names = new Map(history.branches.map((b, i) => [b.branch_id, `B${i}`]));
  history.nodes.forEach((n, i) => names.set(n.id, `N${i}`));
  return {
    branches: history.branches.map((b) => [names.get(b.branch_id), b.reason, names.get(b.forked_from_id)]),
    nodes: history.nodes.map((n) => [
      names.get(n.parent_id),
      names.get(n.branch_id),
      n.kind,
      n.role,
      n.label,
      n.status,
      n.is_head,
      n.on_active_branch,
      n.deprecated,
    ]),
  };
}

// rich makes a session with all that one can have.
async function rich(settings = {}) {
  const view = await fixture.session({ intent: 'the rich one', env: { TOKEN: 'tok-9931-secret-value' }, ...settings });
  const id = view.session;
  await view.run([
    {
      type: 'text',
      text: steps(
        { thinking: 'hm', calls: [call('Write', { file_path: 'notes/ä 😀.txt', content: 'alpha\n' })] },
        bash(
          'printf "#!/bin/sh\\n" > run.sh; chmod 755 run.sh; ln -s notes/x link; mkdir -p hollow/dir; head -c 3000000 /dev/zero > zeros; ' +
            'cat nothing',
        ),
        { text: 'first answer' },
      ),
    },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${png.toString('base64')}` } },
  ]);
  const second = await view.run(steps(bash('echo one > state.txt'), { text: 'second answer' }));
  await view.run(steps(bash('echo two > state.txt'), { text: 'third answer' }));
  const points = await eventually('the files are captured', async () => {
    const all = await fixture.rest.get(`/api/sessions/${id}/checkpoints`);
    return all.every((c) => c.files.snapshot_id) && all;
  });
  const third = (await fixture.rest.messages(id)).filter((t) => t.role === 'user')[2].turn_id;
  await fixture.rest.post(`/api/sessions/${id}/rewind`, {
    checkpoint_id: points.find((c) => c.turn_id === third && c.kind === 'user_turn').checkpoint_id,
  });
  await view.run(
    steps({ calls: [call('TaskCreate', { subject: 'tidy up' })] }, bash('echo three > state.txt'), { text: 'another third answer' }),
  );
  await fixture.rest.post(`/api/sessions/${id}/upset_extra_info`, { extra: { task_id: `T-${id}`, n: 1 } });
  assert.ok(second);
  return view;
}

describe('export and import', () => {
  test('a session comes back with its messages, branches, files and pictures', async () => {
    const view = await rich();
    const id = view.session;
    const archive = await exported(id);
    const members = unzip(archive);
    for (const name of [
      'manifest.json',
      'session.json',
      'turns.jsonl',
      'events.jsonl',
      'checkpoints.json',
      'history.json',
      'memories.json',
      'workspace/state.txt',
      `attachments/${hash(png)}`,
    ]) {
      assert.ok(members.has(name), name);
    }
    const manifest = JSON.parse(members.get('manifest.json').data);
    assert.equal(manifest.format_version, 1);
    assert.equal(manifest.session.id, id);
    assert.deepEqual(manifest.links, [{ path: 'link', target: 'notes/x' }]);
    for (const m of manifest.members) assert.equal(m.sha256, hash(members.get(m.name).data), m.name);
    assert.equal(manifest.members.length, [...members.keys()].filter((n) => n !== 'manifest.json' && !n.endsWith('/')).length);
    for (const [name, { data }] of members) {
      for (const secret of ['tok-9931-secret-value', fixture.server.key]) assert.ok(!data.includes(secret), `${name} holds a secret`);
    }

    const seen = await preview(archive);
    assert.equal(seen.compatible, true);
    assert.deepEqual(seen.errors, []);
    assert.equal(seen.format_version, 1);
    assert.equal(seen.session.intent, 'the rich one');
    assert.deepEqual(
      [seen.counts.branches, seen.counts.files > 3, seen.counts.turns > 10, seen.counts.checkpoints > 4],
      [2, true, true, true],
    );
    assert.match(seen.warnings.join(), /TOKEN/);
    assert.deepEqual(seen.missing, []);

    const count = await sessions();
    const { status, body: made } = await load(archive);
    assert.equal(status, 200, JSON.stringify(made));
    assert.equal(await sessions(), count + 1);
    assert.notEqual(made.id, id);
    assert.equal(made.viewer_role, 'owner');
    assert.equal(made.intent, 'the rich one');
    assert.equal(made.imported_from.session_id, id);
    const [was, is] = [await fixture.rest.messages(id), await fixture.rest.messages(made.id)];
    assert.deepEqual(anonymous(is, made.id), anonymous(was, id));
    assert.ok(!JSON.stringify(is).includes(id), 'the copy names the session that it was made from');
    assert.deepEqual(await tree(made.id), await tree(id));
    const [before, now] = [await files(id), await files(made.id)];
    for (const all of [before, now]) for (const path of Object.keys(all)) if (path.startsWith('.everloop')) delete all[path];
    assert.deepEqual(now, before);
    const image = is[0].blocks.find((b) => b.type === 'image').content;
    assert.equal(image, `/api/sessions/${made.id}/attachments/${hash(png)}`);
    assert.deepEqual((await bytes(fixture.rest, image)).data, png);
    assert.deepEqual((await fixture.rest.get(`/api/sessions/${made.id}/tasks`)).items.map((t) => t.subject), ['tidy up']);
    assert.equal((await fixture.rest.get(`/api/sessions/${made.id}/extra_info`)).extra.n, 1);

    // It is a session of its own: it goes on, and back to its other branch.
    const copy = await fixture.follow(made.id, 0);
    const { calls } = await copy.run(steps(bash('cat state.txt; readlink link; stat -c %a run.sh; echo "[$TOKEN]"'), { text: 'mine' }));
    assert.match(calls[0].result, /three\nnotes\/x\n755\n\[\]/);
    const other = (await fixture.rest.get(`/api/sessions/${made.id}/checkpoints`)).find((c) => c.label && c.reverted);
    assert.ok(other, 'there is a checkpoint on the branch that was left');
    await fixture.rest.post(`/api/sessions/${made.id}/switch-branch`, { checkpoint_id: other.checkpoint_id });
    assert.equal(await fixture.rest.file(made.id, 'state.txt'), 'two\n', 'files of the other branch');
    assert.equal(await fixture.rest.file(id, 'state.txt'), 'three\n', 'the source was changed');

    const named = await load(archive, { name: 'renamed', solution_id: 'skill_editor' });
    assert.deepEqual([named.body.intent, named.body.solution_id], ['renamed', 'skill_editor']);
    assert.equal((await fixture.rest.get(`/api/sessions/${named.body.id}/replay/preview`)).supported, true, 'an import can be replayed');
    fixture.forget(); // the records are those of the branch that is active
  });

  test('an open question goes on waiting, and a running chat is interrupted', async () => {
    const view = await fixture.session();
    const ack = await view.say(
      steps(
        {
          calls: [call('AskUserQuestion', { questions: [{ question: 'Which?', header: 'W', options: [{ label: 'A' }, { label: 'B' }] }] })],
        },
        { text: 'thanks' },
      ),
    );
    await view.ended(ack.chat_id);
    const { body: waits } = await load(await exported(view.session));
    assert.equal(waits.status, 'waiting_for_input');
    const copy = await fixture.follow(waits.id, 0);
    const asked = (await fixture.rest.messages(waits.id)).flatMap((t) => t.tool_calls).find((c) => c.status === 'awaiting_answer');
    assert.equal((await copy.answer(asked.id, { selections: { 0: [1] }, custom: {} })).resolved, true);
    await eventually('it went on', async () => (await fixture.rest.detail(waits.id)).status === 'completed');
    assert.equal((await fixture.rest.messages(waits.id)).at(-1).blocks.map((b) => b.content).join(''), 'thanks');
    assert.equal((await fixture.rest.detail(view.session)).status, 'waiting_for_input', 'the source still waits');
    await view.stop();

    const busy = await fixture.session();
    const running = await busy.say(steps(bash('echo begun; until [ -e go ]; do sleep 0.05; done'), { text: 'done' }));
    await busy.patch('tool_progress', (p) => p.text_delta.includes('begun'));
    const archive = await exported(busy.session);
    assert.match((await preview(archive)).warnings.join(), /running/);
    const { body: cut } = await load(archive);
    assert.equal(cut.status, 'interrupted');
    assert.deepEqual((await fixture.rest.messages(cut.id)).at(-1).tool_calls.map((c) => c.status), ['cancelled']);
    await fixture.rest.put(`/api/sessions/${busy.session}/files/go`, { content: '' });
    await busy.ended(running.chat_id);
    fixture.forget(); // the copy's first events are those of its source
  });

  test('is for those who may read the session', async () => {
    const view = await fixture.session({ intent: 'mine' });
    await view.run(steps({ text: 'words' }));
    const viewer = await person('viewer');
    assert.equal((await bytes(viewer, `/api/sessions/${view.session}/export`)).status, 404);
    assert.equal((await bytes(new Rest(fixture.server.url), `/api/sessions/${view.session}/export`)).status, 401);
    await fixture.rest.patch(`/api/sessions/${view.session}/sharing`, { shared: true });
    const { body: made } = await load(await exported(view.session, viewer), {}, viewer);
    assert.equal(made.viewer_role, 'owner');
    assert.equal((await fixture.rest.call('GET', `/api/sessions/${made.id}`)).body.viewer_role, 'admin', 'it is the one who imported it');
  });

  test('an untrusted archive opens no environment and allows no calls', async () => {
    const view = await fixture.session({ session_setup: {
      env_buckets: ['prod'], permissions: [{ tool: 'Bash', decision: 'allow' }, { tool: 'Write', decision: 'ask' }], max_steps: 7 } });
    await view.run(steps({ text: 'x' }));
    const archive = await exported(view.session);
    const { warnings } = await preview(archive);
    assert.match(warnings.join(), /buckets/);
    assert.match(warnings.join(), /allow/);
    const { body: made } = await load(archive);
    const text = JSON.stringify(made.session_setup);
    assert.ok(!text.includes('prod') && !text.includes('"allow"'), text);
    assert.ok(text.includes('"ask"'));
    assert.equal(made.session_setup.max_steps, 7);
  });
});

describe('archives that are refused', () => {
  let good; // members of a good archive
  before(async () => {
    const view = await fixture.session({ intent: 'good' });
    await view.run(steps(bash('echo a > a.txt; echo run >> runs'), { text: 'ok' }));
    good = [...unzip(await exported(view.session))].map(([name, m]) => ({ name, data: m.data }));
    fixture.forget();
  });
  // signed lists the members with their right hashes, after a change.
  const signed = (change) => {
    const members = good.map((m) => ({ ...m }));
    const at = (name) => members.find((m) => m.name === name);
    const manifest = JSON.parse(at('manifest.json').data);
    const result = change(members, at, manifest) ?? members;
    manifest.members = result.filter((m) => m.name !== 'manifest.json' && !m.name.endsWith('/'))
      .map((m) => ({ name: m.name, size: m.size ?? Buffer.from(m.data).length, sha256: hash(Buffer.from(m.data)) }));
    at('manifest.json').data = JSON.stringify(manifest);
    return zip(result);
  };
  const raw = (change) => {
    const members = good.map((m) => ({ ...m }));
    return zip(change(members, (name) => members.find((m) => m.name === name)) ?? members);
  };
  const add = (member) =>
    signed((members) => {
      members.push(member);
    });
  const edit = (name, change) =>
    signed((_, at) => {
      const v = JSON.parse(at(name).data);
      at(name).data = JSON.stringify(change(v) ?? v);
    });
  const linked = (...links) =>
    signed((_, __, manifest) => {
      manifest.links = links;
    });

  const hostile = {
    'nothing at all': [() => Buffer.alloc(0), 'not_a_zip'],
    'a text': [() => Buffer.from('not a zip'), 'not_a_zip'],
    'half of one': [() => { const a = raw(() => {}); return a.subarray(0, a.length / 2); }, 'not_a_zip'],
    'a bomb': [() => add({ name: 'workspace/bomb', data: Buffer.alloc(40 << 20) }), 'zip_expands'],
    'a bomb that lies about its size': [() => add({ name: 'workspace/bomb', data: Buffer.alloc(3 << 20), size: 10 }), 'zip_damaged'],
    'a member of 3 GB, as it says': [
      () =>
        raw((m) => {
          m.push({ name: 'workspace/huge', data: 'x', size: 3 * 2 ** 30 });
        }),
      'zip_expands',
    ],
    'too many files': [
      () =>
        raw((m) => [...m, ...Array.from({ length: 200_001 - m.length }, (_, i) => ({ name: `workspace/${i}`, data: '', store: true }))]),
      null,
    ],
    'a path that escapes': [() => add({ name: 'workspace/../../evil', data: 'x' }), 'zip_unsafe_name'],
    'an absolute path': [() => add({ name: '/tmp/evil', data: 'x' }), 'zip_unsafe_name'],
    'a path with backslashes': [() => add({ name: 'workspace\\..\\evil', data: 'x' }), 'zip_unsafe_name'],
    'a name with a line break': [() => add({ name: 'workspace/a\nb', data: 'x' }), 'zip_unsafe_name'],
    'a link as a member': [() => add({ name: 'workspace/l', data: '/etc/passwd', mode: 0o120777 }), 'zip_not_regular'],
    'a device': [() => add({ name: 'workspace/dev', data: '', mode: 0o020666 }), 'zip_not_regular'],
    'a member twice': [() => raw((m) => { m.push({ name: 'session.json', data: '{}' }); }), 'zip_name_twice'],
    'a file below a file': [() => add({ name: 'workspace/a.txt/b', data: 'x' }), 'zip_name_twice'],
    'an encrypted member': [() => raw((m, at) => { at('session.json').flags = 1; }), 'zip_cannot_unpack'],
    'an unknown method': [() => raw((m, at) => { at('session.json').method = 12; }), 'zip_cannot_unpack'],
    'a wrong checksum': [() => raw((m, at) => { at('session.json').crc = 1; }), 'zip_damaged'],
    'a wrong hash': [() => raw((m, at) => { at('workspace/a.txt').data = 'b\n'; }), 'invalid_archive'],
    'a member that is not listed': [() => raw((m) => { m.push({ name: 'workspace/new', data: 'x' }); }), 'invalid_archive'],
    'no manifest': [() => raw((m) => m.filter((x) => x.name !== 'manifest.json')), 'invalid_archive'],
    'no turns': [() => signed((m) => m.filter((x) => x.name !== 'turns.jsonl')), 'invalid_archive'],
    'another format': [
      () =>
        raw((m, at) => {
          at('manifest.json').data = JSON.stringify({ ...JSON.parse(at('manifest.json').data), format_version: 2 });
        }),
      'invalid_archive',
    ],
    'broken JSON': [
      () =>
        signed((m, at) => {
          at('session.json').data = '{"id":';
        }),
      'invalid_archive',
    ],
    'JSON of another type': [
      () =>
        edit('session.json', (v) => {
          v.intent = 5;
        }),
      'invalid_archive',
    ],
    'JSON without end': [
      () =>
        signed((m, at) => {
          at('history.json').data = '['.repeat(1 << 20);
        }),
      'invalid_archive',
    ],
    'broken turns': [
      () =>
        signed((m, at) => {
          at('turns.jsonl').data = `${at('turns.jsonl').data}nonsense\n`;
        }),
      'invalid_archive',
    ],
    'broken memories': [
      () =>
        signed((m, at) => {
          at('memories.json').data = '{}';
        }),
      'invalid_archive',
    ],
    'a role of its own': [
      () =>
        edit('history.json', (v) => {
          v.chats[0].mode = 'root';
        }),
      'invalid_archive',
    ],
    'a count without measure': [
      () =>
        edit('history.json', (v) => {
          v.chats[0].round = 1e15;
        }),
      'invalid_archive',
    ],
    'a branch of a foreign session': [
      () =>
        edit('history.json', (v) => {
          v.active_branch_id = '01a1fd9d-6224-7ea9-bf7c-c6a63b60f273';
        }),
      'invalid_archive',
    ],
    'a snapshot that leaves': [
      () =>
        edit('checkpoints.json', (v) => {
          v.snapshots[0].files.push({ path: '../x', type: 'directory' });
        }),
      'invalid_archive',
    ],
    'a link that leaves': [() => linked({ path: 'l', target: '../../etc' }), 'invalid_archive'],
    'a link to the root': [() => linked({ path: 'l', target: '/etc/passwd' }), 'invalid_archive'],
    'a link over a file': [() => linked({ path: 'a.txt', target: 'runs' }), 'invalid_archive'],
    'a link by another link': [() => linked({ path: 'here', target: '.' }, { path: 'l', target: 'here/../x' }), 'invalid_archive'],
    'a picture that is a page': [() => add({ name: `attachments/${hash('<script>')}`, data: '<script>' }), 'invalid_archive', true],
  };

  test('say why, and leave nothing behind', async () => {
    const count = await sessions();
    for (const [what, [make, code, later]] of Object.entries(hostile)) {
      const archive = make();
      const { status, body } = await load(archive);
      assert.ok([413, 422].includes(status), `${what}: ${status} ${JSON.stringify(body)}`);
      if (code) assert.equal(body.code, code, `${what}: ${JSON.stringify(body)}`);
      assert.ok(body.detail && !body.detail.includes(fixture.server.dir), `${what}: ${body.detail}`);
      if (later) continue; // found while it is unpacked
      const seen = await preview(archive);
      assert.equal(seen.compatible, false, what);
      assert.equal(seen.errors.length, 1, what);
    }
    assert.equal(await sessions(), count);
    assert.equal((await load(raw(() => {}))).status, 200, 'what is taken apart and put together again is still good');
    await nothingLeft();
  });

  test('forms that are none', async () => {
    const path = '/api/sessions/import';
    for (const at of [path, '/api/sessions/preview-import']) {
      assert.equal((await fixture.rest.call('POST', at, {})).status, 415);
      assert.deepEqual((await upload(fixture.rest, at)).body.errors.map((e) => e.location), ['body.file']);
      assert.equal((await upload(new Rest(fixture.server.url, 'el_wrong'), at, raw(() => {}))).status, 401);
      const twice = new FormData();
      for (let i = 0; i < 2; i++) twice.append('file', new Blob([raw(() => {})]));
      const answer = await fetch(fixture.server.url + at, {
        method: 'POST',
        headers: { authorization: `Bearer ${fixture.server.key}` },
        body: twice,
      });
      assert.equal(answer.status, 422);
    }
    assert.equal((await load(raw(() => {}), { name: 'x'.repeat(100_001) })).status, 422);
    assert.equal((await load(raw(() => {}), { solution_id: 'x'.repeat(257) })).status, 422);
  });

  test('an upload that is cut off', async () => {
    const count = await sessions();
    const archive = raw(() => {});
    const head = `--b\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\n`;
    const request = (length) => `POST /api/sessions/import HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${fixture.server.key}\r\n`
      + `Content-Type: multipart/form-data; boundary=b\r\nContent-Length: ${length}\r\n\r\n${head}`;
    const half = archive.subarray(0, archive.length / 2);
    // send gives what came back; the client goes away when it has sent its half, or
    // when it was answered.
    const send = (length, leave) => new Promise((resolve, reject) => {
      let said = '';
      const socket = connect(fixture.server.ports.agent, fixture.server.host, () => {
        socket.write(request(length));
        socket.write(half, () => { if (leave) socket.destroy(); });
      });
      socket.on('data', (d) => { said += d; socket.end(); });
      socket.on('close', () => resolve(said));
      socket.on('error', reject);
    });
    // The body is all there, but the form ends in its middle.
    assert.match(await send(head.length + half.length, false), /^HTTP\/1\.1 400 [\s\S]*malformed_request/);
    // The client goes away before it has sent what it promised.
    assert.equal(await send(10 << 20, true), '');
    await nothingLeft();
    assert.equal(await sessions(), count);
  });
});

// uploads are the uploads that wait in the directory for temporary files, which
// services of other suites share.
const uploads = () => readdirSync(tmpdir()).filter((f) => f.startsWith('everloop-upload-'));
const foreign = new Set(uploads());

// nothingLeft holds that no file waits for anything.
function nothingLeft() {
  return eventually(
    'no file is left',
    () =>
      readdirSync(join(fixture.server.dir, 'data', 'spool')).filter((f) => f.startsWith('transfer-')).length === 0 &&
      uploads().every((f) => foreign.has(f)),
  );
}

describe('a public link', () => {
  const open = new Rest();
  const shown = (link) =>
    bytes(open, link.url.slice(fixture.server.url.length)).then(({ status, headers, data }) => ({
      status,
      headers,
      text: data.toString(),
    }));
  before(() => {
    open.url = fixture.server.url;
  });

  test('shows the turns to all visitors, and no secret', async () => {
    const secret = 'tok-9931-"secret"-value';
    const bucket = 'bucket-value-77120';
    await fixture.rest.put('/api/env/buckets/shown', { env: { OTHER: bucket } });
    const view = await fixture.session({ env: { TOKEN: secret }, session_setup: { env_buckets: ['shown'] } });
    const id = view.session;
    await view.run([{ type: 'text', text: steps({ thinking: `I think of ${secret}`, ...bash('echo "$TOKEN $OTHER"') },
      { text: `It is ${secret} and ${bucket}, the key is ${fixture.server.key}.` }) },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${png.toString('base64')}` } }]);
    await view.run(steps(bash('echo "$TOKEN $OTHER"'), { text: 'seen' }));
    const [call1] = (await fixture.rest.messages(id)).flatMap((t) => t.tool_calls);
    assert.ok(call1.result.includes(secret) && call1.result.includes(bucket), 'the tool had both');

    const link = await fixture.rest.post(`/api/sessions/${id}/share`);
    assert.match(link.token, /^[0-9a-f]{32}$/);
    assert.equal(link.url, `${fixture.server.url}/api/share/${link.token}`);
    const { status, headers, text } = await shown(link);
    assert.equal(status, 200);
    for (const hidden of [
      secret,
      JSON.stringify(secret).slice(1, -1),
      JSON.stringify(JSON.stringify(secret)).slice(1, -1),
      bucket,
      fixture.server.key,
      'memory_id',
    ]) {
      assert.ok(!text.includes(hidden), `${hidden} is shown`);
    }
    assert.equal(headers.get('cache-control'), 'no-store');
    assert.equal(headers.get('referrer-policy'), 'no-referrer');
    const turns = JSON.parse(text);
    assert.deepEqual(
      turns.map((t) => [t.sequence, t.role, t.status]),
      (await fixture.rest.messages(id)).map((t) => [t.sequence, t.role, t.status]),
    );
    for (const t of turns) assert.equal(t.memory_refs, null);
    assert.match(text, /I think of/);
    const image = turns[0].blocks.find((b) => b.type === 'image').content;
    assert.equal(image, `/api/share/${link.token}/attachments/${hash(png)}`);
    const picture = await bytes(open, image);
    assert.deepEqual([picture.status, picture.headers.get('content-type'), picture.data.equals(png)], [200, 'image/png', true]);
    assert.equal((await bytes(open, image.replace(/[0-9a-f]{64}$/, '0'.repeat(64)))).status, 404);

    const less = await fixture.rest.post(`/api/sessions/${id}/share`, { redact: { tool_results: true, thinking: true } });
    const { text: redacted } = await shown(less);
    assert.deepEqual(JSON.parse(redacted).flatMap((t) => t.blocks).filter((b) => b.type === 'thinking'), []);
    assert.ok(JSON.parse(text).flatMap((t) => t.blocks).some((b) => b.type === 'thinking'), 'the other link shows them');
    assert.deepEqual([...new Set(JSON.parse(redacted).flatMap((t) => t.tool_calls).map((c) => c.result))], ['[hidden]']);

    // It opens nothing else.
    for (const path of [`/api/sessions/${id}`, `/api/sessions/${id}/messages`, `/api/sessions/${id}/ls/`, `/api/sessions/${id}/export`]) {
      assert.equal((await open.call('GET', path)).status, 401, path);
      assert.equal((await new Rest(fixture.server.url, link.token).call('GET', path)).status, 401, path);
    }
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
      assert.equal((await open.call(method, `/api/share/${link.token}`)).status, 405, method);
    assert.ok(!fixture.server.log().includes(link.token), 'the token is in the log');
    await fixture.rest.delete('/api/env/buckets/shown');
  });

  test('can be revoked, and expires', async () => {
    const view = await fixture.session();
    await view.run(steps({ text: 'words' }));
    const path = `/api/sessions/${view.session}/share`;
    const [one, two, brief] = [
      await fixture.rest.post(path),
      await fixture.rest.post(path),
      await fixture.rest.post(path, { ttl_seconds: 1 }),
    ];
    assert.equal(Date.parse(one.expires_at) - Date.parse(one.created_at), 7 * 24 * 3600_000);
    assert.equal(Date.parse(brief.expires_at) - Date.parse(brief.created_at), 1000);
    const other = await person('other');
    assert.equal((await other.call('DELETE', `${path}/${one.token}`)).status, 404);
    assert.equal((await other.call('POST', path)).status, 404);
    assert.deepEqual(await fixture.rest.delete(`${path}/${one.token}`), { revoked: true });
    assert.deepEqual(await fixture.rest.delete(`${path}/${one.token}`), { revoked: true });
    const gone = await shown(one);
    assert.deepEqual([gone.status, JSON.parse(gone.text).code], [410, 'share_gone']);
    assert.equal((await shown(two)).status, 200, 'the other link is another');
    await eventually('it has expired', async () => (await shown(brief)).status === 410);
    assert.equal((await open.call('GET', `/api/share/${'0'.repeat(32)}`)).status, 404);
    for (const ttl of [0, -1, 1.5, 'x', 90 * 24 * 3600 + 1])
      assert.equal((await fixture.rest.call('POST', path, { ttl_seconds: ttl })).status, 422, String(ttl));
    await fixture.rest.delete(`/api/sessions/${view.session}`);
    assert.equal((await shown(two)).status, 404);
    fixture.forget();
  });
});

test('extra info is merged, and found by its task', async () => {
  const view = await fixture.session();
  const id = view.session;
  const upset = (extra) => fixture.rest.call('POST', `/api/sessions/${id}/upset_extra_info`, { extra });
  const by = (task, rest = fixture.rest) => rest.get(`/api/sessions/extra_info/by_task/${encodeURIComponent(task)}`);
  assert.deepEqual((await fixture.rest.get(`/api/sessions/${id}/extra_info`)).extra, {});
  const task = `a/b c-${id}`;
  assert.deepEqual((await upset({ task_id: task, keep: 1, drop: 2 })).body.extra, { task_id: task, keep: 1, drop: 2 });
  const { body } = await upset({ drop: null, more: { deep: [null] } });
  assert.deepEqual(body.extra, { task_id: task, keep: 1, more: { deep: [null] } });
  assert.ok(Date.parse(body.updated_at) >= Date.parse(body.created_at));
  assert.equal((await by(task)).session_id, id);
  const unknown = await by('unknown');
  assert.deepEqual([unknown.session_id, unknown.extra], [null, {}]);
  assert.equal((await by(task, await person('third'))).session_id, null);
  for (let i = 0; i < 2; i++) assert.equal((await upset({ [`big${i}`]: 'x'.repeat(700_000) })).status, i === 0 ? 200 : 413);
  fixture.forget(); // it has no events
  assert.ok(!('big1' in (await fixture.rest.get(`/api/sessions/${id}/extra_info`)).extra));
});
