import { EverloopError, type Schemas } from '@everloop/sdk';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { Archive, Ellipsis, Pencil, Play, Plus, Sparkles, Trash2, Upload } from 'lucide-react';
import { useEffect, useMemo, useState } from 'react';
import { cn } from '../../lib/cn';
import { plural, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Area, Field, Input } from '../../ui/field';
import { Menu } from '../../ui/menu';
import { Badge, Empty, Loaded } from '../../ui/page';
import { Crumbs, Section, State, Tabs } from '../unattended/pieces';
import { Architecture } from './architecture';
import { Assistant } from './assistant';
import { Canvas, type Mark, typeIcons } from './canvas';
import { useDraft } from './draft';
import { added, connected, type Finding, type Graph, type NodeType, replaced, typeNames, types } from './graph';
import { JsonDialog } from './json-dialog';
import { Findings, NodeForm } from './node-form';
import { RunNode } from './run-node';
import { Runs, Start } from './runs';
import { Publish, Versions } from './versions';

type Solution = Schemas['ProdSolution'];
type Document = Schemas['GraphBody'];

/** Dag is a production solution: its DAG, its versions and its runs. */
export default function Dag() {
  const { dagId: id } = useParams({ strict: false }) as { dagId: string };
  const navigate = useNavigate();
  const solution = useQuery({ queryKey: ['dags', id], queryFn: ({ signal }) => api().getProdSolution(id, { signal }) });
  const [assisted, setAssisted] = useState(false);
  // The assistant saves versions while it is looked at.
  const refetchInterval = assisted ? 2500 : false;
  const document = useQuery({ queryKey: ['dags', id, 'document'], queryFn: ({ signal }) => api().getDag(id, { signal }), refetchInterval });
  const architecture = useQuery({
    queryKey: ['dags', id, 'architecture'],
    queryFn: ({ signal }) => api().getArchitecture(id, { signal }),
    refetchInterval,
  });
  const [tab, setTab] = useState('graph');
  const [asking, setAsking] = useState<'rename' | 'delete' | 'run'>();
  const remove = useAction(() => api().deleteProdSolution(id), { done: t('The DAG was deleted.'), refresh: [['dags', 'list']] });
  const archive = useAction((status: 'archived' | 'draft') => api().changeProdSolution(id, { status }), { refresh: [['dags']] });
  const archived = solution.data?.status === 'archived';
  return (
    <div className="flex h-full min-h-0 flex-col">
      <header className="room-header flex min-h-12 flex-wrap items-center gap-2 border-b py-1.5 pr-3 pl-4">
        <h1 className="min-w-32 flex-1 text-base font-semibold">
          <Crumbs to="/dags" label={t('DAGs')}>
            {solution.data?.name ?? '…'}
          </Crumbs>
        </h1>
        {solution.data && <State value={solution.data.status} />}
        <Button small aria-pressed={assisted} onClick={() => setAssisted(!assisted)}>
          <Sparkles size={14} aria-hidden />
          {t('Assistant')}
        </Button>
        <Button
          small
          look="primary"
          disabled={!solution.data?.dag.published_version || archived}
          onClick={() => setAsking('run')}
          title={solution.data?.dag.published_version ? undefined : t('Publish a version first')}
        >
          <Play size={14} aria-hidden />
          {t('Run|verb')}
        </Button>
        <Menu
          trigger={
            <IconButton label={t('Actions of the DAG')}>
              <Ellipsis size={16} />
            </IconButton>
          }
          items={[
            { label: t('Name and description'), icon: <Pencil size={15} />, run: () => setAsking('rename') },
            {
              label: archived ? t('Unarchive') : t('Archive'),
              icon: <Archive size={15} />,
              run: () => archive.mutate(archived ? 'draft' : 'archived'),
            },
            null,
            { label: t('Delete'), icon: <Trash2 size={15} />, danger: true, run: () => setAsking('delete') },
          ]}
        />
      </header>
      <div className="flex min-h-0 flex-1">
        <div className={cn('min-w-0 flex-1', assisted && 'max-lg:hidden')}>
          <Tabs
            label={t('Parts of the DAG')}
            value={tab}
            change={setTab}
            parts={[
              {
                id: 'graph',
                label: t('Graph'),
                content: <Loaded query={document}>{(found) => <Editor solution={id} document={found} readOnly={archived} />}</Loaded>,
              },
              {
                id: 'architecture',
                label: t('Architecture'),
                content: (
                  <Loaded query={architecture}>{(found) => <Architecture solution={id} document={found} readOnly={archived} />}</Loaded>
                ),
              },
              { id: 'runs', label: t('Runs'), content: <Runs id={id} /> },
              {
                id: 'versions',
                label: t('Versions'),
                content: (
                  <div className="mx-auto max-w-4xl space-y-6 p-4">
                    <Section title={t('DAG')}>
                      <Versions id={id} kind="dag" readOnly={archived} />
                    </Section>
                    <Section title={t('Architecture')}>
                      <Versions id={id} kind="architecture" readOnly={archived} />
                    </Section>
                  </div>
                ),
              },
            ]}
          />
        </div>
        {assisted && solution.data && <Assistant solution={solution.data} archived={archived} close={() => setAssisted(false)} />}
      </div>
      {asking === 'rename' && solution.data && <Rename solution={solution.data} close={() => setAsking(undefined)} />}
      {asking === 'run' && solution.data?.dag.published_version && (
        <Start id={id} version={solution.data.dag.published_version} close={() => setAsking(undefined)} />
      )}
      <FormDialog
        open={asking === 'delete'}
        onOpenChange={() => setAsking(undefined)}
        danger
        title={t('Delete the DAG?')}
        confirm={t('Delete')}
        description={t('Permanently deletes “{name}”, all its versions and its runs. The sessions of its nodes stay.', {
          name: solution.data?.name ?? '',
        })}
        submit={async () => {
          await remove.mutateAsync();
          await navigate({ to: '/dags' });
        }}
      />
    </div>
  );
}

const noFindings: Finding[] = [];

function Editor({ solution, document, readOnly }: { solution: string; document: Document; readOnly: boolean }) {
  const client = useQueryClient();
  const draft = useDraft(`dag ${solution}`, document.version, document.dag);
  const { content: graph, dirty, stale, change } = draft;
  const [chosen, setChosen] = useState<string>();
  const [json, setJson] = useState(false);
  const [publishing, setPublishing] = useState(false);
  const [running, setRunning] = useState<string>();
  const validation = useValidation(solution, graph);
  const errors = validation?.errors ?? noFindings;
  const warnings = validation?.warnings ?? noFindings;
  const marks = useMemo(() => {
    const map = new Map<string, Mark>();
    const source = (one: Finding) => one.node_id ?? graph.edges?.find((edge) => edge.id === one.edge_id)?.source;
    for (const node of graph.nodes ?? [])
      map.set(node.id, {
        errors: errors.filter((one) => source(one) === node.id).length,
        warnings: warnings.filter((one) => source(one) === node.id).length,
      });
    return map;
  }, [graph, errors, warnings]);

  const save = useAction(async (base: number) => {
    const saved = await api().saveDag(solution, { base_version: base, dag: graph });
    draft.saved(saved.version, graph);
    return saved;
  }, { done: (saved) => t('Version {version} was saved.', { version: saved.version }), refresh: [['dags', solution]] });
  const store = () =>
    save.mutate(draft.base, {
      onError: (error) => {
        if (error instanceof EverloopError && error.code === 'version_conflict')
          void client.invalidateQueries({ queryKey: ['dags', solution] });
      },
    });
  const node = graph.nodes?.find((one) => one.id === chosen);
  const add = (type: NodeType) => {
    const made = added(graph, type, chosen);
    change(made.graph);
    setChosen(made.id);
  };
  const published = document.published_version === document.version;
  const empty = (graph.nodes ?? []).length === 0;
  const all = [...errors, ...warnings];
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex flex-wrap items-center gap-1.5 border-b px-3 py-1.5">
        {!readOnly && (
          <Menu
            align="start"
            trigger={
              <Button small>
                <Plus size={14} aria-hidden />
                {t('Node')}
              </Button>
            }
            items={types.map((type) => {
              const Icon = typeIcons[type];
              return { label: typeNames[type], icon: <Icon size={15} />, run: () => add(type) };
            })}
          />
        )}
        <Button small onClick={() => setJson(true)}>
          {t('JSON')}
        </Button>
        <span className="min-w-0 flex-1 truncate px-1 text-sm text-soft" role="status">
          {!document.published_version
            ? t('Version {version}', { version: draft.base })
            : published && !dirty
              ? t('Version {version}, published', { version: draft.base })
              : t('Version {version}, published is {published}', { version: draft.base, published: document.published_version })}
          {dirty && <span className="text-warn"> · {t('not saved')}</span>}
        </span>
        {dirty && (
          <Button small look="ghost" onClick={draft.discard}>
            {t('Discard')}
          </Button>
        )}
        {!readOnly && (
          <Button small look={dirty ? 'primary' : 'plain'} disabled={!dirty || stale} busy={save.isPending} onClick={store}>
            {t('Save')}
          </Button>
        )}
        {!readOnly && (
          <Button small disabled={dirty || empty || published || errors.length > 0} onClick={() => setPublishing(true)}>
            <Upload size={14} aria-hidden />
            {t('Publish')}
          </Button>
        )}
      </div>
      {dirty && stale && (
        <div role="alert" className="flex flex-wrap items-center gap-2 bg-warn-soft px-3 py-1.5 text-sm text-warn">
          <span className="min-w-0 flex-1">
            {t('Version {version} was saved in the meantime; yours is based on {base}.', { version: document.version, base: draft.base })}
          </span>
          <Button small onClick={draft.discard}>
            {t('Take theirs')}
          </Button>
          <Button small look="danger" busy={save.isPending} onClick={() => save.mutate(document.version)}>
            {t('Save mine over it')}
          </Button>
        </div>
      )}
      <div className="flex min-h-0 flex-1 max-md:flex-col max-md:overflow-y-auto">
        <div className="relative min-h-72 min-w-0 flex-1 max-md:flex-none max-md:basis-[50dvh]">
          <Canvas
            graph={graph}
            marks={marks}
            chosen={chosen}
            choose={setChosen}
            {...(readOnly
              ? {}
              : {
                  connect: (from: string, to: string) => change(connected(graph, from, to)),
                  place: (id: string, position: { x: number; y: number }) => {
                    const at = graph.nodes?.find((one) => one.id === id);
                    if (at) change(replaced(graph, id, { ...at, position }));
                  },
                })}
          />
          {empty && (
            <div className="pointer-events-none absolute inset-0 grid place-items-center">
              <div className="pointer-events-auto">
                <Empty
                  title={t('The DAG is empty')}
                  action={
                    readOnly ? undefined : (
                      <Button
                        look="primary"
                        onClick={() => {
                          change(example);
                          setChosen('work');
                        }}
                      >
                        {t('Begin with an example')}
                      </Button>
                    )
                  }
                >
                  {t('Add nodes and connect them. A run starts at the start node and finishes at an end node.')}
                </Empty>
              </div>
            </div>
          )}
        </div>
        <aside
          aria-label={t('Node')}
          className="w-88 shrink-0 overflow-y-auto border-l p-4 max-md:w-full max-md:shrink-0 max-md:overflow-visible max-md:border-t
            max-md:border-l-0"
        >
          {node ? (
            <fieldset disabled={readOnly} className="min-w-0">
              <NodeForm key={node.id} solution={solution} graph={graph} node={node} findings={all} change={change} choose={setChosen} />
              {!['start', 'end', 'join'].includes(node.type) && (
                <div className="mt-4 border-t pt-3">
                  <Button small disabled={dirty || errors.length > 0} onClick={() => setRunning(node.id)}>
                    <Play size={14} aria-hidden />
                    {t('Run only this node')}
                  </Button>
                  {dirty && <p className="mt-1 text-xs text-soft">{t('Save the DAG first.')}</p>}
                </div>
              )}
            </fieldset>
          ) : (
            <div className="space-y-4">
              {all.length > 0 && <Findings list={all} choose={setChosen} />}
              {!empty && validation && errors.length === 0 && <p className="text-sm text-good">{t('The DAG is valid.')}</p>}
              <NodeList graph={graph} marks={marks} choose={setChosen} />
            </div>
          )}
        </aside>
      </div>
      {json && (
        <JsonDialog
          title={t('The DAG as JSON')}
          document={graph}
          lists={['nodes', 'edges']}
          readOnly={readOnly}
          change={change}
          close={() => setJson(false)}
        />
      )}
      {running !== undefined && (
        <RunNode solution={solution} graph={document.dag} version={document.version} node={running} close={() => setRunning(undefined)} />
      )}
      {publishing && <Publish id={solution} kind="dag" version={document.version} close={() => setPublishing(false)} />}
    </div>
  );
}

const example: Graph = {
  nodes: [
    { id: 'start', type: 'start', output_schema: { type: 'object', required: ['topic'], properties: { topic: { type: 'string' } } } },
    { id: 'work', type: 'agent', config: { prompt: t('Write a short note on {{input.topic}}.') } },
    { id: 'ask', type: 'human', config: { prompt: t('Is this good? {{nodes.work.output}}'), options: ['yes', 'no'] } },
    { id: 'end', type: 'end' },
  ],
  edges: [
    { id: 'start-work', source: 'start', target: 'work' },
    { id: 'work-ask', source: 'work', target: 'ask' },
    { id: 'ask-end', source: 'ask', target: 'end' },
  ],
};

// useValidation asks the service what is wrong, a moment after the last change.
function useValidation(solution: string, graph: Graph): Schemas['Validation'] | undefined {
  const [asked, setAsked] = useState(graph);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(graph), 500);
    return () => clearTimeout(timer);
  }, [graph]);
  const validation = useQuery({
    queryKey: ['dag-validation', solution, asked],
    queryFn: ({ signal }) => api().validateDag(solution, { dag: asked }, { signal }),
    enabled: (asked.nodes ?? []).length > 0,
    placeholderData: (was) => was,
    staleTime: 60_000,
    gcTime: 60_000,
  });
  return (graph.nodes ?? []).length > 0 ? validation.data : undefined;
}

function NodeList({ graph, marks, choose }: { graph: Graph; marks: ReadonlyMap<string, Mark>; choose: (id: string) => void }) {
  if ((graph.nodes ?? []).length === 0) return null;
  return (
    <section aria-label={t('Nodes')}>
      <h2 className="mb-1 text-sm font-semibold">{t('Nodes')}</h2>
      <ul className="space-y-px">
        {graph.nodes?.map((node) => {
          const Icon = typeIcons[node.type];
          return (
            <li key={node.id}>
              <button
                type="button"
                className="flex w-full items-center gap-2 rounded-md px-2 py-1 text-left text-sm hover:bg-hover"
                onClick={() => choose(node.id)}
              >
                <Icon size={15} className="shrink-0 text-soft" />
                <span className="min-w-0 flex-1 truncate" dir="auto">
                  {node.name || node.id}
                </span>
                {(marks.get(node.id)?.errors ?? 0) > 0 && (
                  <Badge tone="bad">{plural(marks.get(node.id)?.errors ?? 0, '{count} error', '{count} errors')}</Badge>
                )}
              </button>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Rename({ solution, close }: { solution: Solution; close: () => void }) {
  const [name, setName] = useState(solution.name);
  const [description, setDescription] = useState(solution.description);
  const save = useAction(() => api().changeProdSolution(solution.id, { name: name.trim(), description }), { refresh: [['dags']] });
  return (
    <FormDialog open onOpenChange={close} title={t('Name and description')} confirm={t('Save')} submit={() => save.mutateAsync()}>
      <Field label={t('Name')}>
        {(ids) => <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} required maxLength={128} autoFocus />}
      </Field>
      <Field label={t('Description')}>
        {(ids) => <Area {...ids} value={description} onChange={(event) => setDescription(event.target.value)} rows={3} dir="auto" />}
      </Field>
    </FormDialog>
  );
}
