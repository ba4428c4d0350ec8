// Git hosting of `everloop up` with a real git client: pushes that publish, refusals that
// say why, credentials, and a push that the end of the process cuts off (docs/githost.md).
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Fixture } from './lib/fixture.mjs';
import { Rest } from './lib/rest.mjs';

let fixture, registry, dir;
before(async () => {
  fixture = await Fixture.start();
  registry = new Rest(fixture.server.registryURL, fixture.server.key);
  dir = mkdtempSync(join(tmpdir(), 'everloop-git-'));
});
after(async () => {
  await fixture?.close();
  rmSync(dir, { recursive: true, force: true });
});

const document = (name, version, body) =>
  `---\nname: ${name}\ndescription: What ${name} is for.\nmetadata:\n  version: ${version}\n---\n${body}\n`;

// Copy is a working copy, whose origin is a repository of the service.
class Copy {
  static made = 0;

  constructor(repo, key = fixture.server.key) {
    this.dir = mkdtempSync(join(dir, `copy-${++Copy.made}-`));
    this.url = `${fixture.server.gitURL.replace('://', `://any:${key}@`)}/${repo}.git`;
  }

  // git runs a client and gives how it ended and what it wrote.
  git(...args) {
    return new Promise((resolve) =>
      execFile(
        'git',
        args,
        {
          cwd: this.dir,
          env: {
            PATH: process.env.PATH,
            HOME: this.dir,
            LANG: 'C.UTF-8',
            GIT_CONFIG_NOSYSTEM: '1',
            GIT_CONFIG_GLOBAL: '/dev/null',
            GIT_TERMINAL_PROMPT: '0',
            GIT_AUTHOR_NAME: 'Ann',
            GIT_AUTHOR_EMAIL: 'ann@example.org',
            GIT_COMMITTER_NAME: 'Ann',
            GIT_COMMITTER_EMAIL: 'ann@example.org',
          },
        },
        (err, out, notes) => resolve({ ok: !err, text: `${out}${notes}` }),
      ),
    );
  }

  async must(...args) {
    const { ok, text } = await this.git(...args);
    assert.ok(ok, `git ${args.join(' ')}: ${text}`);
    return text.trim();
  }

  async init() {
    await this.must('init', '--quiet', '--initial-branch=main');
    await this.must('remote', 'add', 'origin', this.url);
    await this.must('config', 'core.compression', '0');
    return this;
  }

  async commit(message, files) {
    for (const [name, content] of Object.entries(files)) writeFileSync(join(this.dir, name), content);
    await this.must('add', '--all');
    await this.must('commit', '--quiet', '-m', message);
    return this.must('rev-parse', 'HEAD');
  }
}

const head = async (repo, branch) =>
  (await new Copy(repo, '').must('ls-remote', `${fixture.server.gitURL}/${repo}.git`, `refs/heads/${branch}`)).split('\t')[0];

describe('git hosting', () => {
  test('publishes what a push to main has, for the agent to install', async () => {
    const copy = await new Copy('forge/tables').init();
    const commit = await copy.commit('Start', { 'SKILL.md': document('tables', '1.0.0', 'one'), 'ref.md': 'r' });
    assert.match(await copy.must('push', 'origin', 'main'), /remote: published forge\/tables 1\.0\.0, sha256:/);
    const version = await registry.get('/skills/forge/tables/versions/1.0.0');
    assert.deepEqual(version.git, { commit, branch: 'main' });
    await registry.put('/skills/forge/tables/release', { version: '1.0.0' });
    const view = await fixture.session();
    const installed = await fixture.rest.post(`/api/sessions/${view.session}/skills/install`, { org: 'forge', name: 'tables' });
    assert.deepEqual([installed.version, installed.digest], ['1.0.0', version.digest]);

    // A branch publishes nothing; merged, it does.
    await copy.must('checkout', '--quiet', '-b', 'topic');
    await copy.commit('Next', { 'SKILL.md': document('tables', '1.1.0', 'two') });
    assert.doesNotMatch(await copy.must('push', 'origin', 'topic'), /published/);
    assert.equal((await registry.call('GET', '/skills/forge/tables/versions/1.1.0')).status, 404);
    assert.match(await copy.must('push', 'origin', 'topic:main'), /published forge\/tables 1\.1\.0/);
    const shallow = new Copy('forge/tables', '');
    await shallow.must('clone', '--quiet', '--depth=1', `${fixture.server.gitURL}/forge/tables.git`, '.');
    assert.equal(await shallow.must('rev-list', '--count', 'HEAD'), '1');

    // Git hosting is one of the components that the agent's diagnostics check.
    const page = await fetch(fixture.server.gitURL);
    assert.equal(page.status, 200);
    assert.match(await page.text(), /forge\/tables/);
    const ready = await fetch(`${fixture.server.gitURL}/readyz`).then((r) => r.json());
    assert.deepEqual([ready.status, ready.registry_ok], ['ok', true]);
  });

  test('refuses pushes with the reason', async () => {
    const copy = await new Copy('forge/forms').init();
    await copy.commit('Start', { 'SKILL.md': document('other', '1.0.0', 'one') });
    const refused = async (reason, ...args) => {
      const { ok, text } = await copy.git('push', ...args);
      assert.ok(!ok && text.includes(reason), `${args.join(' ')}: ${text}`);
    };
    await refused('remote: main is not a valid skill: the name in SKILL.md is other', 'origin', 'main');
    await copy.commit('Name it', { 'SKILL.md': document('forms', '1.0.0', 'one') });
    await copy.must('push', 'origin', 'main');
    await copy.commit('Change', { 'SKILL.md': document('forms', '1.0.0', 'two') });
    await refused('(version_exists)', 'origin', 'main');
    await refused('remote: main may not be deleted', 'origin', ':main');
    const at = (key, repo = 'forge/forms') => `${fixture.server.gitURL.replace('://', `://any:${key}@`)}/${repo}.git`;
    await refused('Authentication failed', at('el_wrong'), 'main');
    const { plaintext: narrow } = await fixture.rest.post('/api/user/api-keys/', { name: 'reader', scopes: ['skills'] });
    await refused('the key lacks the scope skills:write', at(narrow), 'main');
  });

  test('keeps what it accepted, and nothing half, when it is killed during pushes', async () => {
    const copies = await Promise.all(Array.from({ length: 4 }, async (_, i) => {
      const copy = await new Copy(`forge/large-${i}`).init();
      copy.repo = `forge/large-${i}`;
      copy.id = await copy.commit('Start', { 'SKILL.md': document(`large-${i}`, '1.0.0', 'x'), data: randomBytes((i * 6 + 1) << 20) });
      return copy;
    }));
    const pushes = copies.map((copy) => copy.git('push', 'origin', 'main').then(({ ok }) => { copy.accepted = ok; return ok; }));
    await Promise.race(pushes);
    await fixture.server.kill('git');
    await Promise.all(pushes);
    assert.ok(copies.some((copy) => copy.accepted));
    await fixture.server.start();
    for (const copy of copies) {
      if (copy.accepted) assert.equal(await head(copy.repo, 'main'), copy.id);
      await copy.must('push', 'origin', 'main'); // also where the version was stored and the push was not
      assert.equal(await head(copy.repo, 'main'), copy.id);
      assert.equal((await registry.get(`/skills/${copy.repo}/versions/1.0.0`)).git.commit, copy.id);
    }
  });
});
