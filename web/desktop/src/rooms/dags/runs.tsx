import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Play } from 'lucide-react';
import { useEffect, useMemo, useState } from 'react';
import { cn } from '../../lib/cn';
import { compact, cost, dateTime, duration } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction, usePages } from '../../lib/query';
import { word } from '../../lib/words';
import { Button } from '../../ui/button';
import { Dialog } from '../../ui/dialog';
import { Area, Field } from '../../ui/field';
import { Empty, Loaded, More } from '../../ui/page';
import { objectOf, State, usageText } from '../unattended/pieces';
import { type Graph, inputsOf } from './graph';
import { InputFields } from './input-fields';
import { fieldsOf, inputsFrom } from './inputs';

/** Start asks for the inputs of a run, and starts it. */
export function Start({ id, version, close }: { id: string; version: number; close: () => void }) {
  const document = useQuery({
    queryKey: ['dags', id, 'version', version],
    queryFn: ({ signal }) => api().getDagVersion(id, String(version), { signal }),
    staleTime: Infinity,
  });
  return (
    <Dialog open onOpenChange={close} title={t('Run version {version}', { version })} description={t('Available to its nodes as input.')}>
      <Forecast id={id} version={version} />
      <Loaded query={document}>{(found) => <Inputs id={id} graph={found.dag} close={close} />}</Loaded>
    </Dialog>
  );
}

// Forecast says what earlier runs took. Without any, it shows nothing.
function Forecast({ id, version }: { id: string; version: number }) {
  const forecast = useQuery({
    queryKey: ['dags', id, 'forecast', version],
    queryFn: ({ signal }) => api().forecastDagRun(id, { query: { version }, signal }),
  });
  const { runs = 0, duration_s: time, tokens, cost_usd: money } = forecast.data ?? {};
  const parts = [
    time && t('{median}, at most about {most}', { median: duration(time.median * 1000), most: duration(time.p90 * 1000) }),
    tokens && tokens.median > 0 && t('{amount} tokens', { amount: compact(tokens.median) }),
    money && money.median > 0 && cost(money.median),
  ].filter(Boolean);
  if (runs === 0 || parts.length === 0) return null;
  return (
    <p className="mb-3 rounded-md bg-panel px-3 py-2 text-sm" role="note">
      <span className="font-medium">{t('Expected:')}</span> {parts.join(' · ')}{' '}
      <span className="text-soft">{plural(runs, 'from {count} earlier run', 'from {count} earlier runs')}</span>
    </p>
  );
}

function Inputs({ id, graph, close }: { id: string; graph: Graph; close: () => void }) {
  const navigate = useNavigate();
  const fields = useMemo(() => fieldsOf(graph), [graph]);
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [raw, setRaw] = useState<string>();
  const form = inputsFrom(fields, texts);
  const read = raw === undefined ? { value: form.inputs } : objectOf(raw);
  const [shown, setShown] = useState(false); // errors of fields
  const start = useAction(async () => {
    if ('error' in read) return;
    const run = await api().createDagRun(id, { inputs: read.value ?? {} });
    close();
    await navigate({ to: '/dags/$dagId/runs/$runId', params: { dagId: id, runId: run.id } });
  }, { refresh: [['dags', id], ['dags', 'list'], ['dag-runs']] });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        setShown(true);
        if (raw !== undefined || Object.keys(form.errors).length === 0) start.mutate();
      }}
      className="space-y-3"
    >
      {raw !== undefined ? (
        <Field label={t('Inputs')} hint={t('A JSON object.')} error={'error' in read ? read.error : undefined}>
          {(ids) => (
            <Area
              {...ids}
              rows={6}
              className="font-mono text-xs"
              spellCheck={false}
              value={raw}
              onChange={(event) => setRaw(event.target.value)}
            />
          )}
        </Field>
      ) : fields.length === 0 ? (
        <p className="text-sm text-soft">{t('The start node declares no inputs.')}</p>
      ) : (
        <InputFields fields={fields} texts={texts} errors={shown ? form.errors : {}} change={setTexts} />
      )}
      <div className="flex items-center justify-end gap-2">
        <button
          type="button"
          className="mr-auto text-sm text-accent hover:underline"
          onClick={() => setRaw(raw === undefined ? JSON.stringify({ ...inputsOf(graph), ...form.inputs }, null, 2) : undefined)}
        >
          {raw === undefined ? t('As JSON') : t('As fields')}
        </button>
        <Button onClick={close}>{t('Cancel')}</Button>
        <Button type="submit" look="primary" busy={start.isPending} disabled={'error' in read}>
          {t('Start')}
        </Button>
      </div>
    </form>
  );
}

/** Runs lists the runs of a DAG. */
export function Runs({ id }: { id: string }) {
  const pages = usePages<Schemas['RunRecord']>(['dags', id, 'runs'], (query, signal) => api().listDagRuns(id, { query, signal }));
  const { refetch } = pages;
  const open = pages.items?.some((run) => ['pending', 'running', 'waiting'].includes(run.status)) ?? false;
  useEffect(() => {
    const timer = setInterval(() => void refetch(), open ? 3000 : 15_000);
    return () => clearInterval(timer);
  }, [open, refetch]);
  return (
    <div className="mx-auto max-w-4xl p-4">
      <Loaded
        query={pages}
        isEmpty={() => pages.items?.length === 0}
        empty={
          <Empty icon={<Play size={26} />} title={t('It has not run yet')}>
            {t('Publish a version, then run it. Follow each run here, node by node.')}
          </Empty>
        }
      >
        {() => <RunRows runs={pages.items ?? []} />}
      </Loaded>
      <More pages={pages} />
    </div>
  );
}

/** RunRows lists runs; `named` says of which DAG each is. */
export function RunRows({ runs, named }: { runs: readonly Schemas['RunRecord'][]; named?: boolean }) {
  return (
    <ul className="divide-y rounded-lg border bg-raised">
      {runs.map((run) => (
        <li key={run.id} className="relative flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-2 text-sm hover:bg-hover">
          <State value={run.status} />
          <Link
            to="/dags/$dagId/runs/$runId"
            params={{ dagId: run.prod_solution_id, runId: run.id }}
            className="min-w-0 truncate after:absolute after:inset-0"
          >
            {named && <bdi className="font-medium">{run.prod_solution_name} </bdi>}
            <time dateTime={run.created_at} className={cn(named && 'text-soft')}>{dateTime(run.created_at)}</time>
          </Link>
          <span className="text-soft">
            {[
              t('version {version}', { version: run.version }),
              run.node_id && t('only node {node}', { node: run.node_id }),
              run.retries > 0 && plural(run.retries, 'retried {count} time', 'retried {count} times'),
              run.trigger === 'subflow' && t('as a subflow'),
              run.waiting_reason !== 'none' && run.status === 'waiting' && t('waits: {reason}', { reason: word(run.waiting_reason) }),
            ]
              .filter(Boolean)
              .join(', ')}
          </span>
          <span className="flex-1" />
          <span className="text-xs text-soft">
            {[
              run.started_at && run.finished_at && duration(new Date(run.finished_at).getTime() - new Date(run.started_at).getTime()),
              usageText(run.usage),
            ]
              .filter(Boolean)
              .join(' · ')}
          </span>
          {run.error && <p className="w-full break-words text-bad">{run.error.message}</p>}
        </li>
      ))}
    </ul>
  );
}
