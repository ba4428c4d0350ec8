import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { FormDialog } from '../../ui/dialog';
import { Area, Field } from '../../ui/field';
import { objectOf } from '../unattended/pieces';
import type { Graph } from './graph';
import { before, valueOf } from './inputs';

/** RunNode runs one node, with outputs of the nodes before it that are entered here or that an earlier run has. */
export function RunNode({ solution, graph, version, node, close }: {
  solution: string; graph: Graph; version: number; node: string; close: () => void;
}) {
  const navigate = useNavigate();
  const [inputs, setInputs] = useState('');
  const [outputs, setOutputs] = useState<Record<string, string>>({});
  const read = objectOf(inputs);
  const run = useAction(async () => {
    if ('error' in read) throw new Error(read.error);
    const given = Object.entries(outputs).filter(([, text]) => text.trim() !== '').map(([id, text]) => [id, valueOf(text)] as const);
    const started = await api().runDagNode(solution, node, { version, inputs: read.value, outputs: Object.fromEntries(given) });
    await navigate({ to: '/dags/$dagId/runs/$runId', params: { dagId: solution, runId: started.id } });
  }, { refresh: [['dags', solution], ['dag-runs']] });
  return (
    <FormDialog
      open
      onOpenChange={close}
      title={t('Run only node {node}', { node })}
      description={t('It is given outputs of the nodes before it. What you leave empty is taken from the newest run that has it.')}
      confirm={t('Start')}
      submit={() => run.mutateAsync()}
    >
      {before(graph, node).map((id) => (
        <Field key={id} label={t('Output of {title}', { title: id })} hint={t('Text or JSON.')}>
          {(ids) => (
            <Area
              {...ids}
              rows={2}
              className="min-h-12 font-mono text-xs"
              spellCheck={false}
              value={outputs[id] ?? ''}
              onChange={(event) => setOutputs({ ...outputs, [id]: event.target.value })}
            />
          )}
        </Field>
      ))}
      <Field label={t('Inputs of the run')} hint={t('A JSON object. Empty: those of that run.')} error={'error' in read ? read.error : undefined}>
        {(ids) => (
          <Area
            {...ids}
            rows={3}
            className="font-mono text-xs"
            spellCheck={false}
            value={inputs}
            onChange={(event) => setInputs(event.target.value)}
          />
        )}
      </Field>
    </FormDialog>
  );
}
