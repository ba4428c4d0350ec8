// The identity service, and its credentials at the agent: docs/identity.md.
import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { io } from 'socket.io-client';
import { Fixture } from './lib/fixture.mjs';
import { Rest } from './lib/rest.mjs';

let fixture, identity, password;
before(async () => {
  fixture = await Fixture.start({}, { firstAdministrator: true });
  identity = fixture.server.identityURL;
  password = fixture.server.secret('identity-admin-password');
});
after(() => fixture?.close());

const send = async (method, path, { body, headers = {} } = {}) => {
  const answer = await fetch(identity + path, {
    method, headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  return {
    status: answer.status,
    headers: answer.headers,
    body: /json/.test(answer.headers.get('content-type') ?? '') ? JSON.parse(text) : text,
  };
};
const bearer = (token) => ({ authorization: `Bearer ${token}` });
const cookiesOf = (answer) => Object.fromEntries(answer.headers.getSetCookie().map((c) => /^([^=]+)=([^;]*)/.exec(c).slice(1, 3)));
const login = async (username = 'admin', secret = password) => {
  const answer = await send('POST', '/api/v1/auth/login', { body: { username, password: secret } });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return { ...answer.body, cookies: cookiesOf(answer), lines: answer.headers.getSetCookie() };
};
let made = 0;
const person = async (settings = {}) => {
  const username = `person-${++made}`;
  const secret = `a password of ${username}`;
  const { status, body } = await send('POST', '/api/v1/users', {
    body: { username, password: secret, email: `${username}@example.org`, name: username, ...settings },
    headers: bearer(fixture.server.key),
  });
  assert.equal(status, 201, JSON.stringify(body));
  return { ...body, secret, login: () => login(username, secret) };
};
const agent = (headers, method = 'GET', path = '/api/auth/me', body) => new Rest(fixture.server.url).call(method, path, body, headers);

// until waits for a condition that the service promises to meet.
const until = async (what, condition) => {
  for (const end = Date.now() + 120_000; ;) {
    if (await condition()) return;
    assert.ok(Date.now() < end, what);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
};

const connect = (auth, extraHeaders) => new Promise((resolve, reject) => {
  const socket = io(fixture.server.url, { auth, extraHeaders, transports: ['websocket'], forceNew: true, reconnection: false });
  socket.once('connect', () => resolve(socket));
  socket.once('connect_error', (err) => { socket.disconnect(); reject(err); });
});

test('the first password is in a file of its own, and shown', () => {
  assert.equal(statSync(join(fixture.server.dir, 'data/identity-admin-password')).mode & 0o777, 0o600);
  assert.ok(fixture.server.said().includes(password), 'it is shown at the first start');
});

test('the first administrator is the holder of the bootstrap key', async () => {
  const { access_token: token, token_type: type, expires_in: life, lines } = await login();
  assert.equal(type, 'Bearer');
  assert.equal(life, 900);
  for (const line of lines) assert.match(line, /HttpOnly; SameSite=Lax/);
  assert.match(lines.find((l) => l.startsWith('everloop_refresh=')), /Path=\/api\/v1\/auth;/);
  const byToken = await agent(bearer(token));
  const byKey = await fixture.rest.get('/api/auth/me');
  assert.equal(byToken.status, 200);
  assert.equal(byToken.body.id, byKey.id);
  assert.equal(byToken.body.administrator, true);
  assert.equal(byToken.body.issuer, identity);
  // What was known of the key is used for some seconds.
  await until('the key has an account now', async () =>
    (await send('GET', '/api/v1/pat/v3/default', { headers: bearer(fixture.server.key) })).status === 200);
});

test('every credential is accepted over REST and Socket.IO', async () => {
  const eve = await person();
  const { access_token: jwt, cookies } = await eve.login();
  const first = await send('GET', '/api/v1/pat/v3/default', { headers: bearer(jwt) });
  assert.equal(first.status, 200);
  assert.equal(first.body.name, 'default');
  const again = await Promise.all([1, 2, 3].map(() => send('GET', '/api/v1/pat/v3/default', { headers: bearer(jwt) })));
  for (const one of again) assert.deepEqual(one.body, first.body, 'the same at each call');

  const cookie = { cookie: `everloop_session=${cookies.everloop_session}` };
  const ids = new Set();
  for (const headers of [bearer(jwt), bearer(first.body.token), cookie]) {
    const me = await agent(headers);
    assert.equal(me.status, 200);
    assert.equal(me.body.username, eve.username);
    assert.equal(me.body.administrator, false);
    assert.equal(me.body.subject, eve.id);
    ids.add(me.body.id);
  }
  assert.equal(ids.size, 1, 'one person is one user');
  for (const socket of [await connect({ token: jwt }), await connect({ token: first.body.token }), await connect({}, cookie)])
    socket.disconnect();

  assert.equal((await agent(cookie, 'POST', '/api/sessions', {})).body.code, 'origin_refused');
  assert.equal((await agent({ ...cookie, origin: 'http://evil.example' }, 'POST', '/api/sessions', {})).status, 403);
  assert.equal((await agent({ ...cookie, origin: fixture.server.url }, 'POST', '/api/sessions', {})).status < 300, true);
  assert.equal((await agent(bearer(jwt), 'GET', '/api/admin/users')).status, 403);
  const view = await fixture.session({}, { token: jwt });
  await view.send('say hello');
});

test('an API key follows the account of its user, at the agent and its companions', async () => {
  const eve = await person({ administrator: true });
  const change = async (body) => {
    const { status } = await send('PATCH', `/api/v1/users/${eve.id}`, { body, headers: bearer(fixture.server.key) });
    assert.equal(status, 200);
  };
  const makeKey = async () => {
    const { access_token: jwt } = await eve.login();
    const { status, body } = await agent(bearer(jwt), 'POST', '/api/user/api-keys/', { name: 'k' });
    assert.equal(status, 201);
    return body.plaintext;
  };
  const key = await makeKey();
  const audit = async () => (await agent(bearer(key), 'GET', '/api/admin/audit')).status;
  const management = async () =>
    (await fetch(`${fixture.server.gatewayURL}/admin/config`, { headers: bearer(key) })).status;
  assert.equal(await audit(), 200);
  assert.equal(await management(), 200);

  await change({ administrator: false });
  await until('the right to administer ends', async () => await audit() === 403);
  await until('also at the gateway', async () => [401, 403].includes(await management()));

  const socket = await connect({ token: key });
  const closed = new Promise((resolve) => socket.once('disconnect', resolve));
  await change({ disabled: true });
  await until('the key ends', async () => (await agent(bearer(key))).status === 401);
  await closed;
  await until('also at the gateway', async () => await management() === 401);

  await change({ disabled: false });
  await until('the account is open again', async () => (await agent(bearer(key))).status === 200);
});

test('hostile tokens are refused', async () => {
  const { access_token: good } = await login();
  const [header, payload, signature] = good.split('.');
  const decode = (part) => JSON.parse(Buffer.from(part, 'base64url'));
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const { privateKey } = generateKeyPairSync('ed25519');
  const signed = (h, p) => {
    const text = `${encode(h)}.${encode(p)}`;
    return `${text}.${sign(null, Buffer.from(text), privateKey).toString('base64url')}`;
  };
  const head = decode(header);
  const claims = decode(payload);
  const { body: keys } = await send('GET', '/.well-known/jwks.json');
  const hmac = `${encode({ ...head, alg: 'HS256' })}.${payload}`;
  const publicKey = Buffer.from(keys.keys[0].x, 'base64url');
  const tokens = {
    'alg none': `${encode({ ...head, alg: 'none' })}.${payload}.`,
    'public key as HMAC secret': `${hmac}.${createHmac('sha256', publicKey).update(hmac).digest('base64url')}`,
    'wrong key': signed(head, claims),
    'unknown key': signed({ ...head, kid: 'x' }, claims),
    'key in the header': signed({ ...head, jwk: privateKey.export({ format: 'jwk' }) }, claims),
    'changed payload': `${header}.${encode({ ...claims, sub: 'x' })}.${signature}`,
    'no signature': `${header}.${payload}.`,
    'not base64': `${header}.${payload}.!!!`,
    'too long': `ey${'a'.repeat(5000)}.${payload}.${signature}`,
    'unknown personal token': 'ep_0000000000000000000000000000000000',
  };
  for (const [name, token] of Object.entries(tokens)) {
    assert.equal((await agent(bearer(token))).status, 401, name);
    assert.equal((await send('GET', '/api/v1/auth/me', { headers: bearer(token) })).status, 401, name);
    await assert.rejects(connect({ token }), /unauthorized/, name);
  }
  assert.equal((await agent({ cookie: 'everloop_session=es_wrong' })).status, 401);
  assert.equal((await agent(bearer(good))).status, 200);
});

test('a refresh token counts once, and its reuse ends the session', async () => {
  const eve = await person();
  const { cookies, access_token: jwt } = await eve.login();
  const refresh = (value, headers = {}) =>
    send('POST', '/api/v1/auth/refresh', { headers: { cookie: `everloop_refresh=${value}`, ...headers } });
  assert.equal((await refresh(cookies.everloop_refresh, { origin: 'http://evil.example' })).status, 403);
  const next = await refresh(cookies.everloop_refresh);
  assert.equal(next.status, 200);
  assert.equal((await agent(bearer(next.body.access_token))).status, 200);
  const stolen = await refresh(cookies.everloop_refresh);
  assert.equal(stolen.status, 401);
  assert.equal(stolen.body.code, 'refresh_reused');
  assert.equal((await refresh(cookiesOf(next).everloop_refresh)).status, 401, 'the successor is ended too');
  await until('the access token ends', async () => (await agent(bearer(jwt))).status === 401);
  const { body: audit } = await send('GET', '/api/v1/audit', { headers: bearer(fixture.server.key) });
  assert.ok(audit.items.some((r) => r.action === 'auth.refresh_reused' && r.actor_id === eve.id));
});

test('logout everywhere ends sessions, tokens and open sockets', async () => {
  const eve = await person();
  const [one, two] = [await eve.login(), await eve.login()];
  const socket = await connect({ token: two.access_token });
  const closed = new Promise((resolve) => socket.once('disconnect', resolve));
  const cookie = { cookie: `everloop_session=${two.cookies.everloop_session}` };
  assert.equal((await agent(cookie)).status, 200);
  assert.equal((await send('POST', '/api/v1/auth/logout', { body: { everywhere: true }, headers: bearer(one.access_token) })).status, 204);
  assert.equal((await send('GET', '/api/v1/auth/me', { headers: cookie })).status, 401);
  await until('the tokens end', async () => (await agent(bearer(two.access_token))).status === 401 && (await agent(cookie)).status === 401);
  await closed;
});

test('a deleted user is refused, with every credential', async () => {
  const eve = await person();
  const { access_token: jwt } = await eve.login();
  const { body: { token } } = await send('GET', '/api/v1/pat/v3/default', { headers: bearer(jwt) });
  assert.equal((await agent(bearer(token))).status, 200);
  const state = () => fixture.rest.post('/api/admin/users/token-state', { users: [{ sub: eve.id, email: eve.email, name: 'another' }] });
  const { items: [before] } = await state();
  assert.deepEqual([before.ok, before.changed], [true, true]);
  assert.equal((await send('DELETE', `/api/v1/users/${eve.id}`, { headers: bearer(jwt) })).status, 403);
  assert.equal((await send('DELETE', `/api/v1/users/${eve.id}`, { headers: bearer(fixture.server.key) })).status, 204);
  for (const credential of [jwt, token]) await until('it ends', async () => (await agent(bearer(credential))).status === 401);
  assert.equal((await state()).items[0].ok, false);
  assert.equal((await send('POST', '/api/v1/auth/login', { body: { username: eve.username, password: eve.secret } })).status, 401);
});

test('guesses are throttled by user, also the right one', async () => {
  const eve = await person();
  const guess = (secret) => send('POST', '/api/v1/auth/login', { body: { username: eve.username, password: secret } });
  const answers = await Promise.all(Array.from({ length: 20 }, () => guess('wrong wrong wrong')));
  const refused = answers.filter((a) => a.status === 429);
  assert.ok(refused.length > 0 && answers.every((a) => a.status === 429 || a.status === 401));
  assert.ok(Number(refused[0].headers.get('retry-after')) >= 1);
  assert.equal(refused[0].body.code, 'too_many_guesses');
  await login(); // others sign in
});

test('bad input gets a clear error', async () => {
  for (const [status, code, method, path, body] of [
    [422, 'invalid_request', 'POST', '/api/v1/auth/login', { username: 7, password: 'x' }],
    [422, 'invalid_request', 'POST', '/api/v1/auth/login', { username: 'a\u0000b', password: 'x' }],
    [422, 'invalid_request', 'POST', '/api/v1/auth/login', []],
    [422, 'invalid_request', 'POST', '/api/v1/users', { username: 'x', password: 'short' }],
    [422, 'invalid_request', 'POST', '/api/v1/users', { username: 'x', password: 'long enough it is', email: 'no address' }],
    [409, 'username_taken', 'POST', '/api/v1/users', { username: 'ADMIN', password: 'long enough it is' }],
    [404, 'user_not_found', 'DELETE', '/api/v1/users/x'],
    [404, 'route_not_found', 'GET', '/api/v1/nothing'],
    [405, 'method_not_allowed', 'GET', '/api/v1/auth/login'],
    [413, 'body_too_large', 'POST', '/api/v1/auth/login', { username: 'x'.repeat(70_000), password: 'x' }],
  ]) {
    const answer = await send(method, path, { body, headers: bearer(fixture.server.key) });
    assert.deepEqual([answer.status, answer.body.code], [status, code], `${method} ${path} ${JSON.stringify(body)?.slice(0, 80)}`);
  }
  const form = await fetch(`${identity}/api/v1/auth/login`, { method: 'POST', body: new URLSearchParams({ username: 'admin' }) });
  assert.equal(form.status, 415);
  const broken = await fetch(`${identity}/api/v1/auth/login`, {
    method: 'POST',
    body: '{',
    headers: { 'content-type': 'application/json' },
  });
  assert.equal(broken.status, 400);
  assert.equal((await send('POST', '/api/v1/users', { body: { username: 'x' } })).status, 401);
});

// clientFlow signs in by an independent relying party, as the desktop does: with PKCE,
// state and nonce. The browser is the session cookie alone.
const clientFlow = async (cookies) => {
  const client = await import('openid-client');
  const config = await client.discovery(new URL(identity), 'desktop', undefined, client.None(), {
    execute: [client.allowInsecureRequests],
  });
  const verifier = client.randomPKCECodeVerifier();
  const checks = {
    pkceCodeVerifier: verifier,
    expectedState: client.randomState(),
    expectedNonce: client.randomNonce(),
    idTokenExpected: true,
  };
  const address = client.buildAuthorizationUrl(config, {
    redirect_uri: `${fixture.server.desktopURL}/signin/callback`, scope: 'openid profile email offline_access',
    code_challenge: await client.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256',
    state: checks.expectedState, nonce: checks.expectedNonce,
  });
  const answer = await fetch(address, { redirect: 'manual', headers: { cookie: `everloop_session=${cookies.everloop_session}` } });
  assert.equal(answer.status, 302);
  const back = new URL(answer.headers.get('location'));
  return { client, config, checks, back, exchange: () => client.authorizationCodeGrant(config, back, checks) };
};

test('an independent relying party signs people in by OpenID Connect', async () => {
  const eve = await person();
  const { cookies } = await eve.login();
  const { client, config, exchange, back } = await clientFlow(cookies);
  assert.equal(back.searchParams.get('iss'), identity);
  const tokens = await exchange();
  assert.equal(tokens.claims().sub, eve.id);
  const info = await client.fetchUserInfo(config, tokens.access_token, eve.id);
  assert.deepEqual([info.preferred_username, info.email], [eve.username, eve.email]);
  const me = await agent(bearer(tokens.access_token));
  assert.deepEqual([me.status, me.body.subject], [200, eve.id], 'the agent accepts its access token');
  assert.equal((await agent(bearer(tokens.id_token))).status, 401, 'and no ID token');

  const next = await client.refreshTokenGrant(config, tokens.refresh_token);
  assert.equal((await agent(bearer(next.access_token))).status, 200);
  await assert.rejects(client.refreshTokenGrant(config, tokens.refresh_token), { error: 'invalid_grant' });
  await assert.rejects(client.refreshTokenGrant(config, next.refresh_token), { error: 'invalid_grant' }, 'the family has ended');
  await until('the agent refuses the family', async () => (await agent(bearer(next.access_token))).status === 401);
  await assert.rejects(exchange(), { error: 'invalid_grant' }, 'a code counts once');
});

test('a client revokes its tokens and signs the browser out', async () => {
  const eve = await person();
  const { cookies } = await eve.login();
  const { client, config, exchange } = await clientFlow(cookies);
  const tokens = await exchange();
  const other = await (await clientFlow(cookies)).exchange();
  await client.tokenRevocation(config, other.refresh_token);
  await until('it ends', async () => (await agent(bearer(other.access_token))).status === 401);
  assert.equal((await agent(bearer(tokens.access_token))).status, 200);
  const address = client.buildEndSessionUrl(
    config, { id_token_hint: tokens.id_token, post_logout_redirect_uri: `${fixture.server.desktopURL}/` },
  );
  const out = await fetch(address, { redirect: 'manual' });
  assert.deepEqual([out.status, out.headers.get('location')], [302, `${fixture.server.desktopURL}/`]);
  assert.equal((await send('GET', '/api/v1/auth/me', { headers: { cookie: `everloop_session=${cookies.everloop_session}` } })).status, 401);
  await until('the client ends too', async () => (await agent(bearer(tokens.access_token))).status === 401);
});

test('keys rotate, and what was signed before still holds, also after a crash', async () => {
  const { access_token: old, cookies } = await login();
  const before = await send('GET', '/api/v1/pat/v3/default', { headers: bearer(old) });
  assert.equal((await send('POST', '/api/v1/keys/rotate', { headers: bearer(old) })).status, 204);
  const { access_token: fresh } = await login();
  assert.notEqual(old.split('.')[0], fresh.split('.')[0]);
  const { body: { keys } } = await send('GET', '/.well-known/jwks.json');
  assert.ok(keys.length >= 2 && keys.every((k) => k.alg === 'EdDSA' && k.kid && !k.d));
  await until('the agent finds the new key', async () => (await agent(bearer(fresh))).status === 200);
  assert.equal((await agent(bearer(old))).status, 200);

  const { exchange } = await clientFlow(cookies); // its code outlives the crash
  await fixture.server.kill('identity');
  await fixture.server.start();
  assert.equal((await agent(bearer((await exchange()).access_token))).status, 200);
  assert.equal((await agent(bearer(old))).status, 200);
  const refreshed = await send('POST', '/api/v1/auth/refresh', { headers: { cookie: `everloop_refresh=${cookies.everloop_refresh}` } });
  assert.equal(refreshed.status, 200);
  assert.deepEqual((await send('GET', '/api/v1/pat/v3/default', { headers: bearer(refreshed.body.access_token) })).body, before.body);
  assert.equal((await send('GET', '/api/health')).status, 200);
});

test('a later start does not show the password', () => {
  assert.ok(!fixture.server.said().includes(password));
});
