import { t } from '../../lib/i18n';

/** PackageFile is a file of a skill as the service takes it. */
export type PackageFile = {
  path: string;
  content: string;
  encoding?: 'utf-8' | 'base64';
};

const most = 30_000_000; // bytes of all files

/** innerPaths gives paths relative to the directory that has SKILL.md; a chosen directory is the first part of all paths. */
export function innerPaths(paths: readonly string[]): string[] {
  const skill = paths
    .filter((path) => path === 'SKILL.md' || path.endsWith('/SKILL.md'))
    .sort((a, b) => a.split('/').length - b.split('/').length)[0];
  if (skill === undefined) throw new Error(t('The package has no SKILL.md.'));
  const root = skill.slice(0, -'SKILL.md'.length);
  if (paths.some((path) => !path.startsWith(root))) throw new Error(t('A file is outside the directory that contains SKILL.md.'));
  return paths.map((path) => path.slice(root.length));
}

/** skillName reads the name in the front matter of SKILL.md. */
export function skillName(text: string): string {
  const front = /^---\r?\n([^]*?)\r?\n---/.exec(text)?.[1] ?? '';
  const name = /^name:\s*["']?([^"'\r\n#]*?)["']?\s*(?:#.*)?$/m.exec(front)?.[1]?.trim() ?? '';
  if (!name) throw new Error(t('The front matter of SKILL.md must contain a name.'));
  return name;
}

/** readPackage reads chosen files; those that are no text are encoded. */
export async function readPackage(files: readonly File[]): Promise<{ name: string; files: PackageFile[] }> {
  if (files.reduce((sum, file) => sum + file.size, 0) > most)
    throw new Error(t('Packages can have up to 30 MB here. Publish larger ones to the registry.'));
  const paths = innerPaths(files.map((file) => file.webkitRelativePath || file.name));
  const read = await Promise.all(files.map(async (file, index): Promise<PackageFile> => {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const path = paths[index] ?? file.name;
    try {
      return { path, content: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
    } catch {
      let binary = '';
      for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
      return { path, content: btoa(binary), encoding: 'base64' };
    }
  }));
  return { name: skillName(read.find((file) => file.path === 'SKILL.md')?.content ?? ''), files: read };
}
