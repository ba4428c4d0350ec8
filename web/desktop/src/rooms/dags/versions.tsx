import type { Body, CallOptions, Query, Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Ellipsis } from 'lucide-react';
import { useState } from 'react';
import { ago, dateTime } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction, usePages } from '../../lib/query';
import { IconButton } from '../../ui/button';
import { Code } from '../../ui/code';
import { Dialog, FormDialog } from '../../ui/dialog';
import { Field, Input } from '../../ui/field';
import { Menu } from '../../ui/menu';
import { Badge, Loaded, More } from '../../ui/page';

/** Kind is one of the two documents of a production solution; their operations are alike. */
export type Kind = 'dag' | 'architecture';

type Diff = CallOptions & { query: Query<'compare-dag-versions'> };
type List = CallOptions & { query: Query<'list-dag-versions'> };

/** Difference is between two versions; an architecture has its links in its components. */
interface Difference {
  nodes: Elements;
  edges?: Elements;
}

interface Elements {
  added: { id: string }[];
  removed: { id: string }[];
  changed: Schemas['ElementChange'][];
}

const operations = {
  dag: {
    list: (id: string, options: List) => api().listDagVersions(id, options),
    publish: (id: string, body: Body<'publish-dag'>) => api().publishDag(id, body),
    rollBack: (id: string, body: Body<'roll-back-dag'>) => api().rollBackDag(id, body),
    remove: (id: string, version: string) => api().deleteDagVersion(id, version),
    compare: (id: string, options: Diff): Promise<Difference> => api().compareDagVersions(id, options),
  },
  architecture: {
    list: (id: string, options: List) => api().listArchitectureVersions(id, options),
    publish: (id: string, body: { version?: number; message?: string }) => api().publishArchitecture(id, body),
    rollBack: (id: string, body: Body<'roll-back-architecture'>) => api().rollBackArchitecture(id, body),
    remove: (id: string, version: string) => api().deleteArchitectureVersion(id, version),
    compare: (id: string, options: Diff): Promise<Difference> => api().compareArchitectureVersions(id, options),
  },
};

/** Publish publishes the newest version of a document. */
export function Publish({ id, kind, version, close }: { id: string; kind: Kind; version: number; close: () => void }) {
  const [message, setMessage] = useState('');
  const publish = useAction(() => operations[kind].publish(id, { version, ...(message.trim() ? { message: message.trim() } : {}) }), {
    done: (made) => t('Version {version} is published.', { version: made.version }),
    refresh: [['dags']],
  });
  return (
    <FormDialog
      open
      onOpenChange={close}
      title={t('Publish version {version}', { version })}
      confirm={t('Publish')}
      submit={() => publish.mutateAsync()}
      description={kind === 'dag' ? t('New runs use the published version. Active runs keep their version.') : undefined}
    >
      <Field label={t('Message')}>
        {(ids) => <Input {...ids} value={message} onChange={(event) => setMessage(event.target.value)} maxLength={500} autoFocus />}
      </Field>
    </FormDialog>
  );
}

/** Versions lists the versions of a document, to publish, compare, go back to and delete. */
export function Versions({ id, kind, readOnly }: { id: string; kind: Kind; readOnly: boolean }) {
  const pages = usePages<Schemas['DocumentVersionItem']>(['dags', id, 'versions', kind], (query, signal) =>
    operations[kind].list(id, { query, signal }),
  );
  const refresh = [['dags', id], ['dags', 'list']];
  const [compared, setCompared] = useState<number>();
  const newest = pages.items?.[0]?.version ?? 0;
  const publish = useAction((version: number) => operations[kind].publish(id, { version }), {
    done: (made) => t('Version {version} is published.', { version: made.version }),
    refresh,
  });
  const back = useAction((version: number) => operations[kind].rollBack(id, { from_version: version }), {
    done: (made) => t('Version {version} restores the content of version {from}.', { version: made.version, from: made.from_version }),
    refresh,
  });
  const remove = useAction((version: number) => operations[kind].remove(id, String(version)), {
    done: t('The version was deleted.'),
    refresh,
  });
  return (
    <>
      <Loaded query={pages}>
        {() => (
          <ul className="divide-y rounded-lg border bg-raised">
            {pages.items?.map((one) => (
              <li key={one.version} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-2 text-sm">
                <span className="font-medium">{t('Version {version}', { version: one.version })}</span>
                {one.published && <Badge tone="good">{t('published')}</Badge>}
                <span className="min-w-0 flex-1 truncate text-soft" dir="auto">
                  {one.message}
                </span>
                <span className="text-xs text-soft">
                  {kind === 'dag'
                    ? plural(one.node_count, '{count} node', '{count} nodes')
                    : plural(one.node_count, '{count} component', '{count} components')}{' '}
                  {kind === 'dag' && ` · ${plural(one.runs, '{count} run', '{count} runs')}`} ·{' '}
                  <time dateTime={one.created_at} title={dateTime(one.created_at)}>
                    {ago(one.created_at)}
                  </time>
                </span>
                <Menu
                  trigger={
                    <IconButton small label={t('Actions of version {version}', { version: one.version })}>
                      <Ellipsis size={15} />
                    </IconButton>
                  }
                  items={[
                    { label: t('Compare with the newest'), run: () => setCompared(one.version), disabled: one.version === newest },
                    {
                      label: t('Publish'),
                      run: () => publish.mutate(one.version),
                      disabled: readOnly || one.published || one.node_count === 0,
                    },
                    {
                      label: t('Go back to this version'),
                      run: () => back.mutate(one.version),
                      disabled: readOnly || one.version === newest,
                    },
                    null,
                    {
                      label: t('Delete'),
                      danger: true,
                      run: () => remove.mutate(one.version),
                      disabled: readOnly || one.version === newest || one.published,
                    },
                  ]}
                />
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      <More pages={pages} />
      {compared !== undefined && <Compare id={id} kind={kind} from={compared} to={newest} close={() => setCompared(undefined)} />}
    </>
  );
}

const nothing: Elements = { added: [], removed: [], changed: [] };

function Compare({ id, kind, from, to, close }: { id: string; kind: Kind; from: number; to: number; close: () => void }) {
  const difference = useQuery({
    queryKey: ['dags', id, 'diff', kind, from, to],
    queryFn: ({ signal }) => operations[kind].compare(id, { query: { from, to }, signal }),
  });
  const part = (title: string, tone: 'good' | 'bad' | 'accent', list: { id: string; text?: string }[]) =>
    list.length > 0 && (
      <li key={title} className="space-y-1">
        {list.map((one) => (
          <div key={one.id}>
            <Badge tone={tone}>{title}</Badge> <code>{one.id}</code>
            {one.text && <Code text={one.text} language="json" className="mt-1" label={t('Changes of {id}', { id: one.id })} />}
          </div>
        ))}
      </li>
    );
  const changed = (list: Schemas['ElementChange'][]) =>
    list.map((one) => ({
      id: one.id,
      text: one.fields
        .map((field) => `${field.field}: ${JSON.stringify(field.from) ?? '–'} → ${JSON.stringify(field.to) ?? '–'}`)
        .join('\n'),
    }));
  return (
    <Dialog open onOpenChange={close} wide title={t('From version {from} to {to}', { from, to })}>
      <Loaded query={difference}>
        {({ nodes, edges = nothing }) => {
          const [added, removed, changedText] = kind === 'dag' ? [t('node added'), t('node removed'), t('node changed')]
            : [t('component added'), t('component removed'), t('component changed')];
          const some = [nodes.added, nodes.removed, nodes.changed, edges.added, edges.removed, edges.changed].some(
            (list) => list.length > 0,
          );
          if (!some) return <p className="text-sm text-soft">{t('They are the same.')}</p>;
          return (
            <ul className="space-y-2 text-sm">
              {part(added, 'good', nodes.added)}
              {part(removed, 'bad', nodes.removed)}
              {part(changedText, 'accent', changed(nodes.changed))}
              {part(t('edge added'), 'good', edges.added)}
              {part(t('edge removed'), 'bad', edges.removed)}
              {part(t('edge changed'), 'accent', changed(edges.changed))}
            </ul>
          );
        }}
      </Loaded>
    </Dialog>
  );
}
