// Wrong settings are reported before anything starts, all at once.
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
  RATE_LIMIT_PER_MINUTE: '-5',
  LLM_CONTEXT_WINDOW: '0',
  SANDBOX_MEMORY_BYTES: '-1',
  SANDBOX_PROCESSES: '0',
  WORKSPACE_BYTES: '-1',
  STOP_TIMEOUT: '-1s',
  ENCRYPTION_KEY: 'short',
  GIS_MAP_URL: 'maps',
  ALLOWED_ORIGINS: 'office.example,https://office.example/page',
  MCP_ALLOW: 'http://tools.internal',
  WEBHOOK_ALLOW: 'http://hooks.internal',
  SEARCH_URL: 'engine',
  SANDBOX_MIN_LEVEL: '9',
  SUBAGENT_DEPTH: '-1',
  ALLOWED_HOSTS: 'https://everloop.example.org',
  BOOTSTRAP_API_KEY: 'eight-ch',
  TRUSTED_PROXIES: 'proxy',
  SANDBOX_NETWORK_ALLOW: 'http://mirror.internal',
  WORKSPACE_INODES: '-1',
  SANDBOX_TOTAL_MEMORY_BYTES: '-1',
  SANDBOX: 'container', // and no image is named
};

test('a start names every setting that is wrong, and begins nothing', async () => {
  const { code, stderr } = await run(['up'], wrong);
  assert.notEqual(code, 0);
  for (const name of Object.keys(wrong)) assert.match(stderr, new RegExp(`\\b${name}\\b`));
  assert.ok(stderr.includes('"https://office.example/page" is not an origin'));
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
    RATE_LIMIT_PER_MINUTE: '0',
    WORKSPACE_BYTES: '0',
    STOP_TIMEOUT: '0s',
    ENCRYPTION_KEY: 'k'.repeat(32),
    GIS_MAP_URL: 'https://maps.example/x',
    ALLOWED_ORIGINS: 'https://office.example,http://127.0.0.1:3000',
    MCP_ALLOW: 'tools.internal,tools.internal:8443,10.1.2.3,::1',
    WEBHOOK_ALLOW: 'hooks.internal:8443,10.1.2.3',
    ALLOWED_HOSTS: 'everloop.example.org,*.example.org,api',
    BOOTSTRAP_API_KEY: 'k'.repeat(32),
    TRUSTED_PROXIES: '10.0.0.5,fd00::/8',
    SANDBOX_NETWORK: 'none',
    SANDBOX_NETWORK_ALLOW: 'mirror.internal:8081,10.0.0.0/8',
    WORKSPACE_INODES: '0',
  });
  assert.match(stdout, /no faults/);
});

test('a published encryption key is refused where other machines can connect', async () => {
  const published = { ENCRYPTION_KEY: 'dev-only-key-of-at-least-32-characters' };
  const { code, stdout } = await run(['doctor', '--json'], { ...published, AGENT_ADDR: '0.0.0.0:8020' });
  assert.equal(code, 1);
  assert.match(stdout, /ENCRYPTION_KEY is the published example/);
  assert.match((await run(['doctor', '--json'], { ...published, AGENT_ADDR: '127.0.0.1:8020' })).stdout, /no faults/);
});

test('a flag that does not exist is one short error', async () => {
  const { code, stderr } = await run(['up', '--no-such-flag'], {});
  assert.notEqual(code, 0);
  assert.match(stderr, /unknown flag --no-such-flag/);
  assert.ok(stderr.split('\n').length < 10, stderr);
});
