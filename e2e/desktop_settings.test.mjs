// Settings, administration, the library and the command palette of the desktop in Debian's
// Chromium, each function used once as a person would, against a real service.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { program, violations } from './lib/browser.mjs';
import { Desktop } from './lib/desktop.mjs';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';
import { Rest } from './lib/rest.mjs';
import { zip } from './lib/zip.mjs';

const waits = { timeout: 90_000 }; // for a slow machine; everything is awaited by what is seen

const chromium = program();
const required = Boolean(process.env.EVERLOOP_E2E_BROWSER); // as .ci/run sets it: there nothing is left out
const password = 'correct horse battery';
let fixture;
let desktop;
let faults;

describe('desktop settings', {
  skip: chromium || required ? false : 'Chromium is missing: install it (Debian: chromium), or set EVERLOOP_CHROMIUM',
}, () => {
  before(async () => {
    assert.ok(chromium, 'Chromium is missing');
    fixture = await Fixture.start({ IDENTITY_ADMIN_PASSWORD: password }, { firstAdministrator: true });
    desktop = await Desktop.start(fixture, chromium);
    faults = desktop.faults;
  });
  after(async () => {
    await desktop?.close();
    await fixture?.close();
  });

  const open = (options) => desktop.open('/', { signedIn: false, ...options });
  const signIn = (page) => desktop.signIn(page);
  const show = (page, name) => desktop.show(page, name);

  // look opens a tab, and checks it in both themes and in a narrow window.
  async function look(page, tab) {
    await page.getByRole('tab', { name: tab, exact: true }).click();
    await page.getByRole('tabpanel', { name: tab, exact: true }).waitFor();
    await page.getByText('Loading…').first().waitFor({ state: 'detached' });
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      assert.deepEqual(await violations(page), [], `${tab}, ${colorScheme}`);
      await show(page, `${tab}-${colorScheme}`);
    }
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 360, height: 740 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${tab}: the page is wider than the window`);
    assert.ok(
      await page.getByRole('tabpanel').evaluate((panel) => panel.scrollWidth <= panel.clientWidth),
      `${tab}: its content is wider than the window`,
    );
    await show(page, `${tab}-narrow`);
    await page.setViewportSize({ width: 1400, height: 900 });
    assert.deepEqual(faults, [], tab);
  }

  const dialog = (page) => page.getByRole('dialog');
  async function confirm(page, button) {
    await dialog(page).getByRole('button', { name: button, exact: true }).click();
    await dialog(page).waitFor({ state: 'detached' });
  }
  const entry = (page, list, text) => page.getByRole('list', { name: list, exact: true }).getByRole('listitem').filter({ hasText: text });

  // finished is a session whose chat has ended.
  async function finished(intent, message, more = {}) {
    const { session_id: id } = await fixture.rest.post('/api/sessions', { intent, ...more });
    await fixture.rest.post(`/api/sessions/${id}/chat`, { message });
    await eventually(`the chat of ${intent} ends`, async () => ['completed', 'failed'].includes((await fixture.rest.detail(id)).status));
    return id;
  }

  test('account, preferences, keys and environment', async () => {
    const page = await open();
    await signIn(page);
    await page.getByRole('link', { name: 'Settings' }).click();
    await look(page, 'Account');
    await page.getByText('an API key, in this tab').waitFor();

    await look(page, 'Preferences');
    await page.getByLabel('Dark', { exact: true }).check();
    assert.equal(await page.evaluate(() => document.documentElement.classList.contains('dark')), true);
    await page.getByLabel('As the system').check();
    await page.getByLabel('Plan: only read').check();
    await page.getByText('The preference was saved.').first().waitFor();
    await page.getByLabel('Ctrl+Enter or Cmd+Enter').check();
    await eventually('both preferences are kept', async () =>
      (await fixture.rest.get('/api/user/preferences/desktop')).value === '{"mode":"planning","model":"","send":"ctrl-enter"}');
    await page.getByRole('link', { name: 'New session' }).click();
    await page.getByRole('button', { name: 'Plan' }).waitFor();
    await page.getByText('Ctrl+Enter sends.').waitFor();
    await fixture.rest.put('/api/user/preferences/desktop', { value: '{}' });

    // A key with scopes does what they name, and nothing once it is deleted.
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByRole('tab', { name: 'API keys' }).click();
    await page.getByRole('button', { name: 'Create a key' }).click();
    await dialog(page).getByLabel('Name').fill('for a script');
    await dialog(page).getByLabel('do all that you may').uncheck();
    await dialog(page).getByLabel(/^sessions:read/).check();
    assert.deepEqual(await violations(page), [], 'the form of a key');
    await show(page, 'key-form');
    await dialog(page).getByRole('button', { name: 'Create' }).click();
    const secret = await dialog(page).getByLabel('Secret').textContent();
    await confirm(page, 'Done');
    const made = new Rest(fixture.server.url, secret);
    assert.equal((await made.call('GET', '/api/sessions')).status, 200);
    assert.equal((await made.call('POST', '/api/sessions', {})).status, 403);
    await entry(page, 'API keys', 'for a script').getByText('sessions:read').waitFor();
    assert.equal(await page.getByText(secret).count(), 0);
    await look(page, 'API keys');
    await page.getByRole('button', { name: 'Rename for a script' }).click();
    await dialog(page).getByLabel('Name').fill('for a report');
    await confirm(page, 'Rename');
    await page.getByRole('button', { name: 'Delete for a report' }).click();
    await confirm(page, 'Delete');
    await entry(page, 'API keys', 'for a report').waitFor({ state: 'detached' });
    await eventually('the key is refused', async () => (await made.call('GET', '/api/sessions')).status === 401);

    // Variables reach commands; network rules are kept.
    await page.getByRole('tab', { name: 'Environment' }).click();
    await page.getByRole('button', { name: 'Create a bucket' }).click();
    await dialog(page).getByLabel('Name of variable 1').fill('GREETING');
    await dialog(page).getByLabel('Value of variable 1').fill('hello-from-a-bucket');
    await confirm(page, 'Save');
    await page.getByRole('button', { name: 'Edit default' }).click();
    await dialog(page).getByRole('button', { name: 'Show and edit the values' }).click();
    await dialog(page).getByRole('button', { name: 'Add a variable' }).click();
    await dialog(page).getByLabel('Name of variable 2').fill('OTHER');
    await confirm(page, 'Save');
    await entry(page, 'Environment buckets', 'default').getByText('GREETING, OTHER').waitFor();
    assert.deepEqual(
      await fixture.rest.get('/api/env/buckets/default'), { bucket: 'default', env: { GREETING: 'hello-from-a-bucket', OTHER: '' } },
    );
    await page.getByRole('button', { name: 'Add a rule' }).click();
    await dialog(page).getByLabel('Domain').fill('example.org');
    await dialog(page).getByLabel('Decision').selectOption('deny');
    await confirm(page, 'Add');
    await entry(page, 'Network rules', 'example.org').getByText('denied').waitFor();
    await look(page, 'Environment');
    await page.getByRole('button', { name: 'Delete the rule of example.org' }).click();
    await confirm(page, 'Delete');
    await page.getByText('No network rules yet').waitFor();
    await page.getByRole('button', { name: 'Delete default' }).click();
    await confirm(page, 'Delete');
    await page.getByText('No environment buckets yet').waitFor();
    await page.getByRole('button', { name: 'Reset' }).click();
    await confirm(page, 'Reset');
    await page.getByText('0 commands ended.').waitFor();
    assert.deepEqual(faults, []);
    await page.context().close();
  });

  // person makes a user who signs in with the password.
  const person = async (username) => {
    const answer = await fetch(`${fixture.server.identityURL}/api/v1/users`, {
      method: 'POST', headers: { authorization: `Bearer ${fixture.server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ username, password }),
    });
    assert.equal(answer.status, 201, await answer.text());
    return { username, password };
  };

  test('a new password, and the end of all sign-ins', async () => {
    await person('kim');
    const page = await open();
    await page.getByLabel('User name').fill('kim');
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByRole('button', { name: 'Change the password' }).click();
    await dialog(page).getByLabel('Current password').fill(password);
    await dialog(page).getByLabel('New password', { exact: true }).fill('another battery staple');
    await dialog(page).getByLabel('New password, again').fill('another battery stapel');
    await dialog(page).getByText('The passwords do not match.').waitFor();
    await dialog(page).getByLabel('New password, again').fill('another battery staple');
    await confirm(page, 'Change');
    await page.getByRole('button', { name: 'Sign out everywhere' }).click();
    await confirm(page, 'Sign out');
    await page.getByText('You are signed out everywhere.').waitFor();
    await page.getByLabel('User name').fill('kim');
    await page.getByLabel('Password').fill('another battery staple');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Settings' }).waitFor(); // where the person was
    assert.deepEqual(faults, []);
    await page.context().close();
  });

  test('sign-ins elsewhere are listed and ended, one or all', async () => {
    const identity = `${fixture.server.identityURL}/api/v1`;
    const send = (path, headers, body) => fetch(`${identity}/${path}`, {
      headers: { 'content-type': 'application/json', ...headers }, ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
    });
    const lin = await person('lin');
    const elsewhere = async (program) => {
      const { access_token } = await (await send('auth/login', { 'user-agent': `${program}/1.0` }, lin)).json();
      return async () => (await send('auth/me', { authorization: `Bearer ${access_token}` })).status;
    };
    const [phone, tablet, tv] = [await elsewhere('phone'), await elsewhere('tablet'), await elsewhere('tv')];

    const page = await open();
    await page.getByLabel('User name').fill('lin');
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('link', { name: 'Settings' }).click();
    const list = page.getByRole('list', { name: 'Open sign-ins' });
    await list.getByText('this one').waitFor();
    assert.equal(await list.getByRole('listitem').count(), 4);
    assert.deepEqual(await violations(page), []);
    await page.getByRole('button', { name: 'Sign out phone' }).click();
    await confirm(page, 'End');
    await page.getByText('The sign-in was ended.').waitFor();
    await list.getByText('phone').waitFor({ state: 'detached' });
    assert.deepEqual([await phone(), await tablet(), await tv()], [401, 200, 200]);
    await page.getByRole('button', { name: 'Sign out all other sessions' }).click();
    await confirm(page, 'End');
    await page.getByText('All other sessions were signed out.').waitFor();
    await list.getByText('tablet').waitFor({ state: 'detached' });
    assert.deepEqual([await tablet(), await tv()], [401, 401]);
    assert.equal(await list.getByRole('listitem').count(), 1);
    assert.deepEqual(faults, []);
    await page.context().close();
  });

  test('users, runs, audit, diagnostics and configuration', async () => {
    await finished('a chat that went well', steps({ text: 'Well.' }));
    await finished('of a solution', steps({ text: 'Fine.' }), { solution_id: 'software_factory' });
    const page = await open();
    await signIn(page);
    await page.getByRole('link', { name: 'Administration' }).click();
    await page.getByText('Failures by cause').first().waitFor();
    await page.getByText('Tokens by model').first().waitFor();
    await look(page, 'Overview');
    await page.getByRole('button', { name: 'Table Chats' }).click();
    await page.getByRole('columnheader', { name: 'went well' }).waitFor();
    await page.getByLabel('Usage by').selectOption('user');
    await page.getByText('Tokens by user').first().waitFor();
    await page.getByLabel('Usage by').selectOption('solution');
    await page.getByRole('button', { name: 'Table Tokens by solution' }).click();
    await page.getByRole('columnheader', { name: 'No solution' }).waitFor();
    const { items: solutions } = await fixture.rest.get('/api/solutions');
    const factory = solutions.find((one) => one.id === 'software_factory').name;
    await page.getByRole('columnheader', { name: factory }).waitFor();
    const reference = await page.request.get(
      `${fixture.server.desktopURL}${await page.getByRole('link', { name: 'API reference' }).getAttribute('href')}`,
    );
    assert.equal(reference.status(), 200);
    assert.equal(await page.getByRole('link', { name: 'Temporal UI' }).getAttribute('href'), fixture.server.uiURL);

    // A user: made, given rights and roles, refused once deleted.
    await page.getByRole('tab', { name: 'Users' }).click();
    await page.getByRole('button', { name: 'Create a user' }).click();
    await dialog(page).getByLabel('User name').fill('robin');
    await dialog(page).getByLabel('Name', { exact: true }).fill('Robin');
    await dialog(page).getByRole('button', { name: 'Create' }).click();
    const robin = new Rest(fixture.server.url, await dialog(page).getByLabel('Secret').textContent());
    await confirm(page, 'Done');
    assert.equal((await robin.get('/api/auth/me')).administrator, false);
    await page.getByRole('button', { name: 'Make robin an administrator' }).click();
    await confirm(page, 'Grant');
    await page.getByRole('button', { name: 'Revoke the administrator rights of robin' }).waitFor();
    await page.getByRole('button', { name: 'Revoke the administrator rights of robin' }).click();
    await confirm(page, 'Revoke');
    await page.getByRole('button', { name: 'Make robin an administrator' }).waitFor();
    await page.getByRole('button', { name: 'Roles of robin' }).click();
    await dialog(page).getByLabel('Solution').selectOption('software_factory');
    await dialog(page).getByLabel(/^Reviewer/).check();
    assert.deepEqual(await violations(page), [], 'the roles of a user');
    await confirm(page, 'Save');
    assert.deepEqual((await robin.get('/api/solutions/software_factory/biz-roles')).items.map((role) => role.id), ['reviewer']);
    await look(page, 'Users');

    // A run that waits for an answer is cancelled.
    const { session_id: id } = await fixture.rest.post('/api/sessions', { intent: 'asks' });
    await fixture.rest.post(`/api/sessions/${id}/chat`, { message: steps({ calls: [
      call('AskUserQuestion', { questions: [{ question: 'Which?', options: [{ label: 'A' }, { label: 'B' }] }] }),
    ] }) });
    await eventually('the question is there', async () => (await fixture.rest.detail(id)).status === 'waiting_for_input');
    await page.getByRole('tab', { name: 'Runs' }).click();
    const run = entry(page, 'Runs', id);
    await run.getByText(/Waits for an answer since/).waitFor();
    assert.match(
      await run.getByRole('link', { name: 'Temporal UI' }).getAttribute('href'), /\/namespaces\/everloop\/workflows\/session%2F/,
    );
    await look(page, 'Runs');
    await run.getByRole('button', { name: 'Cancel' }).click();
    await confirm(page, 'Cancel the run');
    await eventually('the chat ends', async () => (await fixture.rest.detail(id)).status === 'interrupted');
    await page.getByRole('button', { name: 'Read again' }).click();
    await run.waitFor({ state: 'detached' });
    await page.getByLabel('Status').selectOption('lost');
    await page.getByText('Nothing is lost').waitFor();

    await page.getByRole('tab', { name: 'Audit' }).click();
    await page.getByLabel('Action', { exact: true }).fill('run.cancel');
    await entry(page, 'Audit records', `session/${id}`).waitFor();
    await look(page, 'Audit');
    await page.getByRole('tab', { name: 'Diagnostics' }).click();
    await page.getByText(/Good: \d+\. With a warning: \d+\. Failed: 0\./).waitFor();
    await look(page, 'Diagnostics');
    await page.getByRole('tab', { name: 'Configuration' }).click();
    await page.getByLabel('Find a setting').fill('AGENT_ADDR');
    await entry(page, 'Service', 'AGENT_ADDR').getByText(String(fixture.server.ports.agent)).waitFor();
    await look(page, 'Configuration');

    await page.getByRole('tab', { name: 'Users' }).click();
    await page.getByRole('button', { name: 'Delete robin' }).click();
    await confirm(page, 'Delete');
    await entry(page, 'Users', 'robin').waitFor({ state: 'detached' });
    await eventually('robin is refused', async () => (await robin.call('GET', '/api/auth/me')).status === 401);
    assert.deepEqual(faults, []);
    await page.context().close();
  });

  test('skills, tool servers and memories', async () => {
    const registry = new Rest(fixture.server.registryURL, fixture.server.key);
    const text = (version) =>
      `---\nname: ledgers\ndescription: What ledgers are for.\nmetadata:\n  version: ${version}\n---\n# About ledgers\n`;
    for (const version of ['1.0.0', '1.1.0']) {
      const form = new FormData();
      form.set('file', new Blob([zip([{ name: 'ledgers/SKILL.md', data: text(version) }])]), 'skill.zip');
      const answer = await fetch(
        `${registry.url}/skills/acme/ledgers/versions/${version}`,
        { method: 'POST', body: form, headers: { authorization: `Bearer ${fixture.server.key}` } },
      );
      assert.equal(answer.status, 201, await answer.text());
    }
    await registry.put('/skills/acme/ledgers/release', { version: '1.1.0' });
    const id = await finished('with skills', steps({ text: 'Ready.' }));
    const old = await finished('with an old skill', steps({ text: 'Ready.' }));

    const page = await open();
    await signIn(page);
    await page.getByRole('link', { name: 'Library' }).click();
    await entry(page, 'Skills', 'git-workflow').waitFor();
    await entry(page, 'Skills of the registry', 'ledgers').getByRole('button', { name: 'Install' }).click();
    await dialog(page).getByLabel('Session', { exact: true }).selectOption({ label: 'with skills' });
    await confirm(page, 'Install');
    await page.getByText('ledgers 1.1.0 was installed.').waitFor();
    await look(page, 'Skills');
    await page.getByRole('searchbox', { name: 'Search skills' }).fill('ledgers');
    await page.getByRole('button', { name: 'Details of ledgers' }).first().click();
    await dialog(page).getByRole('heading', { name: 'About ledgers' }).waitFor();
    assert.deepEqual(await violations(page), [], 'a skill');
    await page.keyboard.press('Escape');

    await fixture.rest.post(`/api/sessions/${old}/skills/install`, { org: 'acme', name: 'ledgers', version: '1.0.0' });
    await eventually(
      'the release is known', async () => (await fixture.rest.get(`/api/sessions/${old}/skills`)).items.some((one) => one.update_available),
    );
    await page.getByLabel('Of', { exact: true }).selectOption({ label: 'with an old skill' });
    await entry(page, 'Skills', 'ledgers').getByRole('button', { name: 'Update' }).click();
    await confirm(page, 'Install');
    await entry(page, 'Skills', 'ledgers').getByText('1.1.0', { exact: true }).waitFor();

    const place = mkdtempSync(join(tmpdir(), 'everloop-skill-'));
    try {
      writeFileSync(join(place, 'SKILL.md'), '---\nname: house-style\ndescription: How our texts are written.\n---\nShort sentences.\n');
      writeFileSync(join(place, 'words.bin'), Buffer.from([0xff, 0, 1]));
      await page.getByRole('button', { name: 'Upload a skill' }).click();
      await dialog(page).getByLabel('Files', { exact: true }).setInputFiles([join(place, 'SKILL.md'), join(place, 'words.bin')]);
      await confirm(page, 'Upload');
    } finally {
      rmSync(place, { recursive: true });
    }
    await entry(page, 'Skills', 'house-style').getByText('uploaded').waitFor();
    await page.getByRole('button', { name: 'Read the packages again' }).click();
    await page.getByText(/0 added, 0 updated, 0 removed/).waitFor();

    // A tool server that refuses: its state says why.
    const refusing = createServer((_, response) => { response.statusCode = 503; response.end(); });
    await new Promise((resolve) => refusing.listen(0, '127.0.0.1', resolve));
    try {
      await page.getByRole('tab', { name: 'Tool servers' }).click();
      await page.getByRole('button', { name: 'Add a server' }).click();
      await dialog(page).getByLabel('Name').fill('wiki');
      await dialog(page).getByLabel('For', { exact: true }).selectOption('session');
      await dialog(page).getByLabel('Session', { exact: true }).selectOption({ label: 'with skills' });
      await dialog(page).getByLabel('Address').fill(`http://127.0.0.1:${refusing.address().port}/mcp`);
      await dialog(page).getByLabel('Headers').fill('Authorization: Bearer 123456');
      assert.deepEqual(await violations(page), [], 'the form of a tool server');
      await show(page, 'tool-server-form');
      await confirm(page, 'Save');
      await page.getByRole('button', { name: 'Edit wiki' }).click();
      assert.equal(await dialog(page).getByLabel('Headers').inputValue(), 'Authorization=********');
      await dialog(page).getByLabel('Only these tools').fill('search');
      await confirm(page, 'Save');
      await entry(page, 'Tool servers', 'wiki').getByText('Only search.').waitFor();
      await page.getByLabel('Session', { exact: true }).selectOption({ label: 'with skills' });
      await entry(page, 'State of tool servers', 'wiki').getByText('failed').waitFor();
      await look(page, 'Tool servers');
      await page.getByRole('button', { name: 'Disable wiki' }).click();
      await entry(page, 'Tool servers', 'wiki').getByText('disabled').waitFor();
      await page.getByRole('button', { name: 'Delete wiki' }).click();
      await confirm(page, 'Delete');
      await page.getByText('No MCP servers').waitFor();
    } finally {
      refusing.closeAllConnections();
      refusing.close();
    }

    await page.getByRole('tab', { name: 'Memories' }).click();
    await page.getByRole('button', { name: 'Add a memory' }).click();
    await dialog(page).getByLabel('What to remember').fill('Reports go out as PDF.');
    await dialog(page).getByLabel('Topic').fill('reports');
    await confirm(page, 'Save');
    const memory = entry(page, 'Memories', 'as PDF');
    await look(page, 'Memories');
    await memory.getByRole('button', { name: 'Edit' }).click();
    await dialog(page).getByLabel('What to remember').fill('Reports go out as PDF, in German.');
    await confirm(page, 'Save');
    await memory.getByRole('button', { name: 'Disable' }).click();
    await memory.waitFor({ state: 'detached' });
    await page.getByLabel('Status').selectOption('disabled');
    await memory.getByText('in German').waitFor();
    await memory.getByRole('checkbox').check();
    await page.getByRole('button', { name: 'Delete', exact: true }).first().click();
    await confirm(page, 'Delete');
    await page.getByText('No matching memories').waitFor();
    assert.equal((await fixture.rest.get('/api/memories')).total, 0);
    assert.equal((await fixture.rest.get(`/api/sessions/${id}/mcp-servers`)).total, 0);
    assert.deepEqual(faults, []);
    await page.context().close();
  });

  test('solutions, apps, links and background tasks', async () => {
    await finished('with a site', steps(
      { calls: [
        call('Bash', { command: 'mkdir site; echo "<title>Site</title>of the agent" > site/index.html' }),
        call('Bash', { command: 'echo begun; sleep 600', description: 'A long command', run_in_background: true }),
      ] },
      { text: 'Made.' }));
    const page = await open();
    await signIn(page);
    await page.getByRole('link', { name: 'Library' }).click();

    await page.getByRole('tab', { name: 'Apps' }).click();
    await page.getByRole('button', { name: 'Publish' }).click();
    await dialog(page).getByLabel('Session', { exact: true }).selectOption({ label: 'with a site' });
    await dialog(page).getByLabel('Directory').fill('site');
    await confirm(page, 'Publish');
    const app = entry(page, 'Published apps', 'site');
    await app.getByText('live').waitFor();
    await look(page, 'Apps');
    const address = await app.getByRole('link', { name: /\/apps\// }).getAttribute('href');
    assert.match(await (await fetch(address)).text(), /of the agent/);
    await app.getByRole('button', { name: 'Publish again' }).click();
    await page.getByText('The app was published again.').waitFor();
    await page.getByRole('button', { name: 'Unpublish site' }).click();
    await confirm(page, 'Unpublish');
    await page.getByText('Nothing is published').waitFor();
    assert.equal((await fetch(address)).status, 404);

    await page.getByRole('tab', { name: 'Shared' }).click();
    const revokeOf = async () => {
      await page.getByRole('button', { name: 'Create a link' }).click();
      await dialog(page).getByLabel('Session', { exact: true }).selectOption({ label: 'with a site' });
      await confirm(page, 'Create');
      const link = await entry(page, 'New links', 'http').first().locator('code').textContent();
      assert.match(await (await fetch(link)).text(), /Made\./);
      return link;
    };
    const first = await revokeOf();
    await look(page, 'Shared');
    await entry(page, 'New links', first).getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('The link stops working.').waitFor();
    assert.equal((await fetch(first)).status, 410);
    const second = await revokeOf();
    await page.getByRole('button', { name: 'Revoke a link' }).click();
    await dialog(page).getByLabel('Session', { exact: true }).selectOption({ label: 'with a site' });
    await dialog(page).getByLabel('Link').fill(second);
    await confirm(page, 'Revoke');
    await eventually('the second link is gone', async () => (await fetch(second)).status === 410);
    await page.getByRole('button', { name: 'Share a session' }).click();
    await dialog(page).getByLabel('Session', { exact: true }).selectOption({ label: 'with a site' });
    await confirm(page, 'Share');
    await entry(page, 'Shared sessions', 'with a site').getByRole('button', { name: 'Stop sharing' }).click();
    await confirm(page, 'Stop sharing');
    await page.getByText('No session is shared').waitFor();

    await page.getByRole('tab', { name: 'Background tasks' }).click();
    const task = entry(page, 'Background tasks', 'sleep 600').or(entry(page, 'Background tasks', 'A long command')).first();
    await task.getByText('running').waitFor();
    await look(page, 'Background tasks');
    await task.getByRole('button', { name: /^Output of/ }).click();
    await dialog(page).getByText('begun', { exact: true }).waitFor();
    assert.deepEqual(await violations(page), [], 'the output of a task');
    await page.keyboard.press('Escape');
    await task.getByRole('button', { name: /^Stop/ }).click();
    await confirm(page, 'Stop');
    await task.getByText('stopped', { exact: true }).waitFor();

    await look(page, 'Solutions');
    await page.getByRole('button', { name: /^New session with .*[Ff]actory/ }).click();
    await dialog(page).getByLabel('Name').fill('of a factory');
    await dialog(page).getByLabel('Role').selectOption('architect');
    await confirm(page, 'Create');
    await page.getByRole('heading', { name: 'of a factory' }).waitFor();
    const made = await fixture.rest.detail(new URL(page.url()).pathname.split('/')[2]);
    assert.deepEqual([made.solution_id, made.biz_role_id], ['software_factory', 'architect']);
    assert.deepEqual(faults, []);
    await page.context().close();
  });

  test('palette, shortcuts and notifications', async () => {
    const id = await finished('a session about cranes', steps({ text: 'Cranes lift things.' }));
    const page = await open({ permissions: ['notifications'] });
    await page.addInitScript(() => {
      globalThis.asked = 0;
      globalThis.shown = [];
      globalThis.Notification = class {
        static permission = 'default';
        static async requestPermission() {
          globalThis.asked++;
          this.permission = 'granted';
          return 'granted';
        }
        constructor(title, options) { globalThis.shown.push({ title, body: options.body, click: () => this.onclick() }); }
        close() {}
      };
    });
    await page.reload();
    await signIn(page);

    await page.keyboard.press('Control+k');
    const find = page.getByRole('combobox', { name: 'Find sessions, rooms and actions' });
    await find.fill('lift things'); // words of a message
    await page.getByRole('option', { name: /a session about cranes/ }).waitFor();
    assert.deepEqual(await violations(page), [], 'palette');
    await show(page, 'palette');
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/s/${id}`);
    await page.keyboard.press('Control+k');
    await find.fill('settings pref');
    await page.getByRole('option', { name: 'Settings: Preferences' }).waitFor();
    await find.press('Enter');
    await page.getByRole('tabpanel', { name: 'Preferences' }).waitFor().catch(async (err) => {
      const focus = await page.evaluate(() => document.activeElement?.outerHTML.slice(0, 300));
      assert.fail(`${err.message}\nat ${page.url()}, the focus is in ${focus}`);
    });
    await page.getByRole('tab', { name: 'Preferences' }).focus();
    await page.keyboard.press('ArrowRight'); // tabs by the keyboard
    await page.getByRole('tabpanel', { name: 'API keys' }).waitFor();
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('?');
    await dialog(page).getByText('Show this list').waitFor();
    assert.deepEqual(await violations(page), [], 'shortcuts');
    await show(page, 'shortcuts');
    await page.keyboard.press('Escape');
    await page.setViewportSize({ width: 360, height: 740 });
    await page.keyboard.press('Control+k');
    await find.waitFor();
    await show(page, 'palette-narrow');
    await page.keyboard.press('Escape');
    await page.setViewportSize({ width: 1400, height: 900 });

    // The right to show notifications is asked for on a click, and a question uses it.
    assert.equal(await page.evaluate(() => globalThis.asked), 0);
    await page.getByRole('button', { name: 'Turn notifications on' }).click();
    await page.getByRole('button', { name: 'Turn notifications off' }).waitFor();
    assert.equal(await page.evaluate(() => globalThis.asked), 1);
    await page.waitForResponse((answer) => answer.url().includes('/api/inbox'), waits);
    await page.evaluate(() => { document.hasFocus = () => false; }); // the person is elsewhere
    const { session_id: asking } = await fixture.rest.post('/api/sessions', { intent: 'asks from afar' });
    await fixture.rest.post(`/api/sessions/${asking}/chat`, { message: steps(
      { ...bash('true') },
      { calls: [call('AskUserQuestion', { questions: [{ question: 'Which?', options: [{ label: 'A' }, { label: 'B' }] }] })] }) });
    await page.waitForFunction(() => globalThis.shown.length > 0, undefined, waits);
    assert.deepEqual(
      await page.evaluate(() => globalThis.shown.map(({ title, body }) => [title, body])), [['A question for you', 'asks from afar']],
    );
    await page.evaluate(() => globalThis.shown[0].click());
    const form = page.getByRole('form', { name: 'Question' });
    await form.waitFor();
    assert.equal(await page.getByText('Which?', { exact: true }).count(), 1, 'an open question is shown once');
    await form.getByLabel('A', { exact: true }).check();
    await form.getByRole('button', { name: 'Answer' }).click();
    await page.getByRole('definition').getByText('A', { exact: true }).waitFor();
    await form.waitFor({ state: 'detached' });
    assert.deepEqual(faults, []);
    await page.context().close();
  });
});
