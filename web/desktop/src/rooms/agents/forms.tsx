import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { FormDialog } from '../../ui/dialog';
import { Area, Field, Input, Select } from '../../ui/field';
import { linesOf, objectOf } from '../unattended/pieces';
import { Sharing, type Shares } from './sharing';

type Agent = Schemas['ProdAgent'];
type Instance = Schemas['AgentInstance'];

/** AgentForm creates an agent, or sets its fields. */
export function AgentForm({ agent, close }: { agent?: Agent; close: () => void }) {
  const catalog = useQuery({
    queryKey: ['agents', 'catalog'],
    queryFn: ({ signal }) => api().getSolutionCatalog({ signal }),
    staleTime: 60_000,
  });
  const [name, setName] = useState(agent?.name ?? '');
  const [id, setId] = useState('');
  const [role, setRole] = useState(agent ? `${agent.solution_id} ${agent.biz_role_id}` : '');
  const [instructions, setInstructions] = useState(agent?.instructions ?? '');
  const [template, setTemplate] = useState(agent?.agent_template ?? '');
  const [mode, setMode] = useState<string>(agent?.initial_mode ?? '');
  const [skills, setSkills] = useState(agent?.skills.join('\n') ?? '');
  const [data, setData] = useState(agent && Object.keys(agent.skills_data).length > 0 ? JSON.stringify(agent.skills_data, null, 2) : '');
  const [script, setScript] = useState(agent?.init_script ?? '');
  const [visibility, setVisibility] = useState(agent?.visibility ?? 'workspace');
  const read = objectOf(data);
  const save = useAction(async () => {
    if ('error' in read) throw new Error(read.error);
    const [solution_id = '', biz_role_id = ''] = role.split(' ');
    const fields = {
      name: name.trim(),
      solution_id,
      biz_role_id,
      instructions,
      agent_template: template,
      initial_mode: (mode || null) as 'planning' | 'executing' | null,
      skills: linesOf(skills),
      skills_data: read.value,
      init_script: script,
      visibility,
    };
    if (!agent) return api().createProdAgent({ ...fields, ...(id.trim() ? { agent_id: id.trim() } : {}) });
    return api().replaceProdAgent(agent.record_id, {
      ...fields,
      icon: agent.icon,
      layout_type: agent.layout_type,
      preview_urls: agent.preview_urls,
      runtime_provider: agent.runtime_provider,
    });
  }, { done: agent ? t('The agent was saved.') : t('The agent was created.'), refresh: [['agents']] });
  return (
    <FormDialog
      open
      onOpenChange={close}
      title={agent ? agent.name : t('New agent')}
      confirm={agent ? t('Save') : t('Create')}
      submit={() => save.mutateAsync()}
    >
      <Field label={t('Name')}>
        {(ids) => (
          <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} required maxLength={128} autoFocus dir="auto" />
        )}
      </Field>
      {!agent && (
        <Field label={t('Id')} hint={t('Identifies the agent in DAGs. Empty: created by the service.')}>
          {(ids) => <Input {...ids} value={id} onChange={(event) => setId(event.target.value)} maxLength={64} spellCheck={false} />}
        </Field>
      )}
      <Field label={t('Solution and role')}>
        {(ids) => (
          <Select {...ids} required value={role} onChange={(event) => setRole(event.target.value)}>
            <option value="">{catalog.data ? t('choose') : t('Loading…')}</option>
            {agent &&
              !catalog.data?.items.some(
                (solution) => solution.id === agent.solution_id && solution.roles.some((one) => one.id === agent.biz_role_id),
              ) && (
                <option value={`${agent.solution_id} ${agent.biz_role_id}`}>
                  {agent.solution_id} / {agent.biz_role_id}
                </option>
              )}
            {catalog.data?.items.map((solution) => (
              <optgroup key={solution.id} label={solution.name}>
                {solution.roles.map((one) => (
                  <option key={one.id} value={`${solution.id} ${one.id}`}>
                    {one.name}
                  </option>
                ))}
              </optgroup>
            ))}
          </Select>
        )}
      </Field>
      <Field label={t('Instructions')} hint={t('Added to the system prompt of its sessions.')}>
        {(ids) => <Area {...ids} rows={4} value={instructions} onChange={(event) => setInstructions(event.target.value)} dir="auto" />}
      </Field>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label={t('Mode')}>
          {(ids) => (
            <Select {...ids} value={mode} onChange={(event) => setMode(event.target.value)}>
              <option value="">{t('act (default)')}</option>
              <option value="executing">{t('act')}</option>
              <option value="planning">{t('plan')}</option>
            </Select>
          )}
        </Field>
        <Visibility value={visibility} change={setVisibility} />
      </div>
      <details
        className="rounded-lg border"
        open={Boolean(agent && (agent.skills.length > 0 || agent.init_script || agent.agent_template))}
      >
        <summary className="cursor-pointer px-3 py-2 text-sm font-medium">{t('Skills, template and init script')}</summary>
        <div className="space-y-3 border-t p-3">
          <Field label={t('Skills')} hint={t('One skill per line, in order of preference.')}>
            {(ids) => (
              <Area
                {...ids}
                rows={2}
                className="min-h-12 font-mono"
                value={skills}
                onChange={(event) => setSkills(event.target.value)}
                spellCheck={false}
              />
            )}
          </Field>
          <Field label={t('Template of the system prompt')}>
            {(ids) => <Area {...ids} rows={3} value={template} onChange={(event) => setTemplate(event.target.value)} dir="auto" />}
          </Field>
          <Field
            label={t('Data of the skills')}
            hint={t('A JSON object in the system prompt. Do not put secrets here.')}
            error={'error' in read ? read.error : undefined}
          >
            {(ids) => (
              <Area
                {...ids}
                rows={2}
                className="min-h-12 font-mono"
                value={data}
                onChange={(event) => setData(event.target.value)}
                spellCheck={false}
              />
            )}
          </Field>
          <Field label={t('Init script')} hint={t('Runs in the sandbox of each session before its first chat.')}>
            {(ids) => (
              <Area
                {...ids}
                rows={3}
                className="font-mono"
                value={script}
                onChange={(event) => setScript(event.target.value)}
                spellCheck={false}
              />
            )}
          </Field>
        </div>
      </details>
    </FormDialog>
  );
}

function Visibility({ value, change }: { value: string; change: (value: string) => void }) {
  return (
    <Field label={t('Seen by')}>
      {(ids) => (
        <Select {...ids} value={value} onChange={(event) => change(event.target.value)}>
          <option value="workspace">{t('members of my workspaces')}</option>
          <option value="private">{t('only me')}</option>
          {value !== 'workspace' && value !== 'private' && (
            <option value={value}>
              {t('only me')} ({value})
            </option>
          )}
        </Select>
      )}
    </Field>
  );
}

/** InstanceForm makes an instance without a template, or changes one. */
export function InstanceForm({ instance, close }: { instance?: Instance; close: () => void }) {
  const runtimes = useQuery({
    queryKey: ['agents', 'runtimes'],
    queryFn: ({ signal }) => api().listAgentRuntimes({ query: { limit: 200 }, signal }),
  });
  const models = useQuery({ queryKey: ['models'], queryFn: ({ signal }) => api().listModels({ signal }), staleTime: 60_000 });
  const [name, setName] = useState(instance?.name ?? '');
  const [description, setDescription] = useState(instance?.description ?? '');
  const [instructions, setInstructions] = useState(instance?.instructions ?? '');
  const [model, setModel] = useState(instance?.model ?? '');
  const [runtime, setRuntime] = useState(instance?.runtime_id);
  const [tasks, setTasks] = useState(instance?.max_concurrent_tasks ?? 1);
  const [shares, setShares] = useState<Shares>(instance?.visibility === 'workspace' ? instance.shared_with : []);
  const [variables, setVariables] = useState('');
  const wrong = linesOf(variables).find((line) => !/^[A-Za-z_]\w*=/.test(line));
  const save = useAction(async () => {
    if (wrong !== undefined) throw new Error(t('“{line}” must have the form NAME=value.', { line: wrong }));
    const env = Object.fromEntries(linesOf(variables).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const fields = {
      name: name.trim(),
      description,
      instructions,
      model: model || null,
      max_concurrent_tasks: tasks,
      visibility: 'workspace',
      shared_with: shares,
      runtime_id: runtime ?? runtimes.data?.items[0]?.id ?? '',
      ...(Object.keys(env).length > 0 ? { env } : {}),
    };
    return instance ? api().updateAgentInstance(instance.id, fields) : api().createAgentInstance(fields);
  }, { done: instance ? t('The instance was saved.') : t('The instance was made.'), refresh: [['agents'], ['board']] });
  return (
    <FormDialog
      open
      onOpenChange={close}
      title={instance ? instance.name : t('New instance')}
      confirm={instance ? t('Save') : t('Create')}
      submit={() => save.mutateAsync()}
    >
      <Field label={t('Name')}>
        {(ids) => (
          <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} required maxLength={128} autoFocus dir="auto" />
        )}
      </Field>
      <Field label={t('Description')}>
        {(ids) => (
          <Input {...ids} value={description} onChange={(event) => setDescription(event.target.value)} maxLength={1000} dir="auto" />
        )}
      </Field>
      <Field label={t('Instructions')} hint={t('Added to the system prompt of its sessions.')}>
        {(ids) => <Area {...ids} rows={3} value={instructions} onChange={(event) => setInstructions(event.target.value)} dir="auto" />}
      </Field>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label={t('Runtime')}>
          {(ids) => (
            <Select
              {...ids}
              required
              value={runtime ?? runtimes.data?.items[0]?.id ?? ''}
              onChange={(event) => setRuntime(event.target.value)}
            >
              {runtimes.data?.items.map((one) => (
                <option key={one.id} value={one.id}>
                  {one.name} ({one.status})
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Field label={t('Model')}>
          {(ids) => (
            <Select {...ids} value={model} onChange={(event) => setModel(event.target.value)}>
              <option value="">{t('default')}</option>
              {model && !models.data?.models.some((one) => one.id === model) && <option value={model}>{model}</option>}
              {models.data?.models.map((one) => (
                <option key={one.id} value={one.id}>
                  {one.name || one.id}
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Field label={t('Issues at once')}>
          {(ids) => (
            <Input
              {...ids}
              type="number"
              min={1}
              max={100}
              required
              value={tasks}
              onChange={(event) => setTasks(Math.trunc(event.target.valueAsNumber) || 1)}
            />
          )}
        </Field>
      </div>
      <Sharing value={shares} change={setShares} />
      <Field
        label={instance?.has_env ? t('New variables') : t('Variables')}
        hint={
          instance?.has_env
            ? t('NAME=value, one per line. They replace the current values, which are not shown. Empty: no change.')
            : t('NAME=value, one per line. The values are not shown again.')
        }
        error={wrong !== undefined ? t('“{line}” must have the form NAME=value.', { line: wrong }) : undefined}
      >
        {(ids) => (
          <Area
            {...ids}
            rows={2}
            className="min-h-12 font-mono"
            value={variables}
            onChange={(event) => setVariables(event.target.value)}
            spellCheck={false}
            autoComplete="off"
          />
        )}
      </Field>
    </FormDialog>
  );
}
