// Solutions of the operator, where the service of a suite looks for them.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setting } from './stack.mjs';

// solutionsWith writes solution.yaml files, by solution, until the suite ends, and returns their directory for the setting SOLUTIONS.
export function solutionsWith(files) {
  const shared = setting('SOLUTIONS');
  const directory = shared ?? mkdtempSync(join(tmpdir(), 'everloop-solutions-'));
  for (const [solution, content] of Object.entries(files)) {
    mkdirSync(join(directory, solution));
    writeFileSync(join(directory, solution, 'solution.yaml'), content);
  }
  process.once('exit', () => {
    const made = shared ? Object.keys(files).map((solution) => join(directory, solution)) : [directory];
    for (const path of made) rmSync(path, { recursive: true, force: true });
  });
  return directory;
}
