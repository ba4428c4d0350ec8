/**
 * TokenProvider gives the token of a request. `refresh` is true when the service refused the last
 * one: then a cached token is of no use.
 */
export type TokenProvider = (request: { refresh: boolean }) => string | Promise<string>;

/** Credential is an API key, or a function that gives a token; without one a browser's cookie counts. */
export type Credential = string | TokenProvider | undefined;

/** tokenOf resolves a credential. */
export async function tokenOf(credential: Credential, refresh: boolean): Promise<string | undefined> {
  return typeof credential === 'function' ? credential({ refresh }) : credential;
}
