import type { Body, Schemas } from '@everloop/sdk';
import { EverloopError } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button } from '../../ui/button';
import { Area, Check, Field, Input, Select } from '../../ui/field';
import { Loaded, Page } from '../../ui/page';
import { Crumbs, linesOf, objectOf } from '../unattended/pieces';
import { CronBuilder } from './builder';
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

interface Draft {
  title: string;
  prompt: string;
  cron: string;
  timezone: string;
  enabled: boolean;
  model: string;
  persistent: boolean;
  skip_confirmations: boolean;
  overlap: Task['overlap'];
  catchup: string; // minutes
  jitter: string; // seconds
  pause: string; // failures in a row
  expires: string; // local
  tokens: string;
  cost: string;
  timeout: string; // minutes
  on_timeout: 'choose' | 'first_option';
  escalate: string; // minutes
  files: string;
  commands: string;
  schema: string;
  notify: string[];
}

const text = (value: number | null | undefined, unit = 1): string => (value === null || value === undefined ? '' : String(value / unit));
const localTime = (iso: string | null): string => {
  if (!iso) return '';
  const at = new Date(iso);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};

const draftOf = (task: Task | undefined): Draft => ({
  title: task?.title ?? '',
  prompt: task?.prompt ?? '',
  cron: task?.cron ?? '0 9 * * 1-5',
  timezone: task?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
  enabled: task?.enabled ?? true,
  model: task?.model ?? '',
  persistent: task?.persistent ?? false,
  skip_confirmations: task?.skip_confirmations ?? false,
  overlap: task?.overlap ?? 'skip',
  catchup: text(task?.catchup_window_s ?? 3600, 60),
  jitter: text(task?.jitter_s ?? 0),
  pause: text(task?.pause_on_failure_after ?? 5),
  expires: localTime(task?.expires_at ?? null),
  tokens: text(task?.budget?.max_tokens),
  cost: text(task?.budget?.max_cost),
  timeout: text(task?.question_policy?.timeout_s, 60),
  on_timeout: task?.question_policy?.on_timeout === 'first_option' ? 'first_option' : 'choose',
  escalate: text(task?.question_policy?.escalate_after_s, 60),
  files: task?.files.join('\n') ?? '',
  commands: task?.commands.join('\n') ?? '',
  schema: task?.output_schema ? JSON.stringify(task.output_schema, null, 2) : '',
  notify: task?.notify ?? [],
});

const number = (value: string, unit = 1): number | null => (value.trim() === '' ? null : Math.round(Number(value) * unit));

/** bodyOf makes the request of what was entered. */
export function bodyOf(draft: Draft): Body<'create-scheduled-task'> {
  const schema = objectOf(draft.schema);
  const policy = { timeout_s: number(draft.timeout, 60), escalate_after_s: number(draft.escalate, 60) };
  return {
    title: draft.title.trim(),
    prompt: draft.prompt,
    cron: draft.cron,
    timezone: draft.timezone,
    enabled: draft.enabled,
    model: draft.model || null,
    persistent: draft.persistent,
    skip_confirmations: draft.skip_confirmations,
    overlap: draft.overlap,
    catchup_window_s: number(draft.catchup, 60) ?? 3600,
    jitter_s: number(draft.jitter) ?? 0,
    pause_on_failure_after: number(draft.pause) ?? 5,
    expires_at: draft.expires ? new Date(draft.expires).toISOString() : null,
    budget: draft.tokens || draft.cost ? { max_tokens: number(draft.tokens), max_cost: draft.cost ? Number(draft.cost) : null } : null,
    question_policy: policy.timeout_s || policy.escalate_after_s ? { ...policy, on_timeout: draft.on_timeout } : null,
    files: linesOf(draft.files),
    commands: linesOf(draft.commands),
    output_schema: 'value' in schema ? schema.value : null,
    notify: draft.notify,
  };
}

function Form({ task }: { task?: Task }) {
  const navigate = useNavigate();
  const [draft, setDraft] = useState(() => draftOf(task));
  const [error, setError] = useState<unknown>();
  const models = useQuery({ queryKey: ['models'], queryFn: ({ signal }) => api().listModels({ signal }), staleTime: 60_000 });
  const webhooks = useQuery({ queryKey: ['webhooks', 'list'], queryFn: ({ signal }) => api().listWebhooks({ signal }), staleTime: 60_000 });
  const change = (part: Partial<Draft>) => setDraft((was) => ({ ...was, ...part }));
  const save = useAction(() => (task ? api().updateScheduledTask(task.id, bodyOf(draft)) : api().createScheduledTask(bodyOf(draft))), {
    done: task ? t('The schedule was saved.') : t('The schedule was created.'), refresh: [['schedules']],
  });
  const schema = objectOf(draft.schema);
  const schemaError = 'error' in schema ? schema.error : undefined;
  const at = (field: string) =>
    error instanceof EverloopError ? error.errors.find((one) => one.location.startsWith(`body.${field}`))?.message : undefined;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (schemaError) return;
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
      <Field label={t('Prompt')} error={at('prompt')} hint={t('Sent to the agent at each planned time. Describe the result that you expect.')}>
        {(ids) => (
          <Area {...ids} value={draft.prompt} onChange={(event) => change({ prompt: event.target.value })} required rows={5} dir="auto" />
        )}
      </Field>
      <CronBuilder cron={draft.cron} zone={draft.timezone} change={(part) => change(part)} />
      {at('cron') && (
        <p role="alert" className="text-sm text-bad">
          {at('cron')}
        </p>
      )}
      <Check
        label={t('Enabled')}
        hint={t('A disabled schedule does not run by itself. You can still run it now.')}
        checked={draft.enabled}
        onChange={(event) => change({ enabled: event.target.checked })}
      />

      <Part
        title={t('Session of a run')}
        open={task !== undefined && (task.model !== null || task.persistent || task.skip_confirmations || Boolean(task.budget))}
      >
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label={t('Model')} error={at('model')}>
            {(ids) => (
              <Select {...ids} value={draft.model} onChange={(event) => change({ model: event.target.value })}>
                <option value="">{models.data ? t('{model} (default)', { model: models.data.default }) : t('Default model')}</option>
                {draft.model && !models.data?.models.some((one) => one.id === draft.model) && (
                  <option value={draft.model}>{draft.model}</option>
                )}
                {models.data?.models.map((one) => (
                  <option key={one.id} value={one.id}>
                    {one.name || one.id}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <span className="max-sm:hidden" />
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
        </div>
        <Check
          label={t('All runs share one session')}
          hint={t('They see the earlier messages.')}
          checked={draft.persistent}
          onChange={(event) => change({ persistent: event.target.checked })}
        />
        <Check
          label={t('Go on without asking')}
          hint={t('Permission requests are granted, except for network access; questions go back to the model.')}
          checked={draft.skip_confirmations}
          onChange={(event) => change({ skip_confirmations: event.target.checked })}
        />
      </Part>

      <Part
        title={t('Late runs and overlaps')}
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

      <Part title={t('Questions and notices')} open={task !== undefined && (Boolean(task.question_policy) || task.notify.length > 0)}>
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

      <Part
        title={t('Outcome contract')}
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

      <div className="flex justify-end gap-2 border-t pt-4">
        <Button onClick={back}>{t('Cancel')}</Button>
        <Button type="submit" look="primary" busy={save.isPending}>
          {task ? t('Save') : t('Create')}
        </Button>
      </div>
    </form>
  );
}

function Part({ title, open, children }: { title: string; open: boolean; children: React.ReactNode }) {
  return (
    <details open={open} className="rounded-lg border">
      <summary className="cursor-pointer px-3 py-2 text-sm font-medium">{title}</summary>
      <div className="space-y-3 border-t p-3">{children}</div>
    </details>
  );
}
