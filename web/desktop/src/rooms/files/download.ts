import { api, errorText } from '../../lib/query';
import { save } from '../../lib/save';
import { toast } from '../../ui/toast';

/** download saves a file, or a directory as an archive, with the credential of the page. */
export async function download(id: string, path: string, directory: boolean): Promise<void> {
  try {
    const answer = directory ? await api().downloadDirectory(id, path) : await api().readFile(id, path, { timeoutMs: 600_000 });
    save(directory ? `${path.split('/').at(-1) || 'workspace'}.zip` : path.split('/').at(-1) ?? 'file', await answer.blob());
  } catch (error) {
    toast(errorText(error), 'bad');
  }
}
