// The skill registry of `everloop up`: publishing, the agent as its client, hostile
// archives, and an upload that the end of the process cuts off (docs/registry.md).
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Fixture, eventually } from './lib/fixture.mjs';
import { Rest } from './lib/rest.mjs';
import { zip } from './lib/zip.mjs';

let fixture;
let registry;
before(async () => {
  fixture = await Fixture.start();
  registry = new Rest(fixture.server.registryURL, fixture.server.key);
});
after(() => fixture?.close());

const document = (name, version, body) =>
  `---\nname: ${name}\ndescription: What ${name} is for.\nmetadata:\n  version: ${version}\n---\n${body}\n`;
const pack = (name, version, body, more = []) => zip([{ name: `${name}/SKILL.md`, data: document(name, version, body) }, ...more]);

// upload publishes an archive, and gives the status and the body of the answer.
async function upload(skill, version, archive, { key = fixture.server.key, signal } = {}) {
  const form = new FormData();
  form.set('file', new Blob([archive]), 'skill.zip');
  const answer = await fetch(`${registry.url}/skills/${skill}/versions/${version}`,
    { method: 'POST', body: form, signal, headers: key ? { authorization: `Bearer ${key}` } : {} });
  return { status: answer.status, body: await answer.json() };
}
const release = (skill, version) => registry.put(`/skills/${skill}/release`, { version });

describe('the skill registry', () => {
  test('publishes what the agent finds, installs and updates', async () => {
    const made = await upload('acme/tables', '1.0.0', pack('tables', '1.0.0', 'one'));
    assert.equal(made.status, 201, JSON.stringify(made.body));
    assert.equal((await upload('acme/tables', '1.0.0', pack('tables', '1.0.0', 'one'))).status, 200);
    assert.equal((await upload('acme/tables', '1.0.0', pack('tables', '1.0.0', 'other'))).body.code, 'version_exists');
    await release('acme/tables', '1.0.0');

    const { results } = await fixture.rest.get('/api/skills/search?q=tables&limit=10');
    const hit = results.find((s) => s.id === 'registry:acme:tables');
    assert.equal(hit?.version, '1.0.0', JSON.stringify(results));
    const detail = await fixture.rest.get('/api/skills/registry:acme:tables');
    assert.equal(detail.digest, made.body.digest);

    const view = await fixture.session();
    const installed = await fixture.rest.post(`/api/sessions/${view.session}/skills/install`, { org: 'acme', name: 'tables' });
    assert.deepEqual([installed.version, installed.digest], ['1.0.0', made.body.digest]);

    // A session that was made before sees the new release as an update.
    assert.equal((await upload('acme/tables', '1.1.0', pack('tables', '1.1.0', 'two'))).status, 201);
    await release('acme/tables', '1.1.0');
    const again = await fixture.rest.post(`/api/sessions/${view.session}/skills/install`, { org: 'acme', name: 'tables' });
    assert.deepEqual([again.version, again.replaced_version], ['1.1.0', '1.0.0']);
    const pinned = await fixture.rest.post(`/api/sessions/${view.session}/skills/install`, {
      org: 'acme',
      name: 'tables',
      version: '1.0.0',
    });
    assert.equal(pinned.version, '1.0.0');
    const listed = await eventually('the release is known', async () => {
      const { items } = await fixture.rest.get(`/api/sessions/${view.session}/skills`);
      return items.find((s) => s.name === 'tables' && s.release_version === '1.1.0');
    });
    assert.equal(listed.update_available, true);
  });

  test('shows its views through the agent', async () => {
    await registry.put('/registry/organizations/acme', { display_name: 'Acme' });
    await registry.put('/registry/templates/agent/basic',
      { title: 'Basic agent', description: 'A form.', version: '1.0.0', schema: { type: 'object' }, defaults: { a: 1 } });
    await registry.put('/registry/scenarios/first', { title: 'First', type: 'demo', tags: ['start'], resource_ids: ['skill.acme.tables'] });
    const get = (path) => fixture.rest.get(`/api/registry/${path}`);
    assert.deepEqual((await get('organizations')).items, [{ name: 'acme', display_name: 'Acme', skill_count: 1 }]);
    const resources = await get('resources');
    assert.deepEqual(resources.items.map((r) => r.id), ['scenario.first', 'skill.acme.tables', 'template.agent.basic']);
    assert.equal(resources.total, 3);
    assert.equal((await get('resources/skill.acme.tables')).version, '1.1.0');
    assert.deepEqual((await get('templates/agent/basic')).defaults, { a: 1 });
    assert.equal((await get('templates')).items.length, 1);
    assert.deepEqual((await get('scenarios')).items[0].resource_ids, ['skill.acme.tables']);
    const stats = await get('skill-store/stats');
    assert.deepEqual([stats.skills, stats.versions, stats.organizations, stats.downloads], [1, 2, 1, 3]);
    assert.equal((await fixture.rest.call('GET', '/api/registry/resources/skill.acme.none')).status, 404);
  });

  test('asks the agent for credentials, their scope, and membership', async () => {
    const archive = pack('mine', '1.0.0', 'x');
    const status = async (key) => (await upload('acme/mine', '1.0.0', archive, { key })).body.code;
    assert.equal(await status(''), 'unauthorized');
    assert.equal(await status('el_wrong'), 'unauthorized');
    const { plaintext: narrow } = await fixture.rest.post('/api/user/api-keys/', { name: 'reader', scopes: ['skills'] });
    assert.equal(await status(narrow), 'scope_missing');
  });

  test('refuses hostile archives and keeps nothing of them', async () => {
    const body = { name: 'SKILL.md', data: document('evil', '1.0.0', 'x') };
    for (const [what, members, status] of [
      ['a parent', [body, { name: '../evil', data: 'x' }], 422],
      ['an absolute path', [body, { name: '/tmp/evil', data: 'x' }], 422],
      ['a link', [body, { name: 'link', data: '/etc/passwd', mode: 0o120777 }], 422],
      ['a bomb', [body, { name: 'zeros', data: Buffer.alloc(8 << 20) }], 413],
      ['a lie about the size', [body, { name: 'lie', data: 'x'.repeat(1000), size: 10 }], 422],
      ['a wrong checksum', [body, { name: 'crc', data: 'x', crc: 1 }], 422],
      ['encrypted', [body, { name: 'secret', data: 'x', flags: 1 }], 422],
      ['too many', [body, ...Array.from({ length: 500 }, (_, i) => ({ name: `f${i}`, data: '' }))], 413],
    ]) {
      const got = await upload('acme/evil', '1.0.0', zip(members));
      assert.deepEqual([got.status, got.body.code], [status, 'invalid_skill_archive'], `${what}: ${JSON.stringify(got.body)}`);
    }
    assert.equal((await registry.call('GET', '/skills/acme/evil/versions')).status, 404);
  });

  test('keeps what it acknowledged, and nothing half, when it is killed during uploads', async () => {
    const archives = Array.from({ length: 12 }, (_, i) =>
      pack('large', `1.0.${i}`, `version ${i}`, [{ name: 'large/data', data: randomBytes(4 << 20), store: true }]));
    const acknowledged = new Map();
    const send = async (i) => {
      let got;
      do { // only some are taken at once
        got = await upload('acme/large', `1.0.${i}`, archives[i]).catch(() => ({ status: 0 }));
      } while (got.status === 429);
      if (got.status === 201 || got.status === 200) acknowledged.set(i, got.body.digest);
      return got.status;
    };
    const sending = archives.map((_, i) => send(i));
    await Promise.race(sending.map((s) => s.then((status) => status === 201 || new Promise(() => {}))));
    await fixture.server.kill('registry');
    await Promise.all(sending);
    assert.ok(acknowledged.size > 0);
    await fixture.server.start();
    for (const [i, digest] of acknowledged) {
      assert.equal((await registry.get(`/skills/acme/large/versions/1.0.${i}`)).digest, digest);
    }
    // Every listed version can be downloaded whole; the others can be uploaded again.
    for (const { version, digest } of (await registry.get('/skills/acme/large/versions')).items) {
      const answer = await fetch(`${registry.url}/skills/acme/large/download?version=${version}`);
      assert.equal(answer.headers.get('etag'), `"${digest}"`);
      const got = Buffer.from(await answer.arrayBuffer());
      assert.ok(got.equals(archives[Number(version.split('.')[2])]), version);
    }
    for (const [i] of archives.entries()) assert.match(String(await send(i)), /^20[01]$/);
    assert.equal((await registry.get('/skills/acme/large/versions')).items.length, archives.length);
    assert.deepEqual(await registry.get('/api/health').then((h) => [h.status, h.storage_ok]), ['ok', true]);
  });
});
