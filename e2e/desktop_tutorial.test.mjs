// The tutorial (docs/tutorial.md), step by step in Debian's Chromium against a real service whose
// model is the scripted demo. With EVERLOOP_E2E_PICTURES, a directory, it makes the pictures of
// the page: EVERLOOP_E2E_PICTURES=$PWD/../docs/images node --test desktop_tutorial.test.mjs
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { program } from './lib/browser.mjs';
import { Desktop } from './lib/desktop.mjs';
import { Fixture, eventually } from './lib/fixture.mjs';

const chromium = program();
const required = Boolean(process.env.EVERLOOP_E2E_BROWSER); // as .ci/run sets it: there nothing is left out
const text = readFileSync(new URL('../docs/tutorial.md', import.meta.url), 'utf8');
let fixture;
let desktop;

describe('the tutorial', {
  skip: chromium || required ? false : 'Chromium is missing: install it (Debian: chromium), or set EVERLOOP_CHROMIUM',
}, () => {
  before(async () => {
    assert.ok(chromium, 'Chromium is missing');
    fixture = await Fixture.start();
    desktop = await Desktop.start(fixture, chromium);
  });
  after(async () => {
    await desktop?.close();
    await fixture?.close();
  });

  // quoted is what the page says to write in a step.
  const quoted = (step) => {
    const part = text.split(/^## /m).find((one) => one.startsWith(`${step}. `));
    return /^> (.+)$/m.exec(part)[1];
  };

  async function picture(page, name) {
    assert.ok(text.includes(`(images/tutorial-${name}.png)`), `the page shows the picture ${name}`);
    const directory = process.env.EVERLOOP_E2E_PICTURES;
    if (!directory) return;
    await page.mouse.move(0, 0);
    await page.screenshot({ path: join(directory, `tutorial-${name}.png`), animations: 'disabled' });
  }

  async function write(page, said) {
    const box = page.getByRole('textbox', { name: 'Message' });
    await box.fill(said);
    await box.press('Enter');
  }

  const ended = (page) => eventually('the chat ends', async () =>
    (await fixture.rest.detail(new URL(page.url()).pathname.split('/')[2])).status === 'completed');
  const dialog = (page) => page.getByRole('dialog');

  test('every step works as the page says', async () => {
    const page = await desktop.open('/', {
      signedIn: false, viewport: { width: 1200, height: 760 },
      expected: /net::ERR_|WebSocket|status of 50\d/, // while the service is gone
    });
    await desktop.signIn(page);

    // 2. Let the agent work.
    await write(page, quoted(2));
    const form = page.getByRole('form', { name: 'Question' });
    await form.waitFor();
    await picture(page, 'question');
    await form.getByLabel('A larger table').check();
    await form.getByRole('button', { name: 'Answer' }).click();
    await page.getByText('Here it is:').waitFor();
    await ended(page);

    // 3. Share the files.
    await page.getByRole('link', { name: 'Files' }).click();
    await page.getByRole('button', { name: 'demo-table.sh', exact: true }).click();
    const editor = page.getByRole('textbox', { name: 'Content of demo-table.sh' });
    await editor.getByText('Prints a multiplication table').click();
    await page.keyboard.press('End');
    await page.keyboard.type(' (mine)');
    await picture(page, 'files');
    await page.keyboard.press('Control+s');
    await page.getByText('The file was saved.').waitFor();

    // 4. Go back, and try another way.
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByRole('button', { name: /^agent Now I run it/ }).click();
    await page.getByRole('button', { name: 'Go back to here' }).waitFor({ state: 'attached' });
    await page.getByRole('button', { name: 'Try another way' }).click();
    await dialog(page).getByLabel('Message').fill(quoted(4));
    await dialog(page).getByRole('button', { name: 'Try', exact: true }).click();
    await page.getByText('Counted to 3').waitFor();
    await ended(page);
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByText('2 branches').waitFor();
    await page.getByRole('button', { name: 'Compare' }).click();
    await dialog(page).getByRole('region').nth(1).getByText(/Counted to 3/).waitFor();
    await picture(page, 'compare');
    await page.keyboard.press('Escape');

    // 5. Hand work to a sub-agent.
    await page.getByRole('link', { name: 'Chat', exact: true }).click();
    await write(page, quoted(5));
    await page.getByText('The sub-agent reported:').waitFor();
    await ended(page);
    await page.getByRole('button', { name: /^Agent Look around/ }).click();
    await page.getByRole('article', { name: 'Answer of the sub-agent' }).first().waitFor();
    await page.getByRole('button', { name: /^Agent Look around/ }).evaluate((card) => card.scrollIntoView());
    await picture(page, 'sub-agent');
    await page.getByRole('button', { name: 'To the end' }).click();

    // 6. Ask for data instead of text.
    await page.getByRole('button', { name: 'Ask for one result' }).click();
    await dialog(page).getByLabel('JSON Schema of the result').fill(/```json\n([^]*?)\n```/.exec(text)[1]);
    await dialog(page).getByRole('button', { name: 'Use it' }).click();
    await write(page, quoted(6));
    await page.getByText('The result follows the schema.').waitFor();
    await page.getByLabel('Result', { exact: true }).last().getByText('"files"').waitFor();
    await picture(page, 'result');

    // 7. Kill it.
    await write(page, quoted(7));
    await page.getByText('Step 2 of 20.').waitFor();
    await fixture.server.kill();
    await page.getByText(/Connection lost/).waitFor();
    await fixture.server.start();
    await page.getByText('Counted to 20').waitFor({ timeout: 240_000 });
    await ended(page);
    assert.equal(await page.getByText('Step 20 of 20.').count(), 1);

    // 8. Let it work without you.
    await page.getByRole('navigation', { name: 'Rooms' }).getByRole('link', { name: 'Schedules' }).click();
    await page.getByRole('link', { name: 'New schedule' }).first().click();
    await page.getByLabel('Title').fill('Report');
    await page.getByLabel('Prompt').fill(quoted(8));
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('button', { name: 'Run now' }).first().click();
    const runs = page.getByRole('region', { name: 'Runs' });
    await runs.getByText('completed', { exact: true }).waitFor();
    await picture(page, 'schedule');
    await runs.getByRole('link', { name: 'Session' }).click();
    await page.getByText('This is what the workspace holds:').waitFor();
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });

  test('the page and its pictures are on the site of the documentation', async () => {
    const page = await desktop.open('/docs', { signedIn: false });
    await page.getByRole('navigation', { name: 'Contents' }).getByRole('link', { name: 'Tutorial' }).click();
    await page.getByRole('heading', { name: 'Tutorial', level: 1 }).waitFor();
    const pictures = page.getByRole('article').getByRole('img');
    await pictures.first().waitFor();
    assert.equal(await pictures.count(), [...text.matchAll(/^!\[/gm)].length);
    for (const one of await pictures.all()) {
      await one.scrollIntoViewIfNeeded();
      await eventually('the picture is drawn', () => one.evaluate((image) => image.complete && image.naturalWidth > 0));
    }
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });
});
