import { Everloop, EverloopError, type Schemas } from '@everloop/sdk';
import { useSyncExternalStore } from 'react';
import { t } from './i18n';

/** SignInWay is a way to sign in that the service offers. A further one is added here and in shell/sign-in.tsx. */
export type SignInWay = 'password' | 'api_key';

export interface Account {
  client: Everloop;
  me: Schemas['Me'];
  way: SignInWay;
}

/** AuthState: `unknown` while a kept credential is tried. */
export type AuthState = { status: 'unknown' } | { status: 'out'; ways: SignInWay[]; notice?: string } | ({ status: 'in' } & Account);

// An API key is kept for this tab alone: sessionStorage ends with it, other tabs and later visits do not see it, and no
// request carries it by itself. After a sign-in with a password there is nothing to keep: cookies that scripts cannot read.
const keyName = 'everloop.key';

// Says that this browser may have such cookies: without it there is nothing to try.
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
    return sign_in;
  } catch {
    return ['api_key'];
  }
}

async function enter(way: SignInWay, key?: string): Promise<void> {
  const client = new Everloop({ token: key });
  try {
    const me = await client.api.getMe();
    set({ status: 'in', client, me, way });
  } catch (error) {
    client.close();
    throw error;
  }
}

/** restore tries what an earlier page has kept. */
export async function restore(): Promise<void> {
  const key = kept('sessionStorage')?.getItem(keyName) ?? undefined;
  const offered = await ways();
  if (key === undefined && !kept('localStorage')?.getItem(cookieName)) return set({ status: 'out', ways: offered });
  try {
    await enter(key === undefined ? 'password' : 'api_key', key);
  } catch (error) {
    const refused = error instanceof EverloopError && (error.status === 401 || error.status === 403);
    if (refused) forget();
    set({ status: 'out', ways: offered, ...(refused ? {} : { notice: t('{message}. Try again in a moment.', { message: (error as Error).message }) }) });
  }
}

export async function signInWithKey(key: string): Promise<void> {
  await enter('api_key', key);
  kept('sessionStorage')?.setItem(keyName, key);
}

// identity calls the identity service, whose cookies the browser sends by itself.
async function identity(path: string, body: object): Promise<void> {
  const answer = await fetch(`/api/v1/auth/${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  if (answer.ok) return;
  const problem = await answer.json().catch(() => ({})) as { code?: string; detail?: string };
  throw new EverloopError(problem.code ?? `http_${answer.status}`, problem.detail ?? t('the identity service refused the request'), { status: answer.status });
}

export async function signInWithPassword(username: string, password: string): Promise<void> {
  await identity('login', { username, password });
  await enter('password');
  kept('localStorage')?.setItem(cookieName, 'yes');
}

/** changePassword ends all other sign-ins of the person, too. A wrong password must not look like the end of this sign-in. */
export async function changePassword(current: string, next: string): Promise<void> {
  try {
    await identity('password', { current_password: current, new_password: next });
  } catch (error) {
    if (error instanceof EverloopError && error.status === 401) throw new Error(t('The current password is wrong.'), { cause: error });
    throw error;
  }
}

/** signOutEverywhere ends the sign-ins of all browsers and programs, this one included. */
export async function signOutEverywhere(): Promise<void> {
  await identity('logout', { everywhere: true });
  await signOut(t('You have signed out everywhere.'));
}

/** signOut ends the sign-in; `notice` says why when the service ended it. */
export async function signOut(notice?: string): Promise<void> {
  if (state.status !== 'in') return;
  const { way } = state;
  forget();
  if (way === 'password' && notice === undefined) {
    await fetch('/api/v1/auth/logout', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }).catch(() => {});
  }
  set({ status: 'out', ways: await ways(), ...(notice === undefined ? {} : { notice }) });
}
