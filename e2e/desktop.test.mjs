// The desktop in Debian's Chromium, as a person uses it, against a real service with the
// scripted model.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { program, violations } from './lib/browser.mjs';
import { Desktop } from './lib/desktop.mjs';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';

const waits = { timeout: 90_000 }; // for a slow machine; everything is awaited by what is seen

const chromium = program();
const required = Boolean(process.env.EVERLOOP_E2E_BROWSER); // as .ci/run sets it: there nothing is left out
let fixture;
let desktop;
let faults;

const missing = 'Chromium is missing: install it (Debian: chromium), or set EVERLOOP_CHROMIUM';

describe('desktop', { skip: chromium || required ? false : missing }, () => {
  before(async () => {
    assert.ok(chromium, 'Chromium is missing');
    fixture = await Fixture.start({ IDENTITY_ADMIN_PASSWORD: 'correct horse battery' }, { firstAdministrator: true });
    desktop = await Desktop.start(fixture, chromium);
    faults = desktop.faults;
  });
  after(async () => {
    await desktop?.close();
    await fixture?.close();
  });

  const open = (options) => desktop.open('/', { signedIn: false, expected: /ERR_INTERNET_DISCONNECTED|ERR_NETWORK|WebSocket/, ...options });
  const signIn = (page) => desktop.signIn(page);

  async function say(page, text) {
    const box = page.getByRole('textbox', { name: 'Message' });
    await box.fill(text);
    await box.press('Enter');
  }

  async function clean(page, place) {
    assert.deepEqual(await violations(page), [], place);
    assert.deepEqual(faults, [], place);
    await desktop.show(page, place);
  }

  test('sign-in with a password, and the end of it', async () => {
    const page = await open();
    await page.getByLabel('User name').fill('admin');
    await page.getByLabel('Password').fill('wrong password');
    const reported = page.waitForEvent('console', { predicate: (message) => message.type() === 'error', ...waits });
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').waitFor();
    await reported;
    assert.match(faults.pop(), /401/); // the browser itself reports it
    await clean(page, 'sign-in');
    await page.getByLabel('Password').fill('correct horse battery');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'What should be done?' }).waitFor();
    await page.reload(); // the cookie holds
    await page.getByRole('heading', { name: 'What should be done?' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to Everloop' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in to Everloop' }).waitFor();
    await page.context().close();
  });

  test('a chat with a tool, a question and a lost connection', async () => {
    const page = await open();
    await signIn(page);
    await clean(page, 'new session');
    const colour = { question: 'Which colour?', options: [{ label: 'Red' }, { label: 'Blue' }] };
    await say(page, steps(
      { thinking: 'I look first.', text: 'I run it.', ...bash('echo from-the-tool; echo content > made.txt') },
      { calls: [call('AskUserQuestion', { questions: [colour] })] }, { text: 'It is **done**.' }));

    // The tool and the question, streamed.
    const card = page.getByRole('button', { name: /^Bash/ });
    await card.waitFor();
    const form = page.getByRole('form', { name: 'Question' });
    await form.getByLabel('Blue').check();
    await clean(page, 'question');
    await form.getByRole('button', { name: 'Answer' }).click();
    await page.getByText('It is done.').waitFor();
    await page.getByRole('definition').getByText('Blue').waitFor();
    if (await card.getAttribute('aria-expanded') === 'false') await card.click();
    await page.getByLabel('Output').getByText('from-the-tool').waitFor();

    // What happens while the page is offline is there when it is back, once.
    await page.context().setOffline(true);
    await page.getByText(/Connection lost/).waitFor();
    const id = new URL(page.url()).pathname.split('/')[2];
    const sent = await fetch(`${fixture.server.url}/api/sessions/${id}/chat`, {
      method: 'POST', headers: { authorization: `Bearer ${fixture.server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ message: steps({ text: 'Said meanwhile.' }) }),
    });
    assert.equal(sent.status, 202);
    await page.context().setOffline(false);
    await page.getByText('Said meanwhile.', { exact: true }).waitFor();
    await page.getByText(/Connection lost/).waitFor({ state: 'hidden' });
    assert.equal(await page.getByText('Said meanwhile.', { exact: true }).count(), 1);
    assert.equal(await page.getByText('It is done.').count(), 1);

    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await clean(page, `chat, ${colorScheme}`);
    }
    await page.setViewportSize({ width: 360, height: 740 });
    await clean(page, 'chat, narrow');
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is wider than the window');
    await page.setViewportSize({ width: 1400, height: 900 });

    // Files: what the tool made is read, edited and saved; a change of another client is noticed.
    await page.getByRole('link', { name: 'Files' }).click();
    await page.getByRole('button', { name: 'made.txt', exact: true }).click();
    const text = page.getByRole('textbox', { name: 'Content of made.txt' });
    await text.getByText('content').waitFor();
    await text.fill('of the person');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The file was saved.').waitFor();
    await clean(page, 'files');
    await text.fill('not saved yet');
    await page.getByText('not saved', { exact: true }).waitFor();
    const put = await fetch(`${fixture.server.url}/api/sessions/${id}/files/made.txt`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${fixture.server.key}`, 'content-type': 'application/json' },
      body: '{"content":"of another"}',
    });
    assert.equal(put.status, 200);
    await page.getByText(/has changed the file/).waitFor();
    await page.getByRole('button', { name: 'Take theirs' }).click();
    await text.getByText('of another').waitFor();

    // It is compared with what it was before the second message.
    await eventually('the files are captured', async () => {
      const points = await fixture.rest.get(`/api/sessions/${id}/checkpoints`);
      return points.length === 2 && points.every((one) => one.files.snapshot_id !== null);
    });
    await page.getByRole('button', { name: 'Compare' }).click();
    const changes = page.getByRole('group', { name: 'Changes of made.txt' });
    await changes.getByText('removed: content').waitFor();
    await changes.getByText('added: of another').waitFor();
    await clean(page, 'files, compared');

    // History: back to before the second message, which the conversation no longer has.
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByRole('button', { name: /^you/ }).last().click();
    await page.getByRole('region', { name: 'Changed since then' }).getByRole('button', { name: 'made.txt' }).click();
    await changes.getByText('removed: content').waitFor();
    await changes.getByText('added: of another').waitFor();
    await clean(page, 'history, changes of a file');
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
    await clean(page, 'history');
    await page.getByRole('button', { name: 'Go back to here' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Go back' }).click();
    await page.getByText('It is done.').waitFor();
    await page.getByText('Said meanwhile.', { exact: true }).waitFor({ state: 'detached' });
    assert.deepEqual(faults, []);
    await page.context().close();
  });

  test('sessions are renamed and deleted by the keyboard alone', async () => {
    const page = await open();
    await signIn(page);
    await say(page, steps({ text: 'Hello.' }));
    await page.getByText('Hello.', { exact: true }).waitFor();
    const list = page.getByRole('navigation', { name: 'Sessions' });
    const first = list.getByRole('listitem').first();
    await first.getByRole('link').focus();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('menuitem', { name: 'Rename' }).press('Enter');
    await page.getByRole('textbox', { name: 'Name' }).fill('A better name');
    await page.keyboard.press('Enter');
    await first.getByText('A better name').waitFor();
    await first.getByRole('link').focus();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('menuitem', { name: 'Delete' }).press('Enter');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).press('Enter');
    await page.getByRole('heading', { name: 'What should be done?' }).waitFor();
    await list.getByText('A better name').waitFor({ state: 'detached' });
    assert.deepEqual(faults, []);
    await page.context().close();
  });
});
