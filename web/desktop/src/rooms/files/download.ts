import { api, errorText } from '../../lib/query';
import { toast } from '../../ui/toast';

/** download saves a file, or a directory as an archive, with the credential of the page. */
export async function download(id: string, path: string, directory: boolean): Promise<void> {
  try {
    const answer = directory ? await api().downloadDirectory(id, path) : await api().readFile(id, path, { timeoutMs: 600_000 });
    const url = URL.createObjectURL(await answer.blob());
    const link = document.createElement('a');
    link.href = url;
    link.download = directory ? `${path.split('/').at(-1) || 'workspace'}.zip` : path.split('/').at(-1) ?? 'file';
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (error) {
    toast(errorText(error), 'bad');
  }
}
