// A stack of containers that runs already, in place of a service that a suite starts:
// EVERLOOP_E2E_STACK names a JSON file that says where it is and how its containers are
// killed. build/compose/suites.sh writes the file and runs the suites (stack.mjs).
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

const readyWithin = 300_000;

// given says whether suites use a stack.
export const given = Boolean(process.env.EVERLOOP_E2E_STACK);

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
  #facts;
  #refused = false;

  static async attach(env, { firstAdministrator = false } = {}) {
    const stack = new Stack(JSON.parse(readFileSync(process.env.EVERLOOP_E2E_STACK, 'utf8')));
    stack.env = { ...env };
    stack.#settings();
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

  constructor(facts) {
    const { key, host, ports } = facts;
    this.#facts = facts;
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

  #settings() {
    for (const [name, value] of Object.entries(this.env)) {
      if (this.#facts.env[name] !== value) this.#refuse(`it sets ${name}`);
    }
  }

  secret(name) {
    return this.#facts.secrets[name] ?? this.#refuse(`it reads ${name}`);
  }

  get dir() { return this.#refuse('it uses the data directory'); }
  get pid() { return this.#refuse('it looks at the process'); }
  said() { return this.#refuse('it reads what the process wrote'); }
  log() { return this.#refuse('it reads what the process wrote'); }
  stop() { return this.#refuse('it stops the process in order'); }
  set program(path) { this.#refuse('it starts another program'); }

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
    await this.#docker(services, 'start');
    await this.#healthy();
  }

  async #docker(services, ...command) {
    const { containers, docker } = this.#facts;
    const ids = (services.length > 0 ? services : Object.keys(containers)).flatMap((name) => containers[name]);
    await promisify(execFile)(docker, [...command, ...ids]);
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
