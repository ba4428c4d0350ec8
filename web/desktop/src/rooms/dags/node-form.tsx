import { useQuery } from '@tanstack/react-query';
import { Trash2, X } from 'lucide-react';
import { type ReactNode, useId, useState } from 'react';
import { rich, t } from '../../lib/i18n';
import { api } from '../../lib/query';
import { IconButton } from '../../ui/button';
import { Area, Check, Field, Input, Select } from '../../ui/field';
import { linesOf, objectOf } from '../unattended/pieces';
import { EdgeForm, NextNode } from './edge-form';
import { connected, type Finding, type Graph, type Node, type NodeType, removed, replaced, set, typeNames, types } from './graph';
import { hasFiles, NodeFiles } from './node-files';

type Config = NonNullable<Node['config']>;

/** NodeForm edits a node, and the edges that leave it. What is wrong with it is said here. */
export function NodeForm({ solution, graph, node, findings, change, choose }: {
  solution: string; graph: Graph; node: Node; findings: Finding[]; change: (graph: Graph) => void; choose: (id: string | undefined) => void;
}) {
  const config = node.config ?? {};
  const put = (next: Node) => change(replaced(graph, node.id, next));
  const field = <Key extends keyof Node>(key: Key, value: Node[Key] | undefined | '') => put(set(node, key, value));
  const setting = <Key extends keyof Config>(key: Key, value: Config[Key] | undefined | '') =>
    put({ ...node, config: set(config, key, value) });
  const works = ['agent', 'tool', 'code', 'map', 'loop', 'subflow', 'human'].includes(node.type);
  const repeats = node.type === 'map' || node.type === 'loop';
  const others = (graph.nodes ?? []).filter((one) => one.id !== node.id);
  const edges = (graph.edges ?? []).filter((one) => one.source === node.id);
  const own = findings.filter((one) => one.node_id === node.id || edges.some((edge) => edge.id === one.edge_id));
  return (
    <div className="space-y-3">
      <div className="flex items-center gap-2">
        <h2 className="min-w-0 flex-1 truncate font-semibold" dir="auto">
          {node.name || node.id}
        </h2>
        <IconButton
          small
          label={t('Delete the node')}
          onClick={() => {
            change(removed(graph, node.id));
            choose(undefined);
          }}
        >
          <Trash2 size={14} />
        </IconButton>
        <IconButton small label={t('Close the node')} onClick={() => choose(undefined)}>
          <X size={15} />
        </IconButton>
      </div>
      {own.length > 0 && <Findings list={own} />}
      <div className="grid grid-cols-2 gap-3">
        <Field label={t('Id')}>
          {(ids) => (
            <IdInput
              ids={ids}
              id={node.id}
              taken={others.map((one) => one.id)}
              rename={(id) => {
                put({ ...node, id });
                choose(id);
              }}
            />
          )}
        </Field>
        <Field label={t('Type')}>
          {(ids) => (
            <Select {...ids} value={node.type} onChange={(event) => field('type', event.target.value as NodeType)}>
              {types.map((one) => (
                <option key={one} value={one}>
                  {typeNames[one]}
                </option>
              ))}
            </Select>
          )}
        </Field>
      </div>
      <Field label={t('Name')}>
        {(ids) => (
          <Input
            {...ids}
            value={node.name ?? ''}
            placeholder={node.id}
            onChange={(event) => field('name', event.target.value)}
            dir="auto"
          />
        )}
      </Field>

      {(node.type === 'agent' || node.type === 'human') && (
        <Field
          label={node.type === 'human' ? t('Question') : t('Prompt')}
          hint={rich('For example {first} or {second}.', {
            first: <code key="first">{'{{input.topic}}'}</code>,
            second: <code key="second">{'{{nodes.draft.output}}'}</code>,
          })}
        >
          {(ids) => (
            <Area {...ids} rows={4} value={config.prompt ?? ''} onChange={(event) => setting('prompt', event.target.value)} dir="auto" />
          )}
        </Field>
      )}
      {node.type === 'human' && (
        <Field label={t('Options')} hint={t('One per line. None: the answer is text.')}>
          {(ids) => (
            <Lines
              ids={ids}
              value={config.options ?? []}
              change={(options) => setting('options', options.length > 0 ? options : undefined)}
            />
          )}
        </Field>
      )}
      {node.type === 'agent' && <AgentFields config={config} setting={setting} />}
      {(node.type === 'subflow' || repeats) && (
        <SubflowField
          own={solution}
          value={config.prod_solution_id ?? ''}
          optional={repeats}
          change={(id) => setting('prod_solution_id', id)}
        />
      )}
      {(node.type === 'tool' || (repeats && !config.prod_solution_id)) && (
        <>
          <Field label={t('Tool')} hint={t('For example Bash, Read, WebFetch, or a tool of an MCP server.')}>
            {(ids) => (
              <Input {...ids} value={config.tool ?? ''} onChange={(event) => setting('tool', event.target.value)} spellCheck={false} />
            )}
          </Field>
          <JsonField label={t('Arguments')} value={config.arguments} change={(value) => setting('arguments', value)} />
        </>
      )}
      {node.type === 'code' && (
        <Field label={t('Script')} hint={t('For Bash: $INPUTS contains the inputs as JSON, or the outputs of the previous nodes.')}>
          {(ids) => (
            <Area
              {...ids}
              rows={6}
              value={config.code ?? ''}
              onChange={(event) => setting('code', event.target.value)}
              spellCheck={false}
            />
          )}
        </Field>
      )}
      {repeats && (
        <>
          {!config.prod_solution_id && !config.tool && (
            <Field
              label={t('Prompt')}
              hint={
                node.type === 'map'
                  ? rich('Without a tool, an agent does the work; {code} is the item.', { code: <code key="code">{'{{item}}'}</code> })
                  : rich('Without a tool, an agent does the work; {code} is the output of the previous iteration.', {
                      code: <code key="code">{'{{loop.previous}}'}</code>,
                    })
              }
            >
              {(ids) => (
                <Area
                  {...ids}
                  rows={3}
                  value={config.prompt ?? ''}
                  onChange={(event) => setting('prompt', event.target.value)}
                  dir="auto"
                />
              )}
            </Field>
          )}
          {node.type === 'map' && (
            <NumberField label={t('At once')} value={node.concurrency} change={(value) => field('concurrency', value)} />
          )}
          {node.type === 'loop' && (
            <>
              <Field
                label={t('Repeat until')}
                hint={t('A condition on the output of an iteration, for example {example}.', { example: '{{loop.output.done}} == true' })}
              >
                {(ids) => (
                  <Input
                    {...ids}
                    value={config.condition ?? ''}
                    onChange={(event) => setting('condition', event.target.value)}
                    spellCheck={false}
                  />
                )}
              </Field>
              <NumberField label={t('Most iterations')} value={config.max} change={(value) => setting('max', value)} />
            </>
          )}
        </>
      )}
      {node.type === 'wait' && <NumberField label={t('Seconds')} value={config.wait_s} change={(value) => setting('wait_s', value)} />}
      {node.type !== 'start' && node.type !== 'wait' && (
        <JsonField
          label={t('Inputs')}
          value={node.inputs}
          change={(value) => field('inputs', value)}
          hint={
            node.type === 'map'
              ? t('items is the list, for example {example}.', { example: '{"items": "{{nodes.find.output}}"}' })
              : t('JSON; texts can contain references.')
          }
        />
      )}
      {(works || node.type === 'start') && (
        <JsonField
          label={node.type === 'start' ? t('JSON Schema of the inputs') : t('JSON Schema of the output')}
          value={node.output_schema}
          change={(value) => field('output_schema', value)}
        />
      )}

      {hasFiles(node) && <NodeFiles graph={graph} node={node} change={field} />}
      {works && (
        <details className="rounded-lg border">
          <summary className="cursor-pointer px-3 py-1.5 text-sm font-medium">{t('Failures and limits')}</summary>
          <div className="space-y-3 border-t p-3">
            <Check
              label={t('Ask me before it starts')}
              checked={node.approval?.policy === 'required'}
              onChange={(event) => field('approval', event.target.checked ? { policy: 'required' } : undefined)}
            />
            <Field label={t('When it has failed')}>
              {(ids) => (
                <Select
                  {...ids}
                  value={node.on_error ?? 'fail'}
                  onChange={(event) =>
                    field('on_error', event.target.value === 'fail' ? undefined : (event.target.value as Node['on_error']))
                  }
                >
                  <option value="fail">{t('the run fails')}</option>
                  <option value="continue">{t('continue without its output')}</option>
                  <option value="route">{t('take the error edges')}</option>
                </Select>
              )}
            </Field>
            <div className="grid grid-cols-2 gap-3">
              <NumberField
                label={t('Attempts')}
                value={node.retry?.max_attempts}
                change={(value) => field('retry', value ? { ...node.retry, max_attempts: value } : undefined)}
              />
              <NumberField label={t('Time limit (seconds)')} value={node.timeout_s} change={(value) => field('timeout_s', value)} />
              <NumberField
                label={t('Budget in tokens')}
                value={node.budget?.max_tokens}
                change={(value) => field('budget', value ? { ...node.budget, max_tokens: value } : undefined)}
              />
            </div>
            <Check
              label={t('Reuse the earlier output for the same input')}
              checked={node.idempotency === 'by_input'}
              onChange={(event) => field('idempotency', event.target.checked ? 'by_input' : undefined)}
            />
          </div>
        </details>
      )}

      {node.type !== 'end' && (
        <fieldset className="space-y-2">
          <legend className="text-sm font-semibold">{t('Leads to')}</legend>
          {edges.map((edge) => (
            <EdgeForm
              key={edge.id}
              edge={edge}
              node={node}
              others={others}
              change={(next) => change({ ...graph, edges: (graph.edges ?? []).map((one) => (one.id === edge.id ? next : one)) })}
              remove={() => change({ ...graph, edges: (graph.edges ?? []).filter((one) => one.id !== edge.id) })}
            />
          ))}
          {edges.length === 0 && <p className="text-sm text-soft">{t('It leads nowhere yet.')}</p>}
          <NextNode others={others.filter((one) => one.type !== 'start')} add={(target) => change(connected(graph, node.id, target))} />
        </fieldset>
      )}
    </div>
  );
}

function AgentFields({
  config,
  setting,
}: {
  config: Config;
  setting: <Key extends keyof Config>(key: Key, value: Config[Key] | undefined | '') => void;
}) {
  const agents = useQuery({
    queryKey: ['agents', 'all'],
    queryFn: ({ signal }) => api().listProdAgents({ query: { limit: 200 }, signal }),
    staleTime: 60_000,
  });
  const models = useQuery({ queryKey: ['models'], queryFn: ({ signal }) => api().listModels({ signal }), staleTime: 60_000 });
  return (
    <div className="grid grid-cols-2 gap-3">
      <Field label={t('Agent')}>
        {(ids) => (
          <Select {...ids} value={config.agent_id ?? ''} onChange={(event) => setting('agent_id', event.target.value)}>
            <option value="">{t('without a template')}</option>
            {config.agent_id && !agents.data?.items.some((one) => one.agent_id === config.agent_id) && (
              <option value={config.agent_id}>{config.agent_id}</option>
            )}
            {agents.data?.items.map((one) => (
              <option key={one.record_id} value={one.agent_id}>
                {one.name}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Field label={t('Model')}>
        {(ids) => (
          <Select {...ids} value={config.model ?? ''} onChange={(event) => setting('model', event.target.value)}>
            <option value="">{t('default')}</option>
            {config.model && !models.data?.models.some((one) => one.id === config.model) && (
              <option value={config.model}>{config.model}</option>
            )}
            {models.data?.models.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name || one.id}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Field label={t('Mode')}>
        {(ids) => (
          <Select
            {...ids}
            value={config.mode ?? ''}
            onChange={(event) => setting('mode', (event.target.value || undefined) as Config['mode'])}
          >
            <option value="">{t('default')}</option>
            <option value="executing">{t('act')}</option>
            <option value="planning">{t('plan')}</option>
          </Select>
        )}
      </Field>
      <Field label={t('Skill')}>
        {(ids) => (
          <Input {...ids} value={config.skill ?? ''} onChange={(event) => setting('skill', event.target.value)} spellCheck={false} />
        )}
      </Field>
    </div>
  );
}

function SubflowField({ own, value, optional, change }: { own: string; value: string; optional: boolean; change: (id: string) => void }) {
  const solutions = useQuery({
    queryKey: ['dags', 'all'],
    queryFn: ({ signal }) => api().listProdSolutions({ query: { limit: 200 }, signal }),
    staleTime: 60_000,
  });
  const list = solutions.data?.items.filter((one) => one.id !== own) ?? [];
  return (
    <Field label={optional ? t('DAG for each item') : t('DAG')}>{(ids) => (
      <Select {...ids} value={value} onChange={(event) => change(event.target.value)}>
        <option value="">{optional ? t('none: a tool or an agent') : t('choose')}</option>
        {value && !list.some((one) => one.id === value) && <option value={value}>{value}</option>}
        {list.map((one) => <option key={one.id} value={one.id}>{one.name}</option>)}
      </Select>
    )}</Field>
  );
}

/** IdInput takes an id over when the field is left, so that references are not broken at every key. */
export function IdInput({ ids, id, taken, rename }: { ids: object; id: string; taken: string[]; rename: (id: string) => void }) {
  const [text, setText] = useState<string>();
  return (
    <Input
      {...ids} value={text ?? id} onChange={(event) => setText(event.target.value)} spellCheck={false}
      onBlur={() => { const next = text?.trim(); if (next && next !== id && !taken.includes(next)) rename(next); setText(undefined); }}
    />
  );
}

function Lines({ ids, value, change }: { ids: object; value: string[]; change: (lines: string[]) => void }) {
  const [text, setText] = useState(value.join('\n'));
  return (
    <Area
      {...ids}
      rows={3}
      value={text}
      onChange={(event) => {
        setText(event.target.value);
        change(linesOf(event.target.value));
      }}
    />
  );
}

function NumberField({ label, value, change }: { label: string; value: number | undefined; change: (value: number | undefined) => void }) {
  return (
    <Field label={label}>
      {(ids) => (
        <Input
          {...ids}
          type="number"
          min={1}
          value={value ?? ''}
          onChange={(event) => change(event.target.value === '' ? undefined : Math.trunc(event.target.valueAsNumber))}
        />
      )}
    </Field>
  );
}

/** JsonField edits a JSON object; while the text is none, the value stays as it was. */
export function JsonField({
  label,
  value,
  change,
  hint,
}: {
  label: string;
  value: Record<string, unknown> | undefined;
  change: (value: Record<string, unknown> | undefined) => void;
  hint?: ReactNode;
}) {
  const [text, setText] = useState(value === undefined ? '' : JSON.stringify(value, null, 2));
  const read = objectOf(text);
  return (
    <Field label={label} hint={hint} error={'error' in read ? read.error : undefined}>
      {(ids) => (
        <Area
          {...ids}
          rows={text.includes('\n') ? 5 : 2}
          className="min-h-12 font-mono text-xs"
          spellCheck={false}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            const next = objectOf(event.target.value);
            if ('value' in next) change(next.value ?? undefined);
          }}
        />
      )}
    </Field>
  );
}

/** Findings says what is wrong with a document. */
export function Findings({ list, choose }: { list: Finding[]; choose?: (id: string) => void }) {
  const id = useId();
  return (
    <ul aria-label={t('Findings')} className="space-y-1 rounded-md border border-bad/40 bg-bad-soft px-3 py-2 text-sm text-bad">
      {list.map((one, index) => (
        <li key={`${id}${index}`} className="break-words">
          {choose && one.node_id ? (
            <button type="button" className="font-medium underline underline-offset-2" onClick={() => choose(one.node_id ?? '')}>
              {one.node_id}
            </button>
          ) : (
            one.node_id && <span className="font-medium">{one.node_id}</span>
          )}
          {one.node_id && ': '}
          {one.message}
        </li>
      ))}
    </ul>
  );
}
