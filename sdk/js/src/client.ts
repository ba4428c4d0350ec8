import type { Body } from './calls.js';
import { Connection } from './connection.js';
import type { Credential } from './credentials.js';
import { EverloopError } from './errors.js';
import { Api } from './generated/operations.js';
import { version } from './generated/version.js';
import { Session, type SessionOptions } from './session.js';
import { Transport } from './transport.js';
import { compareVersions } from './versions.js';

/** ClientOptions say which service is used, and as whom. */
export interface ClientOptions {
  /** Origin of the service, as http://127.0.0.1:8020; absent in a browser: the page's own. */
  baseUrl?: string;
  /** API key, or a function that gives a token; absent in a browser: the session cookie. */
  token?: Credential;
  /** Milliseconds until a call fails with `timeout` (default 60,000). */
  timeoutMs?: number;
  transports?: ('websocket' | 'polling')[];
  fetch?: typeof fetch;
}

/** ServiceVersion is what GET /api/version answers. */
export interface ServiceVersion {
  version: string;
  min_sdk: string;
}

/** Everloop is a client of one service. Its sessions share one connection, which is made when the first is opened. */
export class Everloop {
  /** api has every operation of the REST interface. */
  readonly api: Api;
  private readonly transport: Transport;
  private readonly connection: Connection;

  constructor(options: ClientOptions = {}) {
    const baseUrl = (options.baseUrl ?? '').replace(/\/+$/, '');
    const timeoutMs = options.timeoutMs ?? 60_000;
    const call = options.fetch ?? ((input, init) => fetch(input, init));
    this.transport = new Transport({ baseUrl, credential: options.token, timeoutMs, fetch: call });
    this.api = new Api(this.transport);
    this.connection = new Connection({
      baseUrl, credential: options.token, timeoutMs, transports: options.transports ?? ['websocket', 'polling'],
      check: async () => void (await this.checkVersion()),
    });
  }

  /** checkVersion fails with `sdk_too_old` when the service needs a newer SDK. Opening a session does it, too. */
  async checkVersion(): Promise<ServiceVersion> {
    const found = await this.api.getVersion() as ServiceVersion;
    if (compareVersions(version, found.min_sdk) < 0) {
      throw new EverloopError('sdk_too_old', `this SDK is ${version} and the service ${found.version} needs at least ${found.min_sdk}: `
        + `install @everloop/sdk@${found.version}`);
    }
    return found;
  }

  /** session follows an existing session. */
  session(id: string, options: SessionOptions = {}): Promise<Session> {
    return Session.open(id, this.api, this.transport, this.connection, options);
  }

  /** createSession makes a session and follows it. */
  async createSession(settings: Body<'create-session'> = {}, options: SessionOptions = {}): Promise<Session> {
    const { session_id } = await this.api.createSession(settings, options.signal ? { signal: options.signal } : {});
    return this.session(session_id, options);
  }

  /** close ends the connection and all sessions on it; what runs in the service goes on. */
  close(): void {
    this.connection.close();
  }
}
