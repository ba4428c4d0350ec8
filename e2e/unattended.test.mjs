// The worked examples of docs/unattended.md: the page is run unchanged, and what it
// prints is what it says.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { launch, program } from './lib/browser.mjs';
import { Fixture } from './lib/fixture.mjs';

const patience = 300_000;

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());

const page = readFileSync(new URL('../docs/unattended.md', import.meta.url), 'utf8');
const [opening, ...sections] = page.split(/^## /m);
const blocks = (text) => [...text.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, code]) => code).join('');
const printed = (code) => code.split('\n').filter((line) => line.startsWith('# ')).map((line) => line.slice(2));

// shell runs commands and gives what they print; the first that fails ends it.
async function shell(code) {
  const child = spawn('bash', ['-euo', 'pipefail', '-c', code], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, LANG: 'C.UTF-8', URL: fixture.server.url, KEY: fixture.server.key },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const clock = setTimeout(() => child.kill('SIGKILL'), patience);
  let out = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text) => { out += text; });
  child.stderr.setEncoding('utf8').on('data', (text) => { errors += text; });
  const status = await new Promise((resolve) => child.once('close', (code, signal) => resolve(signal ?? code)));
  clearTimeout(clock);
  return { status, errors, lines: out.split('\n').filter((line) => line !== '') };
}

describe('the page on unattended work', () => {
  for (const section of sections) {
    test(section.slice(0, section.indexOf('\n')), async () => {
      const code = blocks(section);
      const expected = printed(code);
      assert.ok(expected.length > 4, 'the section shows nothing');
      const run = await shell(blocks(opening) + code);
      assert.deepEqual(run.lines, expected, run.errors);
      assert.equal(run.status, 0, run.errors);
    });
  }
});

// With EVERLOOP_E2E_PICTURES, a directory, it makes the pictures of docs/operators/temporal.md from these runs.
test('pictures of the runs in the UI of Temporal', { skip: !process.env.EVERLOOP_E2E_PICTURES }, async () => {
  const ui = fixture.server.uiURL;
  const browser = await launch(program());
  try {
    const page = await browser.newPage({ viewport: { width: 1400, height: 1100 }, reducedMotion: 'reduce' });
    await page.goto(`${ui}/signin`);
    await page.locator('input[type=password]').fill(fixture.server.key);
    await page.locator('button').click();
    await page.waitForURL((url) => url.pathname !== '/signin');
    for (const [kind, name] of Object.entries({ schedule: 'temporal-schedule', dag: 'temporal-dag', issue: 'temporal-issue' })) {
      const { items } = await fixture.rest.get(`/api/admin/runs?kind=${kind}`);
      const { workflow_id: id, run_id: run } = items.at(-1);
      await page.goto(`${ui}/namespaces/everloop/workflows/${encodeURIComponent(id)}/${run}/timeline`, { waitUntil: 'networkidle' });
      await page.waitForTimeout(5000); // the names of the steps come late, and nothing says when
      await page.screenshot({ path: join(process.env.EVERLOOP_E2E_PICTURES, `${name}.png`), animations: 'disabled' });
    }
  } finally {
    await browser.close();
  }
});
