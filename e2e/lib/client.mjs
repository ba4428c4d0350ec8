// A client of the event interface: the official Socket.IO client, which records
// every event of every session that it follows and holds them to the rules.
import { io } from 'socket.io-client';
import { problem } from './events.mjs';
import { Rules } from './rules.mjs';

// patience bounds only what would never come: a slow machine may take its time.
const patience = 180_000;

export class Client {
  views = new Map(); // by session id
  errors = []; // session:error events
  wrong = []; // what is wrong with events that do not fit docs/events.json

  static async connect(url, token, options = {}) {
    for (let tries = 1; ; tries++) {
      try {
        return await Client.#join(url, token, options);
      } catch (err) {
        // A machine that stands still for a moment makes a handshake too late.
        if (tries === 3 || !/^(timeout|closed: )/.test(err.message)) throw err;
      }
    }
  }

  static async #join(url, token, { transports = ['websocket'], ...options }) {
    const client = new Client();
    client.socket = io(url, { auth: { token }, transports, forceNew: true, reconnection: false, ...options });
    client.socket.onAny((name, data) => client.#take(name, data));
    const joined = new Promise((resolve, reject) => {
      client.socket.once('connect', resolve);
      client.socket.once('connect_error', reject);
      // A server that dies in the middle of the handshake. One that refuses
      // closes too, and its reason is decoded a moment later.
      client.socket.io.once('close', (why) => setTimeout(() => reject(new Error(`closed: ${why}`)), 500));
    });
    try {
      await joined;
    } catch (err) {
      client.socket.disconnect();
      throw err;
    }
    return client;
  }

  #take(name, data) {
    if (name === 'session:error') this.errors.push(data);
    const wrong = problem({ name, data });
    if (wrong) this.wrong.push(wrong);
    const view = this.views.get(data?.session_id);
    if (view) {
      if (wrong) view.rules.problems.push(`${name} seq ${data.seq}: ${wrong}`);
      view.take({ name, data });
    } else if (name !== 'session:error') this.stray = (this.stray ?? []).concat({ name, data });
  }

  // emit sends an event and gives its acknowledgement. A connection that is gone
  // would keep the event and wait for it.
  emit(name, data, timeout = patience) {
    if (!this.socket.connected) return Promise.reject(new Error(`${name}: not connected`));
    return this.socket.timeout(timeout).emitWithAck(name, data);
  }

  // subscribe follows a session; after: the after_seq.
  async subscribe(session, after) {
    const view = new View(this, session, after);
    this.views.set(session, view);
    const ack = await this.emit('session:subscribe', { session_id: session, ...(after === undefined ? {} : { after_seq: after }) });
    if (!ack.ok) {
      this.views.delete(session);
      throw Object.assign(new Error(`subscribe: ${ack.error.code}`), { ack });
    }
    view.begin(ack);
    return view;
  }

  close() {
    this.socket.disconnect();
    for (const view of this.views.values()) view.disconnected();
  }
}

// View is one session as one client sees it.
export class View {
  events = []; // {name, data} in order
  #early = []; // what came before the acknowledgement was handled
  #waiting = new Set();

  constructor(client, session, after) {
    this.client = client;
    this.session = session;
    this.after = after;
    this.rules = new Rules(session);
    client.socket.once('disconnect', (why) => this.disconnected(why));
  }

  begin(ack) {
    this.ack = ack;
    this.rules.join(ack, this.after === 0 || (ack.seq === 0 && this.after === undefined));
    const early = this.#early;
    this.#early = undefined;
    for (const event of early) this.take(event);
  }

  take(event) {
    if (this.#early) {
      this.#early.push(event);
      return;
    }
    this.events.push(event);
    this.rules.take(event);
    for (const look of [...this.#waiting]) look(event);
  }

  disconnected(why) {
    for (const look of [...this.#waiting]) look(undefined, new Error(`disconnected while waiting (${why})`));
  }

  // wait gives the first event, from number `from` of the record on, for which
  // want(event) is true. A broken rule ends every wait.
  wait(what, want, { from = 0, timeout = patience } = {}) {
    return new Promise((resolve, reject) => {
      let late;
      const end = (settle, value) => {
        clearTimeout(late);
        this.#waiting.delete(look);
        settle(value);
      };
      const look = (event, failed) => {
        if (failed) return end(reject, failed);
        if (this.rules.problems.length > 0) return end(reject, new Error(this.rules.problems.join('\n')));
        if (event && want(event)) end(resolve, event);
      };
      this.#waiting.add(look);
      late = setTimeout(() => {
        const tail = this.events
          .slice(-8)
          .map((e) => `  ${e.name} ${JSON.stringify({ ...e.data, session_id: undefined, ts: undefined }).slice(0, 240)}`)
          .join('\n');
        end(reject, new Error(`no ${what} within ${timeout} ms; the last events:\n${tail}`));
      }, timeout);
      for (const event of this.events.slice(from)) {
        if (!this.#waiting.has(look)) break;
        look(event);
      }
    });
  }

  // Often awaited events.
  started(chat, options) {
    return this.wait(`chat:start of ${chat}`, (e) => e.name === 'chat:start' && e.data.chat_id === chat, options).then((e) => e.data);
  }

  ended(chat, options) {
    return this.wait(`chat:end of ${chat}`, (e) => e.name === 'chat:end' && e.data.chat_id === chat, options).then((e) => e.data);
  }

  // text waits until some assistant turn of the chat has said at least this.
  said(text, options) {
    return this.wait(`text ${JSON.stringify(text)}`, (e) =>
      e.name === 'turn:patch' && e.data.patch_type === 'add_content' && this.rules.text(e.data.turn_id).includes(text), options)
      .then((e) => e.data);
  }

  patch(type, want = () => true, options) {
    return this.wait(`patch ${type}`, (e) => e.name === 'turn:patch' && e.data.patch_type === type && want(e.data), options).then(
      (e) => e.data,
    );
  }

  // names of the events of a chat, patches by their type.
  shape(chat) {
    return this.events.filter((e) => e.data.chat_id === chat && /^(chat|turn):/.test(e.name))
      .map((e) => (e.name === 'turn:patch' ? e.data.patch_type : e.name));
  }

  // call gives the state of a chat's n-th tool call of that name.
  callsOf(chat) {
    return this.rules.assistants(chat).flatMap((t) => [...t.calls.values()]);
  }

  send(message, options = {}) {
    return this.client.emit('chat:send', { session_id: this.session, message, mode: 'executing', ...options });
  }

  // say sends a message that must be taken and gives its acknowledgement.
  async say(message, options) {
    const ack = await this.send(message, options);
    if (!ack.ok) throw new Error(`chat:send: ${JSON.stringify(ack)}`);
    return ack;
  }

  // run sends a message and waits for the end of its chat.
  async run(message, options) {
    const ack = await this.say(message, options);
    const end = await this.ended(ack.chat_id);
    return { ...ack, end, turns: this.rules.assistants(ack.chat_id), calls: this.callsOf(ack.chat_id) };
  }

  answer(toolCall, answer) {
    return this.client.emit('chat:send', { session_id: this.session, message: '', askuser_answer: { tool_call_id: toolCall, ...answer } });
  }

  stop(scope) {
    return this.client.emit('chat:stop', { session_id: this.session, ...(scope ? { scope } : {}) });
  }
}
