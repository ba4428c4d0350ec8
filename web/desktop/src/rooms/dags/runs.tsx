import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Play } from 'lucide-react';
import { useEffect, useState } from 'react';
import { dateTime, duration } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction, usePages } from '../../lib/query';
import { Button } from '../../ui/button';
import { Dialog } from '../../ui/dialog';
import { Area, Field } from '../../ui/field';
import { Empty, Loaded, More } from '../../ui/page';
import { objectOf, State, usageText } from '../unattended/pieces';
import { type Graph, inputsOf } from './graph';

/** Start asks for the inputs of a run, and starts it. */
export function Start({ id, version, close }: { id: string; version: number; close: () => void }) {
  const document = useQuery({
    queryKey: ['dags', id, 'version', version],
    queryFn: ({ signal }) => api().getDagVersion(id, String(version), { signal }),
    staleTime: Infinity,
  });
  return (
    <Dialog open onOpenChange={close} title={t('Run version {version}', { version })} description={t('Available to its nodes as input.')}>
      <Loaded query={document}>{(found) => <Inputs id={id} graph={found.dag} close={close} />}</Loaded>
    </Dialog>
  );
}

function Inputs({ id, graph, close }: { id: string; graph: Graph; close: () => void }) {
  const navigate = useNavigate();
  const [text, setText] = useState(() => JSON.stringify(inputsOf(graph), null, 2));
  const read = objectOf(text);
  const fields = 'value' in read ? Object.entries(read.value ?? {}) : [];
  const simple = fields.length > 0 && fields.every(([, value]) => typeof value === 'string');
  const [raw, setRaw] = useState(!simple);
  const start = useAction(async () => {
    if ('error' in read) return;
    const run = await api().createDagRun(id, { inputs: read.value ?? {} });
    close();
    await navigate({ to: '/dags/$dagId/runs/$runId', params: { dagId: id, runId: run.id } });
  }, { refresh: [['dags', id], ['dags', 'list']] });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        start.mutate();
      }}
      className="space-y-3"
    >
      {!raw && simple ? (
        fields.map(([name, value]) => (
          <Field key={name} label={name}>
            {(ids) => (
              <Area
                {...ids}
                rows={1}
                className="min-h-9"
                required
                value={String(value)}
                onChange={(event) =>
                  setText(JSON.stringify({ ...('value' in read ? read.value : {}), [name]: event.target.value }, null, 2))
                }
                dir="auto"
              />
            )}
          </Field>
        ))
      ) : (
        <Field label={t('Inputs')} hint={t('A JSON object.')} error={'error' in read ? read.error : undefined}>
          {(ids) => (
            <Area
              {...ids}
              rows={6}
              className="font-mono text-xs"
              spellCheck={false}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          )}
        </Field>
      )}
      <div className="flex items-center justify-end gap-2">
        {simple && (
          <button type="button" className="mr-auto text-sm text-accent hover:underline" onClick={() => setRaw(!raw)}>
            {raw ? t('As fields') : t('As JSON')}
          </button>
        )}
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
        {() => (
          <ul className="divide-y rounded-lg border bg-raised">
            {pages.items?.map((run) => (
              <li key={run.id} className="relative flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-2 text-sm hover:bg-hover">
                <State value={run.status} />
                <Link to="/dags/$dagId/runs/$runId" params={{ dagId: id, runId: run.id }} className="after:absolute after:inset-0">
                  <time dateTime={run.created_at}>{dateTime(run.created_at)}</time>
                </Link>
                <span className="text-soft">
                  {[
                    t('version {version}', { version: run.version }),
                    run.retries > 0 && plural(run.retries, 'retried {count} time', 'retried {count} times'),
                    run.trigger === 'subflow' && t('as a subflow'),
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
        )}
      </Loaded>
      <More pages={pages} />
    </div>
  );
}
