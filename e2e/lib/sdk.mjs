// The JavaScript SDK of this checkout, built when its sources are newer than the build.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const sdk = new URL('../../sdk/js/', import.meta.url);
const at = (path) => fileURLToPath(new URL(path, sdk));
const newest = (directory) =>
  Math.max(...readdirSync(at(directory), { recursive: true }).map((name) => statSync(at(`${directory}/${name}`)).mtimeMs));
const age = (file) => (existsSync(at(file)) ? statSync(at(file)).mtimeMs : 0);

export async function buildSDK() {
  if (age('node_modules/.package-lock.json') < age('package-lock.json')) execFileSync('npm', ['ci'], { cwd: sdk, stdio: 'ignore' });
  if (age('dist/index.js') < newest('src')) execFileSync('npm', ['run', 'build'], { cwd: sdk, stdio: 'ignore' });
  return import(new URL('dist/index.js', sdk).href);
}
