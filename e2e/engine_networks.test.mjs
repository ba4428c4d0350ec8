// The network between the roles and one engine at a time hangs, resets every
// connection or is slow, under 20 chats. No chat fails for it and no effect happens
// twice.
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { engines, underFaults } from './lib/faults.mjs';

const { under } = underFaults();

const faults = {
  'hangs for 20 s': [(proxy) => proxy.hang(), 20_000],
  'resets for 10 s': [(proxy) => proxy.reset(), 10_000],
  'is slow': [(proxy) => proxy.slow(50), 10_000],
};

for (const name of engines) {
  for (const [what, [cause, time]] of Object.entries(faults)) {
    test(`the network to ${name} ${what}`, () => under(async ({ proxies }) => {
      cause(proxies[name]);
      await pause(time);
      proxies[name].heal();
    }));
  }
}
