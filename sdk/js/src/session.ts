import type { CallOptions, Query, Schemas } from './calls.js';
import type { Connection, RequestOptions } from './connection.js';
import { aborted, EverloopError } from './errors.js';
import type { EventMap, Question, SessionEvent, Subscribed } from './events.js';
import type { Api } from './generated/operations.js';
import { SessionStream } from './stream.js';
import type { Transport } from './transport.js';
import { ChatView } from './view.js';

/** SessionOptions say where a session's stream begins. */
export interface SessionOptions {
  /** seq of the last event that an earlier stream has seen; 0: all that is kept. Absent: from now on. */
  after?: number;
  /** Whether the view reads the messages that were there before (default true). */
  history?: boolean;
  /** Batches notifications of the view; a front end passes requestAnimationFrame. */
  schedule?: (flush: () => void) => void;
  /**
   * Called when the stream is joined, before its first event, and again when it is joined at a later position because events
   * are no longer kept. What was read of the session before then may be out of date. Listeners that are attached in the first
   * call miss no event.
   */
  onJoined?: (session: Session) => void;
  signal?: AbortSignal;
}

/** Message is a text, or texts and pictures. */
export type Message = NonNullable<Schemas['ChatBody']['message']>;

/** SendOptions are the fields of chat:send besides the message. */
export interface SendOptions extends RequestOptions {
  mode?: 'planning' | 'executing';
  /** While a chat runs: next chat, into the running chat, instead of it, or an error. */
  delivery?: 'enqueue' | 'steer' | 'interrupt' | 'reject';
  headless?: boolean;
  outputSchema?: object;
  whatif?: Schemas['ChatBody']['whatif'];
  /** The same id is the same message; made by the SDK when absent, so that it can repeat a send. */
  clientMessageId?: string;
}

/** Sent is the acknowledgement of a message: from then on it survives the loss of any process. */
export interface Sent {
  chat_id: string;
  turn_id: string;
  delivery_applied: 'run' | 'enqueue' | 'steer' | 'interrupt';
  position: number;
  duplicate: boolean;
}

/** Answer gives for each question of a call the chosen options, a text, or both. */
export type Answer = (number | number[] | string | { options: number[]; text: string })[];

/** RunOptions are those of a message whose chat is awaited. */
export interface RunOptions extends SendOptions {
  /** Answers the agent's questions; without it a chat that asks ends with `awaiting_answer`. */
  onQuestion?: (question: Question) => Answer | Promise<Answer>;
}

/** Ran is a chat that is over. */
export interface Ran<Output = unknown> extends Sent {
  end: EventMap['chat:end'];
  /** Text of the agent's last turn. */
  text: string;
  /** Result of a headless chat. */
  output: Output | undefined;
}

type ChatEnd = EventMap['chat:end'];
const maxEnds = 200;
const newestTurns = 100; // that are read first, so that a long session opens at once
const maxPending = 10_000;

/** Session follows one session: its events in order, an assembled view, and what can be done in it. */
export class Session {
  /** view assembles turns, calls and questions. */
  readonly view: ChatView;
  private readonly stream: SessionStream;
  private readonly listeners = new Set<(event: SessionEvent) => void>();
  private readonly closers = new Set<(error: EverloopError) => void>();
  private readonly ends = new Map<string, ChatEnd>(); // the newest ones
  private readonly waiters = new Set<{ chat: string; end: (end: ChatEnd) => void; fail: (error: EverloopError) => void }>();
  private readonly abort = new AbortController();
  private over: EverloopError | undefined;
  private backlog: SessionEvent[] | undefined; // with `after`: what came before the first listener
  private loads = 0;
  private settle: { resolve: () => void; reject: (error: EverloopError) => void } | undefined;

  private constructor(
    readonly id: string, private readonly api: Api, private readonly transport: Transport, private readonly connection: Connection,
    private readonly options: SessionOptions,
  ) {
    this.view = new ChatView(options.schedule);
    if (options.after !== undefined) this.backlog = [];
    this.stream = new SessionStream(connection, id, options.after, {
      joined: (ack, fresh) => this.joined(ack, fresh),
      event: (event) => this.take(event),
      disconnected: () => this.view.disconnected(),
      closed: (error) => this.closed(error),
    });
  }

  /** open follows a session; it resolves when the stream is joined. */
  static async open(
    id: string, api: Api, transport: Transport, connection: Connection, options: SessionOptions = {},
  ): Promise<Session> {
    const session = new Session(id, api, transport, connection, options);
    await new Promise<void>((resolve, reject) => {
      const { signal } = options;
      const stop = () => session.stream.close(aborted(signal as AbortSignal));
      const end = () => {
        signal?.removeEventListener('abort', stop);
        session.settle = undefined;
      };
      session.settle = {
        resolve: () => { end(); resolve(); },
        reject: (error) => { end(); reject(error); },
      };
      if (signal?.aborted) return stop();
      signal?.addEventListener('abort', stop, { once: true });
      session.stream.open();
    });
    return session;
  }

  /** seq is the last event that was delivered: a later stream goes on behind it. */
  get seq(): number {
    return this.stream.last ?? 0;
  }

  /**
   * on calls back with each event, in order. It gives a function that ends it. In a session that was opened with
   * `after`, the first listener gets what came before it, too, at most 10,000 events: attach it at once.
   */
  on(listener: (event: SessionEvent) => void): () => void {
    const { backlog } = this;
    this.backlog = undefined;
    for (const event of backlog ?? []) listener(event);
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /** onClose calls back when the stream ends for good: the session was deleted, access was lost, or it was closed. */
  onClose(listener: (error: EverloopError) => void): () => void {
    if (this.over) listener(this.over);
    else this.closers.add(listener);
    return () => void this.closers.delete(listener);
  }

  /** events are the events from the call on. A consumer that is 10,000 events behind gets `consumer_too_slow`. */
  events(options: { signal?: AbortSignal } = {}): AsyncIterableIterator<SessionEvent> {
    const queue: SessionEvent[] = [];
    let error: EverloopError | undefined;
    let done = false;
    let wake: (() => void) | undefined;
    const finish = (why?: EverloopError) => {
      if (!done) error = why;
      done = true;
      offEvent();
      offClose();
      options.signal?.removeEventListener('abort', stop);
      wake?.();
    };
    const offEvent = this.on((event) => {
      queue.push(event);
      if (queue.length > maxPending) finish(new EverloopError('consumer_too_slow', `more than ${maxPending} events wait to be read`));
      wake?.();
    });
    const stop = () => finish(aborted(options.signal as AbortSignal));
    let offClose = () => {};
    offClose = this.onClose((why) => finish(why.code === 'closed' ? undefined : why));
    if (options.signal?.aborted) stop();
    else options.signal?.addEventListener('abort', stop, { once: true });
    const next = async (): Promise<IteratorResult<SessionEvent>> => {
      for (;;) {
        const event = queue.shift();
        if (event) return { done: false, value: event };
        if (error) {
          const thrown = error;
          error = undefined;
          throw thrown;
        }
        if (done) return { done: true, value: undefined };
        await new Promise<void>((resolve) => { wake = resolve; });
      }
    };
    const iterator: AsyncIterableIterator<SessionEvent> = {
      next,
      return: async () => {
        queue.length = 0;
        finish();
        return { done: true, value: undefined };
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }

  /** send sends a message and gives its acknowledgement. */
  async send(message: Message, options: SendOptions = {}): Promise<Sent> {
    const { mode, delivery, headless, outputSchema, whatif } = options;
    const body = {
      session_id: this.id, message, client_message_id: options.clientMessageId ?? newId(),
      ...given({ mode, delivery, headless, output_schema: outputSchema, whatif }),
    };
    const sent = await this.connection.request<Sent>('chat:send', body, true, options);
    const { chat_id, turn_id, position } = sent;
    const noted = { chat_id, turn_id, position, preview: typeof message === 'string' ? message.slice(0, 200) : '' };
    if (position > 0) this.view.queued(noted);
    else if (sent.delivery_applied === 'steer') this.view.joins(noted);
    return sent;
  }

  /** run sends a message and waits until its chat is over. A chat that failed is an EverloopError with its code. */
  async run<Output = unknown>(message: Message, options: RunOptions = {}): Promise<Ran<Output>> {
    const sent = await this.send(message, options);
    for (;;) {
      const end = await this.ended(sent.chat_id, options);
      if (end.finish_reason === 'awaiting_answer' && options.onQuestion) {
        await this.answerAll(sent.chat_id, options.onQuestion, options);
        continue;
      }
      if (end.status === 'failed') {
        throw new EverloopError(end.error?.code ?? end.finish_reason, end.error?.message ?? 'the chat failed', {
          retryable: end.error?.retryable,
        });
      }
      return { ...sent, end, text: this.lastText(sent.chat_id), output: end.result?.output as Output | undefined };
    }
  }

  private async answerAll(chat: string, ask: NonNullable<RunOptions['onQuestion']>, options: RequestOptions): Promise<void> {
    this.ends.delete(chat); // it starts again, and ends again
    for (const question of this.view.snapshot().questions.filter((one) => one.chat_id === chat)) {
      await this.answer(question, await ask(question), options);
    }
  }

  private lastText(chat: string): string {
    const said = this.view.snapshot().turns.filter((turn) => turn.chat_id === chat && turn.role === 'assistant').at(-1);
    return said ? this.view.text(said) : '';
  }

  /** ended waits for the end of a chat; that of one that ended while the session was open comes at once. */
  ended(chat: string, options: { signal?: AbortSignal } = {}): Promise<ChatEnd> {
    return new Promise((resolve, reject) => {
      const known = this.ends.get(chat);
      if (known) return resolve(known);
      if (this.over) return reject(this.over);
      if (options.signal?.aborted) return reject(aborted(options.signal));
      const finish = () => {
        this.waiters.delete(waiter);
        options.signal?.removeEventListener('abort', stop);
      };
      const waiter = {
        chat,
        end: (end: ChatEnd) => { finish(); resolve(end); },
        fail: (error: EverloopError) => { finish(); reject(error); },
      };
      const stop = () => waiter.fail(aborted(options.signal as AbortSignal));
      options.signal?.addEventListener('abort', stop, { once: true });
      this.waiters.add(waiter);
    });
  }

  /**
   * answer answers a question: for each of its parts an option's number, several, a text, or options and a text.
   * `resolved` is false when it was answered or cancelled before; after a lost connection that may have been this call
   * itself.
   */
  answer(
    question: Pick<Question, 'tool_call_id'>,
    answer: Answer,
    options: RequestOptions = {},
  ): Promise<{ resolved: boolean; question_id: string; chat_id: string }> {
    const given = { tool_call_id: question.tool_call_id, ...answerFields(answer) };
    const body = { session_id: this.id, message: '', askuser_answer: given };
    return this.connection.request('chat:send', body, true, options);
  }

  /** stop stops the running chat, or also what is queued. */
  async stop(options: RequestOptions & { scope?: 'chat' | 'chat_and_queue' } = {}): Promise<boolean> {
    const body = { session_id: this.id, ...given({ scope: options.scope }) };
    return (await this.connection.request<{ stopped: boolean }>('chat:stop', body, true, options)).stopped;
  }

  /**
   * compact summarises the history; session:compacted or session:compaction_skipped reports its end. It is not repeated when
   * the connection is lost.
   */
  async compact(options: RequestOptions = {}): Promise<string> {
    const body = { session_id: this.id };
    return (await this.connection.request<{ compaction_id: string }>('chat:compact', body, false, options)).compaction_id;
  }

  /** readFile gives a file of the workspace as text. */
  async readFile(path: string, options: CallOptions = {}): Promise<string> {
    return (await this.api.readFile(this.id, path, options)).text();
  }

  /**
   * writeFile writes a text file and gives its ETag. `etag`, of an earlier read or write, makes it fail when the file has
   * changed since.
   */
  async writeFile(path: string, content: string, options: CallOptions & { etag?: string } = {}): Promise<string> {
    const headers = { ...options.headers, ...(options.etag === undefined ? {} : { 'if-match': options.etag }) };
    const answer = await this.transport.headers(
      'PUT', '/api/sessions/{session_id}/files/{file_path}', { session_id: this.id, file_path: path }, { content }, { ...options, headers },
    );
    return answer.get('etag') ?? '';
  }

  /** upload stores files below a directory ('' is the workspace); their names may have directories. */
  upload(directory: string, files: Record<string, Blob | string>, options: CallOptions = {}): ReturnType<Api['uploadFiles']> {
    const form = new FormData();
    const paths = Object.keys(files);
    for (const path of paths) {
      const content = files[path] as Blob | string;
      form.append('files', typeof content === 'string' ? new Blob([content]) : content, path.split('/').at(-1));
    }
    form.append('paths', JSON.stringify(paths));
    return this.api.uploadFiles(this.id, directory, form, options);
  }

  /** close ends the stream; the session itself goes on. */
  async close(): Promise<void> {
    if (this.over) return;
    this.stream.close(new EverloopError('closed', 'the session was closed'));
    if (!this.connection.connected) return;
    await this.connection.request('session:unsubscribe', { session_id: this.id }, false, { timeoutMs: 5000 }).catch(() => {});
  }

  private joined(ack: Subscribed, fresh: boolean): void {
    this.view.joined(ack, fresh);
    if (ack.truncated) this.loseWaiters(ack);
    if (fresh && this.options.onJoined) call(this.options.onJoined, this);
    this.settle?.resolve();
    if (!fresh) return;
    // A stream from the very beginning brings all turns itself.
    if (this.options.history === false || (this.options.after === 0 && !ack.truncated)) this.view.loaded([]);
    else void this.load();
  }

  // The end of a chat that is over may be among the events that are gone.
  private loseWaiters(ack: Subscribed): void {
    for (const waiter of [...this.waiters]) {
      if (waiter.chat === ack.chat_id || ack.queue.some((one) => one.chat_id === waiter.chat)) continue;
      waiter.fail(new EverloopError('truncated', 'the end of the chat is no longer kept; the messages list has its turns'));
    }
  }

  // load reads the messages, the newest first, again until it works.
  private async load(): Promise<void> {
    const load = ++this.loads;
    for (let tries = 0; load === this.loads && !this.over; tries++) {
      try {
        const newest = await this.messages({ newest: true, limit: newestTurns });
        if (load !== this.loads || this.over) return;
        const before = newest[0]?.sequence ?? 0; // sequences are dense from 0: so many turns are missing
        if (before === 0) return this.view.loaded(newest);
        this.view.newest(newest);
        const others = await this.messages({ limit: before });
        if (load === this.loads && !this.over) this.view.loaded(others);
        return;
      } catch (error) {
        if (!(error instanceof EverloopError) || !error.retryable) return this.stream.close(error as EverloopError);
        await new Promise((resolve) => setTimeout(resolve, Math.min(10_000, 200 * 2 ** tries)));
      }
    }
  }

  private async messages(query: Query<'list-messages'>): Promise<Parameters<ChatView['loaded']>[0]> {
    const list = await this.api.listMessages(this.id, { query, signal: this.abort.signal });
    return list as unknown as Parameters<ChatView['loaded']>[0];
  }

  private take(event: SessionEvent): void {
    this.view.take(event);
    if (event.name === 'session:updated' && event.data.history) {
      this.view.reload();
      if (this.options.history !== false) void this.load();
    }
    if (event.name === 'chat:start') this.ends.delete(event.data.chat_id);
    if (event.name === 'chat:end') this.ended_(event.data);
    if (this.backlog && this.backlog.push(event) > maxPending) {
      return this.stream.close(new EverloopError('consumer_too_slow', `no listener for more than ${maxPending} events`));
    }
    for (const listener of [...this.listeners]) call(listener, event);
  }

  private ended_(end: ChatEnd): void {
    this.ends.set(end.chat_id, end);
    if (this.ends.size > maxEnds) this.ends.delete(this.ends.keys().next().value as string);
    for (const waiter of [...this.waiters]) if (waiter.chat === end.chat_id) waiter.end(end);
  }

  private closed(error: EverloopError): void {
    this.over = error;
    this.abort.abort();
    this.view.disconnected();
    this.settle?.reject(error);
    for (const waiter of [...this.waiters]) waiter.fail(error);
    for (const listener of [...this.closers]) listener(error);
    this.closers.clear();
    this.listeners.clear();
  }
}

/** answerFields is an answer in the form of the interface, as `api.answerInbox` takes it: options and texts by the question's number. */
export function answerFields(answer: Answer): { selections: Record<string, number[]>; custom: Record<string, string> } {
  const selections: Record<string, number[]> = {};
  const custom: Record<string, string> = {};
  for (const [index, one] of answer.entries()) {
    if (typeof one === 'string') custom[index] = one;
    else if (typeof one === 'number') selections[index] = [one];
    else if (Array.isArray(one)) selections[index] = one;
    else {
      selections[index] = one.options;
      custom[index] = one.text;
    }
  }
  return { selections, custom };
}

// call calls a listener, which must not keep others from an event; what it threw goes where such errors go.
function call<Value>(listener: (value: Value) => void, value: Value): void {
  try {
    listener(value);
  } catch (error) {
    queueMicrotask(() => { throw error; });
  }
}

function given(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
}

// newId makes a random id; crypto.randomUUID is missing on pages without TLS.
function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
