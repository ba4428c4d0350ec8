import { io, type Socket } from 'socket.io-client';
import { type Credential, tokenOf } from './credentials.js';
import { aborted, EverloopError, failure, type Failure } from './errors.js';

/** Follower is what the connection serves: one session's stream. */
export interface Follower {
  connected(): void;
  disconnected(): void;
  received(name: string, data: Record<string, unknown>): void;
  failed(error: EverloopError): void;
}

/** ConnectionConfig is what the socket is opened with. */
export interface ConnectionConfig {
  baseUrl: string;
  credential: Credential;
  timeoutMs: number;
  transports: ('websocket' | 'polling')[];
  /** Checks that this SDK fits the service; a refusal ends the connection. */
  check: () => Promise<void>;
}

/** RequestOptions are options of one client event. */
export interface RequestOptions {
  signal?: AbortSignal;
  timeoutMs?: number;
}

type Ack = { ok?: boolean; error?: Failure } & Record<string, unknown>;

const slowestRetry = 10_000;

/** Connection is one socket that all sessions of a client share; it reconnects until it is closed. */
export class Connection {
  private socket: Socket | undefined;
  private readonly followers = new Map<string, Follower>();
  private readonly waiting = new Set<() => void>();
  private failedWith: EverloopError | undefined;
  private refresh = false;
  private retries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly config: ConnectionConfig) {}

  get connected(): boolean {
    return this.socket?.connected ?? false;
  }

  /** follow passes on the events of a session. */
  follow(session: string, follower: Follower): void {
    if (this.followers.has(session)) throw new EverloopError('invalid_argument', 'this client has the session open already');
    this.followers.set(session, follower);
    this.open();
    if (this.connected) follower.connected();
  }

  unfollow(session: string, follower: Follower): void {
    if (this.followers.get(session) === follower) this.followers.delete(session);
  }

  /** emit sends an event now; `done` is called in the order of what the service sends, so that no event overtakes it. */
  emit(name: string, data: object, timeoutMs: number, done: (error: EverloopError | undefined, ack: Ack) => void): void {
    if (!this.socket?.connected) return done(lost(), {});
    this.socket.timeout(timeoutMs).emit(name, data, (error: Error | null, ack: Ack | undefined) => {
      if (error) return done(lost(error), {});
      if (ack?.ok !== true) return done(failure(ack?.error, 'invalid_response'), {});
      done(undefined, ack);
    });
  }

  /** request sends an event and gives its acknowledgement. A repeatable one is sent again when the connection is lost. */
  async request<T>(name: string, data: object, repeatable: boolean, options: RequestOptions = {}): Promise<T> {
    const limit = options.timeoutMs ?? this.config.timeoutMs;
    const deadline = Date.now() + limit;
    this.open();
    for (;;) {
      await this.untilConnected(deadline, name, options.signal);
      try {
        return await this.once<T>(name, data, Math.max(1, deadline - Date.now()), options.signal);
      } catch (error) {
        if (!(error instanceof EverloopError) || error.code !== 'network_error' || !repeatable) throw error;
        if (Date.now() >= deadline) throw timedOut(name);
      }
    }
  }

  private once<T>(name: string, data: object, timeoutMs: number, signal: AbortSignal | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(aborted(signal));
      const stop = () => reject(aborted(signal as AbortSignal));
      signal?.addEventListener('abort', stop, { once: true });
      this.emit(name, data, timeoutMs, (error, ack) => {
        signal?.removeEventListener('abort', stop);
        if (error) reject(error);
        else resolve(ack as T);
      });
    });
  }

  private untilConnected(deadline: number, name: string, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const end = (error?: EverloopError) => {
        clearTimeout(timer);
        this.waiting.delete(look);
        signal?.removeEventListener('abort', look);
        if (error) reject(error);
        else resolve();
      };
      const look = () => {
        if (signal?.aborted) return end(aborted(signal));
        if (this.failedWith) return end(this.failedWith);
        if (this.connected) return end();
        if (Date.now() >= deadline) end(timedOut(name));
      };
      timer = setTimeout(() => end(timedOut(name)), Math.max(0, deadline - Date.now()));
      this.waiting.add(look);
      signal?.addEventListener('abort', look, { once: true });
      look();
    });
  }

  /** open starts to connect; one that failed for good starts again. */
  private open(): void {
    if (this.socket && !this.failedWith) return;
    if (this.failedWith?.code === 'closed') throw this.failedWith;
    this.failedWith = undefined;
    this.socket?.disconnect();
    const socket = io(this.config.baseUrl || undefined, {
      path: '/socket.io/', forceNew: true, autoConnect: false, withCredentials: this.config.credential === undefined,
      transports: this.config.transports, tryAllTransports: true,
      reconnectionDelay: 200, reconnectionDelayMax: slowestRetry, randomizationFactor: 0.5,
      auth: (done) => this.authenticate(socket, done),
    });
    this.socket = socket;
    socket.on('connect', () => this.joined(socket));
    socket.on('disconnect', (reason) => this.left(socket, reason));
    socket.on('connect_error', (error) => this.refused(socket, error));
    socket.onAny((name: string, data: unknown) => this.received(name, data));
    this.checked(socket);
  }

  private checked(socket: Socket): void {
    const current = () => socket === this.socket && !this.failedWith;
    this.config.check().then(() => current() && socket.connect(), (error: EverloopError) => current() && this.unchecked(error, socket));
  }

  // A service that cannot be asked for its version may come back.
  private unchecked(error: EverloopError, socket: Socket): void {
    if (!error.retryable) return this.fail(error);
    this.later(() => this.checked(socket));
  }

  private authenticate(socket: Socket, done: (data: object) => void): void {
    tokenOf(this.config.credential, this.refresh).then(
      (token) => done(token === undefined ? {} : { token }),
      (cause) => {
        if (socket === this.socket) this.fail(new EverloopError('unauthorized', 'the token provider failed', { cause }));
      },
    );
  }

  private joined(socket: Socket): void {
    if (socket !== this.socket) return;
    this.refresh = false;
    this.retries = 0;
    // The service may be another version than before.
    this.config.check().catch((error: EverloopError) => {
      if (socket === this.socket && !error.retryable) this.fail(error);
    });
    for (const look of [...this.waiting]) look();
    for (const follower of [...this.followers.values()]) follower.connected();
  }

  private left(socket: Socket, reason: string): void {
    if (socket !== this.socket) return;
    for (const follower of [...this.followers.values()]) follower.disconnected();
    // The service ends a connection whose token has expired; socket.io leaves that to its user.
    if (reason !== 'io server disconnect') return;
    this.refresh = true;
    this.later(() => socket.connect());
  }

  private refused(socket: Socket, error: Error & { data?: Failure }): void {
    if (socket !== this.socket || socket.active) return; // socket.io tries again
    const refusal = failure({ ...error.data, message: error.message }, 'network_error');
    const renew = refusal.code === 'unauthorized' && typeof this.config.credential === 'function' && !this.refresh;
    if (!renew && !refusal.retryable) return this.fail(refusal);
    this.refresh = renew;
    this.later(() => socket.connect());
  }

  private later(act: () => void): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(act, Math.min(slowestRetry, 100 * 2 ** this.retries++) * (0.5 + Math.random() / 2));
  }

  private received(name: string, data: unknown): void {
    if (typeof data !== 'object' || data === null) return;
    const session = (data as { session_id?: unknown }).session_id;
    if (typeof session === 'string') this.followers.get(session)?.received(name, data as Record<string, unknown>);
  }

  private fail(error: EverloopError): void {
    this.failedWith = error;
    clearTimeout(this.timer);
    this.socket?.disconnect();
    for (const look of [...this.waiting]) look();
    for (const follower of [...this.followers.values()]) follower.failed(error);
  }

  /** close ends the connection and every stream on it. */
  close(): void {
    this.fail(new EverloopError('closed', 'the client was closed'));
  }
}

function lost(cause?: Error): EverloopError {
  return new EverloopError('network_error', 'the connection was lost before the answer came', { retryable: true, cause });
}

function timedOut(name: string): EverloopError {
  return new EverloopError('timeout', `${name} was not answered in time`, { retryable: true });
}
