/**
 * Sign-in by OpenID Connect: authorization code with PKCE, as the client `desktop` of the identity service. The tokens are in
 * memory alone: after the page is loaded again, the identity service is asked without a word to the person (`prompt=none`).
 */
import { EverloopError, type TokenProvider } from '@everloop/sdk';
import { t } from './i18n';

interface Discovery {
  issuer: string;
  authorization_endpoint: string;
  end_session_endpoint: string;
}

/** Begun is what a sign-in needs again when the browser comes back. */
interface Begun {
  state: string;
  verifier: string;
  issuer: string;
  path: string; // where the person was
  silent: boolean;
}

interface Answer {
  access_token: string;
  expires_in: number;
  refresh_token?: string;
  id_token?: string;
}

const client = 'desktop';
const begunName = 'everloop.openid';

/** callbackPath is where the identity service sends the browser back. */
export const callbackPath = '/signin/callback';

const redirect = (): string => `${location.origin}${callbackPath}`;
const encoded = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
const random = (): string => encoded(crypto.getRandomValues(new Uint8Array(32)));

/** challengeOf is what the identity service gets of a verifier at first. */
export async function challengeOf(verifier: string): Promise<string> {
  return encoded(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))));
}

/** possible says whether this page may compute a challenge: one by http from another machine may not. */
export const possible = (): boolean => globalThis.crypto?.subtle !== undefined;

async function discover(): Promise<Discovery> {
  const answer = await fetch('/.well-known/openid-configuration');
  if (!answer.ok) throw new EverloopError('identity_unavailable', t('the identity service is unavailable'), { status: answer.status });
  return answer.json() as Promise<Discovery>;
}

/** begin leaves the page for the identity service; `silent` asks it not to show anything. */
export async function begin(silent = false): Promise<never> {
  const { issuer, authorization_endpoint: at } = await discover();
  const begun: Begun = {
    state: random(),
    verifier: random(),
    issuer,
    silent,
    path: location.pathname === callbackPath ? '/' : location.pathname + location.search + location.hash,
  };
  sessionStorage.setItem(begunName, JSON.stringify(begun));
  const query = new URLSearchParams({
    client_id: client, response_type: 'code', redirect_uri: redirect(), scope: 'openid offline_access', state: begun.state,
    code_challenge: await challengeOf(begun.verifier), code_challenge_method: 'S256', ...(silent ? { prompt: 'none' } : {}),
  });
  location.assign(`${at}?${query}`);
  return new Promise(() => {}); // the page ends
}

/** Returned is how the browser came back: with a code, or without a sign-in. */
export type Returned = { tokens: Tokens; path: string } | { path: string; notice?: string };

/** finish takes what the identity service sent the browser back with. */
export async function finish(query: URLSearchParams): Promise<Returned> {
  const kept = sessionStorage.getItem(begunName);
  sessionStorage.removeItem(begunName);
  const begun = kept === null ? undefined : JSON.parse(kept) as Begun;
  const code = query.get('code');
  // A state that is not ours, or an answer of another issuer, is not what this page asked for.
  if (!begun || query.get('state') !== begun.state || (query.get('iss') ?? begun.issuer) !== begun.issuer) {
    return { path: '/', notice: t('The sign-in was not started in this tab. Try again.') };
  }
  if (code === null) {
    const silent = begun.silent || query.get('error') === 'access_denied';
    return {
      path: begun.path,
      ...(silent ? {} : { notice: query.get('error_description') ?? query.get('error') ?? t('Sign-in failed.') }),
    };
  }
  const answer = await token({ grant_type: 'authorization_code', code, redirect_uri: redirect(), code_verifier: begun.verifier });
  return { tokens: new Tokens(answer), path: begun.path };
}

async function token(fields: Record<string, string>): Promise<Answer> {
  const answer = await fetch('/oauth/token', { method: 'POST', body: new URLSearchParams({ client_id: client, ...fields }) });
  const body = await answer.json().catch(() => ({})) as Answer & { error?: string; error_description?: string };
  if (answer.ok) return body;
  // A grant that no longer counts is the end of the sign-in.
  const status = body.error === 'invalid_grant' ? 401 : answer.status;
  throw new EverloopError(body.error ?? `http_${answer.status}`, body.error_description ?? t('the identity service refused the request'), {
    status,
  });
}

const early = 30_000; // ms before its end an access token is replaced

/** Tokens are those of one sign-in; `provide` gives the SDK one that holds. */
export class Tokens {
  private ends: number;
  private refreshing: Promise<void> | undefined;

  constructor(private answer: Answer, private readonly now: () => number = Date.now) {
    this.ends = now() + answer.expires_in * 1000;
  }

  readonly provide: TokenProvider = async ({ refresh }) => {
    if (refresh || this.now() > this.ends - early) {
      this.refreshing ??= this.refresh().finally(() => { this.refreshing = undefined; }); // a refresh token counts once
      await this.refreshing;
    }
    return this.answer.access_token;
  };

  private async refresh(): Promise<void> {
    const { refresh_token, id_token } = this.answer;
    if (refresh_token === undefined) throw new EverloopError('signed_out', t('the sign-in has ended'), { status: 401 });
    const next = await token({ grant_type: 'refresh_token', refresh_token });
    this.answer = { ...(id_token === undefined ? {} : { id_token }), ...next };
    this.ends = this.now() + next.expires_in * 1000;
  }

  /** end leaves the page to end the sign-in at the identity service, which sends the browser back. */
  async end(): Promise<never> {
    const { end_session_endpoint: at } = await discover();
    const query = new URLSearchParams({
      client_id: client,
      post_logout_redirect_uri: `${location.origin}/`,
      ...(this.answer.id_token === undefined ? {} : { id_token_hint: this.answer.id_token }),
    });
    location.assign(`${at}?${query}`);
    return new Promise(() => {});
  }
}
