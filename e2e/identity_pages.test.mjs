// The pages of the identity service in Debian's Chromium: sign-in, consent and account,
// without scripts but for passkeys, which a virtual authenticator holds.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
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
  let site; // of the client that asks for consent
  let visits; // its server
  let configuration; // the file of OAUTH_CONFIG_YAML_PATH
  const faults = [];

  before(async () => {
    assert.ok(chromium, 'Chromium is missing');
    const [port, other] = await freePorts(2);
    origin = `http://localhost:${port}`; // passkeys need a host name
    site = `http://127.0.0.1:${other}`;
    configuration = join(mkdtempSync(join(tmpdir(), 'everloop-oauth-')), 'oauth.yaml');
    writeFileSync(configuration, JSON.stringify({ clients: [{ id: 'notes', redirect_uris: [`${site}/callback`] }] }));
    fixture = await Fixture.start({
      IDENTITY_ADMIN_PASSWORD: password, IDENTITY_ADDR: `127.0.0.1:${port}`, IDENTITY_ISSUER: origin,
      OAUTH_CONFIG_YAML_PATH: configuration,
    });
    visits = createServer((request, response) => response.setHeader('content-type', 'text/html').end('<title>Notes</title>Notes'));
    await new Promise((resolve) => visits.listen(other, '127.0.0.1', resolve));
    browser = await launch(chromium);
  });
  after(async () => {
    await browser?.close();
    await fixture?.close();
    visits?.closeAllConnections();
    visits?.close();
    if (configuration) rmSync(dirname(configuration), { recursive: true, force: true });
  });

  async function open(options = {}) {
    const context = await browser.newContext({ viewport: { width: 900, height: 900 }, ...options });
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    page.on('pageerror', (error) => faults.push(`page: ${error.message}`));
    page.on('request', (request) => {
      if (![origin, site].includes(new URL(request.url()).origin)) faults.push(`request to ${request.url()}`);
    });
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

  // notes signs people in as another party's client does.
  async function notes() {
    const client = await import('openid-client');
    const config = await client.discovery(new URL(origin), 'notes', undefined, client.None(), {
      execute: [client.allowInsecureRequests],
    });
    return {
      refresh: (token) => client.refreshTokenGrant(config, token),
      // begin opens a request in a browser; its answer is exchanged by finish.
      async begin(page, scope = 'openid profile offline_access', parameters = {}) {
        const pkceCodeVerifier = client.randomPKCECodeVerifier();
        const checks = {
          pkceCodeVerifier, expectedState: client.randomState(), expectedNonce: client.randomNonce(), idTokenExpected: true,
        };
        await page.goto(client.buildAuthorizationUrl(config, {
          redirect_uri: `${site}/callback`, scope, code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
          code_challenge_method: 'S256', state: checks.expectedState, nonce: checks.expectedNonce, ...parameters,
        }).href);
        return {
          async finish() {
            await page.waitForURL((url) => url.origin === site && url.searchParams.get('state') === checks.expectedState);
            return client.authorizationCodeGrant(config, new URL(page.url()), checks);
          },
        };
      },
    };
  }

  const asked = (page) => page.getByRole('heading', { name: 'Allow notes to act for you?' }).waitFor();
  const agent = async (token) =>
    (await fetch(`${fixture.server.url}/api/auth/me`, { headers: { authorization: `Bearer ${token}` } })).status;

  test('a client that is not the desktop asks for consent, which is remembered and withdrawn: without scripts', async () => {
    const username = await person();
    const client = await notes();
    const page = await open({ javaScriptEnabled: false });

    const refused = await client.begin(page);
    await signIn(page, username);
    await asked(page);
    await page.getByRole('button', { name: 'Refuse' }).click();
    await assert.rejects(refused.finish(), { error: 'access_denied' }, 'state and issuer are those of the request');

    const allowed = await client.begin(page);
    await asked(page);
    await page.getByText(site, { exact: true }).waitFor();
    await page.getByText(username, { exact: true }).waitFor();
    await page.getByText('Read your name and your user name.').waitFor();
    await page.getByText('Stay signed in while you do not use it.').waitFor();
    assert.equal(await page.getByText('Read your e-mail address.').count(), 0);
    await page.getByRole('button', { name: 'Allow' }).click();
    const tokens = await allowed.finish();
    assert.equal(await agent(tokens.access_token), 200);

    await (await client.begin(page)).finish(); // it is not asked again
    const more = await client.begin(page, 'openid email');
    await asked(page);
    await page.getByText('Read your e-mail address.').waitFor();
    await page.getByRole('button', { name: 'Allow' }).click();
    await more.finish();
    await client.begin(page, 'openid', { prompt: 'consent' });
    await asked(page);

    await page.getByRole('link', { name: 'your account page' }).click();
    await account(page);
    await page.getByRole('button', { name: 'Withdraw the consent to notes' }).click();
    await page.getByText('The client may act for you no longer').waitFor();
    assert.equal(await page.getByRole('heading', { name: 'Clients that may act for you' }).count(), 0);
    await assert.rejects(client.refresh(tokens.refresh_token), { error: 'invalid_grant' });
    const silent = await client.begin(page, 'openid', { prompt: 'none' });
    await assert.rejects(silent.finish(), { error: 'consent_required' });
    await client.begin(page);
    await asked(page);
    assert.deepEqual(faults, []);
  });

  test('consent is given with another account, and pages of other sites give none', async () => {
    const [first, second] = [await person(), await person()];
    const client = await notes();
    const page = await open();
    await signIn(page, first);
    await account(page);
    await client.begin(page);
    await asked(page);
    await page.getByRole('link', { name: 'Use another account' }).click();
    await signIn(page, second);
    await asked(page);
    await page.getByText(second, { exact: true }).waitFor();

    // The form as another site has it, which has even found out its ticket.
    const form = await page.locator('form').evaluate((it) => it.outerHTML.replace('action="', `action="${location.origin}`));
    const address = page.url();
    await page.goto(`${site}/`);
    await page.setContent(form);
    const [answer] = await Promise.all([
      page.waitForResponse((response) => response.url() === `${origin}/consent`),
      page.getByRole('button', { name: 'Allow' }).click(),
    ]);
    assert.equal(answer.status(), 403);
    await page.getByRole('alert').waitFor();
    await page.goto(`${site}/`);
    await page.setContent(`<iframe src="${address}"></iframe>`);
    await page.waitForFunction(() => document.readyState === 'complete');
    await assert.rejects(page.frameLocator('iframe').getByRole('button', { name: 'Allow' }).waitFor({ timeout: 3000 }), /Timeout/,
      'no page can frame it');

    const again = await client.begin(page);
    await asked(page);
    await page.getByRole('button', { name: 'Allow' }).click();
    const tokens = await again.finish();
    const me = await fetch(`${origin}/api/v1/auth/me`, { headers: { authorization: `Bearer ${tokens.access_token}` } });
    assert.equal((await me.json()).username, second);
    faults.length = 0;
  });

  test('the pages about consent are accessible and narrow', async () => {
    const username = await person();
    const client = await notes();
    const page = await open();
    const begun = await client.begin(page, 'openid profile email offline_access');
    await signIn(page, username);
    await asked(page);
    await clean(page, 'consent');
    await page.getByRole('button', { name: 'Allow' }).click();
    await begun.finish();
    await page.goto(`${origin}/account`);
    await page.getByRole('button', { name: 'Withdraw the consent to notes' }).waitFor();
    await clean(page, 'account-consents');
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
