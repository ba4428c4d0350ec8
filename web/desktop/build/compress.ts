import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { Plugin } from 'vite';

const texts = /\.(js|css|svg|html|json|md|webmanifest)$/;

/** compress writes brotli and gzip forms beside the built files, which the service sends to clients that take them. */
export function compress(): Plugin {
  let directory = '';
  return {
    name: 'everloop:compress',
    apply: 'build',
    configResolved(config) {
      directory = join(config.root, config.build.outDir);
    },
    async closeBundle() {
      for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !texts.test(entry.name) || entry.name === 'index.html') continue;
        const path = join(entry.parentPath, entry.name);
        const content = await readFile(path);
        if (content.length < 1000) continue;
        await writeFile(`${path}.br`, brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }));
        await writeFile(`${path}.gz`, gzipSync(content, { level: 9 }));
      }
    },
  };
}
