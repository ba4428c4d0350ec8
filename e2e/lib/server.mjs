// A running Everloop: the real binary with all its engines, on a data directory
// of its own. kill() is SIGKILL of the process itself; start() on the same
// directory is what an operator does after a crash.
import { spawn } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { keepLog } from './faultlog.mjs';
import { Stack, given } from './stack.mjs';

export const binary = process.env.EVERLOOP_BIN ?? fileURLToPath(new URL('../../bin/everloop', import.meta.url));
const readyWithin = 180_000;

// Processes that must not outlive this one, whatever ends it.
const alive = new Set();
process.on('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => process.exit(1));
}

// freePorts gives ports below those that embedded engines and outgoing connections
// take, so that none is taken between its choice and its use, or over a restart. Suites
// that run at the same time choose from different hundreds, each port in its turn.
let chosen = randomInt(100);
export async function freePorts(n) {
  const ports = new Set();
  while (ports.size < n) {
    const port = 10_000 + (process.pid % 100) * 100 + chosen++ % 100;
    const free = await new Promise((resolve) => {
      const probe = createServer();
      probe.once('error', () => resolve(false));
      probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
    });
    if (free) ports.add(port);
  }
  return [...ports];
}

export class Server {
  #child;
  #said = '';
  #mark = 0; // where the running process began to write
  program = binary; // that start runs
  host = '127.0.0.1';

  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), 'everloop-e2e-'));
    this.key = `el_test${randomBytes(24).toString('hex')}`;
  }

  // start starts a service with these settings, or takes the stack that EVERLOOP_E2E_STACK
  // names, with an administrator made for it unless the suite needs the first one.
  static async start(env = {}, options = {}) {
    if (given) return Stack.attach(env, options);
    for (let tries = 1; ; tries++) {
      const server = new Server();
      server.env = env;
      const [agent, mock, temporal, ui, gateway, registry, identity, desktop, git] = await freePorts(9);
      server.ports = { agent, mock, temporal, ui, gateway, registry, identity, desktop, git };
      server.url = `http://127.0.0.1:${agent}`;
      server.gatewayURL = `http://127.0.0.1:${gateway}`;
      server.identityURL = `http://127.0.0.1:${identity}`;
      server.mockURL = `http://127.0.0.1:${mock}`;
      server.gitURL = `http://127.0.0.1:${git}`;
      server.registryURL = `http://127.0.0.1:${registry}`;
      server.desktopURL = `http://127.0.0.1:${desktop}`;
      server.uiURL = `http://127.0.0.1:${ui}`;
      try {
        await server.start();
        return server;
      } catch (err) {
        await server.close();
        // Another process has taken a port since it was found free.
        if (tries === 3 || !/address already in use/.test(err.message)) throw err;
      }
    }
  }

  // workspace is the directory with the files of all sessions.
  get workspace() {
    return join(this.dir, 'data', 'workspace');
  }

  get pid() {
    return this.#child?.pid;
  }

  // start runs the binary and waits until it says that it is ready.
  async start() {
    const { agent, mock, temporal, ui, gateway, registry, identity, desktop, git } = this.ports;
    const at = (port) => `127.0.0.1:${port}`;
    // SOLUTIONS is a directory of solutions, BROWSER_TOOLS one of the browser tools; all else are variables.
    const { SOLUTIONS: solutions, BROWSER_TOOLS: tools, ...env } = this.env;
    if (solutions) cpSync(solutions, join(this.dir, 'data', 'solutions'), { recursive: true });
    const child = spawn(this.program, ['up', '--mock-request-log', ...(tools ? [`--browser-tools-dir=${tools}`] : [])], {
      env: {
        PATH: process.env.PATH, HOME: process.env.HOME, LANG: 'C.UTF-8', LOG_LEVEL: 'info',
        DATA_DIR: join(this.dir, 'data'), BOOTSTRAP_API_KEY: this.key,
        AGENT_ADDR: at(agent), MOCK_ADDR: at(mock), TEMPORAL_ADDR: at(temporal), TEMPORAL_UI_ADDR: at(ui),
        GATEWAY_ADDR: at(gateway),
        REGISTRY_ADDR: at(registry),
        IDENTITY_ADDR: at(identity),
        DESKTOP_ADDR: at(desktop), DESKTOP_URL: this.desktopURL,
        GIT_ADDR: at(git),
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    keepLog(`the service at ${this.url}`, () => this.#said);
    this.#mark = this.#said.length;
    alive.add(child);
    this.exited = new Promise((resolve) => child.once('exit', (code, signal) => {
      alive.delete(child);
      resolve({ code, signal });
    }));
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8');
      stream.on('data', (text) => {
        const all = this.#said + text;
        this.#said = all.slice(-200_000);
        this.#mark = Math.max(0, this.#mark - (all.length - this.#said.length));
        if (process.env.EVERLOOP_E2E_LOG) process.stderr.write(text);
      });
    }
    const deadline = Date.now() + readyWithin;
    for (;;) {
      if (child.exitCode !== null || child.signalCode !== null) {
        throw new Error(`everloop ended while it started:\n${this.log(4000)}`);
      }
      const ready = await fetch(`${this.url}/readyz`).then((r) => r.status === 200, () => false);
      if (ready) return;
      if (Date.now() > deadline) throw new Error(`everloop is not ready after ${readyWithin} ms:\n${this.log(4000)}`);
      await pause(100);
    }
  }

  // secret is what a file holds that the first start has made.
  secret(name) {
    return readFileSync(join(this.dir, 'data', name), 'utf8').trim();
  }

  // metrics is what the worker counts.
  async metrics() {
    return (await fetch(`${this.url}/metrics`)).text();
  }

  // said is what the running process wrote since its start.
  said() {
    return this.#said.slice(this.#mark);
  }

  // log is the end of what the process wrote.
  log(length = 20_000) {
    return this.#said.slice(-length);
  }

  // kill is the power cut: nothing of the process can react.
  async kill() {
    this.#child.kill('SIGKILL');
    return this.exited;
  }

  // stop is the orderly end.
  async stop() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return this.exited;
    this.#child.kill('SIGTERM');
    const late = setTimeout(() => this.#child.kill('SIGKILL'), 120_000);
    const ended = await this.exited;
    clearTimeout(late);
    return ended;
  }

  // close ends the process and removes its data.
  async close() {
    await this.kill();
    if (process.env.EVERLOOP_E2E_KEEP) return;
    // The children of a killed process take a moment to end.
    for (let tries = 0; ; tries++) {
      try {
        rmSync(this.dir, { recursive: true, force: true });
        return;
      } catch (err) {
        if (tries === 300) throw err;
        await pause(100);
      }
    }
  }
}
