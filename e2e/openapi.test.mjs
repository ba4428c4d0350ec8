// The OpenAPI document as the service publishes it, checked with the rules of Redocly.
// That answers are as it says is tested where they are made, in package api.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Fixture } from './lib/fixture.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());

// lint gives the problems that Redocly finds in a document.
async function lint(document) {
  const dir = mkdtempSync(join(tmpdir(), 'everloop-openapi-'));
  try {
    const file = join(dir, 'openapi.json');
    writeFileSync(file, JSON.stringify(document));
    const child = spawn(process.execPath, [here('node_modules/@redocly/cli/bin/cli.js'), 'lint', file,
      '--config', here('redocly.yaml'), '--format', 'json', '--max-problems', '1000'], {
      env: { PATH: process.env.PATH, HOME: dir, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let out = '';
    let said = '';
    child.stdout.on('data', (chunk) => { out += chunk; });
    child.stderr.on('data', (chunk) => { said += chunk; });
    await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
    assert.ok(out.startsWith('{'), `redocly: ${said}`);
    return JSON.parse(out).problems.map((p) => `${p.severity} ${p.ruleId} at ${p.location[0]?.pointer}: ${p.message}`);
  } finally {
    rmSync(dir, { recursive: true });
  }
}

describe('the OpenAPI document', () => {
  test('has no errors and no warnings', async () => {
    assert.deepEqual(await lint(await fixture.rest.get('/api/openapi.json')), []);
  });

  test('is really looked at', async () => {
    const document = await fixture.rest.get('/api/openapi.json');
    delete document.paths['/api/version'].get.operationId;
    document.paths['/api/sessions'].get.responses['200'].content['application/json'].example.total = 'many';
    const found = await lint(document);
    assert.ok(found.some((p) => p.includes('operation-operationId')), found.join('\n'));
    assert.ok(found.some((p) => p.includes('no-invalid-media-type-examples')), found.join('\n'));
  });

  test('says of which version it is, and is public', async () => {
    const answer = await fetch(`${fixture.server.url}/api/openapi.json`);
    assert.match(answer.headers.get('content-type'), /^application\/json/);
    const document = await answer.json();
    assert.match(document.openapi, /^3\.1\./);
    assert.equal(document.info.version, (await fixture.rest.get('/api/version')).version);
    assert.equal(document.info.license.identifier, 'Apache-2.0');
  });
});
