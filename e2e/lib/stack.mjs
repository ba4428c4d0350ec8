// A stack of containers that runs already, in place of a service that a suite starts:
// EVERLOOP_E2E_STACK names a JSON file that says where it is and how its containers are
// killed. build/compose/suites.sh writes the file and runs the suites (stack.mjs).
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

const readyWithin = 300_000;

// given says whether suites use a stack.
export const given = Boolean(process.env.EVERLOOP_E2E_STACK);

// facts is what the file says, for a stack.
export const facts = given ? JSON.parse(readFileSync(process.env.EVERLOOP_E2E_STACK, 'utf8')) : undefined;

// The services that are Everloop itself, which end in order before the engines.
const roles = ['identity', 'registry', 'api', 'worker', 'desktop', 'gateway', 'git', 'mock'];

// setting is the value that the stack was started with, for suites that can do with any.
export const setting = (name) => facts?.env[name];

const docker = async (...command) => (await promisify(execFile)(facts.docker, command)).stdout;

// processOf gives the ids of the first processes of a service's containers.
export const processOf = async (service) =>
  (await docker('inspect', '--format', '{{.State.Pid}}', ...facts.containers[service])).trim().split('\n');

const hooks = [];

// whenStarted calls a function each time that containers were started.
export const whenStarted = (hook) => hooks.push(hook);

// NeedsOwn is why a test cannot be run against a stack: stack.mjs counts it as left out.
export class NeedsOwn extends Error {
  code = 'NEEDS_OWN_SERVICE';

  constructor(why) {
    super(`needs a service of its own: ${why}`);
  }
}

// ownOnly refuses a stack.
export function ownOnly(why) {
  if (given) throw new NeedsOwn(why);
}

// Stack has what the suites use of Server. What would need the process or the data
// directory of a service is refused, and a setting that the stack was not started with.
export class Stack {
  #refused = false;
  #attached = new Date().toISOString();
  #started = this.#attached;

  static async attach(env, { firstAdministrator = false } = {}) {
    const stack = new Stack();
    stack.env = { ...env };
    stack.#settings();
    if (env.SOLUTIONS) { // they are read at the start
      await stack.#docker(['api', 'worker'], 'restart');
      for (const hook of hooks) await hook();
    }
    await stack.#healthy();
    await fetch(`${stack.mockURL}/control/requests`, { method: 'DELETE' });
    if (!firstAdministrator) await stack.#administrator();
    return stack;
  }

  // administrator makes one for the suite, so that it does not see what others have left.
  async #administrator() {
    const answer = await fetch(`${this.url}/api/admin/users`, {
      method: 'POST', headers: { authorization: `Bearer ${this.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ username: `suite-${Date.now()}`, administrator: true }),
    });
    if (answer.status !== 201) throw new Error(`no administrator for the suite: ${answer.status} ${await answer.text()}`);
    this.key = (await answer.json()).api_key.plaintext;
  }

  constructor() {
    const { key, host, ports } = facts;
    const at = (name) => `http://${host}:${ports[name]}`;
    Object.assign(this, {
      key, host, ports, url: at('agent'), uiURL: at('ui'), mockURL: at('mock'), gatewayURL: at('gateway'), registryURL: at('registry'),
      identityURL: at('identity'), desktopURL: ports.desktop === 80 ? `http://${host}` : at('desktop'), gitURL: at('git'),
    });
  }

  #refuse(why) {
    this.#refused = true;
    throw new NeedsOwn(why);
  }

  // refused says whether a test was refused since it was asked last.
  refused() {
    const refused = this.#refused;
    this.#refused = false;
    return refused;
  }

  // settings refuses those that the stack does not have; of a list it may have more.
  #settings() {
    for (const [name, value] of Object.entries(this.env)) {
      const have = setting(name)?.split(',') ?? [];
      if (!value.split(',').every((one) => have.includes(one))) this.#refuse(`it sets ${name}`);
    }
  }

  secret(name) {
    return facts.secrets[name] ?? this.#refuse(`it reads ${name}`);
  }

  get dir() { return this.#refuse('it uses the data directory'); }
  get pid() { return this.#refuse('it looks at the process'); }
  get workspace() { return facts.workspace; }
  set program(path) { this.#refuse('it starts another program'); }

  metrics() { return docker('exec', facts.containers.worker[0], 'curl', '-sS', 'http://127.0.0.1:8021/metrics'); }

  // said is what the roles wrote since their last start by this suite, log all since it began.
  said() { return this.#written(this.#started); }
  log() { return this.#written(this.#attached); }

  #written(since) {
    const logs = (id) => spawnSync(facts.docker, ['logs', '--since', since, id], { encoding: 'utf8', maxBuffer: 1 << 28 });
    return roles.flatMap((role) => facts.containers[role]).map(logs).map(({ stdout, stderr }) => stdout + stderr).join('');
  }

  // stop is the orderly end of the roles, which the engines outlive.
  async stop() {
    const codes = await this.#docker(roles, 'stop').then(() => this.#docker(roles, 'inspect', '--format', '{{.State.ExitCode}}'));
    return { code: Math.max(...codes.trim().split('\n').map(Number)), signal: null };
  }

  // kill is SIGKILL of these services of the stack; of all of them without any, engines too.
  async kill(...services) {
    await this.#docker(services, 'kill', '--signal', 'KILL');
    return { code: null, signal: 'SIGKILL' };
  }

  async start(...services) {
    this.#settings();
    await this.restore(...services);
  }

  // restore starts what a test has killed that is refused since.
  async restore(...services) {
    this.#started = new Date().toISOString();
    await this.#docker(services, 'start');
    for (const hook of hooks) await hook();
    await this.#healthy();
  }

  #docker(services, ...command) {
    const ids = (services.length > 0 ? services : Object.keys(facts.containers)).flatMap((name) => facts.containers[name]);
    return docker(...command, ...ids);
  }

  // healthy waits until every component answers.
  async #healthy() {
    const deadline = Date.now() + readyWithin;
    for (const url of [
      `${this.identityURL}/api/health`, `${this.registryURL}/api/health`, `${this.url}/readyz`, `${this.desktopURL}/`,
      `${this.gatewayURL}/health`, `${this.gitURL}/`, `${this.mockURL}/health`,
    ]) {
      while (!await fetch(url).then((answer) => answer.status === 200, () => false)) {
        if (Date.now() > deadline) throw new Error(`${url} does not answer with 200 after ${readyWithin} ms`);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  // close ends the suite, also when a connection is left that the end of a service would close.
  close() {
    setTimeout(() => process.exit(), 5000).unref();
  }
}
