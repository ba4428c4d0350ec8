import type { Schemas } from '@everloop/sdk';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { ChevronRight, Download, RotateCcw, Square, X } from 'lucide-react';
import { useEffect, useMemo, useState } from 'react';
import { bytes, dateTime, duration } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { answering, questionOf, useInbox } from '../../lib/inbox';
import { api, invalidate, useAction } from '../../lib/query';
import { save } from '../../lib/save';
import { word } from '../../lib/words';
import { Button, IconButton } from '../../ui/button';
import { Code } from '../../ui/code';
import { FormDialog } from '../../ui/dialog';
import { Prose } from '../../ui/markdown';
import { Failure, Loaded } from '../../ui/page';
import { QuestionForm } from '../chat/questions';
import { Facts, jsonText, SessionLink, State, usageText } from '../unattended/pieces';
import { Canvas, type Mark, typeIcons } from './canvas';
import { type Graph, typeNames } from './graph';

type Run = Schemas['DagRunBody'];
type NodeRun = Schemas['NodeRecord'];

const over = (run: Run): boolean => run.status === 'completed' || run.status === 'failed' || run.status === 'cancelled';

/** took is how long something lasted; of what works, until now. */
export function took(of: { started_at: string | null; finished_at: string | null }, now = Date.now()): string {
  if (!of.started_at) return '';
  return duration(Math.max(0, (of.finished_at ? new Date(of.finished_at).getTime() : now) - new Date(of.started_at).getTime()));
}

/** DagRun follows a run: what each node does and has given. */
export default function DagRun() {
  const { dagId, runId } = useParams({ strict: false }) as { dagId: string; runId: string };
  const key = ['dags', dagId, 'run', runId];
  const run = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => api().getDagRun(dagId, runId, { signal }),
    refetchInterval: ({ state }) => (state.data && over(state.data) ? false : 5000),
  });
  const solution = useQuery({ queryKey: ['dags', dagId], queryFn: ({ signal }) => api().getProdSolution(dagId, { signal }) });
  const version = run.data?.version;
  const document = useQuery({
    queryKey: ['dags', dagId, 'version', version],
    enabled: version !== undefined,
    queryFn: ({ signal }) => api().getDagVersion(dagId, String(version), { signal }),
    staleTime: Infinity,
  });
  const [chosen, setChosen] = useState<string>();
  const [asking, setAsking] = useState(false);
  const refresh = [['dags', dagId]];
  const cancel = useAction(() => api().cancelDagRun(dagId, runId), { done: t('The run is being stopped.'), refresh });
  const retry = useAction((from: string | undefined) => api().retryDagRun(dagId, runId, from === undefined ? {} : { from_node_id: from }), {
    done: t('The run begins again.'),
    refresh,
  });
  const open = run.data !== undefined && !over(run.data);
  useProgress(dagId, runId, open);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <header className="room-header flex min-h-12 flex-wrap items-center gap-2 border-b py-1.5 pr-3 pl-4">
        <h1 className="flex min-w-32 flex-1 items-center gap-1 text-base font-semibold">
          <Link to="/dags" className="shrink-0 text-soft hover:text-ink hover:underline max-sm:hidden">
            {t('DAGs')}
          </Link>
          <ChevronRight size={14} className="shrink-0 text-soft max-sm:hidden" aria-hidden />
          <Link to="/dags/$dagId" params={{ dagId }} className="min-w-0 truncate text-soft hover:text-ink hover:underline" dir="auto">
            {solution.data?.name ?? '…'}
          </Link>
          <ChevronRight size={14} className="shrink-0 text-soft" aria-hidden />
          <span className="shrink-0">{t('Run')}</span>
        </h1>
        {run.data && (
          <span role="status">
            <State value={run.data.status} />
          </span>
        )}
        {open && (
          <Button small onClick={() => setAsking(true)}>
            <Square size={12} fill="currentColor" aria-hidden />
            {t('Stop')}
          </Button>
        )}
        {run.data && (run.data.status === 'failed' || run.data.status === 'cancelled') && (
          <Button small busy={retry.isPending} onClick={() => retry.mutate(undefined)}>
            <RotateCcw size={14} aria-hidden />
            {t('Retry')}
          </Button>
        )}
      </header>
      <div className="min-h-0 flex-1">
        <Loaded query={run}>
          {(found) => (
            <Loaded query={document}>
              {({ dag }) => (
                <Shown
                  dag={dagId}
                  graph={dag}
                  run={found}
                  chosen={chosen}
                  choose={setChosen}
                  retry={over(found) && found.status !== 'completed' ? (node) => retry.mutate(node) : undefined}
                />
              )}
            </Loaded>
          )}
        </Loaded>
      </div>
      <FormDialog
        open={asking}
        onOpenChange={setAsking}
        danger
        title={t('Stop the run?')}
        confirm={t('Stop')}
        submit={() => cancel.mutateAsync()}
        description={t('Stops its nodes. You can retry the run; existing outputs are reused.')}
      />
    </div>
  );
}

// useProgress reads the run again when its stream says that something has changed.
function useProgress(dag: string, run: string, open: boolean): void {
  const client = useQueryClient();
  useEffect(() => {
    if (!open) return undefined;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const changed = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        void invalidate(client, ['dags', dag, 'run', run]);
        void invalidate(client, ['inbox']);
      }, 150);
    };
    const follow = async () => {
      try {
        for await (const _ of api().streamDagRun(dag, run, { signal: abort.signal })) changed();
        changed();
      } catch {
        // The run is read every few seconds, also without its stream.
      }
    };
    void follow();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [client, dag, run, open]);
}

function Shown({
  dag,
  graph,
  run,
  chosen,
  choose,
  retry,
}: {
  dag: string;
  graph: Graph;
  run: Run;
  chosen: string | undefined;
  choose: (id: string | undefined) => void;
  retry: ((node: string) => void) | undefined;
}) {
  const [now, setNow] = useState(Date.now());
  const working = !over(run);
  useEffect(() => {
    if (!working) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [working]);
  const records = useMemo(() => new Map(run.nodes.filter((one) => one.item === undefined).map((one) => [one.node_id, one])), [run.nodes]);
  const marks = useMemo(
    () =>
      new Map<string, Mark>(
        (graph.nodes ?? []).map(({ id }) => {
          const record = records.get(id);
          const items = record?.items ? `${record.items.completed + record.items.failed}/${record.items.total}` : '';
          return [id, { status: record?.status ?? 'pending', note: items || (record ? took(record, now) : '') }];
        }),
      ),
    [graph.nodes, records, now],
  );
  const sessions = new Set(run.nodes.map((one) => one.session_id));
  const inbox = useInbox(working ? 3000 : 30_000);
  const questions = working ? (inbox.data?.items ?? []).filter((one) => one.run_id === run.id || sessions.has(one.session_id)) : [];
  const record = chosen === undefined ? undefined : records.get(chosen);
  const node = graph.nodes?.find((one) => one.id === chosen);
  return (
    <div className="flex h-full min-h-0 max-md:flex-col max-md:overflow-y-auto">
      <div className="min-h-60 min-w-0 flex-1 max-md:flex-none max-md:basis-[42dvh]">
        <Canvas graph={graph} marks={marks} chosen={chosen} choose={choose} />
      </div>
      <aside
        aria-label={t('Progress')}
        className="w-96 shrink-0 space-y-4 overflow-y-auto border-l p-4 text-sm max-md:w-full max-md:overflow-visible max-md:border-t
          max-md:border-l-0"
      >
        {questions.map((item) => (
          <QuestionForm key={item.question_id} question={questionOf(item)} session={answering([['dags', dag]])} />
        ))}
        {node ? (
          <NodeDetails
            key={node.id}
            dag={dag}
            run={run}
            node={node.id}
            name={node.name || node.id}
            type={typeNames[node.type]}
            record={record}
            now={now}
            close={() => choose(undefined)}
            retry={retry}
          />
        ) : (
          <>
            {run.error && <Failure error={new Error(run.error.message)} />}
            <Facts
              list={[
                [t('Version'), String(run.version)],
                [t('Begun'), run.started_at && dateTime(run.started_at)],
                [t('Took'), took(run, now)],
                [t('Waits'), run.waiting_reason !== 'none' && working && word(run.waiting_reason)],
                [t('Retried'), run.retries > 0 && plural(run.retries, '{count} time', '{count} times')],
                [t('Used'), usageText(run.usage)],
              ]}
            />
            <section aria-label={t('Nodes')}>
              <h2 className="mb-1 font-semibold">{t('Nodes')}</h2>
              <ul className="space-y-px">
                {graph.nodes?.map((one) => {
                  const Icon = typeIcons[one.type];
                  const mark = marks.get(one.id);
                  return (
                    <li key={one.id}>
                      <button
                        type="button"
                        className="flex w-full items-center gap-2 rounded-md px-2 py-1 text-left hover:bg-hover"
                        onClick={() => choose(one.id)}
                      >
                        <Icon size={15} className="shrink-0 text-soft" />
                        <span className="min-w-0 flex-1 truncate" dir="auto">
                          {one.name || one.id}
                        </span>
                        <span className="text-xs text-soft tabular-nums">{mark?.note}</span>
                        <State value={mark?.status ?? 'pending'} />
                      </button>
                    </li>
                  );
                })}
              </ul>
            </section>
            <Value title={t('Inputs')} value={run.inputs} />
            {run.status === 'completed' && <Value title={t('Outputs')} value={run.outputs} />}
          </>
        )}
      </aside>
    </div>
  );
}

function NodeDetails({
  dag,
  run,
  node,
  name,
  type,
  record,
  now,
  close,
  retry,
}: {
  dag: string;
  run: Run;
  node: string;
  name: string;
  type: string;
  record: NodeRun | undefined;
  now: number;
  close: () => void;
  retry: ((node: string) => void) | undefined;
}) {
  return (
    <>
      <div className="flex items-center gap-2">
        <h2 className="min-w-0 flex-1 truncate font-semibold" dir="auto">
          {name}
        </h2>
        <State value={record?.status ?? 'pending'} />
        <IconButton small label={t('Close the node')} onClick={close}>
          <X size={15} />
        </IconButton>
      </div>
      <Facts
        list={[
          [t('Type'), type],
          [t('Begun'), record?.started_at && dateTime(record.started_at)],
          [t('Took'), record && took(record, now)],
          [t('Attempt'), record && record.attempt > 1 && String(record.attempt)],
          [t('Waits'), record?.status === 'waiting' && word(record.waiting_reason)],
          [
            t('Output'),
            record?.reuse_reason &&
              (record.reused_from ? t('used again: {reason}', { reason: word(record.reuse_reason) }) : word(record.reuse_reason)),
          ],
          [t('Used'), record && usageText(record.usage)],
          [t('Session'), record?.session_id && <SessionLink id={record.session_id} label={t('Open the session')} />],
          [t('Run'), record?.child_run_id && <span className="break-all">{record.child_run_id}</span>],
        ]}
      />
      {record?.error && <Failure error={new Error(`${record.error.message} (${record.error.code})`)} />}
      {retry && (
        <Button small onClick={() => retry(node)}>
          <RotateCcw size={14} aria-hidden />
          {t('Retry from here')}
        </Button>
      )}
      {record?.items && <Items dag={dag} run={run} node={node} />}
      {record && (record.files ?? []).length > 0 && <OutputFiles dag={dag} run={run.id} record={record} />}
      {record && record.outputs !== null && record.outputs !== undefined && <Value title={t('Output')} value={record.outputs} />}
    </>
  );
}

function OutputFiles({ dag, run, record }: { dag: string; run: string; record: NodeRun }) {
  const fetched = useAction(async ({ path, item }: Schemas['OutputFile']) => {
    const answer = await api().readDagRunFile(dag, run, record.node_id, path, {
      query: item === undefined ? {} : { item }, timeoutMs: 600_000,
    });
    save(path.split('/').at(-1) ?? 'file', await answer.blob());
  });
  return (
    <section aria-label={t('Output files')}>
      <h3 className="mb-1 font-medium">{t('Output files')}</h3>
      <ul className="divide-y rounded-md border">
        {record.files?.map((file) => (
          <li key={`${file.item ?? ''}:${file.path}`} className="flex items-center gap-2 px-2 py-1">
            {file.item !== undefined && <span className="w-6 shrink-0 text-soft tabular-nums">{file.item}</span>}
            <span className="min-w-0 flex-1 break-all">{file.path}</span>
            <span className="shrink-0 text-xs text-soft">{bytes(file.size)}</span>
            <IconButton small label={t('Download {name}', { name: file.path })} onClick={() => fetched.mutate(file)}>
              <Download size={14} />
            </IconButton>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Items({ dag, run, node }: { dag: string; run: Run; node: string }) {
  const items = useQuery({
    queryKey: ['dags', dag, 'run', run.id, 'items', node],
    queryFn: ({ signal }) => api().listDagRunItems(dag, run.id, node, { query: { limit: 200 }, signal }),
    refetchInterval: over(run) ? false : 4000,
  });
  return (
    <section aria-label={t('Items')}>
      <h3 className="mb-1 font-medium">{t('Items')}</h3>
      <Loaded query={items}>
        {(data) => (
          <>
            <ul className="space-y-1">
              {data.items.map((one) => (
                <li key={one.run_node_id} className="flex flex-wrap items-center gap-2">
                  <span className="w-8 text-soft tabular-nums">{one.item}</span>
                  <State value={one.status} />
                  {one.session_id && <SessionLink id={one.session_id} />}
                  <span className="min-w-0 flex-1 truncate text-soft">
                    {one.error?.message ?? (one.outputs === null ? '' : jsonText(one.outputs))}
                  </span>
                </li>
              ))}
            </ul>
            {data.total > data.items.length && <p className="text-soft">{t('{count} more', { count: data.total - data.items.length })}</p>}
          </>
        )}
      </Loaded>
    </section>
  );
}

function Value({ title, value }: { title: string; value: unknown }) {
  if (value === null || value === undefined || (typeof value === 'object' && Object.keys(value).length === 0)) return null;
  return (
    <section aria-label={title}>
      <h3 className="mb-1 font-medium">{title}</h3>
      {typeof value === 'string' ? (
        <div className="rounded-md border px-3 py-2">
          <Prose text={value} />
        </div>
      ) : (
        <Code text={jsonText(value)} language="json" label={title} />
      )}
    </section>
  );
}
