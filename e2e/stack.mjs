// Runs suites against the stack of containers that EVERLOOP_E2E_STACK describes, one after
// another, and says of each test that was left out why.
//
//   EVERLOOP_E2E_STACK=FILE node stack.mjs [SUITE…]      default: all suites
//
// Exit codes: 0 no test failed; 1 a test failed, or none was run.
import { readdirSync } from 'node:fs';
import { run } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';

// Suites that would begin with much work of their own, or start no service.
const others = {
  backup: 'it backs up and restores a data directory',
  bare_machine: 'it starts the program on a machine without packages',
  containers: 'it starts a service whose sandbox is containers',
  deploys: 'it starts two builds of the service',
  secrets: 'it searches its data directory and its log',
  settings: 'it starts the program with wrong settings',
};

// Suites that count what there is, and so come before those that add to it.
const first = ['registry'];

const here = fileURLToPath(new URL('.', import.meta.url));
const all = readdirSync(here).filter((name) => name.endsWith('.test.mjs')).map((name) => name.replace('.test.mjs', ''))
  .sort((a, b) => first.includes(b) - first.includes(a));
const suites = process.argv.length > 2 ? process.argv.slice(2) : all;
const causeOf = ({ details: { error } }) => error?.cause ?? error;

let passed = 0;
let failed = 0;
for (const suite of suites) {
  if (others[suite]) {
    console.log(`left out ${suite}: ${others[suite]}`);
    continue;
  }
  const began = Date.now();
  const count = { passed: 0, failed: 0 };
  const left = new Map(); // reason -> tests
  const cancelled = []; // that have not run because of a hook, whose failure follows
  const leave = (why, tests = 1) => left.set(why, (left.get(why) ?? 0) + tests);
  const fail = (data) => {
    count.failed++;
    console.log(`  FAILED ${data.name} (${suite})\n${causeOf(data)?.stack ?? inspect(causeOf(data))}`);
  };
  for await (const { type, data } of run({ files: [`${here}${suite}.test.mjs`], concurrency: false, timeout: 1_500_000 })) {
    if (type === 'test:stderr') process.stderr.write(data.message);
    if (type === 'test:pass' && data.details.type !== 'suite') {
      if (data.skip === undefined) count.passed++;
      else leave(typeof data.skip === 'string' ? data.skip : 'it says so itself');
    }
    if (type !== 'test:fail') continue;
    const { failureType } = data.details.error;
    const cause = causeOf(data);
    if (failureType === 'cancelledByParent') cancelled.push(data);
    else if (cause?.code === 'NEEDS_OWN_SERVICE') {
      leave(cause.message, (data.details.type === 'suite' ? 0 : 1) + cancelled.splice(0).length);
    } else if (failureType !== 'subtestsFailed') fail(data);
  }
  cancelled.forEach(fail);
  passed += count.passed;
  failed += count.failed;
  const took = ((Date.now() - began) / 1000).toFixed(1);
  const out = [...left].map(([why, tests]) => `; ${tests} left out: ${why}`).join('');
  const verdict = count.failed > 0 ? 'FAILED' : count.passed > 0 ? 'ok' : 'left out';
  console.log(`${verdict} ${suite} (${took} s): ${count.passed} passed, ${count.failed} failed${out}`);
}
console.log(`${passed} tests passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
