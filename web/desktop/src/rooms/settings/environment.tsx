import { useQuery } from '@tanstack/react-query';
import type { Body, Schemas } from '@everloop/sdk';
import { Eye, EyeOff, Globe, Pencil, Plus, RotateCcw, Trash2, Variable as VariableIcon } from 'lucide-react';
import { useState } from 'react';
import { counted, dateTime } from '../../lib/format';
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
      title="Environment buckets" note="Variables that the tools of your sessions get. The bucket default reaches all of them, one named as a solution the sessions of that solution."
      actions={<Button look="primary" onClick={() => setAsking({ what: 'edit' })}><Plus size={15} aria-hidden />Create a bucket</Button>}
    >
      <Loaded query={buckets} empty={<Empty icon={<VariableIcon size={28} />} title="You have no environment bucket">Put keys and settings that commands need into one. They are encrypted where they are stored.</Empty>}>
        {(list) => (
          <Rows label="Environment buckets">
            {list.map((bucket) => (
              <Row
                key={bucket.bucket} title={bucket.bucket} note={Object.keys(bucket.env).sort().join(', ') || 'no variables'}
                actions={(
                  <>
                    <IconButton label={`Edit ${bucket.bucket}`} onClick={() => setAsking({ what: 'edit', bucket })}><Pencil size={15} /></IconButton>
                    <IconButton label={`Delete ${bucket.bucket}`} onClick={() => setAsking({ what: 'delete', bucket })}><Trash2 size={15} /></IconButton>
                  </>
                )}
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
  const save = useAction(() => api().setEnvBucket(name.trim(), { env }), { done: 'The bucket was saved.', refresh });
  const change = (index: number, part: Partial<Variable>) => setRows(rows.map((row, at) => (at === index ? { ...row, ...part } : row)));
  const submit = () => (fault || exists ? Promise.reject(new Error(fault ?? 'taken')) : save.mutateAsync());
  return (
    <FormDialog open onOpenChange={done} title={bucket ? `Edit ${bucket.bucket}` : 'Create a bucket'} confirm="Save" submit={submit}>
      {!bucket && (
        <Field label="Name" error={exists ? 'You have a bucket of this name: edit it.' : undefined}>
          {(ids) => <Input {...ids} required autoFocus maxLength={128} pattern="[A-Za-z0-9][A-Za-z0-9_.:\-]*" title="Letters, digits and _ . : -, the first a letter or digit" value={name} onChange={(event) => setName(event.target.value)} />}
        </Field>
      )}
      <fieldset className="space-y-2">
        <legend className="mb-1 text-sm font-medium">Variables</legend>
        {rows.map((row, index) => (
          <div key={index} className="flex items-start gap-1.5">
            <Input aria-label={`Name of variable ${index + 1}`} placeholder="NAME" spellCheck={false} className="code w-2/5" value={row.name} onChange={(event) => change(index, { name: event.target.value })} />
            {shown
              ? <Area aria-label={`Value of variable ${index + 1}`} placeholder="value" rows={1} spellCheck={false} className="code min-h-8! flex-1" value={row.value} onChange={(event) => change(index, { value: event.target.value })} />
              : <Input aria-label={`Value of variable ${index + 1}`} type="password" autoComplete="off" readOnly value={row.value && '••••••••'} className="flex-1" />}
            <IconButton label={`Remove variable ${index + 1}`} onClick={() => setRows(rows.filter((_, at) => at !== index))}><Trash2 size={15} /></IconButton>
          </div>
        ))}
        <div className="flex flex-wrap gap-2">
          <Button small onClick={() => { setRows([...rows, { name: '', value: '' }]); setShown(true); }}><Plus size={14} aria-hidden />Add a variable</Button>
          {rows.length > 0 && <Button small look="ghost" onClick={() => setShown(!shown)}>{shown ? <EyeOff size={14} aria-hidden /> : <Eye size={14} aria-hidden />}{shown ? 'Hide the values' : 'Show and edit the values'}</Button>}
        </div>
      </fieldset>
      {fault && <p role="alert" className="text-sm text-bad">{fault}</p>}
    </FormDialog>
  );
}

function Delete({ bucket, done }: { bucket: Bucket; done: () => void }) {
  const remove = useAction(() => api().deleteEnvBucket(bucket.bucket), { done: 'The bucket was deleted.', refresh });
  return (
    <FormDialog
      open onOpenChange={done} danger title="Delete the bucket?" confirm="Delete" submit={() => remove.mutateAsync()}
      description={<>“{bucket.bucket}” and its variables are removed; tools no longer get them.</>}
    />
  );
}

const rules = [['network-rules']] as const;

function Network() {
  const list = useQuery({ queryKey: ['network-rules'], queryFn: ({ signal }) => api().listNetworkRules({ signal }) });
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Rule>();
  const remove = useAction((id: string) => api().deleteNetworkRule(id), { done: 'The rule was deleted.', refresh: rules });
  return (
    <Section
      title="Network rules" note="Which domains commands of your sessions may reach without asking you, and which never."
      actions={<Button onClick={() => setAdding(true)}><Plus size={15} aria-hidden />Add a rule</Button>}
    >
      <Loaded query={list} isEmpty={(data) => data.items.length === 0} empty={<Empty icon={<Globe size={28} />} title="You have no network rule">Rules of the service hold, and you are asked about other domains.</Empty>}>
        {(data) => (
          <Rows label="Network rules">
            {data.items.map((rule) => (
              <Row
                key={rule.id} title={rule.domain} badges={rule.decision === 'allow' ? <Badge tone="good">allowed</Badge> : <Badge tone="bad">denied</Badge>} note={`since ${dateTime(rule.created_at)}`}
                actions={<IconButton label={`Delete the rule of ${rule.domain}`} onClick={() => setRemoving(rule)}><Trash2 size={15} /></IconButton>}
              />
            ))}
          </Rows>
        )}
      </Loaded>
      {adding && <AddRule done={() => setAdding(false)} />}
      {removing && <FormDialog open onOpenChange={() => setRemoving(undefined)} danger title="Delete the rule?" confirm="Delete" submit={() => remove.mutateAsync(removing.id)} description={`The rule of ${removing.domain} no longer holds.`} />}
    </Section>
  );
}

function AddRule({ done }: { done: () => void }) {
  const [domain, setDomain] = useState('');
  const [decision, setDecision] = useState<'allow' | 'deny'>('allow');
  const add = useAction((body: Body<'set-network-rule'>) => api().setNetworkRule(body), { done: 'The rule was added.', refresh: rules });
  return (
    <FormDialog open onOpenChange={done} title="Add a network rule" confirm="Add" submit={() => add.mutateAsync({ domain: domain.trim(), decision })}>
      <Field label="Domain" hint="As example.org, *.example.org or example.org:8443">{(ids) => <Input {...ids} required autoFocus value={domain} onChange={(event) => setDomain(event.target.value)} />}</Field>
      <Field label="Decision">{(ids) => <Select {...ids} value={decision} onChange={(event) => setDecision(event.target.value as 'allow' | 'deny')}><option value="allow">allow</option><option value="deny">deny</option></Select>}</Field>
    </FormDialog>
  );
}

function Compute() {
  const [asking, setAsking] = useState(false);
  const reset = useAction(() => api().resetComputeEnv(), { done: (result) => `${counted(result.removed_containers, 'command')} ended.` });
  return (
    <Section
      title="Compute environment" note="Ends the commands that run in the background of your sessions, and what agents have kept of files. Workspaces stay."
      actions={<Button onClick={() => setAsking(true)}><RotateCcw size={15} aria-hidden />Reset</Button>}
    >
      {asking && <FormDialog open onOpenChange={() => setAsking(false)} danger title="Reset the compute environment?" confirm="Reset" submit={() => reset.mutateAsync()} description="Commands in the background of all your sessions are ended." />}
    </Section>
  );
}
