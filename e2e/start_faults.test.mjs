// PostgreSQL crashes while the workers of a new deployment register their version, in
// steps of Temporal's own of which the crash takes the last ones.
import { afterEach, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Cluster } from './lib/cluster.mjs';
import { endAndCheck, openMany } from './lib/load.mjs';
import { backendOf } from './lib/postgres.mjs';
import { eventually } from './lib/fixture.mjs';

let cluster, fixture;

afterEach(async () => {
  fixture?.close();
  await cluster?.close();
});

for (const after of [0, 700]) {
  test(`PostgreSQL crashes ${after} ms after the first workers have started`, async () => {
    cluster = await Cluster.start({ workers: 2 });
    await pause(after); // not to wait for anything: the moment of the crash
    process.kill(backendOf(cluster.postgres), 'SIGKILL');
    fixture = await cluster.fixture();
    await endAndCheck(await openedAfterCrash(4));
  });
}

// openedAfterCrash opens talks as soon as the database takes them: the service may not
// have met the crash yet when it is asked whether it is ready.
async function openedAfterCrash(count) {
  let talks;
  await eventually('the database takes messages', async () => {
    talks = await openMany(fixture, count).catch((error) => {
      if (!/dependency_unavailable/.test(`${error.message} ${error.code}`)) throw error;
    });
    return talks;
  }, 120_000);
  return talks;
}
