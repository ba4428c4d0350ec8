import type { Body, Schemas } from '@everloop/sdk';
import { type Pair, pairsOf, valuesOf } from '../unattended/pairs';
import { linesOf, objectOf } from '../unattended/pieces';
import { type Setup, setupBody, setupOf } from '../unattended/setup';
import { type Target, targetBody, targetOf } from '../unattended/target';

type Task = Schemas['ScheduledTask'];

/** Draft is a schedule as the form edits it. */
export interface Draft {
  title: string;
  prompt: string;
  cron: string;
  timezone: string;
  enabled: boolean;
  model: string;
  setup: Setup;
  target: Target;
  inputs: Pair[];
  workspace: string;
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

/** localTime returns a time as an input of the browser shows it. */
export const localTime = (iso: string | null): string => {
  if (!iso) return '';
  const at = new Date(iso);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};

/** draftOf returns the form of a task, or of a new one. */
export const draftOf = (task: Task | undefined): Draft => ({
  title: task?.title ?? '',
  prompt: task?.target?.description ?? task?.prompt ?? '', // the description of an issue is its prompt
  cron: task?.cron ?? '0 9 * * 1-5',
  timezone: task?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
  enabled: task?.enabled ?? true,
  model: task?.model ?? '',
  setup: setupOf(task),
  target: { ...targetOf(task?.target, task?.inputs ?? {}), description: '' },
  inputs: pairsOf(task?.inputs),
  workspace: task?.workspace_id ?? '',
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

/** bodyOf returns the request of a form. What configures chats is left out where the target starts none. */
export function bodyOf(draft: Draft): Body<'create-scheduled-task'> {
  const target = targetBody(draft.target, draft.setup.agent);
  const chats = draft.target.kind === 'prompt';
  return {
    title: draft.title.trim(),
    ...(draft.prompt.trim() ? { prompt: draft.prompt } : {}),
    cron: draft.cron,
    timezone: draft.timezone,
    enabled: draft.enabled,
    target,
    inputs: valuesOf(draft.inputs).values,
    workspace_id: draft.workspace || null,
    overlap: draft.overlap,
    catchup_window_s: number(draft.catchup, 60) ?? 3600,
    jitter_s: number(draft.jitter) ?? 0,
    pause_on_failure_after: number(draft.pause) ?? 5,
    expires_at: draft.expires ? new Date(draft.expires).toISOString() : null,
    notify: draft.notify,
    ...(chats ? chatBody(draft) : {}),
  };
}

function chatBody(draft: Draft): Partial<Body<'create-scheduled-task'>> {
  const schema = objectOf(draft.schema);
  const policy = { timeout_s: number(draft.timeout, 60), escalate_after_s: number(draft.escalate, 60) };
  return {
    model: draft.model || null,
    ...setupBody(draft.setup),
    persistent: draft.persistent,
    skip_confirmations: draft.skip_confirmations,
    budget: draft.tokens || draft.cost ? { max_tokens: number(draft.tokens), max_cost: draft.cost ? Number(draft.cost) : null } : null,
    question_policy: policy.timeout_s || policy.escalate_after_s ? { ...policy, on_timeout: draft.on_timeout } : null,
    files: linesOf(draft.files),
    commands: linesOf(draft.commands),
    output_schema: 'value' in schema ? schema.value : null,
  };
}
