/** FieldError says which field of a request is wrong. */
export interface FieldError {
  location: string;
  message: string;
}

/** ErrorDetails are the facts of an error besides its code and message. */
export interface ErrorDetails {
  status?: number | undefined;
  retryable?: boolean | undefined;
  requestId?: string | undefined;
  errors?: FieldError[] | undefined;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/**
 * EverloopError is the one class of errors of this SDK. `code` is stable: a code of the service
 * (docs/errors.md), or one of the SDK's own: `network_error`, `timeout`, `aborted`, `closed`,
 * `sdk_too_old`, `invalid_response`, `consumer_too_slow`, `invalid_argument`.
 */
export class EverloopError extends Error {
  readonly code: string;
  readonly status: number | undefined;
  readonly retryable: boolean;
  readonly requestId: string | undefined;
  readonly errors: FieldError[];
  readonly retryAfterMs: number | undefined;

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'EverloopError';
    this.code = code;
    this.status = details.status;
    this.retryable = details.retryable ?? false;
    this.requestId = details.requestId;
    this.errors = details.errors ?? [];
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** Failure is how acknowledgements and events report an error. */
export interface Failure {
  code?: unknown;
  message?: unknown;
  retryable?: unknown;
}

/** failure makes an error of what an acknowledgement or an event reports. */
export function failure(error: Failure | undefined, fallback: string): EverloopError {
  const code = typeof error?.code === 'string' ? error.code : fallback;
  const message = typeof error?.message === 'string' ? error.message : code;
  return new EverloopError(code, message, { retryable: error?.retryable === true });
}

/** aborted is the error of a call that its signal ended. */
export function aborted(signal: AbortSignal): EverloopError {
  return new EverloopError('aborted', 'the call was aborted', { cause: signal.reason });
}
