import type { Connection, Follower } from './connection.js';
import { EverloopError, failure, type Failure } from './errors.js';
import type { SessionEvent, Subscribed } from './events.js';

/** StreamHandler takes what a stream delivers. */
export interface StreamHandler {
  /** The stream is (again) joined. `fresh`: what was held before does not count, because events are missing before `ack.seq`. */
  joined(ack: Subscribed, fresh: boolean): void;
  event(event: SessionEvent): void;
  disconnected(): void;
  closed(error: EverloopError): void;
}

const subscribeTimeout = 30_000;
const slowestRetry = 10_000;
const maxRepairs = 3;

/**
 * SessionStream is the ordered stream of one session: each event once, none missing. It checks the chain of
 * prev_seq, and takes what it missed from the service by subscribing behind its last event.
 */
export class SessionStream implements Follower {
  /** seq of the last event that was delivered, or of the position where the stream began. */
  last: number | undefined;
  private chain = 0; // seq that the next event must have as its prev_seq
  private attempt = 0; // number of the subscription; an answer to an earlier one counts no more
  private live = false;
  private seen = false; // the stream was joined once
  private repairs = 0; // in a row without an event
  private failures = 0;
  private over: EverloopError | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly connection: Connection, readonly session: string, after: number | undefined, private readonly handler: StreamHandler,
  ) {
    this.last = after;
  }

  open(): void {
    this.connection.follow(this.session, this);
  }

  connected(): void {
    this.join();
  }

  disconnected(): void {
    this.live = false;
    this.attempt++;
    clearTimeout(this.timer);
    if (!this.over) this.handler.disconnected();
  }

  failed(error: EverloopError): void {
    this.close(error);
  }

  close(error: EverloopError): void {
    if (this.over) return;
    this.over = error;
    this.live = false;
    this.attempt++;
    clearTimeout(this.timer);
    this.connection.unfollow(this.session, this);
    this.handler.closed(error);
  }

  private join(): void {
    if (this.over) return;
    this.live = false;
    clearTimeout(this.timer);
    const attempt = ++this.attempt;
    const request = { session_id: this.session, ...(this.last === undefined ? {} : { after_seq: this.last }) };
    this.connection.emit('session:subscribe', request, subscribeTimeout, (error, ack) => {
      if (attempt !== this.attempt || this.over) return;
      if (error) return this.refused(error);
      this.begin(ack as unknown as Subscribed);
    });
  }

  private refused(error: EverloopError): void {
    if (error.code !== 'network_error' && !error.retryable) return this.close(error);
    this.again();
  }

  private again(): void {
    clearTimeout(this.timer);
    const wait = Math.min(slowestRetry, 100 * 2 ** this.failures++) * (0.5 + Math.random() / 2);
    this.timer = setTimeout(() => this.connection.connected && this.join(), wait);
  }

  private begin(ack: Subscribed): void {
    const fresh = !this.seen || ack.truncated;
    this.failures = 0;
    this.seen = true;
    this.live = true;
    this.chain = ack.seq;
    this.last = this.last === undefined || ack.truncated ? ack.seq : Math.max(this.last, ack.seq);
    this.handler.joined(ack, fresh);
  }

  received(name: string, data: Record<string, unknown>): void {
    if (this.over) return;
    if (name === 'session:error') return this.refusedLater(data);
    if (!this.live) return; // of a subscription that is being replaced: it comes again
    if (name === 'session:resync') return this.join();
    const { seq, prev_seq: prev } = data;
    if (typeof seq !== 'number' || typeof prev !== 'number') return;
    if (seq <= (this.last ?? 0)) {
      this.chain = Math.max(this.chain, seq);
      return; // a repeat
    }
    if (prev !== this.chain) {
      if (this.repairs++ < maxRepairs) return this.join();
      return this.restart(); // the service itself no longer has what is missing
    }
    this.repairs = 0;
    this.chain = seq;
    this.last = seq;
    this.handler.event({ name, data } as unknown as SessionEvent);
  }

  // restart joins at the present and has the state read again.
  private restart(): void {
    this.repairs = 0;
    this.last = undefined;
    this.seen = false;
    this.join();
  }

  private refusedLater(data: Record<string, unknown>): void {
    if (data.event !== 'session:subscribe') return;
    const error = failure(data.error as Failure, 'session_not_found');
    if (error.retryable) this.again();
    else this.close(error);
  }
}
