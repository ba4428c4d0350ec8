// One process at a time stands still for a minute, under 20 chats: each engine and
// each role alone. No chat fails for it and no effect happens twice.
import { test } from 'node:test';
import { engines, underFaults } from './lib/faults.mjs';

const minute = 60_000;

const { under } = underFaults();

for (const name of engines) {
  test(`${name} stands still for a minute`, () => under((cluster) => cluster[name].freeze(minute)));
}
test('a worker stands still for a minute', () => under((cluster) => cluster.workers[0].freeze(minute), { lost: true }));
test('an API stands still for a minute', () => under((cluster) => cluster.apis[1].freeze(minute)));
