// Skills: packages of a session, of the service and of the registry, and the
// tool that loads them (docs/skills.md).
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Registry } from './lib/registry.mjs';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

const document = (name, version, body) =>
  `---\nname: ${name}\ndescription: What ${name} is for. Use it in tests.\nmetadata:\n  version: ${version}\n---\n${body}\n`;
const upload = (view, name, files) => fixture.rest.call('POST', `/api/sessions/${view.session}/skills:upload`,
  { name, files: Object.entries(files).map(([path, content]) => ({ path, content })) });
const skills = async (view) => new Map((await fixture.rest.get(`/api/sessions/${view.session}/skills`)).items.map((s) => [s.name, s]));
const stats = async (view) => new Map((await fixture.rest.get(`/api/sessions/${view.session}/skill-stats`)).items.map((s) => [s.name, s]));

// run gives the calls of one chat with their results.
async function run(view, ...list) {
  const { end, calls } = await view.run(steps(...list, { text: 'done' }));
  assert.equal(end.finish_reason, 'completed');
  return calls;
}
const load = (name, more = {}) => ({ calls: [call('Skill', { name, ...more })] });

describe('a skill of a session', () => {
  test('is uploaded, shown to the model, loaded, read and run', async () => {
    const view = await fixture.session();
    const made = await upload(view, 'greeting', {
      'SKILL.md': document('greeting', '1.0.0', 'Read references/words.md, then run scripts/greet.sh.'),
      'references/words.md': 'salutation-4711\n',
      'scripts/greet.sh': '#!/bin/sh\necho "greetings, $1"\n',
    });
    assert.deepEqual(made.body, { name: 'greeting', skill_dir: '.skills/greeting', file_count: 3, overwritten: false });
    await view.wait('the change of files', (e) => e.name === 'file:changed' && e.data.path === '.skills/greeting');
    const [skill, read, ran] = await run(view, load('greeting', { arguments: 'the new colleague' }),
      { calls: [call('Read', { file_path: '.skills/greeting/references/words.md' })] },
      bash('cd .skills/greeting && ./scripts/greet.sh Ada'));
    assert.equal(skill.status, 'done', skill.result);
    assert.match(skill.result, /greeting \(version 1\.0\.0\)[\s\S]*\.skills\/greeting[\s\S]*scripts\/greet\.sh/);
    assert.match(skill.result, /then run scripts\/greet\.sh/);
    assert.match(skill.result, /the new colleague/);
    assert.match(read.result, /salutation-4711/);
    assert.equal(ran.result.trim(), 'greetings, Ada');
    // The model saw name and description before it loaded it, and nothing more.
    const [first] = await fixture.requests('What greeting is for');
    const offered = first.body.tools.find((t) => t.function.name === 'Skill').function;
    assert.match(offered.description, /- greeting: What greeting is for/);
    assert.ok(offered.parameters.properties.name.enum.includes('greeting'));
    assert.doesNotMatch(offered.description, /Read references/);

    const detail = await fixture.rest.detail(view.session);
    assert.ok(detail.session_setup.tools_enabled.includes('Skill'));
    assert.equal(detail.session_setup.skills.find((s) => s.name === 'greeting').source, 'uploaded');
  });

  test('is counted when it is used', async () => {
    const view = await fixture.session();
    await upload(view, 'counted', { 'SKILL.md': document('counted', '1.0.0', 'x'.repeat(4000)) });
    assert.equal((await stats(view)).size, 0);
    const before = Date.now();
    await run(view, load('counted'), load('git-workflow'), load('counted'), load('no-such-skill'));
    const counted = (await stats(view)).get('counted');
    assert.deepEqual([counted.invocations, counted.errors], [2, 0]);
    assert.ok(counted.tokens > 2000 && counted.tokens < 3000, `${counted.tokens} tokens`);
    assert.ok(Date.parse(counted.last_used_at) > before - 1000);
    assert.ok(counted.avg_duration_ms >= 0);
    assert.equal((await stats(view)).get('git-workflow').invocations, 1);
    assert.equal((await stats(view)).get('no-such-skill').errors, 1);
  });

  test('that changed is noticed, shown to the model, and read again', async () => {
    const view = await fixture.session();
    await upload(view, 'moving', { 'SKILL.md': document('moving', '1.0.0', 'one') });
    const first = (await skills(view)).get('moving');
    const [loaded] = await run(view, load('moving'));
    assert.doesNotMatch(loaded.result, /has changed/);
    await fixture.rest.put(`/api/sessions/${view.session}/files/.skills/moving/SKILL.md`, { content: document('moving', '1.1.0', 'two') });
    const second = (await skills(view)).get('moving');
    assert.notEqual(second.digest, first.digest);
    assert.deepEqual([second.changed, second.version], [true, '1.1.0']);
    const [again, calm] = await run(view, load('moving'), load('moving'));
    assert.match(again.result, /has changed[\s\S]*two/);
    assert.doesNotMatch(calm.result, /has changed/);

    await run(view, bash(`mkdir -p .skills/own && printf '%s' '${document('own', '0.1.0', 'mine')}' > .skills/own/SKILL.md`), load('own'));
    await run(
      view,
      bash(
        "rm -rf .skills/own; mkdir -p .skills/late .skills/broken; echo x > .skills/broken/SKILL.md; " +
          "sed s/own/late/g > .skills/late/SKILL.md <<'END'\n" +
          document('own', '0.1.0', 'mine') +
          'END',
      ),
    );
    const resync = await fixture.rest.post(`/api/sessions/${view.session}/skills:resync`);
    assert.equal(typeof resync.detail, 'string');
    assert.deepEqual([resync.added, resync.updated, resync.removed], [['late'], ['moving'], ['own']]);
    assert.deepEqual(resync.failed.map((f) => f.name), ['broken']);
    assert.equal((await skills(view)).get('moving').changed, false);
    assert.equal((await skills(view)).get('broken').enabled, false);
  });

  test('written by the agent itself can be loaded in the next step', async () => {
    const view = await fixture.session();
    const [written, loaded] = await run(
      view,
      { calls: [call('Write', { file_path: '.skills/fresh/SKILL.md', content: document('fresh', '1.0.0', 'fresh text') })] },
      load('fresh'),
    );
    assert.equal(written.status, 'done');
    assert.match(loaded.result, /fresh text/);
    assert.equal((await skills(view)).get('fresh').source, 'uploaded');
  });

  test('stays in its session', async () => {
    const [mine, other] = [await fixture.session(), await fixture.session()];
    await upload(mine, 'private', { 'SKILL.md': document('private', '1.0.0', 'x') });
    const [refused] = await run(other, load('private'));
    assert.equal(refused.status, 'error');
    assert.ok(!(await skills(other)).has('private'));
  });

  test('is refused when it could do harm, and leaves nothing behind', async () => {
    const view = await fixture.session();
    const good = document('bad', '1.0.0', 'x');
    for (const [what, name, files, status = 422] of [
      ['a name with a path', '../bad', { 'SKILL.md': good }],
      ['another name', 'other', { 'SKILL.md': good }],
      ['capitals', 'Bad', { 'SKILL.md': good }],
      ['no document', 'bad', { 'README.md': good }],
      ['a parent', 'bad', { 'SKILL.md': good, '../../evil': 'x' }],
      ['an absolute path', 'bad', { 'SKILL.md': good, '/tmp/evil': 'x' }],
      ['a backslash', 'bad', { 'SKILL.md': good, '..\\evil': 'x' }],
      [
        'a bomb',
        'bad',
        { 'SKILL.md': '---\nname: bad\ndescription: x\nmetadata:\n  a: &a [x,x]\n  b: &b [*a,*a,*a]\n  c: [*b,*b,*b]\n---\n' },
      ],
      ['a key twice', 'bad', { 'SKILL.md': '---\nname: bad\nname: bad\ndescription: x\n---\n' }],
      ['a long description', 'bad', { 'SKILL.md': `---\nname: bad\ndescription: ${'x'.repeat(1025)}\n---\n` }],
      ['not even YAML', 'bad', { 'SKILL.md': '---\nname: [bad\n---\n' }],
      ['too much', 'bad', Object.fromEntries([['SKILL.md', good], ...Array.from({ length: 500 }, (_, i) => [`f${i}`, ''])])],
      ['a large document', 'bad', { 'SKILL.md': good + 'x'.repeat(2 << 20) }],
      ['more than a request', 'bad', { 'SKILL.md': good, large: 'x'.repeat(11 << 20) }, 413],
    ]) {
      const { status: got, body } = await upload(view, name, files);
      assert.equal(got, status, `${what}: ${JSON.stringify(body)}`);
      assert.ok(body.code && body.detail, what);
      if (status === 422) assert.ok(body.errors.length > 0, what);
    }
    await run(view, bash('ln -s /tmp out; mkdir -p .skills; ln -s /tmp .skills/linked'));
    assert.ok(!(await skills(view)).has('linked'));
    const { result } = (await run(view, bash('ls -A .skills ..; ls /tmp')))[0];
    assert.doesNotMatch(result, /evil/);
    assert.deepEqual((await skills(view)).has('bad'), false);
  });

  test('the tool can be withheld', async () => {
    const view = await fixture.session({ disable_tools: ['Skill'] });
    const [refused] = await run(view, load('git-workflow'));
    assert.equal(refused.status, 'error');
    assert.ok(!(await fixture.rest.detail(view.session)).session_setup.tools_enabled.includes('Skill'));
  });
});

describe('skills of the service', () => {
  test('are listed, found, shown, and usable', async () => {
    const { items, total } = await fixture.rest.get('/api/skills');
    assert.equal(items.length, total);
    const authoring = items.find((s) => s.name === 'skill-authoring');
    assert.deepEqual([authoring.source, authoring.enabled], ['builtin', true]);
    const detail = await fixture.rest.get(`/api/skills/${authoring.id}`);
    assert.ok(detail.readme.length > 500 && detail.files.length > 2);
    const { results } = await fixture.rest.get('/api/skills/search?q=skill&limit=1');
    assert.equal(results[0].name, 'skill-authoring');
    assert.equal((await fixture.rest.call('GET', '/api/skills/none')).status, 404);
    assert.equal((await fixture.rest.call('GET', '/api/skills/search')).status, 422);

    const view = await fixture.session();
    const [loaded, frame, check] = await run(
      view,
      load('skill-authoring'),
      bash(
        'sh .everloop/skills/skill-authoring/scripts/new-skill.sh .skills/tidy && sed -i "s/FILL IN what it does/Tidies up/; ' +
          's/FILL IN\\.*$/things lie about/; s/FILL IN the first step/Look/" .skills/tidy/SKILL.md',
      ),
      bash('.everloop/skills/skill-authoring/scripts/check-skill.sh .skills/tidy'),
    );
    assert.equal(loaded.status, 'done');
    assert.equal(frame.status, 'done', frame.result);
    assert.match(check.result, /nothing is wrong/);
    assert.equal((await skills(view)).get('tidy').enabled, true);
  });

  test('the profile of a table runs in the sandbox', async () => {
    const view = await fixture.session();
    const [, profile] = await run(
      view,
      load('data-table-report'),
      bash(
        'printf "city;people\\nBonn;330000\\nKiel;247000\\nKiel;247000\\n" > t.csv; if command -v python3 >/dev/null; ' +
          'then python3 .everloop/skills/data-table-report/scripts/profile.py t.csv; else echo "no python3"; fi',
      ),
    );
    assert.match(profile.result, /no python3|3 rows, 2 columns; 1 duplicate rows[\s\S]*\| people \| number \|/);
  });

  test('one is the primary skill of a session and kept as it was', async () => {
    const view = await fixture.session({ primary_skill_id: 'git-workflow' });
    const { primary_skill_snapshot: snapshot } = await fixture.rest.detail(view.session);
    assert.deepEqual([snapshot.name, snapshot.skill_id, snapshot.files_count], ['git-workflow', 'builtin:git-workflow', 2]);
    assert.match(await fixture.rest.file(view.session, `${snapshot.path}/SKILL.md`), /name: git-workflow/);
    await run(view, load('git-workflow'));
    const requests = await fixture.requests('this session was made for this skill');
    assert.ok(requests.length > 0);
    assert.deepEqual((await fixture.rest.detail(view.session)).primary_skill_snapshot, snapshot);
    const { session_id: plain } = await fixture.rest.post('/api/sessions', { primary_skill_id: 'unknown-skill' });
    assert.equal((await fixture.rest.detail(plain)).primary_skill_snapshot, null);
  });
});

describe('skills of the registry', () => {
  let registry;
  let partner;
  let common;
  before(async () => {
    [registry, partner] = [await Registry.start(), await Registry.start()];
    common = fixture;
    fixture = await Fixture.start({ REGISTRY_URL: registry.url, PARTNER_REGISTRIES: `partner=${partner.url}` });
  });
  after(async () => {
    if (fixture !== common) await fixture.close();
    fixture = common;
    registry.close();
    partner.close();
  });

  test('are installed, listed with their updates, and survive a restart', async () => {
    const digest = registry.publish('acme/tables', '1.0.0', {
      'tables/SKILL.md': document('tables', '1.0.0', 'version one'),
      'tables/ref.md': 'r',
    });
    const view = await fixture.session();
    const install = (body) => fixture.rest.call('POST', `/api/sessions/${view.session}/skills/install`, body);
    const done = (await install({ org: 'acme', name: 'tables', digest })).body;
    assert.deepEqual([done.name, done.version, done.skill_dir, done.file_count], ['tables', '1.0.0', '.skills/tables', 2]);
    assert.equal(done.replaced_version, undefined);
    assert.match((await run(view, load('tables')))[0].result, /version one/);
    registry.publish('acme/tables', '1.1.0', { 'SKILL.md': document('tables', '1.1.0', 'version two') });

    for (const [body, status] of [
      [{ org: 'acme', name: 'nothing' }, 404], [{ org: 'acme', name: 'tables', version: '9.9.9' }, 404],
      [{ org: 'acme', name: 'tables', version: '1.1.0', digest }, 409], [{ org: '..', name: 'tables' }, 422], [{ org: 'acme' }, 422],
    ]) assert.equal((await install(body)).status, status, JSON.stringify(body));

    await fixture.server.stop();
    await fixture.server.start();
    // A list does not wait long for the registry.
    const listed = await eventually('the registry has answered', async () => {
      const found = (await skills(view)).get('tables');
      return found.release_version && found;
    });
    assert.deepEqual([listed.source, listed.org, listed.version, listed.release_version, listed.update_available],
      ['registry', 'acme', '1.0.0', '1.1.0', true]);
    const installed = await fixture.rest.get('/api/skills/installed');
    assert.deepEqual(installed.items.map((s) => s.name), ['tables']);

    const other = await fixture.session(); // what its owner installed
    assert.match((await run(other, load('tables')))[0].result, /version one/);
    const updated = (await install({ org: 'acme', name: 'tables' })).body;
    assert.deepEqual([updated.version, updated.replaced_version], ['1.1.0', '1.0.0']);
    const again = await fixture.follow(view.session, 0);
    assert.match((await run(again, load('tables')))[0].result, /has changed[\s\S]*version two/);
  });

  test('an organisation of a partner has a registry of its own', async () => {
    registry.publish('partner/charts', '9.0.0', { 'SKILL.md': document('charts', '9.0.0', 'of somewhere else') });
    partner.publish('partner/charts', '1.0.0', { 'SKILL.md': document('charts', '1.0.0', 'of the partner') });
    partner.publish('acme/forms', '1.0.0', { 'SKILL.md': document('forms', '1.0.0', 'x') });
    const view = await fixture.session();
    const install = (org, name) => fixture.rest.call('POST', `/api/sessions/${view.session}/skills/install`, { org, name });
    assert.equal((await install('partner', 'charts')).body.version, '1.0.0');
    assert.match((await run(view, load('charts')))[0].result, /of the partner/);
    assert.equal((await install('acme', 'forms')).status, 404);

    partner.publish('partner/charts', '1.1.0', { 'SKILL.md': document('charts', '1.1.0', 'newer') });
    const listed = await eventually('the update is known', async () => {
      const found = (await skills(view)).get('charts');
      return found.update_available && found;
    });
    assert.equal(listed.release_version, '1.1.0');
  });

  test('hostile packages are refused', async () => {
    registry.publish('acme/evil', '1.0.0', { 'SKILL.md': document('evil', '1.0.0', 'x'), '../../evil': 'x' });
    registry.publish('acme/wrong', '1.0.0', { 'SKILL.md': document('right', '1.0.0', 'x') });
    const { session_id: session } = await fixture.rest.post('/api/sessions');
    for (const [name, code] of [['evil', 'invalid_skill_archive'], ['wrong', 'invalid_skill']]) {
      const { status, body } = await fixture.rest.call('POST', `/api/sessions/${session}/skills/install`, { org: 'acme', name });
      assert.deepEqual([status, body.code], [422, code]);
    }
    assert.ok(!(await skills({ session })).has('evil'));
    assert.deepEqual((await fixture.rest.get('/api/skills/installed')).items.map((s) => s.name).sort(), ['charts', 'tables']);
  });
});
