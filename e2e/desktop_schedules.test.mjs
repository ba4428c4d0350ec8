// Schedules and triggers in the desktop (docs/desktop.md) in Debian's Chromium, as a person uses them, against a
// real service with the scripted model.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { program } from './lib/browser.mjs';
import { Desktop } from './lib/desktop.mjs';
import { Fixture, bash, eventually, steps } from './lib/fixture.mjs';

const chromium = program();
const required = Boolean(process.env.EVERLOOP_E2E_BROWSER); // as .ci/run sets it: there nothing is left out
let fixture;
let desktop;

describe('desktop, schedules and triggers', {
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

  test('a new schedule shows title, prompt and time first; the rest has its effect', async () => {
    await fixture.rest.put('/api/env/buckets/reports', { env: { REGION: 'north' } });
    const page = await desktop.open('/schedules');
    await page.getByText('Nothing is scheduled').waitFor();
    await page.getByRole('link', { name: 'New schedule' }).last().click(); // the first step
    await page.getByLabel('Title').waitFor();
    const shown = await page.getByRole('main').locator('input:visible, select:visible, textarea:visible').count();
    assert.ok(shown <= 14, `${shown} fields at first`); // title, prompt and time, with a box for each weekday
    await desktop.clean(page, 'new schedule at first');

    await page.getByLabel('Title').fill('Changes');
    await page.getByLabel('Prompt').fill('On : ');
    await page.getByLabel('Prompt').press('End');
    await page.getByLabel('Prompt').press('ArrowLeft');
    await page.getByLabel('Prompt').press('ArrowLeft');
    const insert = page.getByRole('group', { name: 'Insert a value' });
    await insert.getByRole('button', { name: 'planned time' }).click();
    assert.equal(await page.getByLabel('Prompt').inputValue(), 'On {{tick.time}}: ');
    await page.getByText('More options').click();
    await page.getByText('Inputs of the prompt').click();
    await page.getByRole('button', { name: 'Add an input' }).click();
    await page.getByLabel('Name of input 1').fill('product');
    await page.getByLabel('Value of input 1').fill('Atlas');
    await insert.getByRole('button', { name: 'product' }).waitFor();
    await page.getByText('Agent and model').click();
    await page.getByLabel('Mode', { exact: true }).selectOption('planning');
    await page.getByText('Environment and permissions').click();
    await page.getByLabel('reports').check();
    await page.getByLabel('Network of commands').selectOption('none');
    await page.getByLabel('Use memories').check();
    await page.getByRole('button', { name: 'Add a rule' }).click();
    await page.getByLabel('Tool of rule 1').fill('Bash');
    await page.getByLabel('Pattern of rule 1').fill('git push*');
    await page.getByLabel('Decision of rule 1').selectOption('deny');
    await page.getByText('Session and budget').click();
    await page.getByLabel('Budget in tokens').fill('500000');
    await desktop.clean(page, 'new schedule with all');

    // What the service refuses is shown at its field, also in a part that is closed.
    await page.getByLabel('Prompt').fill('{{input.unknown}} ' + steps({ text: 'noted' }));
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText(/input\.unknown.*is unknown/).first().waitFor();
    desktop.faults.splice(0).forEach((fault) => assert.match(fault, /422/));
    await page.getByLabel('Prompt').fill('{{input.product}} {{task.title}} ' + steps({ text: 'noted' }));
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('link', { name: 'Edit' }).waitFor();
    const id = new URL(page.url()).pathname.split('/')[2];
    const saved = await fixture.rest.get(`/api/scheduled-tasks/${id}`);
    assert.deepEqual(
      [saved.mode, saved.env_buckets, saved.network, saved.memory_enabled, saved.permissions, saved.inputs, saved.budget.max_tokens],
      ['planning', ['reports'], 'none', true, [{ tool: 'Bash', pattern: 'git push*', decision: 'deny' }], { product: 'Atlas' }, 500_000],
    );
    await page.getByText('It has not run yet').waitFor();
    await desktop.clean(page, 'schedule without runs');

    // Everything back to the default.
    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByLabel('Mode', { exact: true }).selectOption('');
    await page.getByLabel('reports').uncheck();
    await page.getByLabel('Network of commands').selectOption('');
    await page.getByLabel('Use memories').uncheck();
    await page.getByRole('button', { name: 'Remove rule 1' }).click();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('link', { name: 'Edit' }).waitFor();
    const emptied = await fixture.rest.get(`/api/scheduled-tasks/${id}`);
    assert.deepEqual(
      [emptied.mode, emptied.env_buckets, emptied.network, emptied.memory_enabled, emptied.permissions], [null, [], undefined, false, []],
    );

    // A past day runs now, and its records say so.
    await page.getByRole('button', { name: 'Backfill' }).click();
    const dialog = page.getByRole('dialog');
    const at = (days) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 16);
    await dialog.getByLabel('From').fill(at(7));
    await dialog.getByLabel('Until').fill(at(1));
    await desktop.clean(page, 'backfill');
    await dialog.getByRole('button', { name: 'Start the runs' }).click();
    await page.getByText(/^\d runs start\.$/).waitFor();
    const runs = page.getByRole('region', { name: 'Runs' });
    await runs.getByText('completed', { exact: true }).first().waitFor();
    await runs.getByText('backfilled').first().waitFor();
    await desktop.clean(page, 'schedule with runs');
    await fixture.rest.delete(`/api/scheduled-tasks/${id}`);
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });

  test('a schedule is made, run, changed and deleted', async () => {
    const page = await desktop.open('/schedules');
    await page.getByText('Nothing is scheduled').waitFor();
    await page.getByRole('link', { name: 'New schedule' }).first().click();
    await page.getByLabel('Title').fill('Morning report');
    await page.getByLabel('Prompt').fill(steps(bash('mkdir -p report; echo Total > report/today.md'), { text: 'The report is written.' }));
    await page.getByLabel('Repeats').selectOption('weekly');
    await page.getByLabel('At', { exact: true }).fill('07:30');
    await page.getByRole('group', { name: 'Days' }).getByText('Fri').click();
    await page.getByLabel('Time zone').selectOption('Europe/Berlin');
    await page.getByText('At 07:30, on Monday to Thursday').waitFor();
    assert.equal(await page.getByRole('list', { name: 'Next runs' }).getByRole('listitem').count(), 5);
    await page.getByLabel('Repeats').selectOption('expression');
    await page.getByLabel('Expression').fill('61 * * * *');
    await page.getByRole('alert').getByText(/minute/).waitFor();
    desktop.faults.splice(0).forEach((fault) => assert.match(fault, /422/)); // the browser itself reports it
    await page.getByLabel('Expression').fill('30 7 * * 1-4');
    await page.getByText('At 07:30, on Monday to Thursday').waitFor();
    await page.getByText('More options').click();
    await page.getByText('Outcome contract').click();
    await page.getByLabel('Files').fill('report/*.md');
    await page.getByRole('textbox', { name: 'Commands' }).fill('grep -q Total report/today.md\ntest -e missing');
    await page.getByText('Late runs and overlaps').click();
    await page.getByLabel('While an earlier run is active').selectOption('buffer_one');
    await desktop.clean(page, 'new schedule');
    await page.getByRole('button', { name: 'Create' }).click();

    // The run misses one thing of its contract, and says which.
    await page.locator('header').getByRole('button', { name: 'Run now' }).click();
    const runs = page.getByRole('region', { name: 'Runs' });
    await runs.getByText('failed', { exact: true }).waitFor();
    await runs.getByRole('button', { name: 'Checks 2/3' }).click();
    await runs.getByText(/test -e missing/).last().waitFor();
    await desktop.clean(page, 'schedule');
    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByRole('textbox', { name: 'Commands' }).fill('grep -q Total report/today.md');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('header').getByRole('button', { name: 'Run now' }).click();
    await runs.getByText('completed', { exact: true }).waitFor();
    await runs.getByText('run now').first().waitFor();
    assert.equal(await runs.getByRole('link', { name: 'Session' }).count(), 2);
    const task = new URL(page.url()).pathname.split('/')[2];
    const saved = await fixture.rest.get(`/api/scheduled-tasks/${task}`);
    assert.deepEqual(
      [saved.cron, saved.timezone, saved.overlap, saved.files], ['30 7 * * 1-4', 'Europe/Berlin', 'buffer_one', ['report/*.md']],
    );

    await page.getByRole('button', { name: 'Disable' }).click();
    await page.getByText(/disabled: never due/).waitFor();
    await page.getByRole('navigation', { name: 'Rooms' }).getByRole('link', { name: 'Schedules' }).click();
    await page.getByRole('switch', { name: 'Morning report is enabled' }).click();
    await eventually('the schedule is enabled', async () => (await fixture.rest.get(`/api/scheduled-tasks/${task}`)).enabled);
    await desktop.clean(page, 'schedules');
    await page.getByRole('main').getByRole('link', { name: 'Morning report' }).click();
    await page.getByRole('button', { name: 'Delete the schedule' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('Nothing is scheduled').waitFor();
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });

  test('a trigger is made with its secret; its deliveries are shown and redelivered', async () => {
    const page = await desktop.open('/triggers');
    await page.getByText('There is no trigger').waitFor();
    await desktop.clean(page, 'no trigger');
    await page.getByRole('button', { name: 'New trigger' }).last().click(); // the first step
    const form = page.getByRole('dialog');
    await form.getByLabel('Name').fill('Alarms');
    await form.getByLabel('Prompt').fill('On ');
    await form.getByRole('group', { name: 'Insert a value' }).getByRole('button', { name: 'whole body' }).click();
    await form.getByLabel('Prompt').press('End');
    await form.getByLabel('Prompt').pressSequentially(` ${steps({ text: 'noted' })}`);
    await form.getByText('More options').click();
    await form.getByLabel('Filter').fill('event ==');
    await desktop.clean(page, 'new trigger');
    await form.getByRole('button', { name: 'Create' }).click();
    await form.getByText(/unexpected|expected/).first().waitFor(); // at its field
    desktop.faults.splice(0).forEach((fault) => assert.match(fault, /422/));
    await form.getByLabel('Filter').fill('event == "alarm"');
    await form.getByRole('button', { name: 'Create' }).click();
    const ready = page.getByRole('dialog', { name: 'The trigger is ready' });
    const secret = await ready.getByRole('region', { name: 'Secret' }).locator('code').innerText();
    const address = await ready.getByRole('region', { name: 'Address' }).locator('code').innerText();
    await desktop.clean(page, 'trigger with its secret');
    const send = async (body, token = secret) => (await fetch(address, {
      method: 'POST', headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: JSON.stringify(body),
    })).status;
    assert.equal(await send({ type: 'alarm', text: 'disk full', key: 'sk-hidden-from-all-0123' }), 202);
    assert.equal(await send({ type: 'other' }), 202);
    assert.equal(await send({ type: 'alarm' }, 'wrong'), 401);
    await ready.getByRole('button', { name: 'Close' }).click();

    await page.getByRole('main').getByRole('link', { name: 'Alarms' }).click();
    const rows = page.getByRole('region', { name: 'Deliveries' });
    await rows.getByRole('button', { name: /^started/ }).click();
    await rows.getByText(/disk full/).first().waitFor();
    assert.equal(await rows.getByText(/sk-hidden/).count(), 0);
    await rows.getByRole('button', { name: /^filtered out/ }).waitFor();
    await rows.getByRole('button', { name: /^invalid signature/ }).waitFor();
    await rows.getByRole('link', { name: 'Session' }).waitFor();
    await desktop.clean(page, 'trigger');
    await rows.getByRole('listitem').filter({ hasText: 'started' }).getByRole('button', { name: 'Redeliver' }).click();
    await rows.getByText(/attempt 2/).waitFor();
    await page.getByLabel('Outcome').selectOption('rate_limited');
    await page.getByText('Nothing fits').waitFor();
    await page.getByRole('button', { name: 'Show all deliveries' }).click();

    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('button', { name: 'Enable' }).waitFor();
    assert.equal(await send({ type: 'alarm', text: 'again' }), 202);
    await rows.getByRole('button', { name: /^trigger paused/ }).waitFor();
    await page.getByRole('navigation', { name: 'Rooms' }).getByRole('link', { name: 'Triggers' }).click();
    await desktop.clean(page, 'triggers');
    await page.getByRole('main').getByRole('link', { name: 'Alarms' }).click();
    await page.getByRole('button', { name: 'Actions of the trigger' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('There is no trigger').waitFor();
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });
});
