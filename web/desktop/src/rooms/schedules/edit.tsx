import { EverloopError, type Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import { rich, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button } from '../../ui/button';
import { Area, Check, Field, Input, Select } from '../../ui/field';
import { Loaded, Page } from '../../ui/page';
import { Pairs, valuesOf } from '../unattended/pairs';
import { Crumbs, objectOf } from '../unattended/pieces';
import { AgentField, EnvironmentFields, ModeField, ModelField, Part, SkillsField } from '../unattended/setup-fields';
import { kinds } from '../unattended/target';
import { DagFields, IssueFields } from '../unattended/target-fields';
import { CronBuilder } from './builder';
import { bodyOf, type Draft, draftOf } from './draft';
import { Insert, inserted, tickValues } from './insert';
import { overlaps } from './words';

type Task = Schemas['ScheduledTask'];

export default function EditSchedule() {
  const { taskId } = useParams({ strict: false }) as { taskId?: string };
  const task = useQuery({
    queryKey: ['schedules', taskId],
    enabled: taskId !== undefined,
    queryFn: ({ signal }) => api().getScheduledTask(taskId ?? '', { signal }),
    staleTime: 0,
    refetchOnWindowFocus: false,
  });
  return (
    <Page narrow title={<Crumbs to="/schedules" label={t('Schedules')}>{taskId ? task.data?.title ?? '…' : t('New schedule')}</Crumbs>}>
      {taskId === undefined ? <Form /> : <Loaded query={task}>{(found) => <Form key={found.id} task={found} />}</Loaded>}
    </Page>
  );
}

function Form({ task }: { task?: Task }) {
  const navigate = useNavigate();
  const [draft, setDraft] = useState(() => draftOf(task));
  const [error, setError] = useState<unknown>();
  const webhooks = useQuery({ queryKey: ['webhooks', 'list'], queryFn: ({ signal }) => api().listWebhooks({ signal }), staleTime: 60_000 });
  const workspaces = useQuery({
    queryKey: ['board', 'workspaces', 'all'],
    queryFn: ({ signal }) => api().listProdWorkspaces({ query: { limit: 200 }, signal }),
    staleTime: 60_000,
  });
  const prompt = useRef<HTMLTextAreaElement>(null);
  const change = (part: Partial<Draft>) => setDraft((was) => ({ ...was, ...part }));
  const save = useAction(() => (task ? api().updateScheduledTask(task.id, bodyOf(draft)) : api().createScheduledTask(bodyOf(draft))), {
    done: task ? t('The schedule was saved.') : t('The schedule was created.'), refresh: [['schedules']],
  });
  const schema = objectOf(draft.schema);
  const inputs = valuesOf(draft.inputs);
  const schemaError = 'error' in schema ? schema.error : undefined;
  const at = (field: string) =>
    error instanceof EverloopError ? error.errors.find((one) => one.location.startsWith(`body.${field}`))?.message : undefined;
  const wrong = (...fields: string[]) => fields.some((field) => at(field) !== undefined);
  const setup = (part: Partial<Draft['setup']>) => setDraft((was) => ({ ...was, setup: { ...was.setup, ...part } }));
  const target = (part: Partial<Draft['target']>) => setDraft((was) => ({ ...was, target: { ...was.target, ...part } }));
  const { kind } = draft.target;
  const chats = kind === 'prompt';
  const own = !draft.setup.agent.startsWith('agent:'); // a production agent defines the rest
  const note = rich('Texts can use values of the run, for example {example}.', { example: <code key="example">{'{{tick.time}}'}</code> });
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if ((chats && schemaError) || inputs.fault || (kind === 'dag' && draft.target.wrong)) return;
    setError(undefined);
    try {
      const saved = await save.mutateAsync();
      await navigate({ to: '/schedules/$taskId', params: { taskId: saved.id } });
    } catch (why) {
      setError(why);
    }
  };
  const back = () => void (task ? navigate({ to: '/schedules/$taskId', params: { taskId: task.id } }) : navigate({ to: '/schedules' }));
  return (
    <form onSubmit={(event) => void submit(event)} className="space-y-5 pb-8">
      <Field label={t('Title')} error={at('title')}>
        {(ids) => (
          <Input
            {...ids}
            value={draft.title}
            onChange={(event) => change({ title: event.target.value })}
            required
            maxLength={200}
            autoFocus={!task}
          />
        )}
      </Field>
      {kind === 'dag' && <DagFields target={draft.target} change={target} at={at} note={note} />}
      {kind === 'issue' && <IssueFields target={draft.target} change={target} at={at} title={t('Empty: that of the schedule.')} />}
      {kind !== 'dag' && (
        <div className="space-y-1.5">
          <Field
            label={kind === 'issue' ? t('Description') : t('Prompt')}
            error={at('prompt')}
            hint={
              kind === 'issue'
                ? t('Sent to the agent as its task.')
                : t('Sent to the agent at each planned time. Describe the result that you expect.')
            }
          >
            {(ids) => (
              <Area
                {...ids}
                ref={prompt}
                value={draft.prompt}
                onChange={(event) => change({ prompt: event.target.value })}
                required={chats}
                rows={5}
                dir="auto"
              />
            )}
          </Field>
          <Insert
            values={[...tickValues, ...Object.keys(inputs.values).map((name) => ({ text: `{{input.${name}}}`, label: name }))]}
            insert={(text) => change({ prompt: inserted(draft.prompt, text, prompt.current) })}
          />
        </div>
      )}
      <CronBuilder cron={draft.cron} zone={draft.timezone} end={draft.expires} change={(part) => change(part)} />
      {at('cron') && (
        <p role="alert" className="text-sm text-bad">
          {at('cron')}
        </p>
      )}
      <More open={task !== undefined} wrong={error !== undefined || inputs.fault !== undefined || schemaError !== undefined}>
      <Part title={t('What it starts')} note={kinds[kind]} open={!chats} wrong={wrong('target.kind')}>
        <Field label={t('Each run starts')}>
          {(ids) => (
            <Select {...ids} value={kind} onChange={(event) => target({ kind: event.target.value as Draft['target']['kind'] })}>
              {Object.entries(kinds).map(([id, label]) => (
                <option key={id} value={id}>
                  {label}
                </option>
              ))}
            </Select>
          )}
        </Field>
      </Part>

      {chats && (
        <Part
          title={t('Agent and model')}
          note={t('who does the work')}
          open={task !== undefined && (draft.setup.agent !== '' || draft.model !== '' || draft.setup.mode !== '' || draft.setup.skills !== '')}
          wrong={wrong('agent_id', 'solution_id', 'biz_role_id', 'model', 'mode', 'skills')}
        >
          <div className="grid gap-3 sm:grid-cols-2">
            <AgentField
              value={draft.setup.agent}
              change={(agent) => setup({ agent })}
              error={at('agent_id') ?? at('solution_id') ?? at('biz_role_id')}
            />
            <ModelField value={draft.model} change={(model) => change({ model })} error={at('model')} />
            {own && <ModeField value={draft.setup.mode} change={(mode) => setup({ mode })} />}
          </div>
          {own && <SkillsField value={draft.setup.skills} change={(skills) => setup({ skills })} error={at('skills')} />}
        </Part>
      )}

      <Part
        title={t('Inputs of the prompt')}
        note={t('values that you change without changing the prompt')}
        open={draft.inputs.length > 0}
        wrong={wrong('inputs') || inputs.fault !== undefined}
      >
        <p className="text-sm text-soft">
          {rich('In the prompt, {reference} stands for the value of the input “topic”.', {
            reference: <code key="reference">{'{{input.topic}}'}</code>,
          })}
        </p>
        <Pairs rows={draft.inputs} change={(next) => change({ inputs: next })} add={t('Add an input')} />
        {(inputs.fault ?? at('inputs')) && <p role="alert" className="text-xs text-bad">{inputs.fault ?? at('inputs')}</p>}
      </Part>

      {chats && (
        <>
          <Part
            title={t('Session and budget')}
            note={t('one for each run, without a limit')}
            open={task !== undefined && (task.persistent || Boolean(task.budget) || task.workspace_id !== null)}
            wrong={wrong('budget', 'workspace_id')}
          >
            <div className="grid gap-3 sm:grid-cols-2">
              <Field label={t('Budget in tokens')} error={at('budget.max_tokens')} hint={t('Empty: no limit.')}>
                {(ids) => (
                  <Input {...ids} type="number" min={1} value={draft.tokens} onChange={(event) => change({ tokens: event.target.value })} />
                )}
              </Field>
              <Field label={t('Budget in money (USD)')} error={at('budget.max_cost')} hint={t('Empty: no limit.')}>
                {(ids) => (
                  <Input
                    {...ids}
                    type="number"
                    min={0}
                    step="any"
                    value={draft.cost}
                    onChange={(event) => change({ cost: event.target.value })}
                  />
                )}
              </Field>
              {((workspaces.data?.items ?? []).length > 0 || draft.workspace) && (
                <Field label={t('Shared with the workspace')} error={at('workspace_id')} hint={t('Its members can read the schedule and its sessions.')}>
                  {(ids) => (
                    <Select {...ids} value={draft.workspace} onChange={(event) => change({ workspace: event.target.value })}>
                      <option value="">{t('no workspace')}</option>
                      {draft.workspace && !workspaces.data?.items.some((one) => one.id === draft.workspace) && (
                        <option value={draft.workspace}>{draft.workspace}</option>
                      )}
                      {workspaces.data?.items.map((one) => (
                        <option key={one.id} value={one.id}>
                          {one.name}
                        </option>
                      ))}
                    </Select>
                  )}
                </Field>
              )}
            </div>
            <Check
              label={t('All runs share one session')}
              hint={t('They see the earlier messages.')}
              checked={draft.persistent}
              onChange={(event) => change({ persistent: event.target.checked })}
            />
          </Part>

          <Part
            title={t('Environment and permissions')}
            note={t('what its commands may see and do')}
            open={task !== undefined && own && (draft.setup.buckets.length > 0 || draft.setup.network !== '' || draft.setup.memory
              || draft.setup.permissions.length > 0)}
            wrong={wrong('env_buckets', 'network', 'memory_enabled', 'permissions')}
          >
            {own ? (
              <EnvironmentFields setup={draft.setup} change={setup} at={at} />
            ) : (
              <p className="text-sm text-soft">{t('The chosen agent defines them.')}</p>
            )}
          </Part>
        </>
      )}

      <Part
        title={t('Late runs and overlaps')}
        note={t('when runs are late, long or fail')}
        wrong={wrong('overlap', 'catchup_window_s', 'pause_on_failure_after', 'jitter_s', 'expires_at')}
        open={task !== undefined && (task.overlap !== 'skip' || task.expires_at !== null || task.jitter_s > 0)}
      >
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label={t('While an earlier run is active')}>
            {(ids) => (
              <Select {...ids} value={draft.overlap} onChange={(event) => change({ overlap: event.target.value as Draft['overlap'] })}>
                {Object.entries(overlaps).map(([id, label]) => (
                  <option key={id} value={id}>
                    {label}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <Field
            label={t('Start deadline (minutes)')}
            error={at('catchup_window_s')}
            hint={t('For example after the service was down.')}
          >
            {(ids) => (
              <Input
                {...ids}
                type="number"
                min={0}
                max={43_200}
                required
                value={draft.catchup}
                onChange={(event) => change({ catchup: event.target.value })}
              />
            )}
          </Field>
          <Field label={t('Disable after consecutive failures')} error={at('pause_on_failure_after')} hint={t('0: never.')}>
            {(ids) => (
              <Input
                {...ids}
                type="number"
                min={0}
                max={1000}
                required
                value={draft.pause}
                onChange={(event) => change({ pause: event.target.value })}
              />
            )}
          </Field>
          <Field label={t('Random delay, up to (seconds)')} error={at('jitter_s')} hint={t('Spreads runs that are due at the same time.')}>
            {(ids) => (
              <Input
                {...ids}
                type="number"
                min={0}
                required
                value={draft.jitter}
                onChange={(event) => change({ jitter: event.target.value })}
              />
            )}
          </Field>
          <Field label={t('Ends')} error={at('expires_at')} hint={t('No runs at or after this time. Empty: no end.')}>
            {(ids) => (
              <Input {...ids} type="datetime-local" value={draft.expires} onChange={(event) => change({ expires: event.target.value })} />
            )}
          </Field>
        </div>
      </Part>

      {(chats || (webhooks.data?.items ?? []).length > 0) && (
        <Part
          title={t('Questions and notices')}
          note={t('who answers, and who is notified')}
          open={task !== undefined && (Boolean(task.question_policy) || task.notify.length > 0 || task.skip_confirmations)}
          wrong={wrong('question_policy', 'notify')}
        >
          {chats && (
            <>
              <Check
                label={t('Go on without asking')}
                hint={t('Permission requests are granted, except for network access; questions go back to the model.')}
                checked={draft.skip_confirmations}
                onChange={(event) => change({ skip_confirmations: event.target.checked })}
              />
              <p className="text-sm text-soft">{t('By default, a question waits in the inbox and the run waits for its answer.')}</p>
              <div className="grid gap-3 sm:grid-cols-2">
                <Field
                  label={t('Decide without you after (minutes)')}
                  error={at('question_policy.timeout_s')}
                  hint={t('Empty: no time limit.')}
                >
                  {(ids) => (
                    <Input
                      {...ids}
                      type="number"
                      min={1}
                      max={43_200}
                      value={draft.timeout}
                      onChange={(event) => change({ timeout: event.target.value })}
                    />
                  )}
                </Field>
                <Field label={t('Then')}>
                  {(ids) => (
                    <Select
                      {...ids}
                      value={draft.on_timeout}
                      disabled={draft.timeout === ''}
                      onChange={(event) => change({ on_timeout: event.target.value as Draft['on_timeout'] })}
                    >
                      <option value="choose">{t('the model chooses')}</option>
                      <option value="first_option">{t('the first option is chosen')}</option>
                    </Select>
                  )}
                </Field>
                <Field label={t('Notify webhooks of an open question after (minutes)')} error={at('question_policy.escalate_after_s')}>
                  {(ids) => (
                    <Input
                      {...ids}
                      type="number"
                      min={1}
                      max={43_200}
                      value={draft.escalate}
                      onChange={(event) => change({ escalate: event.target.value })}
                    />
                  )}
                </Field>
              </div>
            </>
          )}
          {(webhooks.data?.items ?? []).length > 0 && (
            <fieldset className="space-y-1">
              <legend className="text-sm font-medium">{t('Webhooks that receive its events')}</legend>
              {webhooks.data?.items.map((hook) => (
                <Check
                  key={hook.id}
                  label={<span className="break-all">{hook.description || hook.url}</span>}
                  checked={draft.notify.includes(hook.id)}
                  onChange={(event) =>
                    change({ notify: event.target.checked ? [...draft.notify, hook.id] : draft.notify.filter((one) => one !== hook.id) })
                  }
                />
              ))}
            </fieldset>
          )}
        </Part>
      )}

      {chats && (
        <Part
          title={t('Outcome contract')}
          note={t('what must be there after a run')}
          wrong={wrong('files', 'commands', 'output_schema') || schemaError !== undefined}
          open={task !== undefined && (task.files.length > 0 || task.commands.length > 0 || task.output_schema !== null)}
        >
          <p className="text-sm text-soft">
            {t('Conditions that must be met after a run, otherwise it counts as failed. The agent does not see them: state your expectations in the prompt.')}
          </p>
          <Field
            label={t('Files')}
            error={at('files')}
            hint={t('Patterns, one per line, for example report/*.md. Each must match a file of the workspace.')}
          >
            {(ids) => (
              <Area
                {...ids}
                value={draft.files}
                onChange={(event) => change({ files: event.target.value })}
                rows={2}
                className="min-h-14 font-mono"
                spellCheck={false}
              />
            )}
          </Field>
          <Field
            label={t('Commands')}
            error={at('commands')}
            hint={t('One command per line. Each must end with exit code 0. They can run again after a crash.')}
          >
            {(ids) => (
              <Area
                {...ids}
                value={draft.commands}
                onChange={(event) => change({ commands: event.target.value })}
                rows={2}
                className="min-h-14 font-mono"
                spellCheck={false}
              />
            )}
          </Field>
          <Field label={t('JSON Schema of the result')} error={schemaError ?? at('output_schema')} hint={t('Empty: the result is text.')}>
            {(ids) => (
              <Area
                {...ids}
                value={draft.schema}
                onChange={(event) => change({ schema: event.target.value })}
                rows={4}
                className="font-mono"
                spellCheck={false}
              />
            )}
          </Field>
        </Part>
      )}

      <Check
        label={t('Enabled')}
        hint={t('A disabled schedule does not run by itself. You can still run it now.')}
        checked={draft.enabled}
        onChange={(event) => change({ enabled: event.target.checked })}
      />
      </More>

      <div className="flex justify-end gap-2 border-t pt-4">
        <Button onClick={back}>{t('Cancel')}</Button>
        <Button type="submit" look="primary" busy={save.isPending}>
          {task ? t('Save') : t('Create')}
        </Button>
      </div>
    </form>
  );
}

/** More has what a new schedule does not need. */
function More({ open: initial, wrong, children }: { open: boolean; wrong: boolean; children: ReactNode }) {
  const [open, setOpen] = useState(initial);
  useEffect(() => {
    if (wrong) setOpen(true);
  }, [wrong]);
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="cursor-pointer text-sm font-medium text-accent hover:underline">{t('More options')}</summary>
      {open && <div className="mt-3 space-y-3">{children}</div>}
    </details>
  );
}
