import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Plus, Trash2 } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import { rich, t } from '../../lib/i18n';
import { api } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { Area, Check, Field, Input, Select } from '../../ui/field';
import type { Rule, Setup } from './setup';

type At = (field: string) => string | undefined;

/** Part is a group of fields that opens on demand, and by itself when one of its fields is wrong. */
export function Part({ title, note, open: initial = false, wrong = false, children }: {
  title: string; note?: string; open?: boolean; wrong?: boolean; children: ReactNode;
}) {
  const [open, setOpen] = useState(initial);
  useEffect(() => {
    if (wrong) setOpen(true);
  }, [wrong]);
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)} className="rounded-lg border bg-raised">
      <summary className="cursor-pointer px-3 py-2 text-sm">
        <span className="font-medium">{title}</span>
        {note && <span className="text-soft max-sm:block max-sm:pl-4"> <span className="max-sm:hidden">· </span>{note}</span>}
      </summary>
      {open && <div className="space-y-3 border-t p-3">{children}</div>}
    </details>
  );
}

/** ModelField chooses a model. */
export function ModelField({ value, change, error }: { value: string; change: (model: string) => void; error?: string | undefined }) {
  const models = useQuery({ queryKey: ['models'], queryFn: ({ signal }) => api().listModels({ signal }), staleTime: 60_000 });
  return (
    <Field label={t('Model')} error={error}>
      {(ids) => (
        <Select {...ids} value={value} onChange={(event) => change(event.target.value)}>
          <option value="">{models.data ? t('{model} (default)', { model: models.data.default }) : t('Default model')}</option>
          {value && !models.data?.models.some((one) => one.id === value) && <option value={value}>{value}</option>}
          {models.data?.models.map((one) => (
            <option key={one.id} value={one.id}>
              {one.name || one.id}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}

/** AgentField chooses who works: the default agent, a production agent, or, unless `only` agents are offered, a solution and its role. */
export function AgentField({ value, change, error, only = false }: {
  value: string; change: (agent: string) => void; error?: string | undefined; only?: boolean;
}) {
  const agents = useQuery({
    queryKey: ['agents', 'all'],
    queryFn: ({ signal }) => api().listProdAgents({ query: { limit: 200 }, signal }),
    staleTime: 60_000,
  });
  const catalog = useQuery({
    queryKey: ['agents', 'catalog'],
    enabled: !only,
    queryFn: ({ signal }) => api().getSolutionCatalog({ signal }),
    staleTime: 60_000,
  });
  const solutions = catalog.data?.items ?? [];
  const known = value === '' || agents.data?.items.some((one) => `agent:${one.agent_id}` === value)
    || solutions.some((one) => value === `solution:${one.id}` || one.roles.some((role) => value === `role:${one.id} ${role.id}`));
  return (
    <Field
      label={t('Agent')}
      error={error}
      hint={value.startsWith('agent:') ? t('It defines mode, skills, environment, permissions and network.') : undefined}
    >
      {(ids) => (
        <Select {...ids} value={value} onChange={(event) => change(event.target.value)}>
          <option value="">{t('General agent (default)')}</option>
          {!known && <option value={value}>{value.slice(value.indexOf(':') + 1)}</option>}
          {(agents.data?.items ?? []).length > 0 && (
            <optgroup label={t('Your agents')}>
              {agents.data?.items.map((one) => (
                <option key={one.agent_id} value={`agent:${one.agent_id}`}>
                  {one.name}
                </option>
              ))}
            </optgroup>
          )}
          {solutions.map((solution) => (
            <optgroup key={solution.id} label={t('Solution {name}', { name: solution.name })}>
              <option value={`solution:${solution.id}`}>{t('{name}, default role', { name: solution.name })}</option>
              {solution.roles.map((role) => (
                <option key={role.id} value={`role:${solution.id} ${role.id}`}>
                  {role.name}
                </option>
              ))}
            </optgroup>
          ))}
        </Select>
      )}
    </Field>
  );
}

/** ModeField chooses whether the agent acts or plans. */
export function ModeField({ value, change }: { value: Setup['mode']; change: (mode: Setup['mode']) => void }) {
  return (
    <Field label={t('Mode')}>
      {(ids) => (
        <Select {...ids} value={value} onChange={(event) => change(event.target.value as Setup['mode'])}>
          <option value="">{t('act (default)')}</option>
          {value === 'executing' && <option value="executing">{t('act')}</option>}
          <option value="planning">{t('plan')}</option>
        </Select>
      )}
    </Field>
  );
}

/** SkillsField takes the skills that the agent is offered first. */
export function SkillsField({ value, change, error }: { value: string; change: (skills: string) => void; error?: string | undefined }) {
  return (
    <Field label={t('Skills')} error={error} hint={t('One skill per line, in order of preference.')}>
      {(ids) => (
        <Area
          {...ids}
          rows={2}
          className="min-h-14 font-mono"
          value={value}
          onChange={(event) => change(event.target.value)}
          spellCheck={false}
        />
      )}
    </Field>
  );
}

/** networks are the networks that commands can have. */
export const networks: Record<Exclude<Setup['network'], ''>, string> = {
  none: t('no network'), rules: t('domains that your rules allow'), public: t('every public address'),
};

/** EnvironmentFields has the fields of what the tools of a run may see and do. */
export function EnvironmentFields({ setup, change, at }: { setup: Setup; change: (part: Partial<Setup>) => void; at: At }) {
  return (
    <>
      <Buckets chosen={setup.buckets} change={(buckets) => change({ buckets })} />
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label={t('Network of commands')} error={at('network')} hint={t('It can only be narrower than that of the service.')}>
          {(ids) => (
            <Select {...ids} value={setup.network} onChange={(event) => change({ network: event.target.value as Setup['network'] })}>
              <option value="">{t('as the service is configured (default)')}</option>
              {Object.entries(networks).map(([id, label]) => (
                <option key={id} value={id}>
                  {label}
                </option>
              ))}
            </Select>
          )}
        </Field>
      </div>
      <Check
        label={t('Use memories')}
        hint={t('The agent reads what was remembered in earlier sessions, and can remember more.')}
        checked={setup.memory}
        onChange={(event) => change({ memory: event.target.checked })}
      />
      <Rules rules={setup.permissions} change={(permissions) => change({ permissions })} error={at('permissions')} />
    </>
  );
}

function Buckets({ chosen, change }: { chosen: readonly string[]; change: (buckets: string[]) => void }) {
  const buckets = useQuery({ queryKey: ['env-buckets'], queryFn: ({ signal }) => api().listEnvBuckets({ signal }), staleTime: 60_000 });
  const names = [...new Set([...(buckets.data ?? []).map((one) => one.bucket).filter((one) => one !== 'default'), ...chosen])].sort();
  return (
    <fieldset className="space-y-1">
      <legend className="text-sm font-medium">{t('Environment buckets')}</legend>
      {names.length === 0 ? (
        <p className="text-xs text-soft">
          {rich('Variables for commands, such as keys. The bucket “default” always applies; create others in the {settings}.', {
            settings: <Link key="settings" to="/settings" hash="environment" className="text-accent underline">{t('settings')}</Link>,
          })}
        </p>
      ) : (
        names.map((name) => (
          <Check
            key={name}
            label={<span className="break-all">{name}</span>}
            checked={chosen.includes(name)}
            onChange={(event) => change(event.target.checked ? [...chosen, name] : chosen.filter((one) => one !== name))}
          />
        ))
      )}
    </fieldset>
  );
}

const decisions: Record<Rule['decision'], string> = { allow: t('allow'), ask: t('ask|permission'), deny: t('deny') };

function Rules({ rules, change, error }: { rules: readonly Rule[]; change: (rules: Rule[]) => void; error: string | undefined }) {
  const set = (index: number, part: Partial<Rule>) => change(rules.map((rule, at) => (at === index ? { ...rule, ...part } : rule)));
  return (
    <fieldset className="space-y-2">
      <legend className="text-sm font-medium">{t('Permissions')}</legend>
      <p className="text-xs text-soft">{t('The first rule that matches a tool call decides. Without a rule, the call is allowed.')}</p>
      {rules.map((rule, index) => (
        <div key={index} className="flex items-start gap-1.5">
          <div className="grid min-w-0 flex-1 grid-cols-2 gap-1.5 sm:grid-cols-[1fr_1.4fr_1fr_auto]">
            <Input
              aria-label={t('Tool of rule {number}', { number: index + 1 })}
              placeholder={t('tool, such as Bash')}
              required
              maxLength={256}
              spellCheck={false}
              value={rule.tool}
              onChange={(event) => set(index, { tool: event.target.value })}
            />
            <Input
              aria-label={t('Pattern of rule {number}', { number: index + 1 })}
              placeholder={t('pattern, such as git push*')}
              maxLength={2000}
              spellCheck={false}
              value={rule.pattern ?? ''}
              onChange={(event) => set(index, { pattern: event.target.value })}
            />
            <Input
              aria-label={t('Argument of rule {number}', { number: index + 1 })}
              placeholder={t('any argument')}
              maxLength={200}
              spellCheck={false}
              value={rule.argument ?? ''}
              onChange={(event) => set(index, { argument: event.target.value })}
            />
            <Select
              aria-label={t('Decision of rule {number}', { number: index + 1 })}
              value={rule.decision}
              onChange={(event) => set(index, { decision: event.target.value as Rule['decision'] })}
            >
              {Object.entries(decisions).map(([id, label]) => (
                <option key={id} value={id}>
                  {label}
                </option>
              ))}
            </Select>
          </div>
          <IconButton
            label={t('Remove rule {number}', { number: index + 1 })}
            onClick={() => change(rules.filter((_, at) => at !== index))}
          >
            <Trash2 size={15} />
          </IconButton>
        </div>
      ))}
      {error && <p role="alert" className="text-xs text-bad">{error}</p>}
      <Button small onClick={() => change([...rules, { tool: '', decision: 'ask' }])}>
        <Plus size={14} aria-hidden />
        {t('Add a rule')}
      </Button>
    </fieldset>
  );
}
