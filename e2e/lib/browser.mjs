// Debian's Chromium, driven by playwright-core, and the accessibility check of axe-core.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

// program is the browser that EVERLOOP_CHROMIUM names, or the system's.
export function program() {
  for (const name of [process.env.EVERLOOP_CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome'].filter(Boolean)) {
    try {
      return execFileSync('sh', ['-c', 'command -v "$1"', 'sh', name], { encoding: 'utf8' }).trim();
    } catch {
      // Not this one.
    }
  }
  return undefined;
}

// launch starts the browser. Root cannot use its sandbox; the pages are this repository's own.
export const launch = (executablePath) => chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// violations are the rules of WCAG 2.2 AA that the page breaks, with the places.
export async function violations(page) {
  await page.evaluate(source);
  return page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] });
    return violations.map(({ id, nodes }) =>
      `${id}: ${nodes.map((node) => `${node.html.slice(0, 200)} (${node.failureSummary})`).join(' | ')}`);
  });
}
