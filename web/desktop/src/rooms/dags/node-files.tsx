import { Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { rich, t } from '../../lib/i18n';
import { Button, IconButton } from '../../ui/button';
import { Area, Field, Input, Select } from '../../ui/field';
import { linesOf } from '../unattended/pieces';
import type { Graph, Node } from './graph';
import { before } from './inputs';

type InputFiles = NonNullable<Node['inputs_files']>[number];

/** hasFiles reports whether a node, or each item of a map, works in a workspace. */
export const hasFiles = (node: Node): boolean =>
  ['agent', 'tool', 'code'].includes(node.type) || (node.type === 'map' && !node.config?.prod_solution_id);

/** NodeFiles edits the files that a node passes on and is given, and whose workspace it works in. */
export function NodeFiles({ graph, node, change }: {
  graph: Graph; node: Node; change: <Key extends 'outputs' | 'inputs_files' | 'workspace'>(key: Key, value: Node[Key] | undefined) => void;
}) {
  const [open] = useState(node.outputs !== undefined || Boolean(node.inputs_files?.length) || Boolean(node.workspace)); // at first
  const [text, setText] = useState(node.outputs?.files?.join('\n') ?? '');
  const earlier = before(graph, node.id).map((id) => graph.nodes?.find((one) => one.id === id)).filter((one) => one !== undefined);
  const givers = earlier.filter((one) => (one.outputs?.files ?? []).length > 0);
  const shared = earlier.filter((one) => ['agent', 'tool', 'code'].includes(one.type));
  const given = node.inputs_files ?? [];
  const put = (next: InputFiles[]) => change('inputs_files', next.length > 0 ? next : undefined);
  const set = (index: number, part: Partial<InputFiles>) => put(given.map((one, at) => (at === index ? { ...one, ...part } : one)));
  return (
    <details className="rounded-lg border" open={open}>
      <summary className="cursor-pointer px-3 py-1.5 text-sm font-medium">{t('Files')}</summary>
      <div className="space-y-3 border-t p-3">
        <Field
          label={t('Output files')}
          hint={rich('Patterns, one per line, for example {example}. Later nodes can take these files.', {
            example: <code key="example">{'report/*.md'}</code>,
          })}
        >
          {(ids) => (
            <Area
              {...ids}
              rows={2}
              className="min-h-12 font-mono text-xs"
              spellCheck={false}
              value={text}
              onChange={(event) => {
                setText(event.target.value);
                const files = linesOf(event.target.value);
                change('outputs', files.length > 0 ? { ...node.outputs, files } : undefined);
              }}
            />
          )}
        </Field>
        <fieldset className="space-y-2">
          <legend className="text-sm font-medium">{t('Input files')}</legend>
          {given.map((one, index) => (
            <div key={index} className="flex items-start gap-1.5">
              <div className="grid min-w-0 flex-1 grid-cols-2 gap-1.5">
                <div className="col-span-2">
                  <NodeSelect
                    label={t('Node of input files {number}', { number: index + 1 })}
                    nodes={givers}
                    value={one.from}
                    empty={t('choose')}
                    change={(from) => set(index, { from })}
                  />
                </div>
                <Input
                  aria-label={t('Pattern of input files {number}', { number: index + 1 })}
                  placeholder={t('all files')}
                  spellCheck={false}
                  value={one.path ?? ''}
                  onChange={(event) => set(index, { path: event.target.value })}
                />
                <Input
                  aria-label={t('Destination of input files {number}', { number: index + 1 })}
                  placeholder={t('same place')}
                  spellCheck={false}
                  value={one.to ?? ''}
                  onChange={(event) => set(index, { to: event.target.value })}
                />
              </div>
              <IconButton
                small
                label={t('Remove input files {number}', { number: index + 1 })}
                onClick={() => put(given.filter((_, at) => at !== index))}
              >
                <Trash2 size={14} />
              </IconButton>
            </div>
          ))}
          {givers.length > 0 ? (
            <Button small onClick={() => put([...given, { from: givers[0]?.id ?? '' }])}>
              <Plus size={14} aria-hidden />
              {t('Add input files')}
            </Button>
          ) : (
            <p className="text-xs text-soft">{t('No earlier node has output files.')}</p>
          )}
        </fieldset>
        {node.type !== 'map' && (shared.length > 0 || node.workspace) && (
          <Field label={t('Workspace')} hint={t('The nodes of one workspace run one after another.')}>
            {(ids) => (
              <NodeSelect
                ids={ids}
                nodes={shared}
                value={node.workspace ?? ''}
                empty={t('its own')}
                change={(id) => change('workspace', id || undefined)}
              />
            )}
          </Field>
        )}
      </div>
    </details>
  );
}

function NodeSelect({ ids, label, nodes, value, empty, change }: {
  ids?: object; label?: string; nodes: readonly Node[]; value: string; empty: string; change: (id: string) => void;
}) {
  return (
    <Select {...ids} {...(label ? { 'aria-label': label } : {})} value={value} onChange={(event) => change(event.target.value)}>
      <option value="">{empty}</option>
      {value && !nodes.some((one) => one.id === value) && <option value={value}>{value}</option>}
      {nodes.map((one) => (
        <option key={one.id} value={one.id}>
          {one.name || one.id}
        </option>
      ))}
    </Select>
  );
}
