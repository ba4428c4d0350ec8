import { EverloopError } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { rich, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Code, CopyButton } from '../../ui/code';
import { Dialog, FormDialog } from '../../ui/dialog';
import { Area, Check, Field, Input, Select } from '../../ui/field';
import { SessionChoice } from '../library/session-choice';
import { inserted, Insert } from '../schedules/insert';
import { AgentField, Part } from '../unattended/setup-fields';
import { targetBody, targetOf } from '../unattended/target';
import { DagFields, IssueFields } from '../unattended/target-fields';
import { addressOf, type Auth, curlOf, senders, type Trigger } from './words';

type Source = NonNullable<Trigger['source']>;
type Kind = keyof typeof starts;

const starts = {
  prompt: t('start a new session with a prompt'),
  session: t('send a message to a session'),
  dag: t('run a DAG'),
  issue: t('create an issue on a board'),
};

const references = [
  { text: '{{event}}', label: t('event') },
  { text: '{{body}}', label: t('whole body') },
  { text: '{{body.name}}', label: t('field of the body') },
  { text: '{{headers.name}}', label: t('header') },
];

/** TriggerForm creates a trigger, or changes one. `made` is given a trigger with its new secret, which is shown once. */
export function TriggerForm({ trigger, close, made }: { trigger?: Trigger; close: () => void; made?: (trigger: Trigger, secret: string) => void }) {
  const [name, setName] = useState(trigger?.name ?? '');
  const [from, setFrom] = useState<Trigger['kind']>(trigger?.kind ?? 'webhook');
  const [auth, setAuth] = useState<Auth>(trigger?.auth ?? 'bearer');
  const [secret, setSecret] = useState('');
  const [source, setSource] = useState<Source>(trigger?.source ?? { kind: 'task', id: '' });
  const [on, setOn] = useState<Trigger['on']>(trigger?.on ?? ['run_failed']);
  const [filter, setFilter] = useState(trigger?.filter ?? '');
  const [target, setTarget] = useState(() => targetOf(trigger?.target));
  const [kind, setKind] = useState<Kind>(trigger?.target.kind === 'session' ? 'session' : target.kind);
  const [agent, setAgent] = useState(agentOf(trigger?.target));
  const [text, setText] = useState(trigger?.target.prompt ?? target.description);
  const [session, setSession] = useState(trigger?.target.session_id ?? '');
  const [delivery, setDelivery] = useState<'enqueue' | 'steer'>(trigger?.target.delivery === 'steer' ? 'steer' : 'enqueue');
  const [rate, setRate] = useState(String(trigger?.rate_limit ?? 60));
  const [error, setError] = useState<unknown>();
  const note = rich('Texts can use values of the event, for example {example}.', { example: <code key="example">{'{{body.name}}'}</code> });
  const area = useRef<HTMLTextAreaElement>(null);
  const at = (field: string) =>
    error instanceof EverloopError ? error.errors.find((one) => one.location.startsWith(`body.${field}`))?.message : undefined;
  const change = (part: Partial<typeof target>) => setTarget((was) => ({ ...was, ...part }));
  const body = (): Trigger['target'] => {
    // The values that a message uses have no field here: those that were set over the API stay.
    const inputs = trigger?.target.inputs && trigger.target.kind !== 'dag' ? { inputs: trigger.target.inputs } : {};
    if (kind === 'session') return { kind, prompt: text, session_id: session, delivery, ...inputs };
    if (kind === 'prompt') return { ...targetBody({ ...target, kind }, agent), prompt: text, ...inputs };
    return targetBody({ ...target, kind, description: text }, agent);
  };
  const save = useAction(async () => {
    const fields = {
      name: name.trim(), filter, rate_limit: Number(rate) || 60, target: body(),
      ...(from === 'run_ended' ? { on, source } : {}),
    };
    if (trigger) return api().updateTrigger(trigger.id, fields);
    return api().createTrigger({ ...fields, kind: from, ...(from === 'webhook' ? { auth, ...(secret ? { secret } : {}) } : {}) });
  }, { done: trigger ? t('The trigger was saved.') : undefined, refresh: [['triggers']] });
  const submit = async () => {
    if (kind === 'dag' && target.wrong) throw new Error('an input cannot be read'); // its field says why
    setError(undefined);
    try {
      const saved = await save.mutateAsync();
      close();
      if (saved.secret) made?.(saved, saved.secret);
    } catch (why) {
      setError(why);
      throw why;
    }
  };
  return (
    <FormDialog
      open
      onOpenChange={close}
      title={trigger ? trigger.name : t('New trigger')}
      confirm={trigger ? t('Save') : t('Create')}
      submit={submit}
    >
      <Field label={t('Name')} error={at('name')}>
        {(ids) => (
          <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} required maxLength={200} autoFocus dir="auto" />
        )}
      </Field>
      {!trigger && (
        <Field label={t('Starts when')}>
          {(ids) => (
            <Select {...ids} value={from} onChange={(event) => setFrom(event.target.value as Trigger['kind'])}>
              <option value="webhook">{t('another service sends an event')}</option>
              <option value="run_ended">{t('a run ends')}</option>
            </Select>
          )}
        </Field>
      )}
      {from === 'webhook' ? (
        !trigger && (
          <Field label={t('Sender')} hint={t('It authenticates with a secret, which you get when the trigger is created.')}>
            {(ids) => (
              <Select {...ids} value={auth} onChange={(event) => setAuth(event.target.value as Auth)}>
                {Object.entries(senders).map(([id, label]) => (
                  <option key={id} value={id}>
                    {label}
                  </option>
                ))}
              </Select>
            )}
          </Field>
        )
      ) : (
        <SourceFields source={source} on={on} setSource={setSource} setOn={setOn} />
      )}
      <Field label={t('Then')}>
        {(ids) => (
          <Select {...ids} value={kind} onChange={(event) => setKind(event.target.value as Kind)}>
            {Object.entries(starts).map(([id, label]) => (
              <option key={id} value={id}>
                {label}
              </option>
            ))}
          </Select>
        )}
      </Field>
      {kind === 'prompt' && <AgentField value={agent} change={setAgent} error={at('target.agent_id')} only />}
      {kind === 'dag' && <DagFields target={target} change={change} at={at} note={note} />}
      {kind === 'issue' && <IssueFields target={target} change={change} at={at} title={t('Empty: the name of the trigger.')} />}
      {kind === 'session' && (
        <div className="grid gap-3 sm:grid-cols-2">
          <SessionChoice value={session} change={setSession} />
          <Field label={t('While it works')}>
            {(ids) => (
              <Select {...ids} value={delivery} onChange={(event) => setDelivery(event.target.value as 'enqueue' | 'steer')}>
                <option value="enqueue">{t('the message waits')}</option>
                <option value="steer">{t('the agent sees it immediately')}</option>
              </Select>
            )}
          </Field>
        </div>
      )}
      {kind !== 'dag' && (
        <div className="space-y-1.5">
          <Field
            label={kind === 'session' ? t('Message') : kind === 'issue' ? t('Description') : t('Prompt')}
            error={at('target.prompt') ?? at('target.description')}
          >
            {(ids) => (
              <Area
                {...ids}
                ref={area}
                rows={4}
                required={kind !== 'issue'}
                value={text}
                onChange={(event) => setText(event.target.value)}
                dir="auto"
              />
            )}
          </Field>
          <Insert values={references} insert={(one) => setText(inserted(text, one, area.current))} />
        </div>
      )}
      <Part title={t('More options')} open={filter !== '' || rate !== '60'} wrong={at('filter') !== undefined || at('secret') !== undefined}>
        <Field
          label={t('Filter')}
          error={at('filter')}
          hint={rich('Only events that match this condition start something, for example {example}. Empty: all.', {
            example: <code key="example">{'event == "push" and body.ref == "refs/heads/main"'}</code>,
          })}
        >
          {(ids) => (
            <Area
              {...ids}
              rows={2}
              className="min-h-12 font-mono text-xs"
              spellCheck={false}
              value={filter}
              onChange={(event) => setFilter(event.target.value)}
            />
          )}
        </Field>
        <Field label={t('Maximum events per minute')} error={at('rate_limit')}>
          {(ids) => <Input {...ids} type="number" min={1} max={600} value={rate} onChange={(event) => setRate(event.target.value)} />}
        </Field>
        {!trigger && from === 'webhook' && (
          <Field
            label={t('Secret of the sender')}
            error={at('secret')}
            hint={t('Only where the sender sets it, such as the signing secret of a Slack app. Empty: a new one is created.')}
          >
            {(ids) => (
              <Input
                {...ids}
                minLength={16}
                maxLength={512}
                autoComplete="off"
                spellCheck={false}
                value={secret}
                onChange={(event) => setSecret(event.target.value)}
              />
            )}
          </Field>
        )}
      </Part>
    </FormDialog>
  );
}

/** agentOf returns the production agent of a target as a choice of AgentField. */
const agentOf = (target: Trigger['target'] | undefined): string => (typeof target?.agent_id === 'string' ? `agent:${target.agent_id}` : '');

function SourceFields({ source, on, setSource, setOn }: {
  source: Source; on: Trigger['on']; setSource: (source: Source) => void; setOn: (on: Trigger['on']) => void;
}) {
  const tasks = useQuery({ queryKey: ['schedules', 'list'], queryFn: ({ signal }) => api().listScheduledTasks({ signal }) });
  const dags = useQuery({
    queryKey: ['dags', 'list', 'all'],
    queryFn: ({ signal }) => api().listProdSolutions({ query: { limit: 200 }, signal }),
    staleTime: 60_000,
  });
  const choices = source.kind === 'task'
    ? (tasks.data ?? []).map((one) => ({ id: one.id, name: one.title })) : (dags.data?.items ?? []).map(({ id, name }) => ({ id, name }));
  const toggle = (event: Trigger['on'][number], wanted: boolean) =>
    setOn(wanted ? [...on, event] : on.filter((one) => one !== event));
  return (
    <>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label={t('Of')}>
          {(ids) => (
            <Select {...ids} value={source.kind} onChange={(event) => setSource({ kind: event.target.value as Source['kind'], id: '' })}>
              <option value="task">{t('a schedule')}</option>
              <option value="dag">{t('a DAG')}</option>
              <option value="issue">{t('an issue')}</option>
            </Select>
          )}
        </Field>
        {source.kind === 'issue' ? (
          <Field label={t('Id of the issue')}>
            {(ids) => <Input {...ids} required value={source.id} onChange={(event) => setSource({ ...source, id: event.target.value.trim() })} />}
          </Field>
        ) : (
          <Field label={source.kind === 'task' ? t('Schedule') : t('DAG')}>
            {(ids) => (
              <Select {...ids} required value={source.id} onChange={(event) => setSource({ ...source, id: event.target.value })}>
                <option value="">{t('choose')}</option>
                {source.id && !choices.some((one) => one.id === source.id) && <option value={source.id}>{source.id}</option>}
                {choices.map((one) => (
                  <option key={one.id} value={one.id}>
                    {one.name}
                  </option>
                ))}
              </Select>
            )}
          </Field>
        )}
      </div>
      <div className="flex flex-wrap gap-x-4 gap-y-1">
        <Check
          label={t('when it has worked')}
          checked={on.includes('run_completed')}
          onChange={(event) => toggle('run_completed', event.target.checked)}
        />
        <Check
          label={t('when it has failed')}
          checked={on.includes('run_failed')}
          onChange={(event) => toggle('run_failed', event.target.checked)}
        />
      </div>
    </>
  );
}

/** Secret shows the address of a trigger and its secret, which cannot be read again, with a command to try it. */
export function Secret({ trigger, secret, close }: { trigger: Trigger; secret: string; close: () => void }) {
  const address = trigger.path ? addressOf(trigger.path) : undefined;
  return (
    <Dialog
      open
      onOpenChange={close}
      title={t('The trigger is ready')}
      description={t('Enter the address and the secret at the sender. The secret is shown only now.')}
    >
      <div className="space-y-3">
        {address && <Copied label={t('Address')} text={address} />}
        <Copied label={t('Secret')} text={secret} />
        {address && trigger.auth && (
          <section aria-label={t('Try it')}>
            <h3 className="mb-1 text-sm font-medium">{t('Try it')}</h3>
            <Code text={curlOf(address, trigger.auth, secret)} language="bash" label={t('Command that sends an event')} />
          </section>
        )}
      </div>
    </Dialog>
  );
}

/** Copied shows a text with a button that copies it. */
export function Copied({ label, text }: { label: string; text: string }) {
  return (
    <section aria-label={label}>
      <h3 className="mb-1 text-sm font-medium">{label}</h3>
      <div className="flex items-center gap-2 rounded-md border bg-panel px-3 py-1.5">
        <code className="min-w-0 flex-1 text-sm break-all">{text}</code>
        <CopyButton text={text} label={t('Copy: {name}', { name: label })} />
      </div>
    </section>
  );
}
