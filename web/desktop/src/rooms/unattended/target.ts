import type { Schemas } from '@everloop/sdk';
import { t } from '../../lib/i18n';

type Stored = Schemas['Target'];

/** Target is what a schedule or a trigger starts, as a form edits it. A production agent is a choice of the agent, not a kind. */
export interface Target {
  kind: 'prompt' | 'dag' | 'issue';
  dag: string;
  version: number; // 0: the published one
  inputs: Record<string, unknown>;
  wrong: boolean; // an input cannot be read
  workspace: string;
  title: string; // of the issue; empty: that of the schedule or trigger
  description: string;
  priority: NonNullable<Stored['priority']>;
  assignee: string; // TYPE:ID
  project: string;
  labels: string; // with commas
}

export const kinds: Record<Target['kind'], string> = { prompt: t('an agent with a prompt'), dag: t('a DAG'), issue: t('an issue on a board') };

/** targetOf returns the form of a stored target. A DAG without inputs of its own gets the given ones. */
export function targetOf(stored: Stored | undefined, inputs: Record<string, unknown> = {}): Target {
  return {
    kind: stored?.kind === 'dag' || stored?.kind === 'issue' ? stored.kind : 'prompt',
    dag: stored?.solution_id ?? '',
    version: stored?.version ?? 0,
    inputs: stored?.kind === 'dag' ? (stored.inputs ?? inputs) : {},
    wrong: false,
    workspace: stored?.workspace_id ?? '',
    title: stored?.title ?? '',
    description: stored?.description ?? '',
    priority: stored?.priority ?? 'none',
    assignee: stored?.assignee_id ? `${stored.assignee_type ?? ''}:${stored.assignee_id}` : '',
    project: stored?.project ?? '',
    labels: stored?.labels?.join(', ') ?? '',
  };
}

/** targetBody returns the target of a request, with the fields of its kind alone. The agent is a choice of AgentField. */
export function targetBody(target: Target, agent: string): Stored {
  switch (target.kind) {
    case 'prompt':
      return agent.startsWith('agent:') ? { kind: 'agent', agent_id: agent.slice('agent:'.length) } : { kind: 'prompt' };
    case 'dag':
      return {
        kind: 'dag', solution_id: target.dag,
        ...(Object.keys(target.inputs).length > 0 ? { inputs: target.inputs } : {}),
        ...(target.version > 0 ? { version: target.version } : {}),
      };
    case 'issue': {
      const [type, id] = target.assignee.split(':');
      const labels = target.labels.split(',').map((one) => one.trim()).filter((one) => one !== '');
      return {
        kind: 'issue', workspace_id: target.workspace, priority: target.priority,
        ...(target.title.trim() ? { title: target.title.trim() } : {}),
        ...(target.description.trim() ? { description: target.description } : {}),
        ...(id ? { assignee_id: id } : {}),
        ...(id && type ? { assignee_type: type as NonNullable<Stored['assignee_type']> } : {}),
        ...(target.project.trim() ? { project: target.project.trim() } : {}),
        ...(labels.length > 0 ? { labels } : {}),
      };
    }
  }
}
