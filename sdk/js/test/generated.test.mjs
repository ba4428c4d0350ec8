import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { compareVersions } from '../dist/versions.js';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

test('the generated files are those of this service', () => {
  execFileSync(process.execPath, [at('../scripts/generate.mjs'), '--check'], { stdio: 'pipe' });
});

test('the SDK has the version of the service, and its lock file names no registry', () => {
  const [, version] = /^var Version = "(.+)"/m.exec(readFileSync(at('../../../internal/release/release.go'), 'utf8'));
  assert.equal(JSON.parse(readFileSync(at('../package.json'), 'utf8')).version, version);
  const lock = readFileSync(at('../package-lock.json'), 'utf8');
  assert.equal(JSON.parse(lock).version, version);
  assert.ok(!lock.includes('"resolved"'));
});

test('versions are ordered by their numbers, and a pre-release is before its release', () => {
  const ordered = ['1', '2608.0.2', '2610.0.0-beta.1', '2610.0.0-beta.10', '2610.0.0', 'v2611.0.0', '2611.0.10'];
  for (const [i, a] of ordered.entries()) {
    for (const [j, b] of ordered.entries()) assert.equal(Math.sign(compareVersions(a, b)), Math.sign(i - j), `${a} and ${b}`);
  }
});
