import type { CallOptions } from './calls.js';
import { type Credential, tokenOf } from './credentials.js';
import { aborted, EverloopError, type FieldError } from './errors.js';
import { parseEvents, type ServerSentEvent } from './sse.js';

/** TransportConfig is what REST calls are made with. */
export interface TransportConfig {
  /** Origin of the service; '' in a browser: the page's own. */
  baseUrl: string;
  credential: Credential;
  timeoutMs: number;
  fetch: typeof fetch;
}

type Options = CallOptions & { query?: object };
type Values = Record<string, string>;

/** Transport makes REST calls; it must know no operation. */
export class Transport {
  constructor(private readonly config: TransportConfig) {}

  /** json gives the parsed answer. */
  async json<T>(method: string, path: string, values: Values, body: unknown, options: Options): Promise<T> {
    return this.timed(method, path, values, body, options, async (answer) => (await readJSON(answer)) as T);
  }

  /** none is for an answer without a body. */
  async none(method: string, path: string, values: Values, body: unknown, options: Options): Promise<void> {
    return this.timed(method, path, values, body, options, async (answer) => void (await answer.arrayBuffer()));
  }

  /** headers gives the headers of an answer, for what its body does not say. */
  async headers(method: string, path: string, values: Values, body: unknown, options: Options): Promise<Headers> {
    return this.timed(method, path, values, body, options, async (answer) => {
      await answer.arrayBuffer();
      return answer.headers;
    });
  }

  /** response gives the answer itself, whose body the caller reads; the time limit ends with its headers. */
  async response(method: string, path: string, values: Values, body: unknown, options: Options): Promise<Response> {
    return this.timed(method, path, values, body, options, async (answer) => answer);
  }

  /** stream gives the events of a stream as they come; it has no time limit once it is open. */
  async *stream(method: string, path: string, values: Values, body: unknown, options: Options): AsyncGenerator<ServerSentEvent> {
    const headers = { accept: 'text/event-stream', ...options.headers };
    const answer = await this.response(method, path, values, body, { ...options, headers });
    if (!answer.body) return;
    try {
      yield* parseEvents(answer.body);
    } catch (error) {
      throw asError(error, options.signal);
    }
  }

  private async timed<T>(
    method: string, path: string, values: Values, body: unknown, options: Options, read: (answer: Response) => Promise<T>,
  ): Promise<T> {
    const url = this.config.baseUrl + fillPath(path, values) + queryOf(options.query);
    if (options.signal?.aborted) throw aborted(options.signal);
    const abort = new AbortController();
    const stop = () => abort.abort(options.signal?.reason);
    options.signal?.addEventListener('abort', stop, { once: true });
    const limit = options.timeoutMs ?? this.config.timeoutMs;
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      abort.abort();
    }, limit);
    let kept = false;
    try {
      const answer = await this.authorised(url, method, body, options, abort.signal);
      const result = await read(answer);
      kept = result === (answer as unknown);
      return result;
    } catch (error) {
      if (late) throw new EverloopError('timeout', `${method} ${path} took longer than ${limit} ms`, { retryable: true, cause: error });
      throw asError(error, options.signal);
    } finally {
      clearTimeout(timer);
      // The body of a kept answer is still being read: the caller's signal has to end that, too.
      if (!kept) options.signal?.removeEventListener('abort', stop);
    }
  }

  // authorised asks the provider once more when the service refuses its token.
  private async authorised(url: string, method: string, body: unknown, options: Options, signal: AbortSignal): Promise<Response> {
    for (let refresh = false; ; refresh = true) {
      const token = await tokenOf(this.config.credential, refresh);
      const answer = await this.config.fetch(url, init(method, body, options, token, signal));
      if (answer.ok) return answer;
      const error = await problemOf(answer);
      if (answer.status !== 401 || refresh || typeof this.config.credential !== 'function') throw error;
    }
  }
}

function init(method: string, body: unknown, options: Options, token: string | undefined, signal: AbortSignal): RequestInit {
  const headers = new Headers(options.headers);
  if (token !== undefined) headers.set('authorization', `Bearer ${token}`);
  if (options.idempotencyKey !== undefined) headers.set('idempotency-key', options.idempotencyKey);
  const request: RequestInit = { method, headers, signal, credentials: token === undefined ? 'same-origin' : 'omit' };
  if (body instanceof FormData) request.body = body;
  else if (body !== undefined) {
    headers.set('content-type', 'application/json');
    request.body = JSON.stringify(body);
  }
  return request;
}

// Parameters that are paths keep their slashes.
const isPath = (name: string) => name.endsWith('_path');

/** fillPath puts values into a path. URLs resolve dot segments, escaped ones too, so they cannot be sent. */
export function fillPath(path: string, values: Values): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (typeof value !== 'string' || (value === '' && !isPath(name))) {
      throw new EverloopError('invalid_argument', `${name} is empty`);
    }
    const parts = isPath(name) ? value.replace(/^\/+/, '').split('/') : [value];
    if (parts.some((part) => part === '.' || part === '..') && value !== '.') {
      throw new EverloopError('invalid_argument', `${name} has a segment . or ..`);
    }
    return value === '.' ? '' : parts.map(encodeURIComponent).join('/');
  });
}

function queryOf(query: object | undefined): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) search.append(name, String(one));
    }
  }
  const text = search.toString();
  return text && `?${text}`;
}

async function readJSON(answer: Response): Promise<unknown> {
  const text = await answer.text();
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new EverloopError('invalid_response', 'the answer is no JSON', { status: answer.status, cause });
  }
}

// problemOf makes an error of a refusal: a problem document, or what a proxy in between sent.
async function problemOf(answer: Response): Promise<EverloopError> {
  let problem: Record<string, unknown> = {};
  try {
    const parsed: unknown = JSON.parse(await answer.text());
    if (typeof parsed === 'object' && parsed !== null) problem = parsed as Record<string, unknown>;
  } catch {
    // Not a problem document.
  }
  const code = typeof problem.code === 'string' ? problem.code : `http_${answer.status}`;
  const message = typeof problem.detail === 'string' ? problem.detail : `the service answered ${answer.status}`;
  const after = Number(answer.headers.get('retry-after'));
  return new EverloopError(code, message, {
    status: answer.status,
    retryable: typeof problem.retryable === 'boolean' ? problem.retryable : answer.status >= 502,
    requestId: answer.headers.get('x-request-id') ?? undefined,
    errors: Array.isArray(problem.errors) ? problem.errors as FieldError[] : [],
    retryAfterMs: after > 0 ? after * 1000 : undefined,
  });
}

function asError(error: unknown, signal: AbortSignal | undefined): EverloopError {
  if (signal?.aborted) return aborted(signal);
  if (error instanceof EverloopError) return error;
  return new EverloopError('network_error', 'the service could not be reached', { retryable: true, cause: error });
}
