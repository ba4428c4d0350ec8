import { Everloop, EverloopError, type Schemas } from '@everloop/sdk';
import { useSyncExternalStore } from 'react';
import { forgetDrafts } from './drafts';
import { t } from './i18n';
import { begin, callbackPath, finish, possible, type Tokens } from './openid';

/** SignInWay is a way to sign in that the service offers. A further one is added here and in shell/sign-in.tsx. */
export type SignInWay = 'password' | 'openid' | 'api_key';

export interface Account {
  client: Everloop;
  me: Schemas['Me'];
  way: SignInWay;
  tokens?: Tokens; // of a sign-in by OpenID Connect
}

/** AuthState: `unknown` while a kept credential is tried. */
export type AuthState = { status: 'unknown' } | { status: 'out'; ways: SignInWay[]; notice?: string } | ({ status: 'in' } & Account);

// An API key is kept for this tab alone: sessionStorage ends with it, other tabs and later visits do not see it, and no
// request carries it by itself. After a sign-in with a password there is nothing to keep: cookies that scripts cannot read.
const keyName = 'everloop.key';

// Says that this browser may have such cookies, or a sign-in at the identity service: without it there is nothing to try.
const cookieName = 'everloop.cookie';

let state: AuthState = { status: 'unknown' };
const listeners = new Set<() => void>();

function set(next: AuthState): void {
  if (state.status === 'in' && next.status !== 'in') state.client.close();
  state = next;
  for (const listener of listeners) listener();
}

export function useAuth(): AuthState {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, () => state);
}

/** account is who is signed in; for code that runs only then. */
export function account(): Account {
  if (state.status !== 'in') throw new Error('no account is signed in');
  return state;
}

// Storage may be off: then a sign-in holds for this page.
function kept(kind: 'sessionStorage' | 'localStorage'): Storage | undefined {
  try {
    return globalThis[kind];
  } catch {
    return undefined;
  }
}

function forget(): void {
  kept('sessionStorage')?.removeItem(keyName);
  kept('localStorage')?.removeItem(cookieName);
}

async function ways(): Promise<SignInWay[]> {
  try {
    const answer = await fetch('/desktop.json');
    const { sign_in } = await answer.json() as { sign_in: SignInWay[] };
    return sign_in.filter((way) => way !== 'openid' || possible());
  } catch {
    return ['api_key'];
  }
}

async function enter(way: SignInWay, credential?: string | Tokens): Promise<void> {
  const tokens = typeof credential === 'object' ? credential : undefined;
  const client = new Everloop({ token: tokens?.provide ?? (credential as string | undefined) });
  try {
    const me = await client.api.getMe();
    set({ status: 'in', client, me, way, ...(tokens ? { tokens } : {}) });
  } catch (error) {
    client.close();
    throw error;
  }
}

/** restore tries what an earlier page has kept, or takes the sign-in with which the browser comes back. */
export async function restore(): Promise<void> {
  const key = kept('sessionStorage')?.getItem(keyName) ?? undefined;
  const mark = kept('localStorage')?.getItem(cookieName) ?? undefined;
  const offered = await ways();
  const failed = (error: unknown): void => {
    const refused = error instanceof EverloopError && (error.status === 401 || error.status === 403);
    if (refused) forget();
    set({
      status: 'out',
      ways: offered,
      ...(refused ? {} : { notice: t('{message}. Try again in a moment.', { message: (error as Error).message }) }),
    });
  };
  try {
    if (location.pathname === callbackPath) return await returned(offered);
    if (key !== undefined) return await enter('api_key', key);
    if (mark === 'openid' && offered.includes('openid')) return await begin(true);
    if (mark === undefined || mark === 'openid') return set({ status: 'out', ways: offered });
    await enter('password');
  } catch (error) {
    failed(error);
  }
}

// returned goes on where the person was, signed in or not.
async function returned(offered: SignInWay[]): Promise<void> {
  const query = new URLSearchParams(location.search);
  history.replaceState(null, '', '/'); // the code is not kept
  const came = await finish(query);
  history.replaceState(null, '', came.path);
  if ('tokens' in came) {
    await enter('openid', came.tokens);
    kept('localStorage')?.setItem(cookieName, 'openid');
    return;
  }
  kept('localStorage')?.removeItem(cookieName);
  set({ status: 'out', ways: offered, ...(came.notice === undefined ? {} : { notice: came.notice }) });
}

/** signInWithOpenID leaves the page for the identity service, which sends the browser back. */
export const signInWithOpenID = (): Promise<never> => begin();

export async function signInWithKey(key: string): Promise<void> {
  await enter('api_key', key);
  kept('sessionStorage')?.setItem(keyName, key);
}

// identity calls the identity service, with the token of the sign-in or the cookies that the browser sends by itself.
async function identity<Answer = void>(method: string, path: string, body?: object): Promise<Answer> {
  const token = state.status === 'in' && state.tokens ? await state.tokens.provide({ refresh: false }) : undefined;
  const answer = await fetch(`/api/v1/auth/${path}`, {
    method, headers: { ...(body ? { 'content-type': 'application/json' } : {}), ...(token ? { authorization: `Bearer ${token}` } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await answer.text();
  if (answer.ok) return (text === '' ? undefined : JSON.parse(text)) as Answer;
  let problem: { code?: string; detail?: string } = {};
  try {
    problem = JSON.parse(text) as typeof problem;
  } catch {
    // Not of the identity service.
  }
  throw new EverloopError(problem.code ?? `http_${answer.status}`, problem.detail ?? t('the identity service refused the request'), {
    status: answer.status,
  });
}

/** signInWithPassword fails with `code_required` where the account has a second factor: then its code is sent, too. */
export async function signInWithPassword(username: string, password: string, code?: string): Promise<void> {
  await identity('POST', 'login', { username, password, ...(code ? { code } : {}) });
  await enter('password');
  kept('localStorage')?.setItem(cookieName, 'yes');
}

/** SignedIn is an open sign-in of the account. */
export interface SignedIn {
  id: string;
  client_id: string; // of the OpenID provider; '' for a sign-in
  device: string;
  address: string;
  user_agent: string;
  created_at: string;
  last_used_at: string;
  expires_at: string;
  current: boolean;
}

/** signIns lists the open sign-ins of the account, or is undefined where the identity service cannot. */
export async function signIns(): Promise<SignedIn[] | undefined> {
  try {
    return (await identity<{ items: SignedIn[] }>('GET', 'sessions')).items;
  } catch (error) {
    if (error instanceof EverloopError && error.status === 404) return undefined;
    throw error;
  }
}

export const endSignIn = (id: string): Promise<void> => identity('DELETE', `sessions/${encodeURIComponent(id)}`);

export const endOtherSignIns = (): Promise<void> => identity('DELETE', 'sessions');

/** changePassword ends all other sign-ins of the person, too. A wrong password must not look like the end of this sign-in. */
export async function changePassword(current: string, next: string): Promise<void> {
  try {
    await identity('POST', 'password', { current_password: current, new_password: next });
  } catch (error) {
    if (error instanceof EverloopError && error.status === 401) throw new Error(t('The current password is wrong.'), { cause: error });
    throw error;
  }
}

/** signOutEverywhere ends the sign-ins of all browsers and programs, this one included. */
export async function signOutEverywhere(): Promise<void> {
  await identity('POST', 'logout', { everywhere: true });
  await signOut(t('You are signed out everywhere.'));
}

/** signOut ends the sign-in; `notice` says why when the service ended it. */
export async function signOut(notice?: string): Promise<void> {
  if (state.status !== 'in') return;
  const { way, tokens } = state;
  forget();
  if (notice === undefined) forgetDrafts(); // one whose sign-in has ended comes back to them
  if (tokens && notice === undefined) {
    await tokens.end().catch(() => {}); // without the identity service the page forgets its tokens
  } else if (way === 'password' && notice === undefined) {
    await fetch('/api/v1/auth/logout', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }).catch(() => {});
  }
  set({ status: 'out', ways: await ways(), ...(notice === undefined ? {} : { notice }) });
}
