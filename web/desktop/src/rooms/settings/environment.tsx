import { useQuery } from '@tanstack/react-query';
import type { Body, Schemas } from '@everloop/sdk';
import { Eye, EyeOff, Globe, Pencil, Plus, RotateCcw, Trash2, Variable as VariableIcon } from 'lucide-react';
import { useState } from 'react';
import { dateTime } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Area, Field, Input, Select } from '../../ui/field';
import { Badge, Empty, Loaded } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';
import { envOf, rowsOf, type Variable } from './variables';

type Bucket = Schemas['EnvBucket'];
type Rule = Schemas['UserNetworkRule'];

export function Environment() {
  return <><Buckets /><Network /><Compute /></>;
}

const refresh = [['env-buckets']] as const;

function Buckets() {
  const buckets = useQuery({ queryKey: ['env-buckets'], queryFn: ({ signal }) => api().listEnvBuckets({ signal }) });
  const [asking, setAsking] = useState<{ what: 'edit'; bucket?: Bucket } | { what: 'delete'; bucket: Bucket }>();
  const close = () => setAsking(undefined);
  return (
    <Section
      title={t('Environment buckets')}
      note={t(
        'Environment variables for the tools of your sessions. The bucket “default” applies to all sessions, a ' +
          'bucket with the name of a solution to its sessions.',
      )}
      actions={
        <Button look="primary" onClick={() => setAsking({ what: 'edit' })}>
          <Plus size={15} aria-hidden />
          {t('Create a bucket')}
        </Button>
      }
    >
      <Loaded
        query={buckets}
        empty={
          <Empty icon={<VariableIcon size={28} />} title={t('No environment buckets yet')}>
            {t('Store keys and settings that commands need in a bucket. They are encrypted at rest.')}
          </Empty>
        }
      >
        {(list) => (
          <Rows label={t('Environment buckets')}>
            {list.map((bucket) => (
              <Row
                key={bucket.bucket}
                title={bucket.bucket}
                note={Object.keys(bucket.env).sort().join(', ') || t('no variables')}
                actions={
                  <>
                    <IconButton label={t('Edit {name}', { name: bucket.bucket })} onClick={() => setAsking({ what: 'edit', bucket })}>
                      <Pencil size={15} />
                    </IconButton>
                    <IconButton label={t('Delete {name}', { name: bucket.bucket })} onClick={() => setAsking({ what: 'delete', bucket })}>
                      <Trash2 size={15} />
                    </IconButton>
                  </>
                }
              />
            ))}
          </Rows>
        )}
      </Loaded>
      {asking?.what === 'edit' && <Edit bucket={asking.bucket} taken={buckets.data?.map((one) => one.bucket) ?? []} done={close} />}
      {asking?.what === 'delete' && <Delete bucket={asking.bucket} done={close} />}
    </Section>
  );
}

function Edit({ bucket, taken, done }: { bucket: Bucket | undefined; taken: string[]; done: () => void }) {
  const [name, setName] = useState(bucket?.bucket ?? (taken.includes('default') ? '' : 'default'));
  const [rows, setRows] = useState<Variable[]>(() => [...rowsOf(bucket?.env ?? {}), ...(bucket ? [] : [{ name: '', value: '' }])]);
  const [shown, setShown] = useState(bucket === undefined);
  const { env, fault } = envOf(rows);
  const exists = bucket === undefined && taken.includes(name.trim());
  const save = useAction(() => api().setEnvBucket(name.trim(), { env }), { done: t('The bucket was saved.'), refresh });
  const change = (index: number, part: Partial<Variable>) => setRows(rows.map((row, at) => (at === index ? { ...row, ...part } : row)));
  const submit = () => (fault || exists ? Promise.reject(new Error(fault ?? t('taken'))) : save.mutateAsync());
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={bucket ? t('Edit {name}', { name: bucket.bucket }) : t('Create a bucket')}
      confirm={t('Save')}
      submit={submit}
    >
      {!bucket && (
        <Field label={t('Name')} error={exists ? t('A bucket with this name exists. Edit it instead.') : undefined}>
          {(ids) => (
            <Input
              {...ids}
              required
              autoFocus
              maxLength={128}
              pattern="[A-Za-z0-9][A-Za-z0-9_.:\-]*"
              title={t('Letters, digits and _ . : -, the first a letter or digit')}
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
      )}
      <fieldset className="space-y-2">
        <legend className="mb-1 text-sm font-medium">{t('Variables')}</legend>
        {rows.map((row, index) => (
          <div key={index} className="flex items-start gap-1.5">
            <Input
              aria-label={t('Name of variable {number}', { number: index + 1 })}
              placeholder="NAME"
              spellCheck={false}
              className="code w-2/5"
              value={row.name}
              onChange={(event) => change(index, { name: event.target.value })}
            />
            {shown ? (
              <Area
                aria-label={t('Value of variable {number}', { number: index + 1 })}
                placeholder={t('value')}
                rows={1}
                spellCheck={false}
                className="code min-h-8! flex-1"
                value={row.value}
                onChange={(event) => change(index, { value: event.target.value })}
              />
            ) : (
              <Input
                aria-label={t('Value of variable {number}', { number: index + 1 })}
                type="password"
                autoComplete="off"
                readOnly
                value={row.value && '••••••••'}
                className="flex-1"
              />
            )}
            <IconButton
              label={t('Remove variable {number}', { number: index + 1 })}
              onClick={() => setRows(rows.filter((_, at) => at !== index))}
            >
              <Trash2 size={15} />
            </IconButton>
          </div>
        ))}
        <div className="flex flex-wrap gap-2">
          <Button
            small
            onClick={() => {
              setRows([...rows, { name: '', value: '' }]);
              setShown(true);
            }}
          >
            <Plus size={14} aria-hidden />
            {t('Add a variable')}
          </Button>
          {rows.length > 0 && (
            <Button small look="ghost" onClick={() => setShown(!shown)}>
              {shown ? <EyeOff size={14} aria-hidden /> : <Eye size={14} aria-hidden />}
              {shown ? t('Hide the values') : t('Show and edit the values')}
            </Button>
          )}
        </div>
      </fieldset>
      {fault && (
        <p role="alert" className="text-sm text-bad">
          {fault}
        </p>
      )}
    </FormDialog>
  );
}

function Delete({ bucket, done }: { bucket: Bucket; done: () => void }) {
  const remove = useAction(() => api().deleteEnvBucket(bucket.bucket), { done: t('The bucket was deleted.'), refresh });
  return (
    <FormDialog
      open onOpenChange={done} danger title={t('Delete the bucket?')} confirm={t('Delete')} submit={() => remove.mutateAsync()}
      description={<>{t('Deletes “{name}” and its variables. Tools lose access to them.', { name: bucket.bucket })}</>}
    />
  );
}

const rules = [['network-rules']] as const;

function Network() {
  const list = useQuery({ queryKey: ['network-rules'], queryFn: ({ signal }) => api().listNetworkRules({ signal }) });
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Rule>();
  const remove = useAction((id: string) => api().deleteNetworkRule(id), { done: t('The rule was deleted.'), refresh: rules });
  return (
    <Section
      title={t('Network rules')}
      note={t('Domains that commands of your sessions can reach without asking you, and domains that are blocked.')}
      actions={
        <Button onClick={() => setAdding(true)}>
          <Plus size={15} aria-hidden />
          {t('Add a rule')}
        </Button>
      }
    >
      <Loaded
        query={list}
        isEmpty={(data) => data.items.length === 0}
        empty={
          <Empty icon={<Globe size={28} />} title={t('No network rules yet')}>
            {t('Rules of the service apply. You are asked about other domains.')}
          </Empty>
        }
      >
        {(data) => (
          <Rows label={t('Network rules')}>
            {data.items.map((rule) => (
              <Row
                key={rule.id}
                title={rule.domain}
                badges={rule.decision === 'allow' ? <Badge tone="good">{t('allowed')}</Badge> : <Badge tone="bad">{t('denied')}</Badge>}
                note={t('since {time}', { time: dateTime(rule.created_at) })}
                actions={
                  <IconButton label={t('Delete the rule of {domain}', { domain: rule.domain })} onClick={() => setRemoving(rule)}>
                    <Trash2 size={15} />
                  </IconButton>
                }
              />
            ))}
          </Rows>
        )}
      </Loaded>
      {adding && <AddRule done={() => setAdding(false)} />}
      {removing && (
        <FormDialog
          open
          onOpenChange={() => setRemoving(undefined)}
          danger
          title={t('Delete the rule?')}
          confirm={t('Delete')}
          submit={() => remove.mutateAsync(removing.id)}
          description={t('The rule of {domain} no longer applies.', { domain: removing.domain })}
        />
      )}
    </Section>
  );
}

function AddRule({ done }: { done: () => void }) {
  const [domain, setDomain] = useState('');
  const [decision, setDecision] = useState<'allow' | 'deny'>('allow');
  const add = useAction((body: Body<'set-network-rule'>) => api().setNetworkRule(body), { done: t('The rule was added.'), refresh: rules });
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={t('Add a network rule')}
      confirm={t('Add')}
      submit={() => add.mutateAsync({ domain: domain.trim(), decision })}
    >
      <Field label={t('Domain')} hint={t('For example example.org, *.example.org or example.org:8443')}>
        {(ids) => <Input {...ids} required autoFocus value={domain} onChange={(event) => setDomain(event.target.value)} />}
      </Field>
      <Field label={t('Decision')}>
        {(ids) => (
          <Select {...ids} value={decision} onChange={(event) => setDecision(event.target.value as 'allow' | 'deny')}>
            <option value="allow">{t('allow')}</option>
            <option value="deny">{t('deny')}</option>
          </Select>
        )}
      </Field>
    </FormDialog>
  );
}

function Compute() {
  const [asking, setAsking] = useState(false);
  const reset = useAction(() => api().resetComputeEnv(), {
    done: (result) => plural(result.removed_containers, '{count} command ended.', '{count} commands ended.'),
  });
  return (
    <Section
      title={t('Compute environment')}
      note={t('Stops the background commands of your sessions and clears cached files of agents. Workspaces stay.')}
      actions={
        <Button onClick={() => setAsking(true)}>
          <RotateCcw size={15} aria-hidden />
          {t('Reset')}
        </Button>
      }
    >
      {asking && (
        <FormDialog
          open
          onOpenChange={() => setAsking(false)}
          danger
          title={t('Reset the compute environment?')}
          confirm={t('Reset')}
          submit={() => reset.mutateAsync()}
          description={t('Stops the background commands of all your sessions.')}
        />
      )}
    </Section>
  );
}
