// A TCP proxy between a role and an engine: it keeps its port while the engine
// moves, and can hang, reset or slow every connection through it.
import { connect, createServer } from 'node:net';

export class Proxy {
  #server;
  #links = new Set(); // {client, engine, held: []}
  #mode = 'pass';
  #delay = 0;

  static async listen(target) {
    const proxy = new Proxy();
    proxy.target = target; // {host, port}, or {path} of a socket file
    proxy.#server = createServer({ pauseOnConnect: true }, (client) => proxy.#accept(client));
    await new Promise((resolve, reject) => {
      proxy.#server.once('error', reject);
      proxy.#server.listen(0, '127.0.0.1', resolve);
    });
    proxy.port = proxy.#server.address().port;
    return proxy;
  }

  #accept(client) {
    client.on('error', () => {});
    if (this.#mode === 'reset') return reset(client);
    const link = { client };
    this.#links.add(link);
    client.once('close', () => this.#drop(link));
    if (this.#mode !== 'hang') this.#join(link);
  }

  #join(link) {
    const engine = connect(this.target);
    link.engine = engine;
    engine.on('error', () => this.#drop(link));
    engine.once('close', () => this.#drop(link));
    this.#pump(link.client, engine);
    this.#pump(engine, link.client);
    link.client.resume();
  }

  // pump passes what comes on, later when the network is slow.
  #pump(from, to) {
    let last = Promise.resolve();
    from.on('data', (chunk) => {
      if (this.#delay === 0) return to.write(chunk) || this.#wait(from, to);
      const due = new Promise((resolve) => setTimeout(resolve, this.#delay));
      last = Promise.all([last, due]).then(() => { if (!to.destroyed) to.write(chunk); });
    });
  }

  #wait(from, to) {
    from.pause();
    to.once('drain', () => { if (this.#mode !== 'hang') from.resume(); });
  }

  #drop(link) {
    this.#links.delete(link);
    link.client.destroy();
    link.engine?.destroy();
  }

  // hang lets nothing through, in either direction; connections stay open.
  hang() {
    this.#mode = 'hang';
    for (const { client, engine } of this.#links) {
      client.pause();
      engine?.pause();
    }
  }

  // reset ends every connection with a reset, new ones too.
  reset() {
    this.#mode = 'reset';
    for (const link of [...this.#links]) {
      reset(link.client);
      this.#drop(link);
    }
  }

  // slow delays every piece by so many milliseconds.
  slow(delay) {
    this.#delay = delay;
  }

  // heal ends every fault.
  heal() {
    this.#mode = 'pass';
    this.#delay = 0;
    for (const link of this.#links) {
      if (!link.engine) {
        this.#join(link);
        continue;
      }
      link.client.resume();
      link.engine.resume();
    }
  }

  close() {
    this.#server.close();
    for (const link of [...this.#links]) this.#drop(link);
  }
}

// reset ends a connection with a reset. Node.js never closes one that is reset while its
// end is being sent, and then does not exit.
function reset(socket) {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
