// A service made of a real Socket.IO server: it keeps the events of one session and lets a
// test break the way they are delivered.
import { createServer } from 'node:http';
import { Server } from 'socket.io';

export class Fake {
  events = []; // {name, data}
  subscriptions = []; // what session:subscribe was sent
  sent = []; // what chat:send was sent
  tokens = [];
  messages = [];
  version = { version: '2611.0.0', min_sdk: '2611.0.0' };
  refuse = undefined; // a token that is refused
  keptFrom = 0; // events before this seq are gone
  spoil = (events) => events; // what a subscriber gets of the events
  onSubscribe = () => {}; // called with the socket before the acknowledgement
  onSend = () => ({ ok: true, chat_id: 'c1', turn_id: 't1', delivery_applied: 'run', position: 0, duplicate: false });

  static async start() {
    const fake = new Fake();
    fake.http = createServer((request, response) => fake.#answer(request, response));
    fake.io = new Server(fake.http, { path: '/socket.io/' });
    fake.io.use((socket, next) => {
      fake.tokens.push(socket.handshake.auth.token);
      if (socket.handshake.auth.token !== fake.refuse) return next();
      next(Object.assign(new Error('unauthorized'), { data: { code: 'unauthorized' } }));
    });
    fake.io.on('connection', (socket) => fake.#serve(socket));
    await new Promise((resolve) => fake.http.listen(0, '127.0.0.1', resolve));
    fake.url = `http://127.0.0.1:${fake.http.address().port}`;
    return fake;
  }

  #answer(request, response) {
    const json = (status, body) =>
      response.writeHead(status, { 'content-type': 'application/json', 'x-request-id': 'r-1' }).end(JSON.stringify(body));
    if (request.url.startsWith('/socket.io/')) return;
    if (request.url === '/api/version') return json(200, this.version);
    const { pathname, searchParams } = new URL(request.url, 'http://fake');
    if (pathname.endsWith('/messages')) return this.#list(searchParams, (list) => json(200, list));
    if (this.refuse !== undefined && request.headers.authorization === `Bearer ${this.refuse}`) {
      return json(401, { code: 'unauthorized', detail: 'no', retryable: false });
    }
    this.rest?.(request, response, json);
  }

  // #list answers with part of the messages; `hold` delays the parts that are not the newest.
  async #list(query, answer) {
    const limit = Number(query.get('limit') ?? Infinity);
    const newest = query.get('newest') === 'true';
    if (!newest) await this.hold;
    answer(newest ? this.messages.slice(-limit) : this.messages.slice(0, limit));
  }

  #serve(socket) {
    socket.on('session:subscribe', (request, ack) => {
      this.subscriptions.push(request.after_seq);
      this.onSubscribe(socket);
      const after = request.after_seq ?? this.events.at(-1)?.data.seq ?? 0;
      const kept = this.events.filter((event) => event.data.seq > after);
      const missing = kept.filter((event) => event.data.seq < this.keptFrom);
      const follow = kept.slice(missing.length);
      ack({
        ok: true,
        session_id: 's',
        status: 'running',
        waiting_reason: 'none',
        seq: missing.at(-1)?.data.seq ?? after,
        replayed: follow.length,
        truncated: missing.length > 0,
        open_turns: [],
        pending_questions: [],
        queue: [],
        last_end: null,
        ...this.state,
      });
      for (const event of this.spoil(follow)) socket.emit(event.name, event.data);
      socket.join('s');
    });
    socket.on('session:unsubscribe', (_, ack) => ack({ ok: true, session_id: 's' }));
    socket.on('chat:send', (message, ack) => {
      this.sent.push(message);
      const answer = this.onSend(message, socket);
      if (answer) ack(answer);
    });
  }

  // add keeps a further event and gives it; publish sends it, too.
  add(name, data = {}) {
    const prev = this.events.at(-1)?.data.seq ?? 0;
    const event = { name, data: { session_id: 's', seq: prev + 3, prev_seq: prev, ts: '2026-11-22T00:00:00Z', chat_id: 'c1', ...data } };
    this.events.push(event);
    return event;
  }

  publish(name, data) {
    const event = this.add(name, data);
    this.push(event);
    return event;
  }

  push(event) {
    this.io.to('s').emit(event.name, event.data);
  }

  // cut ends every connection as a lost network does.
  cut() {
    for (const socket of this.io.sockets.sockets.values()) socket.conn.transport.socket?.terminate?.() ?? socket.conn.close();
  }

  async close() {
    await this.io.close();
    this.http.closeAllConnections();
  }
}

/** text is a piece of a turn's text. */
export const text = (delta, offset, turn = 't2') =>
  ['turn:patch', { turn_id: turn, patch_type: 'add_content', block_type: 'text', text_delta: delta, offset }];

/** start is the start of a turn of the agent. */
export const start = (turn = 't2', more = {}) => ['turn:start', {
  turn_id: turn, sequence: 1, role: 'assistant', status: 'streaming', loop_id: 'root', kind: 'message', model: 'm',
  started_at: '2026-11-22T00:00:00Z', parent_fork_tool_call_id: null, blocks: [], ...more,
}];

/** until waits for a condition. */
export async function until(what, probe) {
  for (const end = Date.now() + 20_000; ;) {
    const found = probe();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within 20 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
