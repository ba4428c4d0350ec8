import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { begin, challengeOf, finish, Tokens } from '../src/lib/openid';

const discovery = {
  issuer: 'https://id.example', authorization_endpoint: 'https://id.example/oauth/authorize',
  end_session_endpoint: 'https://id.example/oauth/end_session',
};
let asked: { path: string; fields: Record<string, string> }[];
let answers: { status: number; body: object }[];

beforeEach(() => {
  asked = [];
  answers = [];
  sessionStorage.clear();
  vi.stubGlobal('fetch', async (path: string, options: { body?: URLSearchParams } = {}) => {
    if (path === '/.well-known/openid-configuration') return Response.json(discovery);
    asked.push({ path, fields: Object.fromEntries(options.body ?? []) });
    const { status, body } = answers.shift() ?? { status: 500, body: {} };
    return Response.json(body, { status });
  });
});
afterEach(() => vi.unstubAllGlobals());

// left begins a sign-in, and gives the address to which the browser would go.
async function left(silent = false): Promise<URL> {
  const assign = vi.spyOn(location, 'assign').mockImplementation(() => {});
  void begin(silent);
  await vi.waitFor(() => expect(assign).toHaveBeenCalled());
  return new URL(String(assign.mock.calls[0]?.[0]));
}

describe('begin and finish', () => {
  test('the challenge is that of RFC 7636', async () => {
    expect(await challengeOf('dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk')).toBe('E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM');
  });
  test('a code is exchanged with the verifier that was kept', async () => {
    const at = await left();
    expect(Object.fromEntries(at.searchParams)).toMatchObject({
      client_id: 'desktop', response_type: 'code', code_challenge_method: 'S256',
    });
    expect(at.searchParams.has('prompt')).toBe(false);
    answers.push({ status: 200, body: { access_token: 'a', expires_in: 900 } });
    const came = await finish(new URLSearchParams({ code: 'c', state: at.searchParams.get('state') ?? '', iss: discovery.issuer }));
    expect('tokens' in came && await came.tokens.provide({ refresh: false })).toBe('a');
    expect(asked).toHaveLength(1);
    expect(asked[0]).toMatchObject({ path: '/oauth/token', fields: { grant_type: 'authorization_code', code: 'c', client_id: 'desktop' } });
    expect(await challengeOf(asked[0]?.fields.code_verifier ?? '')).toBe(at.searchParams.get('code_challenge'));
    expect(sessionStorage.length).toBe(0);
  });
  test('another state, another issuer and a code that was not asked for spend nothing', async () => {
    const state = (await left()).searchParams.get('state') ?? '';
    expect(await finish(new URLSearchParams({ code: 'c', state: 'x' }))).toMatchObject({ notice: expect.stringMatching(/not started/) });
    vi.restoreAllMocks();
    const other = (await left()).searchParams.get('state') ?? '';
    expect(other).not.toBe(state);
    expect(await finish(new URLSearchParams({ code: 'c', state: other, iss: 'https://evil.example' })))
      .toMatchObject({ notice: expect.stringMatching(/not started/) });
    expect(await finish(new URLSearchParams({ code: 'c', state: other }))).toMatchObject({ notice: expect.stringMatching(/not started/) });
    expect(asked).toEqual([]);
  });
  test('a silent try that finds no sign-in says nothing; another error is shown', async () => {
    const silent = await left(true);
    expect(silent.searchParams.get('prompt')).toBe('none');
    expect(await finish(new URLSearchParams({ error: 'login_required', state: silent.searchParams.get('state') ?? '' })))
      .not.toHaveProperty('notice');
    vi.restoreAllMocks();
    const loud = await left();
    expect(await finish(new URLSearchParams({
      error: 'server_error', error_description: 'try later', state: loud.searchParams.get('state') ?? '',
    }))).toMatchObject({ notice: 'try later' });
  });
});

describe('Tokens', () => {
  test('one that ends soon is replaced once, however many ask', async () => {
    let now = 0;
    const tokens = new Tokens({ access_token: 'a', expires_in: 60, refresh_token: 'r' }, () => now);
    expect(await tokens.provide({ refresh: false })).toBe('a');
    now = 31_000;
    answers.push({ status: 200, body: { access_token: 'b', expires_in: 60, refresh_token: 's' } });
    expect(await Promise.all([1, 2, 3].map(() => tokens.provide({ refresh: false })))).toEqual(['b', 'b', 'b']);
    expect(asked.map((one) => one.fields.refresh_token)).toEqual(['r']);
    answers.push({ status: 200, body: { access_token: 'c', expires_in: 60 } });
    expect(await tokens.provide({ refresh: true })).toBe('c');
    expect(asked.at(-1)?.fields.refresh_token).toBe('s');
  });
  test('a refresh token that no longer counts is the end of the sign-in', async () => {
    const tokens = new Tokens({ access_token: 'a', expires_in: 0, refresh_token: 'r' });
    answers.push({ status: 400, body: { error: 'invalid_grant', error_description: 'it was used before' } });
    await expect(tokens.provide({ refresh: false })).rejects.toMatchObject({ status: 401, message: 'it was used before' });
  });
});
