// The desktop in a browser, signed in with the key of the fixture.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { launch, violations } from './browser.mjs';

// Desktop opens pages whose errors, and whose requests to elsewhere, are failures.
export class Desktop {
  faults = [];

  static async start(fixture, chromium) {
    const desktop = new Desktop();
    desktop.fixture = fixture;
    desktop.browser = await launch(chromium);
    return desktop;
  }

  // open gives a page at a path, signed in with the key unless `signedIn` is false. What it
  // awaits is given time for a slow machine; errors that match `expected` are no failures.
  async open(path = '/', { signedIn = true, expected, ...options } = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1400, height: 900 }, reducedMotion: 'reduce', ...options });
    context.setDefaultTimeout(90_000);
    const page = await context.newPage();
    const origin = this.fixture.server.desktopURL;
    page.on('pageerror', (error) => this.faults.push(`page: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() === 'error' && !expected?.test(message.text())) this.faults.push(message.text());
    });
    page.on('request', (request) => {
      const own = [origin, this.fixture.server.identityURL].some((one) => request.url().startsWith(`${one}/`));
      // The browser shows PDF with pages of its own.
      if (!own && !/^(blob|data|ws|chrome|chrome-extension):/.test(request.url())) this.faults.push(`request to ${request.url()}`);
    });
    if (signedIn) await page.addInitScript((key) => sessionStorage.setItem('everloop.key', key), this.fixture.server.key);
    await page.goto(`${origin}${path}`);
    return page;
  }

  // signIn enters the key in the sign-in of the page.
  async signIn(page) {
    await page.getByRole('button', { name: 'Use an API key' }).click();
    await page.getByLabel('API key').fill(this.fixture.server.key);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('heading', { name: 'What should be done?' }).waitFor();
  }

  // show keeps a picture when a directory for it is given.
  async show(page, name) {
    const directory = process.env.EVERLOOP_E2E_SHOTS;
    if (directory) await page.screenshot({ path: join(directory, `${name.replace(/\W+/g, '-')}.png`) });
  }

  // clean looks at a page in both themes and in a narrow window: it must break no rule of
  // accessibility, report no error, and be no wider than the window.
  async clean(page, place) {
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      assert.deepEqual(await violations(page), [], `${place}, ${colorScheme}`);
      await this.show(page, `${place}-${colorScheme}`);
    }
    await page.emulateMedia({ colorScheme: 'light' });
    const wide = page.viewportSize();
    await page.setViewportSize({ width: 360, height: 740 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${place}: wider than the window`);
    assert.deepEqual(await violations(page), [], `${place}, narrow`);
    await this.show(page, `${place}-narrow`);
    await page.setViewportSize(wide);
    assert.deepEqual(this.faults, [], place);
  }

  close() {
    return this.browser.close();
  }
}
