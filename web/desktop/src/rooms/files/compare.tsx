import { EverloopError, type Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { bytes, dateTime } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, usePages } from '../../lib/query';
import { visible } from '../../lib/visible';
import { word } from '../../lib/words';
import { Dialog } from '../../ui/dialog';
import { Diff, lineDiff } from '../../ui/diff';
import { Field, Select } from '../../ui/field';
import { Badge, Empty, Failure, Loaded, More, Spinner } from '../../ui/page';

const maxCompared = 1_000_000; // bytes that are read of each side

/** Side is a file at one of two moments. */
interface Side {
  text: string;
  whole: number; // bytes of the file
  binary: boolean;
}

// sideOf reads one side of a comparison. What is no file at that moment is not there.
async function sideOf(read: (options: { headers: Record<string, string> }) => Promise<Response>): Promise<Side | null> {
  try {
    const answer = await read({ headers: { range: `bytes=0-${maxCompared - 1}` } });
    const content = await answer.arrayBuffer();
    const text = new TextDecoder().decode(content);
    const whole = Number(/\/(\d+)$/.exec(answer.headers.get('content-range') ?? '')?.[1] ?? content.byteLength);
    return { text, whole, binary: text.slice(0, 8000).includes('\0') };
  } catch (error) {
    if (error instanceof EverloopError && ['file_not_found', 'is_a_directory', 'not_a_directory'].includes(error.code)) return null;
    throw error;
  }
}

/** Sides shows what differs of a file between a checkpoint and now; null: there was none. */
function Sides({ path, before, after }: { path: string; before: Side | null; after: Side | null }) {
  const lines = useMemo(() => lineDiff(before?.text ?? '', after?.text ?? ''), [before, after]);
  if (!before && !after) return <p className="text-sm text-soft">{t('The file exists neither at the checkpoint nor now.')}</p>;
  if (before?.binary || after?.binary)
    return (
      <p className="text-sm text-soft">
        {t('This file is not text. Size at the checkpoint: {before}, now: {after}.', {
          before: before ? bytes(before.whole) : '–', after: after ? bytes(after.whole) : '–',
        })}
      </p>
    );
  const cut = Math.max(before?.whole ?? 0, after?.whole ?? 0) > maxCompared;
  return (
    <>
      {!before && <p className="mb-2 text-sm text-soft">{t('The checkpoint has no such file.')}</p>}
      {!after && <p className="mb-2 text-sm text-soft">{t('The file no longer exists.')}</p>}
      {cut && <p className="mb-2 text-sm text-soft">{t('Only the first {part} are compared.', { part: bytes(maxCompared) })}</p>}
      {lines.every((line) => line.kind === 'same' || line.kind === 'gap') ? (
        <p className="text-sm text-soft">{t('The text is the same.')}</p>
      ) : (
        <Diff lines={lines} label={t('Changes of {path}', { path })} />
      )}
    </>
  );
}

type Changed = Schemas['FileComparison'];

/** FileChanges reads a file at a checkpoint and as it is, and shows what differs. `change` is what is known of it. */
function FileChanges({ id, checkpoint, path, change }: { id: string; checkpoint: string; path: string; change?: Changed['change'] }) {
  const sides = useQuery({
    queryKey: ['files', id, 'sides', checkpoint, path, change],
    queryFn: async ({ signal }) => {
      const [before, after] = await Promise.all([
        change === 'created' ? null : sideOf((options) => api().readCheckpointFile(id, checkpoint, path, { ...options, signal })),
        change === 'deleted' ? null : sideOf((options) => api().readFile(id, path, { ...options, signal })),
      ]);
      return { before, after };
    },
  });
  return <Loaded query={sides}>{({ before, after }) => <Sides path={path} before={before} after={after} />}</Loaded>;
}

/** ChangedSince lists the files that differ between a checkpoint and now. Of one that is chosen it shows the lines. */
export function ChangedSince({ id, checkpoint }: { id: string; checkpoint: string }) {
  const [chosen, setChosen] = useState<Changed>();
  const list = usePages(
    ['files', id, 'changes', checkpoint], (page, signal) => api().listCheckpointChanges(id, checkpoint, { query: page, signal }), 100,
  );
  return (
    <section aria-label={t('Changed since then')}>
      <h3 className="mb-1 font-medium">{t('Changed since then')}</h3>
      {list.items === undefined ? (
        list.error ? <Failure error={list.error} retry={() => void list.refetch()} /> : <Spinner />
      ) : (
        <>
          <p className="mb-1 text-xs text-soft">
            {list.total === 0 ? t('The files are the same.') : plural(list.total, '{count} file', '{count} files')}
          </p>
          <ul className="space-y-0.5">
            {list.items.map((file) => (
              <li key={file.path}>
                <button
                  type="button"
                  onClick={() => setChosen(file)}
                  className="flex w-full items-center gap-2 rounded-md px-1 py-0.5 text-left hover:bg-hover"
                >
                  <Badge tone={tones[file.change]}>{word(file.change)}</Badge>
                  <span className="min-w-0 flex-1 truncate" title={file.path}>
                    <bdi>{visible(file.path)}</bdi>
                  </span>
                  <span className="text-xs text-soft">{sizes(file)}</span>
                </button>
              </li>
            ))}
          </ul>
          <More pages={list} />
        </>
      )}
      <Dialog
        open={chosen !== undefined}
        onOpenChange={() => setChosen(undefined)}
        wide
        title={visible(chosen?.path ?? '')}
        description={t('From the checkpoint to now.')}
      >
        {chosen && <FileChanges id={id} checkpoint={checkpoint} path={chosen.path} change={chosen.change} />}
      </Dialog>
    </section>
  );
}

const tones = { created: 'good', modified: 'accent', deleted: 'bad' } as const;

// sizes says how large a file was and is.
const sizes = ({ size_before: before, size_after: after }: Changed): string =>
  (before === after ? [before] : [before, after]).filter((size) => size !== null).map((size) => bytes(size)).join(' → ');

/** CompareFile compares a file with a checkpoint that is chosen. */
export function CompareFile({ id, path }: { id: string; path: string }) {
  const [chosen, setChosen] = useState('');
  const list = useQuery({
    queryKey: ['history', id, 'checkpoints'],
    queryFn: async ({ signal }) => {
      const all = await api().listCheckpoints(id, { signal });
      return all.filter((one) => one.files.snapshot_id !== null).reverse();
    },
  });
  return (
    <Loaded query={list} empty={<Empty title={t('No checkpoints yet')}>{t('The first message creates one.')}</Empty>}>
      {(all) => {
        const checkpoint = all.find((one) => one.checkpoint_id === chosen) ?? all[0];
        if (!checkpoint) return null;
        return (
          <div className="h-full overflow-y-auto p-3">
            <div className="mb-3 max-w-md">
              <Field label={t('Compare with the previous checkpoint')}>
                {(ids) => (
                  <Select {...ids} value={checkpoint.checkpoint_id} onChange={(event) => setChosen(event.target.value)}>
                    {all.map((one) => (
                      <option key={one.checkpoint_id} value={one.checkpoint_id}>
                        {`${dateTime(one.created_at)} · ${visible(one.label)}`}
                      </option>
                    ))}
                  </Select>
                )}
              </Field>
            </div>
            <FileChanges id={id} checkpoint={checkpoint.checkpoint_id} path={path} />
          </div>
        );
      }}
    </Loaded>
  );
}
