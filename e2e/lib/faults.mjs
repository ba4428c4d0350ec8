// A deployment under chats with commands, sub-agents and questions, in which one
// thing after another is made to fail alone.
import { after, afterEach, before } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Cluster } from './cluster.mjs';
import { endAndCheck, openMany } from './load.mjs';

const chats = 20;

// underFaults starts the deployment of a suite. The result's under causes a fault in
// the middle of the chats and holds them to their promises: none fails, no effect
// happens twice. lost: calls may have been lost with their worker.
export function underFaults() {
  const suite = {};
  before(async () => {
    suite.cluster = await Cluster.start({ apis: 2, workers: 2 });
    suite.fixture = await suite.cluster.fixture();
    // The faults meet a deployment at work: Temporal registers the version of new
    // workers in steps of its own, and while these are disturbed no chat starts. The
    // suite start_faults crashes PostgreSQL meanwhile.
    await endAndCheck(await openMany(suite.fixture, 2));
    suite.fixture.forget();
    await pause(3000);
  });
  afterEach(() => suite.cluster?.heal());
  after(async () => {
    suite.fixture?.close();
    await suite.cluster?.close();
  });

  suite.under = async (fault, options) => {
    const talks = await openMany(suite.fixture, chats, { length: 3 });
    await pause(500); // somewhere in the middle, another place each time
    await fault(suite.cluster);
    await endAndCheck(talks, options);
    suite.fixture.forget();
  };
  // underCommands causes a fault while commands run that last for longer.
  suite.underCommands = async (fault) => {
    const talks = await openMany(suite.fixture, 8, { kinds: ['commands'], length: 1, lasts: 15 });
    await Promise.all(talks.map((t) => t.began()));
    await fault(suite.cluster);
    await endAndCheck(talks);
    suite.fixture.forget();
  };
  return suite;
}

export const engines = ['postgres', 'temporal', 'nats', 's3'];
