// The pages of the identity service in Debian's Chromium: sign-in and account, without
// scripts but for passkeys, which a virtual authenticator holds.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { launch, program, violations } from './lib/browser.mjs';
import { Fixture } from './lib/fixture.mjs';
import { freePorts } from './lib/server.mjs';

const chromium = program();
const required = Boolean(process.env.EVERLOOP_E2E_BROWSER);
const password = 'correct horse battery';

// codeAt is what an authenticator app shows, some steps of 30 seconds from now.
const codeAt = (secret, steps = 0) => {
  const bits = [...secret].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
  const digest = createHmac('sha1', key).update(counter).digest();
  return String((digest.readUInt32BE(digest[19] & 15) & 0x7fffffff) % 1_000_000).padStart(6, '0');
};

describe('pages of the identity service', {
  skip: chromium || required ? false : 'Chromium is missing: install it (Debian: chromium), or set EVERLOOP_CHROMIUM',
}, () => {
  let fixture;
  let browser;
  let origin;
  const faults = [];

  before(async () => {
    assert.ok(chromium, 'Chromium is missing');
    const [port] = await freePorts(1);
    origin = `http://localhost:${port}`; // passkeys need a host name
    fixture = await Fixture.start({ IDENTITY_ADMIN_PASSWORD: password, IDENTITY_ADDR: `127.0.0.1:${port}`, IDENTITY_ISSUER: origin });
    browser = await launch(chromium);
  });
  after(async () => {
    await browser?.close();
    await fixture?.close();
  });

  async function open(options = {}) {
    const context = await browser.newContext({ viewport: { width: 900, height: 900 }, ...options });
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    page.on('pageerror', (error) => faults.push(`page: ${error.message}`));
    page.on('request', (request) => { if (!request.url().startsWith(origin)) faults.push(`request to ${request.url()}`); });
    await page.goto(`${origin}/`);
    return page;
  }

  // person makes an account with the password above.
  let made = 0;
  async function person() {
    const username = `person-${++made}`;
    const answer = await fetch(`${origin}/api/v1/users`, {
      method: 'POST', headers: { 'content-type': 'application/json', authorization: `Bearer ${fixture.server.key}` },
      body: JSON.stringify({ username, password }),
    });
    assert.equal(answer.status, 201);
    return username;
  }

  async function signIn(page, username, secret = password) {
    await page.getByLabel('User name').fill(username);
    await page.getByLabel('Password', { exact: true }).fill(secret);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  }

  const account = (page) => page.getByRole('heading', { name: 'Your account' }).waitFor();

  // clean looks at a page in both themes and at 360 px. axe is a script: it looks at a copy
  // of the page where the page itself has none.
  async function clean(page, place) {
    if (process.env.EVERLOOP_E2E_SHOTS)
      await page.screenshot({ path: join(process.env.EVERLOOP_E2E_SHOTS, `identity-${place}.png`), fullPage: true });
    const wide = page.viewportSize();
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      assert.deepEqual(await violations(page), [], `${place}, ${colorScheme}`);
    }
    await page.setViewportSize({ width: 360, height: 740 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${place}: wider than the window`);
    assert.deepEqual(await violations(page), [], `${place}, narrow`);
    await page.setViewportSize(wide);
    await page.emulateMedia({ colorScheme: 'light' });
    assert.deepEqual(faults, [], place);
  }

  test('sign in, look at the sessions, change the password, sign out: without scripts', async () => {
    const username = await person();
    const page = await open({ javaScriptEnabled: false });
    await signIn(page, username, 'not this password');
    await page.getByText('User name or password is wrong.').waitFor();
    assert.equal(await page.getByLabel('User name').inputValue(), username);
    await signIn(page, username);
    await account(page);
    await page.getByText('Chrome on Linux').waitFor();

    const other = await open({ javaScriptEnabled: false });
    await signIn(other, username);
    await account(other);
    await page.reload();
    await page.getByRole('button', { name: /^End the session of Chrome/ }).click();
    await page.getByText('The session has ended.').waitFor();
    await other.reload();
    await other.getByRole('heading', { name: 'Sign in to Everloop' }).waitFor();

    await page.getByLabel('Current password').first().fill(password);
    await page.getByLabel('New password').fill('another long password');
    await page.getByRole('button', { name: 'Change the password' }).click();
    await page.getByText('The password was changed.').waitFor();
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await signIn(page, username, 'another long password');
    await account(page);
    await page.getByRole('button', { name: 'Sign out everywhere' }).click();
    await page.getByRole('heading', { name: 'Sign in to Everloop' }).waitFor();
  });

  test('the pages are accessible and narrow', async () => {
    const username = await person();
    const page = await open();
    await clean(page, 'signin');
    await signIn(page, username, 'not this password');
    await page.getByRole('alert').filter({ hasText: 'wrong' }).waitFor();
    await clean(page, 'signin-wrong');
    await signIn(page, username);
    await account(page);
    await clean(page, 'account');
  });

  test('an authenticator app is set up, asked for and removed', async () => {
    const username = await person();
    const page = await open();
    await signIn(page, username);
    await page.getByRole('button', { name: 'Set up an authenticator app' }).waitFor();
    await page.locator('#totp-password').fill(password);
    await page.getByRole('button', { name: 'Set up an authenticator app' }).click();
    await page.getByRole('img', { name: 'QR code' }).waitFor();
    const secret = await page.locator('code').textContent();
    await clean(page, 'totp');
    await page.getByLabel('Code that the app shows').fill(codeAt(secret));
    await page.getByRole('button', { name: 'Turn it on' }).click();
    await page.getByRole('heading', { name: 'Recovery codes' }).waitFor();
    const recovery = await page.locator('code').allTextContents();
    assert.equal(recovery.length, 10);
    await clean(page, 'recovery');
    await page.getByRole('link', { name: 'I have kept them' }).click();
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();

    await signIn(page, username);
    await page.getByRole('heading', { name: 'Enter your code' }).waitFor();
    await clean(page, 'code');
    await page.getByLabel('Code of your authenticator app').fill('000000');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('this code is wrong').waitFor();
    await page.getByLabel('Code of your authenticator app').fill(codeAt(secret, 1));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await account(page);
    await page.locator('#remove-password').fill(password);
    await page.getByLabel('Code of the app, or a recovery code').fill(recovery[0]);
    await page.getByRole('button', { name: 'Remove the authenticator app' }).click();
    await page.getByText('The authenticator app was removed.').waitFor();
  });

  test('a passkey signs in without a password, is renamed and removed', async () => {
    const username = await person();
    const page = await open();
    const session = await page.context().newCDPSession(page);
    await session.send('WebAuthn.enable');
    const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true,
        isUserVerified: true, automaticPresenceSimulation: true,
      },
    });
    await signIn(page, username);
    await account(page);
    await page.locator('#passkey-password').fill('not this password');
    await page.getByRole('button', { name: 'Add a passkey' }).click();
    await page.getByText('the current password is wrong').waitFor();
    await page.locator('#passkey-password').fill(password);
    await page.getByLabel('Name of the new passkey').fill('My laptop');
    await page.getByRole('button', { name: 'Add a passkey' }).click();
    await page.locator('strong', { hasText: 'My laptop' }).waitFor();
    const { credentials } = await session.send('WebAuthn.getCredentials', { authenticatorId });
    assert.equal(credentials.length, 1);
    assert.equal(credentials[0].rpId, 'localhost');

    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await account(page);
    await page.getByText(username).first().waitFor();

    await page.getByLabel('New name of My laptop').fill('My <old> laptop');
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.locator('strong', { hasText: 'My <old> laptop' }).waitFor();
    await page.getByRole('button', { name: 'Remove', exact: true }).click();
    await page.getByText('The passkeys were changed.').waitFor();
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.getByText('this passkey was not accepted').waitFor();
    assert.deepEqual(faults, []);
  });

  test('an answer of a passkey counts once, and only for its own challenge', async () => {
    const username = await person();
    const page = await open();
    const session = await page.context().newCDPSession(page);
    await session.send('WebAuthn.enable');
    await session.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true,
        isUserVerified: true, automaticPresenceSimulation: true,
      },
    });
    await signIn(page, username);
    await account(page);
    await page.locator('#passkey-password').fill(password);
    await page.getByRole('button', { name: 'Add a passkey' }).click();
    await page.getByLabel('New name of Passkey').waitFor();
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();

    const sent = page.waitForRequest((request) => request.url().endsWith('/passkeys/login'));
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    const body = (await sent).postDataJSON();
    await account(page);
    const login = async (changes) => {
      const answer = await fetch(`${origin}/api/v1/auth/passkeys/login`, {
        method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ ...body, ...changes }),
      });
      return [answer.status, (await answer.json()).code];
    };
    assert.deepEqual(await login({}), [401, 'passkey_refused'], 'a second time');
    const begun = await fetch(`${origin}/api/v1/auth/passkeys/login/begin`, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}',
    });
    assert.deepEqual(await login({ challenge: (await begun.json()).challenge }), [401, 'passkey_refused'], 'for another challenge');
    assert.deepEqual(await login({ challenge: 'x' }), [401, 'challenge_expired']);
    assert.deepEqual(await login({ credential: {} }), [401, 'passkey_refused']);
    assert.deepEqual(await login({ credential: { ...body.credential, rawId: 'AAAA', id: 'AAAA' } }), [401, 'passkey_refused']);
  });

  test('a client of the provider goes on after the sign-in', async () => {
    const username = await person();
    const page = await open();
    const address = new URLSearchParams({
      client_id: 'desktop', redirect_uri: `${fixture.server.desktopURL}/signin/callback`, response_type: 'code', scope: 'openid',
      state: 's',
      code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM', code_challenge_method: 'S256',
    });
    await page.goto(`${origin}/oauth/authorize?${address}`);
    const back = page.waitForRequest((request) => request.url().startsWith(`${fixture.server.desktopURL}/signin/callback?`));
    await signIn(page, username);
    const { searchParams } = new URL((await back).url());
    assert.ok(searchParams.get('code'));
    assert.equal(searchParams.get('state'), 's');
    faults.length = 0; // the client is another site
  });
});
