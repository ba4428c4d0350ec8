// What most suites need: a running Everloop, its first administrator, and the
// mock model's control interface.
import assert from 'node:assert/strict';
import { Client } from './client.mjs';
import { Contract } from './contract.mjs';
import { Rest } from './rest.mjs';
import { compare } from './rules.mjs';
import { Server } from './server.mjs';

export class Fixture {
  #clients = new Set();
  #sessions = new Map(); // id -> rest of the owner

  static async start(env, options) {
    const fixture = new Fixture();
    fixture.server = await Server.start(env, options);
    Rest.contracts.set(fixture.server.url, await Contract.of(fixture.server.url));
    fixture.rest = new Rest(fixture.server.url, fixture.server.key);
    fixture.mock = new Rest(fixture.server.mockURL);
    return fixture;
  }

  async client(options = {}) {
    const client = await Client.connect(this.server.url, options.token ?? this.server.key, options);
    this.#clients.add(client);
    return client;
  }

  // session makes a session and follows it from its beginning.
  async session(settings = {}, options = {}) {
    const rest = options.token ? new Rest(this.server.url, options.token) : this.rest;
    const { session_id: id } = await rest.post('/api/sessions', settings);
    this.#sessions.set(id, rest);
    const client = options.client ?? await this.client(options);
    return client.subscribe(id);
  }

  // adopt says by whose key a session can be read from now on.
  adopt(id, rest) {
    this.#sessions.set(id, rest);
  }

  // follow is another client's view of a session.
  async follow(id, after, options) {
    return (await this.client(options)).subscribe(id, after);
  }

  // requests gives the bodies of the model calls that hold a text, oldest first.
  async requests(text) {
    const { items } = await this.mock.get('/control/requests');
    return items.filter((r) => JSON.stringify(r.body).includes(text));
  }

  // releaseUntil releases what the model holds until what is waited for has come: a stream
  // may come to its hold only after its client has seen all that was said before.
  async releaseUntil(awaited) {
    let over = false;
    const done = awaited.finally(() => { over = true; });
    done.catch(() => {});
    while (!over) {
      await this.mock.post('/control/release').catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return done;
  }

  // settle ends a test: every session that it made is read again from its first
  // event, must follow the rules, and must be stored as it was streamed.
  async settle() {
    try {
      if (this.server.refused?.()) await this.#leave();
      else await this.#check();
    } finally {
      this.forget();
    }
  }

  // leave stops what a test has begun that cannot be run against a stack.
  async #leave() {
    await this.server.restore();
    for (const [id, rest] of this.#sessions) await rest.call('POST', `/api/sessions/${id}/stop`, {});
  }

  async #check() {
    for (const client of this.#clients) {
      for (const view of client.views.values()) assert.deepEqual(view.rules.problems, [], `session ${view.session}`);
      assert.deepEqual(client.wrong, []);
      assert.equal(client.stray, undefined, 'events of sessions that were not subscribed');
    }
    for (const [id, rest] of this.#sessions) {
      const seen = await this.follow(id, 0, { token: rest.key });
      const ended = (chat) => !chat.open;
      const whole = () => seen.events.length >= seen.ack.replayed && [...seen.rules.chats.values()].every(ended);
      if (!whole()) await seen.wait('the last kept event', whole);
      assert.deepEqual(seen.rules.problems, [], `session ${id} read from its beginning`);
      // What is still going on is stored a moment before its event, or after.
      const differ = async () => compare(await rest.messages(id), seen.rules);
      await eventually(`session ${id} is stored as it was streamed`, async () => (await differ()).length === 0, 20_000).catch(() => {});
      assert.deepEqual(await differ(), [], `session ${id}`);
      this.sameAs(id, seen);
    }
  }

  // sameAs holds what clients saw live against the kept events.
  sameAs(id, kept) {
    const bySeq = new Map(kept.events.map((e) => [e.data.seq, e]));
    for (const client of this.#clients) {
      const view = client.views.get(id);
      if (!view || view === kept) continue;
      for (const event of view.events) {
        if (event.name === 'session:resync' || event.name === 'session:error' || event.data.seq > kept.rules.last) continue;
        assert.deepEqual(event, bySeq.get(event.data.seq), `event ${event.data.seq} was another when it was live`);
      }
    }
  }

  forget() {
    for (const client of this.#clients) client.close();
    this.#clients.clear();
    this.#sessions.clear();
  }

  close() {
    this.forget();
    return this.server.close();
  }
}

// order writes a script of the mock model as a message.
export function order(script) {
  return `${script.said ?? ''}[[script]]${JSON.stringify({ ...script, said: undefined })}[[/script]]`;
}

// steps is an order of these answers.
export const steps = (...list) => order({ steps: list });

// call is a tool call of a step.
export const call = (name, args, id) => ({ name, arguments: args, ...(id ? { id } : {}) });

// bash is a step that runs one command.
export const bash = (command, more = {}) => ({ calls: [call('Bash', { command, ...more })] });

// eventually polls until probe gives something true, the more seldom the longer it waits:
// forty waiting tests must not be the load of the machine.
export async function eventually(what, probe, timeout = 180_000) {
  const started = Date.now();
  for (;;) {
    const found = await probe();
    if (found) return found;
    const waited = Date.now() - started;
    if (waited > timeout) throw new Error(`not within ${timeout} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(50, waited / 20), 1000)));
  }
}
