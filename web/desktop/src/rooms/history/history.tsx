import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import { Download, GitBranch, GitCompare, Play, Undo2 } from 'lucide-react';
import { useMemo, useRef, useState } from 'react';
import { cn } from '../../lib/cn';
import { bytes, compact, cost, dateTime, duration } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { save } from '../../lib/save';
import { visible } from '../../lib/visible';
import { api, errorText, useAction } from '../../lib/query';
import { type Followed, useDetail, useSession } from '../../lib/session';
import { word } from '../../lib/words';
import { Button } from '../../ui/button';
import { Dialog, FormDialog } from '../../ui/dialog';
import { Area, Check, Field, Select } from '../../ui/field';
import { Badge, Empty, Failure, Loaded } from '../../ui/page';
import { toast } from '../../ui/toast';
import { SessionFrame } from '../chat/header';
import { ChangedSince } from '../files/compare';
import { lay, type Placed } from './tree';

type History = Schemas['History'];
type Node = Schemas['HistoryNode'];

const rowHeight = 36;
const laneWidth = 18;

export default function HistoryRoom() {
  const { sessionId: id } = useParams({ strict: false }) as { sessionId: string };
  const { followed, error } = useSession(id);
  const history = useQuery({ queryKey: ['history', id, 'tree'], queryFn: ({ signal }) => api().getHistory(id, { signal }) });
  const detail = useDetail(id);
  const [chosen, setChosen] = useState<Node>();
  const [comparing, setComparing] = useState(false);
  const [replaying, setReplaying] = useState(false);
  return (
    <SessionFrame id={id} state={followed?.state}>
      {error ? (
        <div className="p-4">
          <Failure error={error} />
        </div>
      ) : (
        <Loaded
          query={history}
          isEmpty={(data) => data.nodes.length === 0}
          empty={
            <Empty icon={<GitBranch size={28} />} title={t('No history yet')}>
              {t(
                'Each message creates a checkpoint of the conversation and the files. Go back to one here, or branch off ' +
                  'from it.',
              )}
            </Empty>
          }
        >
          {(data) => (
            <div className="flex h-full min-h-0 max-md:flex-col">
              <div className="flex min-h-0 min-w-0 flex-1 flex-col">
                <div className="flex flex-wrap items-center gap-1.5 border-b px-3 py-1.5">
                  <span className="flex-1 text-sm text-soft">{plural(data.branches.length, '{count} branch', '{count} branches')}</span>
                  <Button small disabled={data.branches.length < 2} onClick={() => setComparing(true)}>
                    <GitCompare size={14} aria-hidden />
                    {t('Compare')}
                  </Button>
                  <Button small onClick={() => setReplaying(true)}>
                    <Play size={14} aria-hidden />
                    {t('Replay')}
                  </Button>
                  <Button small onClick={() => void exportSession(id)}>
                    <Download size={14} aria-hidden />
                    {t('Export')}
                  </Button>
                </div>
                <Tree data={data} chosen={chosen} choose={setChosen} />
              </div>
              {chosen && (
                <Details
                  key={chosen.id}
                  id={id}
                  node={chosen}
                  data={data}
                  writable={detail.data?.viewer_role === 'owner'}
                  close={() => setChosen(undefined)}
                />
              )}
              {comparing && <Compare id={id} data={data} close={() => setComparing(false)} />}
              {replaying && <Replay id={id} close={() => setReplaying(false)} />}
            </div>
          )}
        </Loaded>
      )}
    </SessionFrame>
  );
}

// titleOf is how a turn begins, without the marks of a heading, or what it has used.
const titleOf = (node: Node): string => node.label.replace(/^#{1,6} /, '') || node.tool_names.join(', ');

const branchName = (data: History, id: string): string => {
  const index = data.branches.findIndex((one) => one.branch_id === id);
  const branch = data.branches[index];
  if (!branch) return t('Branch');
  const reasons = { root: t('the first'), rewind: t('after a rewind'), whatif: t('what-if'), fork: t('forked') };
  return branch.name || t('Branch {number} ({origin})', { number: index + 1, origin: reasons[branch.reason] });
};

function Tree({ data, chosen, choose }: { data: History; chosen: Node | undefined; choose: (node: Node) => void }) {
  const { placed, lanes } = useMemo(() => lay(data.nodes), [data.nodes]);
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: placed.length,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    overscan: 20,
    useFlushSync: false,
  });
  const shown = virtual.getVirtualItems();
  const left = 16 + Math.min(lanes, 12) * laneWidth;
  const from = shown[0]?.index ?? 0;
  const to = shown.at(-1)?.index ?? 0;
  return (
    <div ref={box} className="min-h-0 flex-1 overflow-y-auto" tabIndex={0} role="region" aria-label={t('Turns of all branches')}>
      <div className="relative" style={{ height: virtual.getTotalSize() }}>
        <svg aria-hidden className="pointer-events-none absolute top-0 left-0 z-10" width={left} height={virtual.getTotalSize()}>
          {placed.filter((one) => one.row >= from && (one.parent?.row ?? one.row) <= to).map((one) => <Mark key={one.node.id} one={one} />)}
        </svg>
        {shown.map((item) => {
          const one = placed[item.index];
          if (!one) return null;
          const { node } = one;
          return (
            <button
              key={item.key}
              type="button"
              aria-pressed={chosen?.id === node.id}
              onClick={() => choose(node)}
              className={cn(
                'absolute inset-x-0 flex items-center gap-2 pr-3 text-left text-sm hover:bg-hover',
                chosen?.id === node.id && 'bg-hover',
                !node.on_active_branch && 'text-soft',
              )}
              style={{ top: item.start, height: rowHeight, paddingLeft: left }}
            >
              <span className="w-16 shrink-0 text-xs text-soft">
                {node.kind === 'compaction'
                  ? t('summary')
                  : node.role === 'user'
                    ? t('you')
                    : node.role === 'assistant'
                      ? t('agent')
                      : t('service')}
              </span>
              <span className={cn('min-w-0 flex-1 truncate', node.deprecated && 'line-through')} dir="auto">
                {titleOf(node) || '…'}
              </span>
              {node.is_head && node.on_active_branch && <Badge tone="accent">{t('now')}</Badge>}
              <span className="shrink-0 text-xs text-soft tabular-nums max-sm:hidden">
                {plural(node.tokens, '{count} token', '{count} tokens', { count: compact(node.tokens) })}
              </span>
            </button>
          );
        })}
      </div>
    </div>
  );
}

function Mark({ one }: { one: Placed }) {
  const x = 16 + Math.min(one.lane, 11) * laneWidth;
  const y = one.row * rowHeight + rowHeight / 2;
  const colour = one.node.on_active_branch ? 'var(--accent)' : 'var(--line-strong)';
  const px = one.parent && 16 + Math.min(one.parent.lane, 11) * laneWidth;
  const py = one.parent && one.parent.row * rowHeight + rowHeight / 2;
  return (
    <g>
      {px !== undefined && py !== undefined && (
        <path
          d={px === x ? `M${px} ${py}V${y}` : `M${px} ${py}V${y - rowHeight}Q${px} ${y} ${x} ${y}`}
          fill="none"
          stroke={colour}
          strokeWidth={1.5}
        />
      )}
      <circle
        cx={x}
        cy={y}
        r={one.node.role === 'user' ? 5 : 3.5}
        fill={one.node.role === 'user' ? colour : 'var(--bg)'}
        stroke={colour}
        strokeWidth={1.5}
      />
    </g>
  );
}

const maxQuoted = 50; // texts that are offered

/** laterTexts are what was said behind a turn of the active branch: another way leaves them behind, and may quote them. */
export function laterTexts({ session, state }: Followed, turn: string): { entry_id: string; text: string }[] {
  const at = state.turns.findIndex((one) => one.turn_id === turn);
  if (at < 0) return [];
  return state.turns
    .slice(at + 1)
    .map((one) => ({ entry_id: one.turn_id, text: session.view.text(one).trim() }))
    .filter((one) => one.text !== '')
    .slice(0, maxQuoted);
}

function Details({ id, node, data, writable, close }: { id: string; node: Node; data: History; writable: boolean; close: () => void }) {
  const navigate = useNavigate();
  const [asking, setAsking] = useState<'rewind' | 'whatif'>();
  const [message, setMessage] = useState('');
  const [quoted, setQuoted] = useState<readonly string[]>([]);
  const { followed } = useSession(id);
  const later = followed ? laterTexts(followed, node.turn_id) : [];
  const refresh = [['history', id], ['files', id], ['session', id], ['context', id]] as const;
  const state = useQuery({
    queryKey: ['history', id, 'checkout', node.checkpoint_id], enabled: node.checkpoint_id !== null,
    queryFn: ({ signal }) => api().checkout(id, { checkpoint_id: node.checkpoint_id ?? '' }, { signal }),
  });
  const back = useAction((checkpoint: string) => api().switchBranch(id, { checkpoint_id: checkpoint }), {
    done: t('You are back at the previous state.'),
    refresh,
  });
  const rewind = useAction(() => api().rewind(id, { checkpoint_id: node.checkpoint_id ?? '' }), { refresh });
  const switchTo = useAction(() => api().switchBranch(id, { checkpoint_id: node.checkpoint_id ?? '' }), {
    done: t('The branch was changed.'),
    refresh,
  });
  const whatif = useAction(async () => {
    if (!followed) return;
    const quotes = later.filter((one) => quoted.includes(one.entry_id));
    await followed.session.send(message.trim(), { whatif: { from_step: node.step, ...(quotes.length > 0 ? { quotes } : {}) } });
    await navigate({ to: '/s/$sessionId', params: { sessionId: id } });
  }, { refresh });
  const changed = state.data?.files.filter((file) => file.change !== 'unchanged') ?? [];
  return (
    <aside
      aria-label={t('Chosen turn')}
      className="flex w-96 shrink-0 flex-col gap-3 overflow-y-auto border-l p-4 text-sm max-md:max-h-[55%] max-md:w-full max-md:border-t
        max-md:border-l-0"
    >
      <div className="flex items-start gap-2">
        <h2 className="min-w-0 flex-1 font-semibold break-words" dir="auto">
          {titleOf(node) || t('Turn')}
        </h2>
        <Button small look="ghost" onClick={close}>
          {t('Close')}
        </Button>
      </div>
      <p className="text-soft">
        {[branchName(data, node.branch_id), dateTime(node.created_at), t('step {step}', { step: node.step })].join(' · ')}
      </p>
      {writable && (
        <div className="flex flex-wrap gap-2">
          {node.checkpoint_id && node.on_active_branch && (
            <Button small onClick={() => setAsking('rewind')}>
              <Undo2 size={14} aria-hidden />
              {t('Go back to here')}
            </Button>
          )}
          {node.on_active_branch && (
            <Button small onClick={() => setAsking('whatif')}>
              <GitBranch size={14} aria-hidden />
              {t('Try another way')}
            </Button>
          )}
          {node.checkpoint_id && !node.on_active_branch && (
            <Button small busy={switchTo.isPending} onClick={() => switchTo.mutate()}>
              <GitBranch size={14} aria-hidden />
              {t('Switch to this branch')}
            </Button>
          )}
        </div>
      )}
      {node.checkpoint_id === null ? (
        <p className="text-soft">{t('There is no checkpoint here.')}</p>
      ) : (
        <Loaded query={state}>
          {(found) => (
            <section aria-label={t('Files of the checkpoint')}>
              <h3 className="mb-1 font-medium">{node.role === 'user' ? t('Files before this message') : t('Files after this turn')}</h3>
              <p className="mb-1 text-xs text-soft">
                {plural(found.files.length, '{count} file', '{count} files')};{' '}
                {changed.length === 0
                  ? t('no changes since the previous point')
                  : plural(changed.length, '{count} changed since the previous point', '{count} changed since the previous point')}
              </p>
              <ul className="space-y-0.5">
                {changed.slice(0, 200).map((file) => (
                  <li key={file.path} className="flex items-center gap-2">
                    <Badge tone={file.change === 'created' ? 'good' : file.change === 'deleted' ? 'bad' : 'accent'}>
                      {word(file.change)}
                    </Badge>
                    <span className="min-w-0 flex-1 truncate" title={file.path}>
                      <bdi>{visible(file.path)}</bdi>
                    </span>
                    <span className="text-xs text-soft">{bytes(file.size)}</span>
                  </li>
                ))}
              </ul>
            </section>
          )}
        </Loaded>
      )}
      {node.checkpoint_id !== null && <ChangedSince id={id} checkpoint={node.checkpoint_id} />}
      <FormDialog
        open={asking === 'rewind'}
        onOpenChange={() => setAsking(undefined)}
        title={t('Go back to here?')}
        confirm={t('Go back')}
        description={t(
          'Restores the conversation and the files to the state before this message. Later messages stay on their ' +
            'branch, so that you can return.',
        )}
        submit={async () => {
          const result = await rewind.mutateAsync();
          toast(
            t('Files restored: {restored}, removed: {deleted}.', { restored: result.files.restored, deleted: result.files.deleted }),
            'good',
            { label: t('Undo'), run: () => back.mutate(result.pre_rewind_checkpoint_id) },
          );
          await navigate({ to: '/s/$sessionId', params: { sessionId: id } });
        }}
      />
      <FormDialog
        open={asking === 'whatif'}
        onOpenChange={() => setAsking(undefined)}
        title={t('Branch off from here')}
        confirm={t('Try')}
        submit={() => whatif.mutateAsync()}
        description={t('A new branch starts after step {step}, with the files of that moment.', { step: node.step })}
      >
        <Field label={t('Message')} hint={t('Without one, the agent continues without asking.')}>
          {(ids) => <Area {...ids} value={message} onChange={(event) => setMessage(event.target.value)} autoFocus />}
        </Field>
        {later.length > 0 && (
          <fieldset className="min-w-0">
            <legend className="mb-1 text-sm font-medium">{t('Quote later messages')}</legend>
            <div className="max-h-48 space-y-1.5 overflow-y-auto rounded-md border p-2">
              {later.map(({ entry_id, text }) => (
                <Check
                  key={entry_id}
                  label={<span className="line-clamp-2 break-words" dir="auto">{visible(text.slice(0, 300))}</span>}
                  checked={quoted.includes(entry_id)}
                  onChange={() => setQuoted((all) => (all.includes(entry_id) ? all.filter((one) => one !== entry_id) : [...all, entry_id]))}
                />
              ))}
            </div>
          </fieldset>
        )}
      </FormDialog>
    </aside>
  );
}

// toolsOf names what a turn without a text has used.
const toolsOf = (data: History, turn: string): string => data.nodes.find((node) => node.turn_id === turn)?.tool_names.join(', ') ?? '';

function Compare({ id, data, close }: { id: string; data: History; close: () => void }) {
  const active = data.branches.find((one) => one.active);
  const [base, setBase] = useState(active?.base_branch_id ?? data.branches.find((one) => !one.active)?.branch_id ?? '');
  const [other, setOther] = useState(data.active_branch_id);
  const result = useQuery({
    queryKey: ['history', id, 'compare', base, other], enabled: base !== '' && base !== other,
    queryFn: ({ signal }) => api().compareBranches(id, { query: { base, other }, signal }),
  });
  const choice = (label: string, value: string, change: (value: string) => void) => (
    <Field label={label}>
      {(ids) => (
        <Select {...ids} value={value} onChange={(event) => change(event.target.value)}>
          {data.branches.map((one) => (
            <option key={one.branch_id} value={one.branch_id}>
              {branchName(data, one.branch_id)}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
  return (
    <Dialog open onOpenChange={close} wide title={t('Compare two branches')} description={t('The differences between the two.')}>
      <div className="mb-3 grid grid-cols-2 gap-3">
        {choice(t('One'), base, setBase)}
        {choice(t('The other'), other, setOther)}
      </div>
      {base === other ? (
        <p className="text-sm text-soft">{t('Choose two different branches.')}</p>
      ) : (
        <Loaded query={result}>
          {(found) => (
            <>
              <div className="grid gap-3 sm:grid-cols-2">
                {(
                  [
                    ['base', found.base],
                    ['other', found.other],
                  ] as const
                ).map(([side, one]) => (
                  <section key={side} aria-label={branchName(data, one.branch_id)} className="min-w-0 rounded-lg border p-3">
                    <h3 className="text-sm font-medium sm:hidden">{branchName(data, one.branch_id)}</h3>
                    <p className="mb-2 text-xs text-soft">
                      {[
                        plural(one.turns, '{count} turn', '{count} turns'),
                        plural(one.steps, '{count} step', '{count} steps'),
                        duration(one.duration_ms),
                        t('{input} in, {output} out', { input: compact(one.usage.input_tokens), output: compact(one.usage.output_tokens) }),
                        one.usage.cost_usd && cost(one.usage.cost_usd),
                      ]
                        .filter(Boolean)
                        .join(' · ')}
                    </p>
                    <ol className="space-y-1 text-sm">
                      {found.turns
                        .filter((turn) => turn.side === side)
                        .map((turn) => (
                          <li key={turn.turn_id} className="flex gap-2">
                            <span className="w-12 shrink-0 text-xs text-soft">{turn.role === 'user' ? t('you') : t('agent')}</span>
                            <span className="min-w-0 break-words" dir="auto">
                              {turn.label || toolsOf(data, turn.turn_id) || '…'}
                            </span>
                          </li>
                        ))}
                    </ol>
                  </section>
                ))}
              </div>
              <h3 className="mt-4 mb-1 text-sm font-medium">{t('Files, from one to the other')}</h3>
              {found.files.length === 0 ? (
                <p className="text-sm text-soft">{t('The files are the same.')}</p>
              ) : (
                <ul className="space-y-0.5 text-sm">
                  {found.files.map((file) => (
                    <li key={file.path} className="flex items-center gap-2">
                      <Badge tone={file.change === 'created' ? 'good' : file.change === 'deleted' ? 'bad' : 'accent'}>
                        {word(file.change)}
                      </Badge>
                      <bdi className="truncate">{visible(file.path)}</bdi>
                    </li>
                  ))}
                </ul>
              )}
            </>
          )}
        </Loaded>
      )}
    </Dialog>
  );
}

function Replay({ id, close }: { id: string; close: () => void }) {
  const navigate = useNavigate();
  const [speed, setSpeed] = useState<1 | 2 | 5>(2);
  const start = useAction(async () => {
    const { session_id } = await api().startReplay(id, { speed });
    await navigate({ to: '/s/$sessionId', params: { sessionId: session_id } });
  }, { refresh: [['sessions']] });
  return (
    <FormDialog
      open
      onOpenChange={close}
      title={t('Replay')}
      confirm={t('Play')}
      submit={() => start.mutateAsync()}
      description={t('Replays the recorded events in a new session. Nothing is executed.')}
    >
      <Field label={t('Speed')}>
        {(ids) => (
          <Select {...ids} value={speed} onChange={(event) => setSpeed(Number(event.target.value) as 1 | 2 | 5)}>
            <option value={1}>{t('as it was')}</option>
            <option value={2}>{t('2 times')}</option>
            <option value={5}>{t('5 times')}</option>
          </Select>
        )}
      </Field>
    </FormDialog>
  );
}

async function exportSession(id: string): Promise<void> {
  try {
    const answer = await api().exportSession(id, { timeoutMs: 600_000 });
    const named = /filename="?([^";]+)"?/.exec(answer.headers.get('content-disposition') ?? '')?.[1];
    save(named ?? 'session.zip', await answer.blob());
  } catch (error) {
    toast(errorText(error), 'bad');
  }
}
