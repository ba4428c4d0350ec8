// The files of a session over REST (docs/files.md): what users and
// tools do to them, at the same time too, names of every kind, ranges, versions,
// large uploads, archives.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

const at = (view, rest) => `/api/sessions/${view.session}/${rest}`;
const escape = (path) => path.split('/').map(encodeURIComponent).join('/');
const put = (view, path, content, headers) => fixture.rest.call('PUT', at(view, `files/${escape(path)}`), { content }, headers);
const get = (view, path, headers) => fixture.rest.call('GET', at(view, `files/${escape(path)}`), undefined, headers);
const post = (view, path, operation, body) => fixture.rest.call('POST', at(view, `files/${escape(path)}/${operation}`), body);
const names = async (view, dir = '') => (await fixture.rest.get(at(view, `ls/${escape(dir)}`))).map((e) => e.name);
const fails = (answer, status, code) => assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body));

// upload sends files as a browser's form does: {name: content}, and paths.
async function upload(view, dir, files, paths) {
  const form = new FormData();
  for (const [name, content] of files) form.append('files', new Blob([content]), name);
  if (paths) form.append('paths', JSON.stringify(paths));
  const answer = await fetch(fixture.rest.url + at(view, `upload/${encodeURIComponent(dir)}`),
    { method: 'POST', headers: { authorization: `Bearer ${fixture.rest.key}` }, body: form });
  return { status: answer.status, body: await answer.json() };
}

// download gives the bytes of an answer.
async function download(path, headers = {}) {
  const answer = await fetch(fixture.rest.url + path, { headers: { authorization: `Bearer ${fixture.rest.key}`, ...headers } });
  return { status: answer.status, headers: answer.headers, bytes: Buffer.from(await answer.arrayBuffer()) };
}

async function run(view, ...list) {
  const { end, calls } = await view.run(steps(...list, { text: 'done' }));
  assert.equal(end.finish_reason, 'completed');
  return calls;
}

const unusual = [
  'Ü 日本語 🙂.txt',
  'a b',
  ' lead',
  '-rf',
  '#frag?query=1&x',
  '100%25.txt',
  '"quoted\'',
  '*',
  '.hidden',
  'back\\slash',
  'new\nline',
  'ä'.repeat(127),
];

describe('names', () => {
  test('of every kind go there and back', async () => {
    const view = await fixture.session();
    for (const name of unusual) {
      assert.equal((await put(view, `dir/${name}`, `of ${name}`)).status, 200, name);
      assert.equal((await get(view, `dir/${name}`)).body, `of ${name}`, name);
    }
    assert.deepEqual((await names(view, 'dir')).sort(), [...unusual].sort());
    const made = await upload(view, 'up', unusual.map((name) => ['f', `up ${name}`]), unusual.map((n) => `ü/${n}`));
    assert.deepEqual(made.body, { uploaded: unusual.map((n) => `up/ü/${n}`), failed: [] });
    assert.deepEqual((await names(view, 'up/ü')).sort(), [...unusual].sort());
    const own = await upload(view, '', [['größe 日本.txt', '1']]);
    assert.deepEqual(own.body.uploaded, ['größe 日本.txt']);
  });

  test('that are hostile are refused, and reach nothing', async () => {
    const view = await fixture.session();
    await put(view, 'f', 'x');
    const call = (method, path, body) => fixture.rest.call(method, at(view, path), body);
    for (const path of ['..%2Fx', '%2Fetc%2Fpasswd', 'a%2F..%2F..%2Fx', '%2e%2e%2fx', '..%2F..%2F..%2F..%2Fetc%2Fpasswd']) {
      for (const answer of [
        await call('GET', `files/${path}`), await call('PUT', `files/${path}`, { content: '' }), await call('DELETE', `files/${path}`),
        await call('GET', `ls/${path}`), await call('GET', `download-dir/${path}`), await call('POST', `files/${path}/copy`, {}),
        await call('POST', `files/${path}/rename`, { new_name: 'x' }), (await upload(view, decodeURIComponent(path), [['a', 'x']])),
      ]) fails(answer, 400, 'path_outside_workspace');
    }
    for (const name of ['..', '../x', '/etc/x']) {
      fails(await post(view, 'f', 'rename', { new_name: name }), 400, 'path_outside_workspace');
      fails(await post(view, 'f', 'copy', { target_path: `../${name}` }), 400, 'path_outside_workspace');
      fails(await call('POST', 'share-file', { source_path: 'f', link_name: name }), 400, 'path_outside_workspace');
    }
    assert.equal((await post(view, 'f', 'rename', { new_name: 'a/b' })).status, 422);
    assert.equal((await post(view, 'f', 'rename', { new_name: '' })).status, 422);
    for (const path of ['%00', 'a%00b', 'x'.repeat(256), 'ab/'.repeat(1400)])
      assert.equal((await call('GET', `files/${path}`)).status, 400, path);
    // A backslash is a letter of a name here, and leads nowhere.
    assert.equal((await put(view, '..\\..\\x', 'in')).status, 200);
    assert.deepEqual((await names(view)).sort(), ['..\\..\\x', 'f']);
    const { body } = await upload(view, '', [['a', '1'], ['b', '2'], ['c', '3'], ['d', '4']], ['../x', '/etc/x', 'ok', 'f/x']);
    assert.deepEqual(body.uploaded, ['ok']);
    assert.deepEqual(body.failed.map((f) => [f.path, f.code]),
      [['../x', 'path_outside_workspace'], ['/etc/x', 'path_outside_workspace'], ['f/x', 'not_a_directory']]);
    assert.ok(body.failed.every((f) => f.message.length > 0));
  });

  test('of links that a command made lead nowhere outside', async () => {
    const view = await fixture.session();
    const [ran] = await run(
      view,
      bash('mkdir real && echo in > real/f && ln -s /etc out && ln -s ../../../../../etc up && ln -s real in && mkfifo pipe'),
    );
    assert.equal(ran.status, 'done', ran.result);
    assert.equal((await get(view, 'in/f')).body, 'in\n');
    for (const path of ['out/passwd', 'up/passwd']) {
      fails(await get(view, path), 400, 'path_outside_workspace');
      fails(await put(view, path, 'x'), 400, 'path_outside_workspace');
      fails(await post(view, path, 'copy', {}), 400, 'path_outside_workspace');
    }
    const { body } = await upload(view, '', [['a', 'x'], ['b', 'x']], ['out/x', 'up/x']);
    assert.deepEqual(body.failed.map((f) => f.code), ['path_outside_workspace', 'path_outside_workspace']);
    fails(await upload(view, 'out', [['a', 'x']]), 400, 'path_outside_workspace');
    fails(await get(view, 'pipe'), 422, 'not_a_regular_file');
    assert.deepEqual((await post(view, 'out', 'rename', { new_name: 'renamed' })).body, { path: 'renamed' });
    assert.equal((await fixture.rest.call('DELETE', at(view, 'files/renamed'))).status, 200);
    assert.deepEqual((await names(view)).sort(), ['in', 'pipe', 'real', 'up']);
  });
});

describe('a file', () => {
  test('is read in ranges', async () => {
    const view = await fixture.session();
    const { headers } = await put(view, 'digits', '0123456789');
    for (const [range, status, text, part] of [
      ['bytes=2-4', 206, '234', 'bytes 2-4/10'],
      ['bytes=7-', 206, '789', 'bytes 7-9/10'],
      ['bytes=-3', 206, '789', 'bytes 7-9/10'],
      ['bytes=-99', 206, '0123456789', 'bytes 0-9/10'],
      ['bytes=0-0', 206, '0', 'bytes 0-0/10'],
      ['bytes=5-999', 206, '56789', 'bytes 5-9/10'],
      ['bytes=0-1,3-4', 200, '0123456789', null],
      ['bytes=4-2', 200, '0123456789', null],
      ['bytes=x-y', 200, '0123456789', null],
      ['items=0-1', 200, '0123456789', null],
      ['bytes=10-', 416, undefined, 'bytes */10'],
      ['bytes=-0', 416, undefined, 'bytes */10'],
    ]) {
      const answer = await get(view, 'digits', { range });
      assert.deepEqual([answer.status, answer.headers.get('content-range')], [status, part], range);
      if (text !== undefined) assert.equal(answer.body, text, range);
    }
    const etag = headers.get('etag');
    assert.equal((await get(view, 'digits', { range: 'bytes=0-1', 'if-range': etag })).status, 206);
    assert.equal((await get(view, 'digits', { range: 'bytes=0-1', 'if-range': '"older"' })).status, 200);
    assert.equal((await get(view, 'digits', { 'if-none-match': etag })).status, 304);
    assert.equal((await get(view, 'digits', { 'if-none-match': '"older"' })).status, 200);
  });

  test('is not written over unseen', async () => {
    const view = await fixture.session();
    const first = (await put(view, 'f', '1', { 'if-none-match': '*' })).headers.get('etag');
    fails(await put(view, 'f', '2', { 'if-none-match': '*' }), 409, 'file_exists');
    const second = (await put(view, 'f', '2', { 'if-match': first })).headers.get('etag');
    fails(await put(view, 'f', '3', { 'if-match': first }), 409, 'stale_file');
    fails(await fixture.rest.call('DELETE', at(view, 'files/f'), undefined, { 'if-match': first }), 409, 'stale_file');
    assert.equal((await get(view, 'f')).body, '2');
    // Of twenty that read the same version one gets through.
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => put(view, 'f', `w${i}`, { 'if-match': second })));
    const through = answers.flatMap((a, i) => (a.status === 200 ? [i] : []));
    assert.equal(through.length, 1);
    assert.equal((await get(view, 'f')).body, `w${through[0]}`);
    // A command's change counts as one too.
    const third = (await get(view, 'f')).headers.get('etag');
    await run(view, bash('echo by the agent > f'));
    fails(await put(view, 'f', 'by the user', { 'if-match': third }), 409, 'stale_file');
    assert.equal((await get(view, 'f')).body, 'by the agent\n');
  });

  test('that a user changed is not edited by the agent unread', async () => {
    const view = await fixture.session();
    await put(view, 'notes.md', 'draft one\n');
    await run(view, { calls: [call('Read', { file_path: 'notes.md' })] });
    await put(view, 'notes.md', 'draft one, and more by the user\n');
    const edit = { calls: [call('Edit', { file_path: 'notes.md', old_string: 'draft one', new_string: 'final' })] };
    const [refused] = await run(view, edit);
    assert.equal(refused.status, 'error');
    assert.equal((await get(view, 'notes.md')).body, 'draft one, and more by the user\n');
    const [, edited] = await run(view, { calls: [call('Read', { file_path: 'notes.md' })] }, edit);
    assert.equal(edited.status, 'done', edited.result);
    assert.equal((await get(view, 'notes.md')).body, 'final, and more by the user\n');
  });

  test('is renamed, copied and shared, and clients hear of it', async () => {
    const view = await fixture.session();
    await put(view, 'dir/a.txt', 'A');
    await put(view, 'dir/b.txt', 'B');
    assert.deepEqual((await post(view, 'dir/a.txt', 'rename', { new_name: 'ü.txt' })).body, { path: 'dir/ü.txt' });
    fails(await post(view, 'dir/ü.txt', 'rename', { new_name: 'b.txt' }), 409, 'file_exists');
    assert.deepEqual((await post(view, 'dir/ü.txt', 'copy')).body, { path: 'dir/ü copy.txt' });
    assert.deepEqual((await post(view, 'dir', 'copy', {})).body, { path: 'dir copy' });
    assert.deepEqual((await post(view, 'dir/ü.txt', 'copy', { target_path: 'new/place/c' })).body, { path: 'new/place/c' });
    fails(await post(view, 'dir/ü.txt', 'copy', { target_path: 'dir/b.txt' }), 409, 'file_exists');
    assert.equal((await post(view, 'dir/ü.txt', 'copy', { target_path: 'dir/b.txt', overwrite: true })).status, 200);
    assert.equal((await get(view, 'dir/b.txt')).body, 'A');
    const share = (body) => fixture.rest.call('POST', at(view, 'share-file'), body);
    assert.deepEqual((await share({ source_path: 'dir/ü.txt' })).body, { path: '.share/ü.txt', target: 'dir/ü.txt' });
    assert.deepEqual((await share({ source_path: 'dir', link_name: 'all', share_folder: 'for/you' })).body, {
      path: '.share/for/you/all',
      target: 'dir',
    });
    fails(await share({ source_path: 'dir/ü.txt' }), 409, 'file_exists');
    fails(await share({ source_path: 'none' }), 404, 'file_not_found');
    assert.equal((await get(view, '.share/for/you/all/ü.txt')).body, 'A');
    const changes = () => view.events.filter((e) => e.name === 'file:changed').map((e) => `${e.data.change} ${e.data.path}`);
    await view.wait('the last change', () => changes().includes('created .share/for/you/all'));
    assert.deepEqual(changes(), [
      'created dir/a.txt', 'created dir/b.txt', 'deleted dir/a.txt', 'created dir/ü.txt', 'created dir/ü copy.txt', 'created dir copy',
      'created new/place/c', 'modified dir/b.txt', 'created .share/ü.txt', 'created .share/for/you/all',
    ]);
  });
});

test('a directory is downloaded as an archive with its modes', async () => {
  const view = await fixture.session();
  const [ran] = await run(
    view,
    bash(`mkdir -p 'ü dir/sub' && cd 'ü dir' && echo '#!/bin/sh' > run.sh && chmod 750 run.sh && echo data > sub/日本.txt &&
    chmod 600 sub/日本.txt && ln -s ../run.sh sub/link && ln -s /etc/passwd out && mkfifo pipe && head -c 3000000 /dev/urandom > random`),
  );
  assert.equal(ran.status, 'done', ran.result);
  const answer = await download(at(view, `download-dir/${escape('ü dir')}`));
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('content-type'), 'application/zip');
  assert.equal(answer.headers.get('content-length'), null, 'it is sent while it is packed');
  assert.match(answer.headers.get('content-disposition'), /^attachment; filename\*=utf-8''%C3%BC%20dir\.zip$/);
  const dir = mkdtempSync(join(tmpdir(), 'everloop-zip-'));
  try {
    writeFileSync(join(dir, 'a.zip'), answer.bytes);
    execFileSync('python3', ['-c', `
import os, stat, sys, zipfile
with zipfile.ZipFile('a.zip') as z:
    assert z.testzip() is None
    for i in z.infolist():
        mode = i.external_attr >> 16
        if stat.S_ISLNK(mode): os.symlink(z.read(i).decode(), i.filename)
        else:
            z.extract(i)
            if not i.is_dir(): os.chmod(i.filename, stat.S_IMODE(mode))
`], { cwd: dir });
    assert.equal(statSync(join(dir, 'run.sh')).mode & 0o777, 0o750);
    assert.equal(statSync(join(dir, 'sub/日本.txt')).mode & 0o777, 0o600);
    assert.equal(readFileSync(join(dir, 'sub/日本.txt'), 'utf8'), 'data\n');
    assert.equal(readlinkSync(join(dir, 'sub/link')), '../run.sh');
    const original = (await download(at(view, `files/${escape('ü dir/random')}`))).bytes;
    assert.ok(original.equals(readFileSync(join(dir, 'random'))));
    assert.throws(() => statSync(join(dir, 'out')), /ENOENT/);
    assert.throws(() => statSync(join(dir, 'pipe')), /ENOENT/);
  } finally {
    rmSync(dir, { recursive: true });
  }
  fails(await fixture.rest.call('GET', at(view, 'download-dir/none')), 404, 'file_not_found');
});

// rss is the memory of the service's own process, in megabytes.
const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${fixture.server.pid}/status`, 'utf8'))[1]) / 1024;

test('an upload of 200 MB comes and goes without being held in memory', async () => {
  const view = await fixture.session();
  const chunk = randomBytes(1 << 20);
  const size = 200;
  const hash = createHash('sha256');
  for (let i = 0; i < size; i++) hash.update(chunk);
  const wanted = hash.digest('hex');
  const head = '--b\r\ncontent-disposition: form-data; name="files"; filename="large.bin"\r\n\r\n';
  const tail = '\r\n--b--\r\n';
  const before = rss();
  let most = before;
  const watch = setInterval(() => { most = Math.max(most, rss()); }, 20);
  try {
    const answer = await new Promise((resolve, reject) => {
      const sending = request(
        fixture.rest.url + at(view, 'upload/in'),
        {
          method: 'POST',
          headers: {
            authorization: `Bearer ${fixture.rest.key}`,
            'content-type': 'multipart/form-data; boundary=b',
            'content-length': head.length + (size << 20) + tail.length,
          },
        },
        (response) => {
          let text = '';
          response
            .setEncoding('utf8')
            .on('data', (d) => {
              text += d;
            })
            .on('end', () => resolve({ status: response.statusCode, body: JSON.parse(text) }));
        },
      );
      sending.on('error', reject);
      sending.write(head);
      (async () => {
        for (let i = 0; i < size; i++) if (!sending.write(chunk)) await new Promise((drained) => sending.once('drain', drained));
        sending.end(tail);
      })().catch(reject);
    });
    assert.deepEqual(answer, { status: 200, body: { uploaded: ['in/large.bin'], failed: [] } });
    const back = createHash('sha256');
    const got = await fetch(fixture.rest.url + at(view, 'files/in/large.bin'), {
      headers: { authorization: `Bearer ${fixture.rest.key}` },
    });
    for await (const part of got.body) back.update(part);
    assert.equal(back.digest('hex'), wanted);
    const archive = await fetch(fixture.rest.url + at(view, 'download-dir/in'), {
      headers: { authorization: `Bearer ${fixture.rest.key}` },
    });
    let packed = 0;
    for await (const part of archive.body) packed += part.length;
    assert.ok(packed > 1 << 20);
  } finally {
    clearInterval(watch);
  }
  assert.ok(most - before < 150, `the service grew from ${before.toFixed()} to ${most.toFixed()} MB`);
});

test('an upload that is cut off leaves nothing', async () => {
  const view = await fixture.session();
  await put(view, 'kept', 'x');
  const sending = request(fixture.rest.url + at(view, 'upload/'), {
    method: 'POST',
    headers: { authorization: `Bearer ${fixture.rest.key}`, 'content-type': 'multipart/form-data; boundary=b', 'content-length': 50 << 20 },
  });
  sending.on('error', () => {});
  sending.write(
    '--b\r\ncontent-disposition: form-data; name="files"; filename="whole"\r\n\r\nwhole\r\n--b\r\ncontent-disposition: form-data; ' +
      'name="files"; filename="half"\r\n\r\n',
  );
  const dir = join(fixture.server.workspace, '.everloop-staging');
  await new Promise((sent) => sending.write(Buffer.alloc(8 << 20), sent));
  const staged = () => execFileSync('find', [dir, '-type', 'f'], { encoding: 'utf8' }).split('\n').filter(Boolean);
  await eventually('the files are on their way', () => { try { return staged().length === 2; } catch { return false; } });
  assert.deepEqual(await names(view), ['kept']);
  sending.destroy();
  await eventually('nothing is left', () => execFileSync('ls', ['-A', dir], { encoding: 'utf8' }) === '');
  assert.deepEqual(await names(view), ['kept']);
});

test('users and tools write at the same time', async () => {
  const view = await fixture.session();
  await put(view, 'count', '0');
  // A command counts up under a lock of its own while users add files and read.
  const busy = view.run(
    steps(bash('for i in $(seq 200); do echo $i > count.new && mv count.new count; echo line >> log; done; cat count'), { text: 'done' }),
  );
  let refused = 0;
  const user = (async () => {
    for (let i = 0; i < 40; i++) {
      const seen = await get(view, 'count');
      const answer = await put(view, 'count', `user ${i}`, { 'if-match': seen.headers.get('etag') });
      if (answer.status === 409) refused++;
      else assert.equal(answer.status, 200);
      assert.equal((await upload(view, 'in', [[`f${i}`, `${i}`]])).status, 200);
    }
  })();
  const [{ calls }] = await Promise.all([busy, user]);
  assert.equal(calls[0].status, 'done', calls[0].result);
  assert.equal((await get(view, 'log')).body, 'line\n'.repeat(200));
  assert.equal((await names(view, 'in')).length, 40);
  assert.match((await get(view, 'count')).body, /^(200\n|user \d+)$/);
  assert.ok(refused <= 40);
});
