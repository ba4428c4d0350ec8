// Published apps (docs/apps.md): a directory that an agent wrote is a site for
// all visitors, from a copy that nothing changes but publishing again.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, afterEach, before, test } from 'node:test';
import { Rest } from './lib/rest.mjs';
import { Fixture, bash, call, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

const site = (page = 'one') => [
  call('Write', {
    file_path: 'site/index.html',
    content: `<!doctype html><title>${page}</title><script type="module" src="app.js"></script>`,
  }),
  call('Write', { file_path: 'site/app.js', content: 'document.title += "!"' }),
];
const publish = (view, body = {}) => fixture.rest.call('POST', '/api/apps', { session_id: view.session, working_dir: 'site', ...body });
const visit = (path, headers = {}) => fetch(fixture.rest.url + path, { headers, redirect: 'manual' });
const page = async (app, path = '') => (await visit(`/apps/${app.app_id}/${path}`)).text();
const fails = (answer, status, code) => assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body));

async function published(...more) {
  const view = await fixture.session();
  const { end } = await view.run(steps({ calls: [...site(), ...more] }, { text: 'done' }));
  assert.equal(end.finish_reason, 'completed');
  const { status, body } = await publish(view);
  assert.equal(status, 200, JSON.stringify(body));
  return { view, app: body };
}

// raw asks for a path as it is written: fetch would tidy it.
const raw = (path) => new Promise((resolve, reject) => {
  const { hostname, port } = new URL(fixture.rest.url);
  request({ hostname, port, path }, (answer) => { answer.resume(); resolve(answer.statusCode); }).on('error', reject).end();
});

test('what an agent wrote is a public site, and stays as it was published', async () => {
  const { view, app } = await published();
  assert.deepEqual([app.status, app.kind, app.name, app.working_dir, app.session_id], ['live', 'static', 'site', 'site', view.session]);
  assert.equal(app.url, `${fixture.rest.url}/apps/${app.app_id}/`);
  assert.match(app.digest, /^sha256:[0-9a-f]{64}$/);
  assert.match(await page(app), /<title>one</);
  assert.equal(await page(app, 'app.js'), 'document.title += "!"');

  await view.run(steps({ calls: site('two') }, bash('rm site/app.js'), { text: 'done' }));
  assert.match(await page(app), /<title>one</, 'the site changed with the workspace');
  const again = (await publish(view)).body;
  assert.equal(again.app_id, app.app_id, 'the address changed');
  assert.notEqual(again.digest, app.digest);
  assert.match(await page(app), /<title>two</);
  assert.equal((await visit(`/apps/${app.app_id}/app.js`)).status, 404);

  // It outlives its session, and answers no more when it is taken away.
  fixture.forget();
  await fixture.rest.delete(`/api/sessions/${view.session}`);
  assert.match(await page(app), /<title>two</);
  assert.deepEqual(await fixture.rest.delete(`/api/apps/${app.app_id}`), { app_id: app.app_id, status: 'stopped' });
  assert.equal((await visit(`/apps/${app.app_id}/`)).status, 404);
  assert.equal((await fixture.rest.get('/api/apps')).items.some((a) => a.app_id === app.app_id), false);
});

test('a page may do what pages do, but without an account', async () => {
  const { app } = await published();
  const answer = await visit(`/apps/${app.app_id}/`);
  assert.equal(answer.headers.get('content-type'), 'text/html; charset=utf-8');
  const policy = answer.headers.get('content-security-policy');
  assert.match(policy, /sandbox[^;]*allow-scripts/);
  assert.doesNotMatch(policy, /allow-same-origin|allow-top-navigation/);
  assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
  assert.equal(answer.headers.get('set-cookie'), null);
  const script = await visit(`/apps/${app.app_id}/app.js`, { origin: 'null' });
  assert.equal(script.headers.get('access-control-allow-origin'), '*', 'its own modules do not load');
  assert.match(script.headers.get('content-type'), /^text\/javascript/);
  const etag = script.headers.get('etag');
  assert.equal((await visit(`/apps/${app.app_id}/app.js`, { 'if-none-match': etag })).status, 304);
});

test('directories, hidden files and links', async () => {
  const { app } = await published(
    call('Bash', {
      command:
        'mkdir -p site/sub site/.git site/.well-known && cd site && echo sub > sub/index.html && echo secret > .git/config && ' +
          'echo key > .env && echo known > .well-known/x && ln -s /etc/passwd passwd && ln -s ../../ up && echo outside > ../outside.txt',
    }),
  );
  const redirect = await visit(`/apps/${app.app_id}/sub`);
  assert.equal(redirect.status, 308);
  assert.equal(new URL(redirect.headers.get('location'), redirect.url).pathname, `/apps/${app.app_id}/sub/`);
  assert.equal(await page(app, 'sub/'), 'sub\n');
  assert.equal(await page(app, '.well-known/x'), 'known\n');
  const root = await visit(`/apps/${app.app_id}`);
  assert.deepEqual([root.status, new URL(root.headers.get('location'), root.url).pathname], [308, `/apps/${app.app_id}/`]);
  const part = await visit(`/apps/${app.app_id}/app.js`, { range: 'bytes=0-7' });
  assert.deepEqual([part.status, await part.text()], [206, 'document']);
  for (const path of ['.env', '.git/config', 'passwd', 'up/outside.txt', 'missing', 'sub/missing']) {
    assert.equal((await visit(`/apps/${app.app_id}/${path}`)).status, 404, path);
  }
  for (const path of [
    '../outside.txt',
    '..%2foutside.txt',
    '%2e%2e/outside.txt',
    'sub/../../outside.txt',
    '%00',
    '..\\outside.txt',
    '%2e%65nv%00',
  ]) {
    assert.ok([400, 404].includes(await raw(`/apps/${app.app_id}/${path}`)), path);
  }
});

test('what cannot be published is reported, and a site that is served stays', async () => {
  const { view, app } = await published();
  await view.run(steps(bash('rm site/index.html; mkdir -p empty; ln -s / root'), { text: 'done' }));
  fails(await publish(view), 422, 'no_index_page');
  assert.match(await page(app), /<title>one</);
  fails(await publish(view, { working_dir: 'empty' }), 422, 'no_index_page');
  fails(await publish(view, { working_dir: 'missing' }), 404, 'file_not_found');
  assert.ok((await publish(view, { working_dir: 'root/etc' })).status >= 400);
  fails(await publish(view, { working_dir: '../../etc' }), 400, 'path_outside_workspace');
  fails(await publish(view, { session_id: 'missing' }), 404, 'session_not_found');
  await view.run(steps(bash('mkdir many && cd many && echo x > index.html && seq 5001 | xargs touch'), { text: 'done' }));
  fails(await publish(view, { working_dir: 'many' }), 413, 'app_too_large');
  await view.run(steps(bash('mkdir big && cd big && echo x > index.html && head -c 210000000 /dev/zero > zeros'), { text: 'done' }));
  fails(await publish(view, { working_dir: 'big' }), 413, 'app_too_large');
  const mine = (await fixture.rest.get('/api/apps')).items.filter((a) => a.session_id === view.session);
  assert.deepEqual(mine.map((a) => a.app_id), [app.app_id], 'what was refused left something behind');
});

test('an app is its owner\'s alone', async () => {
  const { view, app } = await published();
  const { api_key: key } = await fixture.rest.post('/api/admin/users', { username: `visitor-${Date.now()}` });
  const other = new Rest(fixture.rest.url, key.plaintext);
  assert.equal((await other.call('GET', `/api/apps/${app.app_id}`)).status, 404);
  assert.equal((await other.call('DELETE', `/api/apps/${app.app_id}`)).status, 404);
  assert.equal((await other.call('POST', '/api/apps', { session_id: view.session })).status, 404);
  assert.deepEqual((await other.get('/api/apps')).items, []);
  assert.match(await page(app), /<title>one</);
});

test('a site is served again after the service was killed', async () => {
  const { app } = await published();
  fixture.forget();
  assert.equal((await fixture.server.kill()).signal, 'SIGKILL');
  await fixture.server.start();
  assert.match(await page(app), /<title>one</);
});
