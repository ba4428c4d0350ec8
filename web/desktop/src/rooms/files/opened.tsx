import { EverloopError, type Session } from '@everloop/sdk';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Download } from 'lucide-react';
import { useEffect, useState } from 'react';
import { bytes } from '../../lib/format';
import { t } from '../../lib/i18n';
import { visible } from '../../lib/visible';
import { api, invalidate, useAction } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { Empty, Loaded } from '../../ui/page';
import { toast } from '../../ui/toast';
import { CompareFile } from './compare';
import { Editor } from './editor';
import { BinaryPreview, hasPreview, kindOf, TextPreview } from './preview';
import { download } from './download';

const maxEdited = 2_000_000; // bytes that the editor opens

interface Read {
  text: string;
  etag: string;
  whole: number; // bytes
  binary: boolean;
}

/** Opened is an open file: its editor or a preview. */
export function Opened({
  id,
  path,
  writable,
  session,
  close,
}: {
  id: string;
  path: string;
  writable: boolean;
  session: Session | undefined;
  close: () => void;
}) {
  const kind = kindOf(path);
  const key = ['files', id, 'text', path];
  const file = useQuery({
    queryKey: key,
    enabled: kind === 'text',
    queryFn: async ({ signal }): Promise<Read> => {
      const answer = await api().readFile(id, path, { signal, headers: { range: `bytes=0-${maxEdited - 1}` } });
      const text = await answer.text();
      const whole = Number(/\/(\d+)$/.exec(answer.headers.get('content-range') ?? '')?.[1] ?? text.length);
      return { text, etag: answer.headers.get('etag') ?? '', whole, binary: text.slice(0, 8000).includes('\0') };
    },
    retry: (count, error) => count < 2 && error instanceof EverloopError && error.retryable,
  });
  const [base, setBase] = useState<{ text: string; etag: string }>(); // what is edited
  const [draft, setDraft] = useState<string>();
  const [shown, setShown] = useState(0); // counts the texts that replaced what the editor had
  const [conflict, setConflict] = useState(false);
  const [preview, setPreview] = useState(hasPreview(path));
  const [comparing, setComparing] = useState(false);
  const client = useQueryClient();
  const dirty = base !== undefined && draft !== undefined && draft !== base.text;

  const take = (read: Read) => {
    setBase({ text: read.text, etag: read.etag });
    setDraft(read.text);
    setShown((count) => count + 1);
    setConflict(false);
  };
  // What others wrote is taken over, unless there is something of one's own.
  useEffect(() => {
    if (!file.data || file.data.etag === base?.etag) return;
    if (dirty) setConflict(true);
    else take(file.data);
  }, [file.data, base?.etag, dirty]);
  useEffect(() => {
    if (!dirty) return undefined;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, [dirty]);

  const save = useAction(async (etag: string | undefined) => {
    if (!session || draft === undefined) return;
    let written: string;
    try {
      written = await session.writeFile(path, draft, etag === undefined ? {} : { etag });
    } catch (error) {
      if (!(error instanceof EverloopError) || error.code !== 'stale_file') throw error;
      setConflict(true);
      return;
    }
    // A read that began before the write would bring the old text back.
    await client.cancelQueries({ queryKey: key });
    client.setQueryData<Read>(key, { text: draft, etag: written, whole: new Blob([draft]).size, binary: false });
    setBase({ text: draft, etag: written });
    setConflict(false);
    toast(t('The file was saved.'));
    await invalidate(client, ['files', id]);
  });

  const cut = file.data !== undefined && file.data.whole > maxEdited;
  const editable = writable && !cut;
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex min-h-9 flex-wrap items-center gap-1 border-b px-2 py-0.5">
        <Button small look="ghost" className="md:hidden" onClick={close}>
          {t('Back')}
        </Button>
        <h2 className="min-w-0 flex-1 truncate px-1 text-sm font-medium" title={path}>
          <bdi>{visible(path)}</bdi>
          {dirty && <span className="ml-2 text-xs font-normal text-warn">{t('not saved')}</span>}
        </h2>
        {kind === 'text' && hasPreview(path) && (
          <Button small look="ghost" aria-pressed={preview} onClick={() => setPreview(!preview)}>
            {preview ? t('Edit') : t('Preview')}
          </Button>
        )}
        {kind === 'text' && (
          <Button small look="ghost" aria-pressed={comparing} onClick={() => setComparing(!comparing)}>
            {comparing ? t('Content') : t('Compare')}
          </Button>
        )}
        {kind === 'text' && editable && (
          <Button small look="primary" disabled={!dirty || conflict} busy={save.isPending} onClick={() => save.mutate(base?.etag)}>
            {t('Save')}
          </Button>
        )}
        <IconButton small label={t('Download')} onClick={() => void download(id, path, false)}>
          <Download size={15} />
        </IconButton>
      </div>
      {conflict && (
        <div role="alert" className="flex flex-wrap items-center gap-2 bg-warn-soft px-3 py-1.5 text-sm text-warn">
          <span className="min-w-0 flex-1">{t('The agent or another user has changed the file in the meantime.')}</span>
          <Button small onClick={() => void file.refetch().then(({ data, isSuccess }) => isSuccess && take(data))}>
            {t('Take theirs')}
          </Button>
          <Button small look="danger" busy={save.isPending} onClick={() => save.mutate(undefined)}>
            {t('Keep mine')}
          </Button>
        </div>
      )}
      <div className="min-h-0 flex-1">
        {kind !== 'text' ? (
          <BinaryPreview id={id} path={path} version="" />
        ) : comparing ? (
          <CompareFile id={id} path={path} />
        ) : (
          <Loaded query={file}>
            {(read) => {
              if (read.binary)
                return (
                  <Empty
                    title={t('This file is no text')}
                    action={<Button onClick={() => void download(id, path, false)}>{t('Download')}</Button>}
                  >
                    {bytes(read.whole)}
                  </Empty>
                );
              if (preview) return <TextPreview path={path} text={draft ?? read.text} />;
              return (
                <div className="flex h-full flex-col">
                  {cut && (
                    <p className="bg-panel px-3 py-1 text-xs text-soft">
                      {t('The first {part} of {whole}; too large to be edited here.', { part: bytes(maxEdited), whole: bytes(read.whole) })}
                    </p>
                  )}
                  <div className="min-h-0 flex-1">
                    {base && (
                      <Editor
                        path={path}
                        text={draft ?? base.text}
                        version={shown}
                        readOnly={!editable}
                        change={setDraft}
                        save={() => {
                          if (dirty && !conflict && !save.isPending) save.mutate(base.etag);
                        }}
                      />
                    )}
                  </div>
                </div>
              );
            }}
          </Loaded>
        )}
      </div>
    </div>
  );
}
