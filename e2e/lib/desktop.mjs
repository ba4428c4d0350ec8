// The desktop in a browser, signed in with the key of the fixture.
import assert from 'node:assert/strict';
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

  // open gives a signed-in page at a path. What it awaits is given time for a slow machine.
  async open(path, options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1400, height: 900 }, reducedMotion: 'reduce', ...options });
    context.setDefaultTimeout(90_000);
    const page = await context.newPage();
    const origin = this.fixture.server.desktopURL;
    page.on('pageerror', (error) => this.faults.push(`page: ${error.message}`));
    page.on('console', (message) => { if (message.type() === 'error') this.faults.push(message.text()); });
    page.on('request', (request) => {
      if (!request.url().startsWith(origin) && !/^(blob|data|ws):/.test(request.url())) this.faults.push(`request to ${request.url()}`);
    });
    await page.addInitScript((key) => sessionStorage.setItem('everloop.key', key), this.fixture.server.key);
    await page.goto(`${origin}${path}`);
    return page;
  }

  // clean looks at a page in both themes and in a narrow window: it must break no rule of
  // accessibility, report no error, and be no wider than the window.
  async clean(page, place) {
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      assert.deepEqual(await violations(page), [], `${place}, ${colorScheme}`);
    }
    await page.emulateMedia({ colorScheme: 'light' });
    const wide = page.viewportSize();
    await page.setViewportSize({ width: 360, height: 740 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${place}: wider than the window`);
    assert.deepEqual(await violations(page), [], `${place}, narrow`);
    await page.setViewportSize(wide);
    assert.deepEqual(this.faults, [], place);
  }

  close() {
    return this.browser.close();
  }
}
