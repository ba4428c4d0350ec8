import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Plugin, Rolldown } from 'vite';

type Chunk = Rolldown.OutputChunk;

/**
 * budget fails a build whose pages need more than `limit` bytes of JavaScript, compressed by gzip: the entry and the modules
 * below `rooms`, with all that they import, and of `choices`, of which a visitor loads one, the largest.
 */
export function budget({ limit, rooms, choices }: { limit: number; rooms: readonly string[]; choices: RegExp }): Plugin {
  let directory = '';
  return {
    name: 'everloop:budget',
    apply: 'build',
    configResolved(config) {
      directory = join(config.root, config.build.outDir);
    },
    async writeBundle(_options, bundle) {
      const chunks = Object.values(bundle).filter((one): one is Chunk => one.type === 'chunk');
      const named = (name: string) => chunks.find((one) => one.facadeModuleId?.endsWith(name));
      const needed = new Map<string, Chunk>();
      const add = (chunk: Chunk) => {
        if (needed.has(chunk.fileName)) return;
        needed.set(chunk.fileName, chunk);
        for (const name of chunk.imports) {
          const imported = bundle[name];
          if (imported?.type === 'chunk') add(imported);
        }
      };
      for (const one of chunks.filter((chunk) => chunk.isEntry)) add(one);
      for (const room of rooms) {
        const chunk = named(room);
        if (!chunk) return this.error(`no chunk has ${room}`);
        add(chunk);
      }

      const size = async (chunk: Chunk) => gzipSync(await readFile(join(directory, chunk.fileName)), { level: 9 }).length;
      const sizes = await Promise.all([...needed.values()].map(size));
      const largest = Math.max(0, ...await Promise.all(chunks.filter((one) => choices.test(one.facadeModuleId ?? '')).map(size)));
      const total = sizes.reduce((sum, one) => sum + one, largest);
      this.info(`sign-in and chat need ${Math.round(total / 1000)} kB of JavaScript, compressed`);
      if (total > limit) this.error(`sign-in and chat need ${total} bytes of JavaScript, compressed: more than ${limit}`);
    },
  };
}
