// Two APIs and three workers as processes of their own, a worker killed every few
// seconds under 40 chats: nothing is lost or repeated, and both APIs deliver the
// same events in the same order.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Cluster } from './lib/cluster.mjs';
import { Client } from './lib/client.mjs';
import { endAndCheck, openMany } from './lib/load.mjs';
import { eventually } from './lib/fixture.mjs';

let cluster;
let fixture;
before(async () => {
  cluster = await Cluster.start({ apis: 2, workers: 3 });
  fixture = await cluster.fixture();
});
after(async () => {
  fixture?.close();
  await cluster?.close();
});

test('40 chats of 12 steps while a worker is killed every 5 s', async (t) => {
  const talks = await openMany(fixture, 40, { length: 12 });
  const other = await Client.connect(cluster.apis[1].url, cluster.key);
  const live = await Promise.all(talks.map((talk) => other.subscribe(talk.session, 0)));

  let over = false;
  const ended = endAndCheck(talks, { lost: true }).finally(() => { over = true; });
  ended.catch(() => {});
  let kills = 0;
  for (; !over && kills < 6; kills++) {
    await pause(5000);
    const victim = cluster.workers[kills % cluster.workers.length];
    await victim.kill();
    await victim.start();
  }
  t.diagnostic(`${kills} workers were killed`);
  assert.ok(kills >= 2, 'the chats were over before workers were killed');
  await ended;

  for (const [i, talk] of talks.entries()) {
    const kept = await fixture.follow(talk.session, 0);
    const ended = (view) => view.events.findLast((e) => e.name === 'chat:end')?.data;
    const whole = () => ended(kept) && ended(kept).finish_reason !== 'awaiting_answer' && ended(live[i])?.seq === ended(kept).seq;
    await eventually(`both APIs have delivered ${talk.name}`, whole);
    const untilEnd = (view) => view.events.filter((e) => e.name !== 'session:resync' && e.data.seq <= ended(kept).seq);
    assert.deepEqual(untilEnd(live[i]), untilEnd(kept), `${talk.name} from both APIs`);
    assert.deepEqual(live[i].rules.problems, []);
  }
  other.close();
});
