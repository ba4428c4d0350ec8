import { EverloopError, type Session } from '@everloop/sdk';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import {
  ChevronRight,
  Download,
  Ellipsis,
  File as FileIcon,
  FilePlus,
  Folder,
  FolderInput,
  FolderOpen,
  Pencil,
  RefreshCw,
  Trash2,
  Upload,
} from 'lucide-react';
import { type ChangeEvent, type DragEvent, useRef, useState } from 'react';
import { cn } from '../../lib/cn';
import { bytes } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { visible } from '../../lib/visible';
import { api, useAction } from '../../lib/query';
import { useDetail, useSession } from '../../lib/session';
import { IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Field, Input } from '../../ui/field';
import { Menu } from '../../ui/menu';
import { Empty, Failure, Loaded, Spinner } from '../../ui/page';
import { SessionFrame } from '../chat/header';
import { download } from './download';
import { Opened } from './opened';

interface Entry {
  name: string;
  type: string;
  size?: number;
}

const join = (dir: string, name: string): string => (dir ? `${dir}/${name}` : name);

export default function Files() {
  const { sessionId: id } = useParams({ strict: false }) as { sessionId: string };
  const { followed, error } = useSession(id);
  const detail = useDetail(id);
  const writable = detail.data?.viewer_role === 'owner';
  const [path, setPath] = useState<string>();
  const [over, setOver] = useState(false);
  const client = useQueryClient();
  const picker = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  const [making, setMaking] = useState(false);
  const refresh = [['files', id]] as const;

  const upload = useAction(async (files: { file: File; path: string }[]) => {
    const session = followed?.session as Session;
    const { uploaded, failed } = await session.upload('', Object.fromEntries(files.map((one) => [one.path, one.file])), {
      timeoutMs: 3_600_000,
    });
    if (failed.length > 0) throw new EverloopError('upload_failed', t('{stored} stored, {failed} not: {path}: {message}', {
        stored: uploaded.length, failed: failed.length, path: failed[0]?.path, message: failed[0]?.message,
      }));
    return uploaded.length;
  }, { done: (count) => plural(count, '{count} file was stored.', '{count} files were stored.'), refresh });
  const picked = (event: ChangeEvent<HTMLInputElement>) => {
    const files = [...event.target.files ?? []].map((file) => ({ file, path: file.webkitRelativePath || file.name }));
    if (files.length > 0) upload.mutate(files);
    event.target.value = '';
  };
  const drop = async (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const files = await droppedFiles(event.dataTransfer);
    if (files.length > 0) upload.mutate(files);
  };

  return (
    <SessionFrame id={id} state={followed?.state}>
      {error ? (
        <div className="p-4">
          <Failure error={error} />
        </div>
      ) : (
        <div className="flex h-full min-h-0 max-md:flex-col">
          <section
            aria-label={t('Files of the session')}
            className={cn(
              'flex w-72 shrink-0 flex-col border-r max-md:w-full max-md:border-r-0',
              path && 'max-md:hidden',
              over && 'bg-accent-soft',
            )}
            onDragOver={(event) => {
              if (writable) {
                event.preventDefault();
                setOver(true);
              }
            }}
            onDragLeave={() => setOver(false)}
            onDrop={(event) => {
              if (writable) void drop(event);
            }}
          >
            <div className="flex items-center gap-0.5 border-b px-2 py-1">
              <span className="flex-1 px-1 text-sm font-medium">{t('Workspace')}</span>
              {upload.isPending && <Spinner label={t('Storing')} />}
              {writable && (
                <>
                  <IconButton small label={t('New file')} onClick={() => setMaking(true)}>
                    <FilePlus size={15} />
                  </IconButton>
                  <IconButton small label={t('Upload files')} onClick={() => picker.current?.click()}>
                    <Upload size={15} />
                  </IconButton>
                  <IconButton small label={t('Upload a folder')} onClick={() => folder.current?.click()}>
                    <FolderInput size={15} />
                  </IconButton>
                </>
              )}
              <IconButton small label={t('Download all as ZIP')} onClick={() => void download(id, '', true)}>
                <Download size={15} />
              </IconButton>
              <IconButton small label={t('Read again')} onClick={() => void client.invalidateQueries({ queryKey: ['files', id] })}>
                <RefreshCw size={14} />
              </IconButton>
              <input ref={picker} type="file" multiple hidden onChange={picked} />
              <input ref={folder} type="file" hidden onChange={picked} {...{ webkitdirectory: '' }} />
            </div>
            <div className="min-h-0 flex-1 overflow-y-auto p-1">
              <Directory id={id} dir="" level={0} open={path} choose={setPath} writable={writable} />
            </div>
          </section>
          <section aria-label={t('File')} className={cn('min-h-0 min-w-0 flex-1', !path && 'max-md:hidden')}>
            {path ? (
              <Opened key={path} id={id} path={path} writable={writable} session={followed?.session} close={() => setPath(undefined)} />
            ) : (
              <Empty icon={<FolderOpen size={28} />} title={t('No file is open')}>
                {t('The agent works with the files of this workspace.')}
              </Empty>
            )}
          </section>
        </div>
      )}
      {making && (
        <NewFile
          id={id}
          done={(made) => {
            setMaking(false);
            if (made) setPath(made);
          }}
        />
      )}
    </SessionFrame>
  );
}

function Directory({ id, dir, level, open, choose, writable }: {
  id: string; dir: string; level: number; open: string | undefined; choose: (path: string | undefined) => void; writable: boolean;
}) {
  const list = useQuery({
    queryKey: ['files', id, 'ls', dir],
    queryFn: ({ signal }) => api().listFiles(id, dir, { signal }) as Promise<Entry[]>,
  });
  return (
    <Loaded
      query={list}
      empty={
        level === 0 ? (
          <Empty title={t('The workspace is empty')}>{t('Upload files, drop them here, or let the agent write some.')}</Empty>
        ) : (
          <p className="py-0.5 text-xs text-soft" style={{ paddingLeft: 28 + level * 14 }}>
            {t('empty')}
          </p>
        )
      }
    >
      {(entries) => (
        <ul>
          {entries.map((entry) => (
            <Row key={entry.name} id={id} entry={entry} dir={dir} level={level} open={open} choose={choose} writable={writable} />
          ))}
        </ul>
      )}
    </Loaded>
  );
}

function Row({
  id,
  entry,
  dir,
  level,
  open,
  choose,
  writable,
}: {
  id: string;
  entry: Entry;
  dir: string;
  level: number;
  open: string | undefined;
  choose: (path: string | undefined) => void;
  writable: boolean;
}) {
  const path = join(dir, entry.name);
  const isDir = entry.type === 'directory';
  const [unfolded, setUnfolded] = useState(false);
  const [changing, setChanging] = useState<'rename' | 'move' | 'delete'>();
  const [name, setName] = useState(entry.name);
  const [place, setPlace] = useState(path);
  const refresh = [['files', id]] as const;
  const rename = useAction(
    async () => {
      const { path: renamed } = await api().renameFile(id, path, { new_name: name });
      if (open === path) choose(renamed);
    },
    { refresh },
  );
  // The service has no such operation: the copy is whole before the original goes.
  const move = useAction(
    async () => {
      if (place.trim().startsWith(`${path}/`)) throw new Error(t('A directory cannot be moved into itself.'));
      const { path: moved } = await api().copyFile(id, path, { target_path: place.trim() });
      await api().deleteFile(id, path);
      if (open === path) choose(moved);
      else if (open?.startsWith(`${path}/`)) choose(moved + open.slice(path.length));
    },
    { done: t('{name} was moved.', { name: entry.name }), refresh },
  );
  const remove = useAction(
    async () => {
      await api().deleteFile(id, path);
      if (open === path || open?.startsWith(`${path}/`)) choose(undefined);
    },
    { done: t('{name} was deleted.', { name: entry.name }), refresh },
  );
  const copy = useAction(() => api().copyFile(id, path, {}), { refresh });
  return (
    <li>
      <div className={cn('group flex items-center rounded-md hover:bg-hover', open === path && 'bg-hover')}>
        <button
          type="button"
          aria-expanded={isDir ? unfolded : undefined}
          aria-current={open === path || undefined}
          onClick={() => (isDir ? setUnfolded(!unfolded) : choose(path))}
          className="flex min-w-0 flex-1 items-center gap-1.5 py-1 pr-1 text-left text-sm"
          style={{ paddingLeft: 6 + level * 14 }}
        >
          {isDir ? (
            <ChevronRight size={13} className={cn('shrink-0 text-soft transition-transform', unfolded && 'rotate-90')} aria-hidden />
          ) : (
            <span className="w-[13px] shrink-0" />
          )}
          {isDir ? (
            <Folder size={15} className="shrink-0 text-accent" aria-hidden />
          ) : (
            <FileIcon size={15} className="shrink-0 text-soft" aria-hidden />
          )}
          <span className="truncate" dir="auto" title={entry.name}>
            <bdi>{visible(entry.name)}</bdi>
          </span>
        </button>
        {entry.size !== undefined && (
          <span className="px-1.5 text-xs text-soft group-focus-within:hidden group-hover:hidden">{bytes(entry.size)}</span>
        )}
        <span className="hidden group-focus-within:block group-hover:block has-data-[state=open]:block">
          <Menu
            trigger={
              <IconButton small label={t('Actions of {name}', { name: entry.name })}>
                <Ellipsis size={15} />
              </IconButton>
            }
            items={[
              {
                label: isDir ? t('Download as ZIP') : t('Download'),
                icon: <Download size={15} />,
                run: () => void download(id, path, isDir),
              },
              ...(writable
                ? [
                    { label: t('Rename'), icon: <Pencil size={15} />, run: () => setChanging('rename') },
                    { label: t('Move'), icon: <FolderInput size={15} />, run: () => setChanging('move') },
                    { label: t('Duplicate'), icon: <FilePlus size={15} />, run: () => copy.mutate() },
                    null,
                    { label: t('Delete'), icon: <Trash2 size={15} />, danger: true, run: () => setChanging('delete') },
                  ]
                : []),
            ]}
          />
        </span>
      </div>
      {isDir && unfolded && <Directory id={id} dir={path} level={level + 1} open={open} choose={choose} writable={writable} />}
      <FormDialog
        open={changing === 'rename'}
        onOpenChange={() => setChanging(undefined)}
        title={t('Rename {name}', { name: entry.name })}
        confirm={t('Rename')}
        submit={() => rename.mutateAsync()}
      >
        <Field label={t('New name')}>
          {(ids) => <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} required maxLength={255} autoFocus />}
        </Field>
      </FormDialog>
      <FormDialog
        open={changing === 'move'}
        onOpenChange={() => setChanging(undefined)}
        title={t('Move {name}', { name: entry.name })}
        confirm={t('Move')}
        submit={() => move.mutateAsync()}
      >
        <Field label={t('New path')} hint={t('Missing directories are created, for example notes/today.md.')}>
          {(ids) => <Input {...ids} value={place} onChange={(event) => setPlace(event.target.value)} required maxLength={4096} autoFocus />}
        </Field>
      </FormDialog>
      <FormDialog
        open={changing === 'delete'}
        onOpenChange={() => setChanging(undefined)}
        danger
        title={t('Delete {name}?', { name: entry.name })}
        confirm={t('Delete')}
        submit={() => remove.mutateAsync()}
        description={
          isDir
            ? t('Deletes the directory with its content. A rewind to an earlier checkpoint restores it.')
            : t('A rewind to an earlier checkpoint restores it.')
        }
      />
    </li>
  );
}

function NewFile({ id, done }: { id: string; done: (made?: string) => void }) {
  const [path, setPath] = useState('');
  const make = useAction(() => api().writeFile(id, path.trim(), { content: '' }, { headers: { 'if-none-match': '*' } }), {
    refresh: [['files', id]],
  });
  return (
    <FormDialog
      open
      onOpenChange={() => done()}
      title={t('New file')}
      confirm={t('Create')}
      submit={async () => {
        await make.mutateAsync();
        done(path.trim());
      }}
    >
      <Field label={t('Path')} hint={t('Missing directories are created, for example notes/today.md.')}>
        {(ids) => <Input {...ids} value={path} onChange={(event) => setPath(event.target.value)} required autoFocus />}
      </Field>
    </FormDialog>
  );
}

/** droppedFiles gives dropped files with their paths, those of dropped directories too. */
async function droppedFiles(data: DataTransfer): Promise<{ file: File; path: string }[]> {
  const roots = [...data.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const found: { file: File; path: string }[] = [];
  const visit = async (entry: FileSystemEntry): Promise<void> => {
    if (entry.isFile) {
      const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
      found.push({ file, path: entry.fullPath.replace(/^\//, '') });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const part = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (part.length === 0) return;
      for (const one of part) await visit(one);
    }
  };
  for (const root of roots) await visit(root);
  return found;
}
