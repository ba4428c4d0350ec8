// A reporter of Node's test runner for e2e_test.go: one JSON object a line for
// each test, with the names of the suites that it is in.
import { inspect } from 'node:util';

export default async function* report(source) {
  const path = []; // names by depth; a test starts before those inside it
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      path.length = data.nesting;
      path.push(data.name);
    }
    if (type === 'test:stderr') process.stderr.write(data.message);
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const cause = data.details.error?.cause ?? data.details.error;
    const line = {
      test: [...path.slice(0, data.nesting), data.name].join('/'),
      passed: type === 'test:pass', skipped: data.skip !== undefined, suite: data.details.type === 'suite', ms: data.details.duration_ms,
      ...(type === 'test:fail' ? { error: cause?.stack ?? inspect(cause) } : {}),
    };
    yield `${JSON.stringify(line)}\n`;
  }
}
