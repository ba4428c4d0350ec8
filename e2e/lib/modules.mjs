// Packages that npm installed for these tests, where sandboxes can show them.
import { chmodSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setting } from './stack.mjs';

// modulesInSandboxes gives a directory with the installed packages that sandboxes can
// show: they have a /tmp of their own, so that a checkout there is copied elsewhere.
export function modulesInSandboxes() {
  const mounted = setting('SANDBOX_READ_ONLY');
  if (mounted) return mounted;
  const installed = fileURLToPath(new URL('../node_modules', import.meta.url));
  if (!installed.startsWith('/tmp/')) return installed;
  const copy = mkdtempSync('/var/tmp/everloop-e2e-');
  chmodSync(copy, 0o755);
  process.on('exit', () => rmSync(copy, { recursive: true })); // an after() of a before() runs at once
  cpSync(installed, join(copy, 'node_modules'), { recursive: true, verbatimSymlinks: true });
  return join(copy, 'node_modules');
}
