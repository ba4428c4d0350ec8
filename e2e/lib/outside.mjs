// Servers of a suite that the service under test asks: pages, receivers of webhooks, tool
// servers. They listen at 127.0.0.1 of this machine. For a stack of containers each is put
// at the same address of the containers that ask, by a relay in their network (relay.mjs).
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { facts, given, processOf, whenStarted } from './stack.mjs';

const asking = ['api', 'worker'];
const ports = new Map(); // exposed port -> its relays, which begin again when their container does

// listen makes a server listen, and gives its port: any free one, or the nth of those that
// a stack was started with, so that its settings can name it.
export async function listen(server, nth = 0) {
  const port = given ? facts.ports.outside[nth] : 0;
  await new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve));
  const at = server.address().port;
  await expose(at);
  return at;
}

// expose puts what listens at a port of this machine at the same port of the containers.
export async function expose(port) {
  if (!given || ports.has(port)) return;
  const directory = mkdtempSync(join(tmpdir(), 'everloop-e2e-'));
  const path = join(directory, 'relay');
  const entrance = createServer((from) => {
    const to = connect(port, '127.0.0.1');
    pipeline(from, to, () => {});
    pipeline(to, from, () => {});
  });
  await new Promise((resolve) => entrance.listen(path, resolve));
  entrance.unref();
  process.once('exit', () => rmSync(directory, { recursive: true }));
  ports.set(port, { path, relays: [] });
  await relay(port);
}

// relay starts the relays of a port in the containers as they are now.
async function relay(port) {
  const { path, relays } = ports.get(port);
  for (const old of relays.splice(0)) old.kill();
  for (const pid of (await Promise.all(asking.map(processOf))).flat()) {
    const program = [process.execPath, fileURLToPath(new URL('relay.mjs', import.meta.url)), port, path];
    const child = spawn('nsenter', ['--target', pid, '--net', ...program], { stdio: ['pipe', 'pipe', 'inherit'] });
    relays.push(child);
    await Promise.race([once(child.stdout, 'data'), once(child, 'exit').then(() => { throw new Error(`no relay of port ${port}`); })]);
    for (const one of [child, child.stdin, child.stdout]) one.unref();
  }
}

whenStarted(() => Promise.all([...ports.keys()].map(relay)));
