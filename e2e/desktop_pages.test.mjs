// What surrounds the rooms of the desktop: languages, sign-in by OpenID Connect, and the
// documentation, in Debian's Chromium against a real service.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { program, violations } from './lib/browser.mjs';
import { Desktop } from './lib/desktop.mjs';
import { Fixture, bash, eventually, steps } from './lib/fixture.mjs';

const chromium = program();
const required = Boolean(process.env.EVERLOOP_E2E_BROWSER); // as .ci/run sets it: there nothing is left out
const password = 'correct horse battery';
let fixture;
let desktop;

describe('desktop, pages', {
  skip: chromium || required ? false : 'Chromium is missing: install it (Debian: chromium), or set EVERLOOP_CHROMIUM',
}, () => {
  before(async () => {
    assert.ok(chromium, 'Chromium is missing');
    fixture = await Fixture.start({ IDENTITY_ADMIN_PASSWORD: password }, { firstAdministrator: true });
    const view = await fixture.session({ intent: 'What the rooms show' });
    await view.run(steps({ text: 'done' }));
    desktop = await Desktop.start(fixture, chromium);
  });
  after(async () => {
    await desktop?.close();
    await fixture?.close();
  });

  const rooms = [
    '/', '/inbox', '/schedules', '/schedules/new', '/board', '/dags', '/agents', '/webhooks', '/library', '/admin', '/settings',
  ];

  for (const [locale, lang, heading, letters, due] of [
    ['ru-RU', 'ru', 'Что нужно сделать?', /\p{Script=Cyrillic}/u, /^В 09:00, с понедельника/],
    ['zh-CN', 'zh-Hans', '要做什么？', /\p{Script=Han}/u, /^在09:00, 星期一/],
  ]) {
    test(`every room speaks the language of the browser: ${locale}`, async () => {
      const page = await desktop.open('/', { locale });
      await page.getByRole('heading', { name: heading }).waitFor();
      assert.equal(await page.evaluate(() => document.documentElement.lang), lang);
      for (const room of rooms) {
        await page.goto(`${fixture.server.desktopURL}${room}`);
        const title = page.getByRole('main').getByRole('heading', { level: 1 });
        await title.waitFor();
        assert.match(
          await title.textContent(), room === '/dags' ? /DAG/ : room === '/webhooks' && lang === 'zh-Hans' ? /Webhook/ : letters, room,
        );
        await page.getByRole('status').filter({ hasText: /^Loading|^Загрузка|^正在加载/ }).first().waitFor({ state: 'detached' });
        if (room === '/schedules/new') await page.getByText(due).waitFor();
        await desktop.clean(page, `${lang} ${room}`);
      }
      await page.context().close();
    });
  }

  test('another language is chosen in the settings, and kept', async () => {
    const page = await desktop.open('/settings#preferences');
    await page.getByLabel('Language').selectOption('ru');
    await page.getByRole('tab', { name: 'Предпочтения' }).waitFor();
    await page.reload();
    await page.getByLabel('Язык').waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), 'ru');

    // A chat has the language, too, with its numbers and times.
    const { session_id: id } = await fixture.rest.post('/api/sessions', { intent: 'Проверка' });
    await fixture.rest.post(`/api/sessions/${id}/chat`, { message: steps(bash('true'), { text: 'готово' }) });
    await eventually('the chat ends', async () => (await fixture.rest.detail(id)).status === 'completed');
    await page.goto(`${fixture.server.desktopURL}/s/${id}`);
    await page.getByText('готово', { exact: true }).waitFor();
    await page.getByRole('textbox', { name: 'Сообщение' }).waitFor();
    await desktop.clean(page, 'ru chat');
    await page.goto(`${fixture.server.desktopURL}/settings#preferences`);
    await page.getByLabel('Язык').selectOption('');
    await page.getByLabel('Language').waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), 'en');
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });

  test('sign-in at the page of the identity service, kept over a reload, and its end', async () => {
    const page = await desktop.open('/inbox', { signedIn: false });
    await page.getByRole('button', { name: 'Use the sign-in page' }).click();
    await desktop.clean(page, 'sign-in page of the desktop');
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.waitForURL(`${fixture.server.identityURL}/**`);
    await page.getByLabel('User name').fill('admin');
    await page.getByLabel('Password', { exact: true }).fill(password);
    desktop.faults.length = 0; // the page of the identity service asks who is signed in
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();

    // Back where the person was; nothing that signs in is kept in the browser.
    await page.waitForURL(`${fixture.server.desktopURL}/inbox`);
    await page.getByText('Nothing waits for you').waitFor();
    assert.deepEqual(await page.evaluate(() => [Object.keys(sessionStorage), localStorage.getItem('everloop.cookie')]), [[], 'openid']);
    await page.reload();
    await page.getByText('Nothing waits for you').waitFor();
    assert.equal(new URL(page.url()).pathname, '/inbox');
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByText('the sign-in page', { exact: true }).waitFor();
    assert.deepEqual(await violations(page), []);
    await page.getByRole('main').getByRole('button', { name: 'Sign out here' }).click();
    await page.getByRole('heading', { name: 'Sign in to Everloop' }).waitFor();
    assert.equal(new URL(page.url()).origin, fixture.server.desktopURL);
    await page.getByRole('button', { name: 'Use the sign-in page' }).click();
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByLabel('User name').waitFor(); // the sign-in there has ended, too
    desktop.faults.length = 0;
    await page.context().close();
  });

  test('the documentation is read and searched, without a sign-in', async () => {
    const page = await desktop.open('/docs', { signedIn: false });
    await page.getByRole('heading', { name: 'Documentation', level: 1 }).waitFor();
    await desktop.clean(page, 'documentation');
    await page.getByRole('navigation', { name: 'Contents' }).getByRole('link', { name: 'REST guide' }).click();
    await page.getByRole('article').getByRole('heading', { level: 1 }).waitFor();
    assert.equal(new URL(page.url()).pathname, '/docs/rest');
    await desktop.clean(page, 'documentation, a page');
    await page.getByRole('searchbox').fill('webhook secret');
    const results = page.getByRole('region', { name: 'Results' });
    await results.getByRole('link', { name: /Webhooks/ }).first().waitFor();
    await desktop.clean(page, 'documentation, results');
    await results.getByRole('link', { name: /Webhooks/ }).first().click();
    await page.waitForURL('**/docs/webhooks*');
    await page.goBack();
    await page.waitForURL('**/docs/rest');
    await page.goto(`${fixture.server.desktopURL}/docs/decisions/0001-truth-in-postgresql`);
    await page.getByRole('article').getByRole('heading', { level: 1 }).waitFor();
    await page.goto(`${fixture.server.desktopURL}/docs/desktop`);
    await page.getByRole('img', { name: 'A chat in the desktop that waits for an answer' }).evaluate((image) => image.decode());
    await page.goto(`${fixture.server.desktopURL}/docs/none`);
    await page.getByText('There is no such page').waitFor();
    assert.deepEqual(desktop.faults, []);
    await page.context().close();

    // The help leads there.
    const signed = await desktop.open('/');
    await signed.getByRole('heading', { name: 'What should be done?' }).waitFor();
    await signed.getByRole('heading', { name: 'What should be done?' }).click();
    await signed.keyboard.press('?');
    assert.equal(await signed.getByRole('dialog').getByRole('link', { name: 'Documentation' }).getAttribute('href'), '/docs');
    await signed.context().close();
  });
});
