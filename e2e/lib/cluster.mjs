// A deployment of many processes on one machine: each engine a process of its own
// behind a proxy, several APIs and several workers. Every process can be killed,
// stopped for a while and started again alone.
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Contract } from './contract.mjs';
import { keepLog } from './faultlog.mjs';
import { Proxy } from './proxy.mjs';
import { Rest } from './rest.mjs';
import { binary, freePorts } from './server.mjs';
import { ownOnly } from './stack.mjs';
import { Fixture, eventually } from './fixture.mjs';

const readyWithin = 180_000;

const alive = new Set();
process.on('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});

// Process is one process of the deployment, with all that it starts.
class Process {
  #said = '';

  constructor(name, args, env, ready) {
    Object.assign(this, { name, args, env, ready, program: binary });
  }

  async start() {
    this.forget?.();
    const child = spawn(this.program, this.args, {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, LANG: 'C.UTF-8', LOG_LEVEL: 'info', ...this.env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.child = child;
    keepLog(this.name, () => this.#said);
    alive.add(child);
    this.exited = new Promise((resolve) => child.once('exit', (code, signal) => {
      alive.delete(child);
      resolve({ code, signal });
    }));
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8');
      stream.on('data', (text) => {
        this.#said = (this.#said + text).slice(-200_000);
        if (process.env.EVERLOOP_E2E_LOG) process.stderr.write(`${this.name}: ${text}`);
      });
    }
    child.stdin.on('error', () => {});
    await eventually(`${this.name} is ready`, async () => {
      if (this.ended) throw new Error(`${this.name} ended while it started:\n${this.log(4000)}`);
      return this.ready();
    }, readyWithin);
  }

  get ended() {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  log(length = 20_000) {
    return this.#said.slice(-length);
  }

  // tree gives the process ids of the process and of all below it.
  tree() {
    const children = new Map();
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      try {
        const parent = Number(/\) \S (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))[1]);
        children.set(parent, [...(children.get(parent) ?? []), Number(pid)]);
      } catch { /* it has ended meanwhile */ }
    }
    const all = [this.child.pid];
    for (let i = 0; i < all.length; i++) all.push(...(children.get(all[i]) ?? []));
    return all;
  }

  signal(name, pids = this.tree()) {
    for (const pid of pids) {
      try {
        process.kill(pid, name);
      } catch { /* it has ended meanwhile */ }
    }
  }

  // kill is SIGKILL of the process alone; what it has started ends by itself.
  async kill() {
    this.child.kill('SIGKILL');
    return this.exited;
  }

  // terminate ends the process in order.
  async terminate() {
    this.child.kill('SIGTERM');
    return this.exited;
  }

  // freeze stops the process and all below it for so many milliseconds.
  async freeze(time) {
    const pids = this.tree();
    this.signal('SIGSTOP', pids);
    await pause(time);
    this.signal('SIGCONT', pids);
  }
}

export class Cluster {
  processes = [];
  proxies = {};
  #worker; // makes one at a port

  // start runs the engines, then prepare with the settings of the roles, then the roles.
  static async start({ apis = 1, workers = 1, env = {}, key, prepare } = {}) {
    ownOnly('it starts a deployment of many processes');
    const cluster = new Cluster();
    cluster.dir = mkdtempSync(join(tmpdir(), 'everloop-cluster-'));
    chmodSync(cluster.dir, 0o755); // PostgreSQL runs as another user
    cluster.key = key ?? `el_test${randomBytes(24).toString('hex')}`;
    cluster.env = env;
    try {
      await cluster.#engines();
      await prepare?.(cluster.settings());
      await cluster.#roles(apis, workers);
    } catch (err) {
      await cluster.close();
      throw err;
    }
    return cluster;
  }

  #add(name, args, env, ready) {
    const added = new Process(name, args, env, ready);
    this.processes.push(added);
    return added;
  }

  // engine starts one engine, which writes its address into a file of its own.
  #engine(name, key, part = name) {
    const dir = join(this.dir, name);
    const file = join(dir, 'engines.json');
    const engine = this.#add(name, ['engines', '--only', part, '--dir', dir, '--watch-stdin'], {}, () => {
      try {
        this.#point(name, JSON.parse(readFileSync(file, 'utf8')), key);
        return true;
      } catch (err) {
        if (err.code === 'ENOENT') return false;
        throw err;
      }
    });
    engine.forget = () => rmSync(file, { force: true }); // one that was killed leaves its old address
    return engine;
  }

  // point aims the engine's proxy at the address that the engine has now.
  #point(name, address, key) {
    this.addresses = { ...this.addresses, [name]: address };
    const url = new URL(
      key === 's3_endpoint'
        ? `http://${address[key]}`
        : address[key].replace(/^\w+:\/\/([^@]*@)?\//, 'http://$1socket/').replace(/^\w+:/, 'http:'),
    );
    const dir = url.searchParams.get('host');
    this.proxies[name].target = dir
      ? { path: `${dir}/.s.PGSQL.${url.searchParams.get('port')}` }
      : { host: url.hostname, port: Number(url.port) };
  }

  // databaseURL names the database through PostgreSQL's proxy.
  get databaseURL() {
    const { username, password, pathname } = new URL(
      this.addresses.postgres.postgres_url.replace('@/', '@socket/').replace(/^\w+:/, 'http:'),
    );
    return `postgres://${username}:${password}@127.0.0.1:${this.proxies.postgres.port}${pathname}?sslmode=disable`;
  }

  get natsURL() {
    return this.addresses.nats.nats_url.replace(/@[^/]+$/, `@127.0.0.1:${this.proxies.nats.port}`);
  }

  async #engines() {
    for (const name of ['postgres', 'temporal', 'nats', 's3']) this.proxies[name] = await Proxy.listen();
    this.postgres = this.#engine('postgres', 'postgres_url');
    this.nats = this.#engine('nats', 'nats_url');
    this.s3 = this.#engine('s3', 's3_endpoint', 'objects');
    await Promise.all([this.postgres, this.nats, this.s3].map((p) => p.start()));

    const [temporal, ui, mock] = await freePorts(3);
    this.proxies.temporal.target = { host: '127.0.0.1', port: temporal };
    this.temporal = this.#add(
      'temporal',
      ['temporal'],
      {
        DATABASE_URL: this.databaseURL,
        TEMPORAL_ADDR: `127.0.0.1:${temporal}`,
        TEMPORAL_UI_ADDR: `127.0.0.1:${ui}`,
        DATA_DIR: join(this.dir, 'data'),
      },
      () =>
        fetch(`http://127.0.0.1:${ui}/healthz`).then(
          (r) => r.status === 200,
          () => false,
        ),
    );
    this.mockURL = `http://127.0.0.1:${mock}`;
    this.mock = this.#add('mock', ['mock', '--mock-request-log'], { MOCK_ADDR: `127.0.0.1:${mock}` },
      () => fetch(`${this.mockURL}/health`).then((r) => r.status === 200, () => false));
    await Promise.all([this.temporal.start(), this.mock.start()]);
  }

  // settings are those that all roles share.
  settings() {
    const { s3 } = this.addresses;
    return {
      DATABASE_URL: this.databaseURL, NATS_URL: this.natsURL,
      TEMPORAL_ADDRESS: `127.0.0.1:${this.proxies.temporal.port}`, S3_ENDPOINT: `127.0.0.1:${this.proxies.s3.port}`,
      S3_ACCESS_KEY: s3.s3_access_key, S3_SECRET_KEY: s3.s3_secret_key, S3_BUCKET: s3.s3_bucket,
      DATA_DIR: join(this.dir, 'data'), ENCRYPTION_KEY: 'a key of a test, with at least 32 characters',
      BOOTSTRAP_API_KEY: this.key, LLM_GATEWAY_URL: this.mockURL, ...this.env,
    };
  }

  async #roles(apis, workers) {
    const ports = await freePorts(apis + workers);
    const shared = this.settings();
    const ready = (port) => () =>
      fetch(`http://127.0.0.1:${port}/readyz`).then(
        (r) => r.status === 200,
        () => false,
      );
    const role = (name, variable, port) =>
      this.#add(`${name}-${port}`, [name], { ...shared, [variable]: `127.0.0.1:${port}` }, ready(port));
    this.#worker = (port) => Object.assign(role('worker', 'WORKER_ADDR', port), { url: `http://127.0.0.1:${port}` });
    this.apis = ports.slice(0, apis).map((port) => Object.assign(role('api', 'AGENT_ADDR', port), { url: `http://127.0.0.1:${port}` }));
    this.workers = ports.slice(apis).map(this.#worker);
    await this.apis[0].start(); // it migrates the database
    await Promise.all([...this.apis.slice(1), ...this.workers].map((p) => p.start()));
  }

  // addWorkers starts further workers, of another program or with further settings.
  async addWorkers(count, { program = binary, env = {} } = {}) {
    const added = (await freePorts(count)).map(this.#worker);
    for (const worker of added) Object.assign(worker, { program, env: { ...worker.env, ...env } });
    await Promise.all(added.map((p) => p.start()));
    return added;
  }

  // deploy runs `everloop deploy` with these arguments and gives what it printed.
  async deploy(program, ...args) {
    const { stdout } = await promisify(execFile)(program, ['deploy', ...args], {
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        TEMPORAL_ADDRESS: `127.0.0.1:${this.proxies.temporal.port}`,
        DATA_DIR: join(this.dir, 'data'),
      },
    });
    return stdout;
  }

  // fixture drives the deployment through one of its APIs.
  async fixture(api = this.apis[0]) {
    const fixture = new Fixture();
    fixture.server = { url: api.url, key: this.key, mockURL: this.mockURL, close: () => {} };
    Rest.contracts.set(api.url, await Contract.of(api.url));
    fixture.rest = new Rest(api.url, this.key);
    fixture.mock = new Rest(this.mockURL);
    return fixture;
  }

  heal() {
    for (const proxy of Object.values(this.proxies)) proxy.heal();
  }

  async close() {
    this.heal();
    for (const p of [...this.processes].reverse()) {
      if (!p.child || p.ended) continue;
      p.signal('SIGCONT');
      p.child.stdin.end();
      await p.kill();
    }
    for (const proxy of Object.values(this.proxies)) proxy.close();
    if (process.env.EVERLOOP_E2E_KEEP) return;
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
