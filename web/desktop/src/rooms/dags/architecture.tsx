import { EverloopError, type Schemas } from '@everloop/sdk';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Bot, Boxes, Cloud, Database, Group, ListOrdered, Plus, Router, Server, Upload, User } from 'lucide-react';
import { type ComponentType, useEffect, useMemo, useState } from 'react';
import { plural, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button } from '../../ui/button';
import { Menu } from '../../ui/menu';
import { Badge, Empty } from '../../ui/page';
import { Canvas, type Look, type Mark } from './canvas';
import { ComponentForm } from './component-form';
import {
  type ComponentType as Type,
  componentNames,
  componentTypes,
  type Document,
  drawnOf,
  replacedComponent,
  withComponent,
  withLink,
} from './components';
import { useDraft } from './draft';
import type { Finding } from './graph';
import { JsonDialog } from './json-dialog';
import { Findings } from './node-form';
import { Publish } from './versions';

const icons: Record<Type, ComponentType<{ size?: number; className?: string }>> = {
  service: Server, agent: Bot, data_store: Database, queue: ListOrdered, gateway: Router, user: User, external: Cloud, group: Group,
};

const look = (type: string): Look => ({ icon: icons[type as Type] ?? Server, name: componentNames[type as Type] ?? type });

const none: Finding[] = [];

/** Architecture draws and edits what stands around a DAG: services, stores, people, and their links. */
export function Architecture({
  solution,
  document,
  readOnly,
}: {
  solution: string;
  document: Schemas['ArchitectureBody'];
  readOnly: boolean;
}) {
  const client = useQueryClient();
  const draft = useDraft(`architecture ${solution}`, document.version, document.architecture);
  const { content, dirty, stale, change } = draft;
  const [chosen, setChosen] = useState<string>();
  const [json, setJson] = useState(false);
  const [publishing, setPublishing] = useState(false);
  const findings = useFindings(solution, content);
  const drawn = useMemo(() => drawnOf(content), [content]);
  const marks = useMemo(
    () =>
      new Map<string, Mark>(content.nodes.map((node) => [node.id, { errors: findings.filter((one) => one.node_id === node.id).length }])),
    [content, findings],
  );
  const save = useAction(
    async (base: number) => {
      const saved = await api().saveArchitecture(solution, { base_version: base, architecture: content });
      draft.saved(saved.version, content);
      return saved;
    },
    { done: (saved) => t('Version {version} was saved.', { version: saved.version }), refresh: [['dags', solution]] },
  );
  const store = () =>
    save.mutate(draft.base, {
      onError: (error) => {
        if (error instanceof EverloopError && error.code === 'version_conflict')
          void client.invalidateQueries({ queryKey: ['dags', solution] });
      },
    });
  const node = content.nodes.find((one) => one.id === chosen);
  const published = document.published_version === document.version;
  const empty = content.nodes.length === 0;
  const add = (type: Type) => {
    const made = withComponent(content, type, node?.id);
    change(made.document);
    setChosen(made.id);
  };
  const edits = readOnly
    ? {}
    : {
        connect: (from: string, to: string) => change(withLink(content, from, to)),
        place: (id: string, position: { x: number; y: number }) => {
          const at = content.nodes.find((one) => one.id === id);
          if (at) change(replacedComponent(content, id, { ...at, position }));
        },
      };
  const adder = (
    <Menu
      align="start"
      trigger={
        <Button small>
          <Plus size={14} aria-hidden />
          {t('Component')}
        </Button>
      }
      items={componentTypes.map((type) => {
        const Icon = icons[type];
        return { label: componentNames[type], icon: <Icon size={15} />, run: () => add(type) };
      })}
    />
  );
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex flex-wrap items-center gap-1.5 border-b px-3 py-1.5">
        {!readOnly && adder}
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
          <Button small disabled={dirty || empty || published || findings.length > 0} onClick={() => setPublishing(true)}>
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
          <Canvas graph={drawn} label={t('Architecture')} look={look} marks={marks} chosen={chosen} choose={setChosen} {...edits} />
          {empty && (
            <div className="pointer-events-none absolute inset-0 grid place-items-center">
              <Empty icon={<Boxes size={28} />} title={t('The architecture is empty')}>
                {t('Draw the systems around the DAG: services, stores, queues and people, and how they are connected.')}
              </Empty>
            </div>
          )}
        </div>
        <aside
          aria-label={t('Component')}
          className="w-88 shrink-0 overflow-y-auto border-l p-4 max-md:w-full max-md:overflow-visible max-md:border-t max-md:border-l-0"
        >
          {node ? (
            <fieldset disabled={readOnly} className="min-w-0">
              <ComponentForm key={node.id} document={content} node={node} findings={findings} change={change} choose={setChosen} />
            </fieldset>
          ) : (
            <div className="space-y-4">
              {findings.length > 0 && <Findings list={findings} choose={setChosen} />}
              <ComponentList document={content} marks={marks} choose={setChosen} />
            </div>
          )}
        </aside>
      </div>
      {json && (
        <JsonDialog
          title={t('The architecture as JSON')}
          document={content}
          lists={['nodes']}
          readOnly={readOnly}
          close={() => setJson(false)}
          change={(next) => change({ ...next, nodes: next.nodes ?? [] })}
        />
      )}
      {publishing && <Publish id={solution} kind="architecture" version={document.version} close={() => setPublishing(false)} />}
    </div>
  );
}

// useFindings asks the service what is wrong, a moment after the last change.
function useFindings(solution: string, document: Document): Finding[] {
  const [asked, setAsked] = useState(document);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(document), 500);
    return () => clearTimeout(timer);
  }, [document]);
  const validation = useQuery({
    queryKey: ['architecture-validation', solution, asked],
    queryFn: ({ signal }) => api().validateArchitecture(solution, { architecture: asked }, { signal }),
    enabled: asked.nodes.length > 0,
    placeholderData: (was) => was,
    staleTime: 60_000,
    gcTime: 60_000,
  });
  return document.nodes.length > 0 ? validation.data?.errors ?? none : none;
}

function ComponentList({
  document,
  marks,
  choose,
}: {
  document: Document;
  marks: ReadonlyMap<string, Mark>;
  choose: (id: string) => void;
}) {
  if (document.nodes.length === 0) return null;
  return (
    <section aria-label={t('Components')}>
      <h2 className="mb-1 text-sm font-semibold">{t('Components')}</h2>
      <ul className="space-y-px">
        {document.nodes.map((node) => {
          const Icon = icons[node.type];
          const errors = marks.get(node.id)?.errors ?? 0;
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
                {errors > 0 && <Badge tone="bad">{plural(errors, '{count} error', '{count} errors')}</Badge>}
              </button>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
