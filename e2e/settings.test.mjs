// What is wrong with the settings is told before anything starts, all at once.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const binary = process.env.EVERLOOP_BIN;
const dir = mkdtempSync(join(tmpdir(), 'everloop-settings-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const run = (args, env) => new Promise((resolve) => {
  execFile(binary, args, { env: { PATH: process.env.PATH, HOME: dir, DATA_DIR: join(dir, 'data'), ...env } },
    (error, stdout, stderr) => resolve({ code: error?.code ?? 0, stdout, stderr }));
});

const wrong = {
  RATE_LIMIT_PER_MINUTE: '-5', LLM_CONTEXT_WINDOW: '0', SANDBOX_MEMORY_BYTES: '-1', SANDBOX_PROCESSES: '0', WORKSPACE_BYTES: '-1',
  STOP_TIMEOUT: '-1s', ENCRYPTION_KEY: 'short', GIS_MAP_URL: 'maps', ALLOWED_ORIGINS: 'desk.example,https://desk.example/page',
  MCP_ALLOW: 'http://tools.internal', SEARCH_URL: 'engine', SANDBOX_MIN_LEVEL: '9', SUBAGENT_DEPTH: '-1',
};

test('a start names every setting that is wrong, and begins nothing', async () => {
  const { code, stderr } = await run(['up'], wrong);
  assert.notEqual(code, 0);
  for (const name of Object.keys(wrong)) assert.match(stderr, new RegExp(`\\b${name}\\b`));
  assert.ok(stderr.includes('"https://desk.example/page" is no origin'));
  assert.ok(!stderr.includes('short'), 'a secret is not repeated');
});

test('doctor names the same', async () => {
  const { code, stdout } = await run(['doctor', '--json'], wrong);
  assert.equal(code, 1);
  const said = JSON.stringify(JSON.parse(stdout));
  for (const name of Object.keys(wrong)) assert.ok(said.includes(name), name);
});

test('values within their bounds are no fault', async () => {
  const { stdout } = await run(['doctor', '--json'], {
    RATE_LIMIT_PER_MINUTE: '0', WORKSPACE_BYTES: '0', STOP_TIMEOUT: '0s', ENCRYPTION_KEY: 'k'.repeat(32), GIS_MAP_URL: 'https://maps.example/x',
    ALLOWED_ORIGINS: 'https://desk.example,http://127.0.0.1:3000', MCP_ALLOW: 'tools.internal,tools.internal:8443,10.1.2.3,::1',
  });
  assert.match(stdout, /no faults/);
});

test('a flag that does not exist is one short error', async () => {
  const { code, stderr } = await run(['up', '--no-such-flag'], {});
  assert.notEqual(code, 0);
  assert.match(stderr, /unknown flag --no-such-flag/);
  assert.ok(stderr.split('\n').length < 10, stderr);
});
