import { Plus, X } from 'lucide-react';
import { useState } from 'react';
import { t } from '../../lib/i18n';
import { Button, IconButton } from '../../ui/button';
import { Input, Select } from '../../ui/field';
import { type Edge, type Node, set } from './graph';

/** EdgeForm edits an edge that leaves a node. */
export function EdgeForm({
  edge,
  node,
  others,
  change,
  remove,
}: {
  edge: Edge;
  node: Node;
  others: Node[];
  change: (edge: Edge) => void;
  remove: () => void;
}) {
  const name = others.find((one) => one.id === edge.target);
  const label = name?.name || edge.target;
  return (
    <div role="group" aria-label={t('Edge to {label}', { label })} className="space-y-2 rounded-md border p-2">
      <div className="flex items-center gap-2">
        <Select aria-label={t('Target')} value={edge.target} onChange={(event) => change({ ...edge, target: event.target.value })}>
          {!name && <option value={edge.target}>{t('{name} (missing)', { name: edge.target })}</option>}
          {others.map((one) => (
            <option key={one.id} value={one.id}>
              {one.name || one.id}
            </option>
          ))}
        </Select>
        <IconButton small label={t('Remove the edge to {label}', { label })} onClick={remove}>
          <X size={14} />
        </IconButton>
      </div>
      <div className="flex flex-wrap gap-2">
        {node.on_error === 'route' && (
          <Select
            aria-label={t('Taken')}
            className="w-auto!"
            value={edge.kind === 'error' ? 'error' : ''}
            onChange={(event) => change(set(edge, 'kind', (event.target.value || undefined) as Edge['kind']))}
          >
            <option value="">{t('when it has worked')}</option>
            <option value="error">{t('when it has failed')}</option>
          </Select>
        )}
        {node.type === 'human' && (node.config?.options ?? []).length > 0 && (
          <Select
            aria-label={t('For the answer')}
            className="w-auto!"
            value={edge.source_handle ?? ''}
            onChange={(event) => change(set(edge, 'source_handle', event.target.value))}
          >
            <option value="">{t('any answer')}</option>
            {node.config?.options?.map((one) => (
              <option key={one} value={one}>
                {t('answer: {answer}', { answer: one })}
              </option>
            ))}
          </Select>
        )}
        <Input
          aria-label={t('Condition')}
          placeholder={t('Condition, for example {example}', { example: '{{nodes.a.output.score}} > 7' })}
          value={edge.condition ?? ''}
          onChange={(event) => change(set(edge, 'condition', event.target.value))}
          spellCheck={false}
          className="min-w-40 flex-1 font-mono text-xs"
        />
      </div>
    </div>
  );
}

/** NextNode adds an edge to another node. */
export function NextNode({ others, add }: { others: Node[]; add: (target: string) => void }) {
  const [target, setTarget] = useState('');
  if (others.length === 0) return null;
  return (
    <div className="flex items-center gap-2">
      <Select aria-label={t('Node to lead to')} value={target} onChange={(event) => setTarget(event.target.value)}>
        <option value="">{t('choose a node')}</option>
        {others.map((one) => (
          <option key={one.id} value={one.id}>
            {one.name || one.id}
          </option>
        ))}
      </Select>
      <Button
        small
        disabled={!target}
        onClick={() => {
          add(target);
          setTarget('');
        }}
      >
        <Plus size={13} aria-hidden />
        {t('Edge')}
      </Button>
    </div>
  );
}
