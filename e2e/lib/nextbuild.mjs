// A program of the next release: its agent loop has one more step, guarded by
// GetVersion as any change of a workflow is.
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = fileURLToPath(new URL('../..', import.meta.url));
const anchor = '\tcall := contract.CallModelIn{';
const step = `\tif workflow.GetVersion(ctx, "next-build", workflow.DefaultVersion, 1) >= 1 {
\t\t_ = workflow.SideEffect(ctx, func(workflow.Context) any { return l.step })
\t}
`;

// buildNext builds it in a directory and gives its path. The sources stay as they are.
export async function buildNext(dir) {
  const source = join(root, 'workflows', 'loop.go');
  const text = readFileSync(source, 'utf8');
  if (text.split(anchor).length !== 2) throw new Error(`${source} has changed: say where the added step belongs`);
  const changed = join(dir, 'loop.go');
  writeFileSync(changed, text.replace(anchor, step + anchor));
  const overlay = join(dir, 'overlay.json');
  writeFileSync(overlay, JSON.stringify({ Replace: { [source]: changed } }));
  const program = join(dir, 'everloop-next');
  const flags = '-s -w -X everloop/internal/release.Version=9999.0.0';
  await promisify(execFile)('go', ['build', '-overlay', overlay, '-ldflags', flags, '-o', program, './cmd/everloop'], { cwd: root });
  return program;
}
