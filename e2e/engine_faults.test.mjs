// One process at a time is killed or stopped for 5 s, under 20 chats: each engine and
// each role alone. No chat fails for it and no effect happens twice.
import { test } from 'node:test';
import { engines, underFaults } from './lib/faults.mjs';
import { backendOf } from './lib/postgres.mjs';

const { under, underCommands } = underFaults();

async function killed(process) {
  await process.kill();
  await process.start();
}

test('SIGKILL of one PostgreSQL backend', () => under((cluster) => process.kill(backendOf(cluster.postgres), 'SIGKILL')));
test('SIGKILL of PostgreSQL', () => under(async ({ postgres }) => {
  postgres.signal('SIGKILL'); // with all of its processes
  await postgres.exited;
  await postgres.start();
}));
for (const name of engines.filter((engine) => engine !== 'postgres')) {
  test(`SIGKILL of ${name}`, () => under((cluster) => killed(cluster[name])));
}
test('SIGKILL of an API', () => under((cluster) => killed(cluster.apis[1])));
test('SIGKILL of a worker', () => under((cluster) => killed(cluster.workers[0]), { lost: true }));

for (const name of engines) {
  test(`${name} stands still for 5 s`, () => under((cluster) => cluster[name].freeze(5000)));
}
for (const name of ['postgres', 'temporal']) {
  test(`commands go on while ${name} stands still for 5 s`, () => underCommands((cluster) => cluster[name].freeze(5000)));
}
test('a worker stands still for 5 s', () => under((cluster) => cluster.workers[0].freeze(5000), { lost: true }));
test('an API stands still for 5 s', () => under((cluster) => cluster.apis[1].freeze(5000)));
