import type { Body, Schemas } from '@everloop/sdk';
import { linesOf } from './pieces';

export type Rule = Schemas['PermissionRule'];

/** Setup is the configuration of the sessions of unattended runs, as a form edits it. */
export interface Setup {
  agent: string; // '', agent:ID, solution:ID or role:SOLUTION ROLE
  mode: '' | 'executing' | 'planning';
  skills: string; // one per line
  buckets: string[];
  network: '' | 'none' | 'rules' | 'public';
  memory: boolean;
  permissions: Rule[];
}

type Stored = Pick<
  Schemas['ScheduledTask'],
  'agent_id' | 'solution_id' | 'biz_role_id' | 'mode' | 'skills' | 'env_buckets' | 'network' | 'memory_enabled' | 'permissions'
>;

/** agentOf returns the choice of an agent: a production agent, or a solution with or without a role. */
export function agentOf({ agent_id, solution_id, biz_role_id }: Pick<Stored, 'agent_id' | 'solution_id' | 'biz_role_id'>): string {
  if (agent_id) return `agent:${agent_id}`;
  if (!solution_id) return '';
  return biz_role_id ? `role:${solution_id} ${biz_role_id}` : `solution:${solution_id}`;
}

/** setupOf returns the form of a stored setup. */
export const setupOf = (stored: Stored | undefined): Setup => ({
  agent: stored ? agentOf(stored) : '',
  mode: stored?.mode ?? '',
  skills: stored?.skills?.join('\n') ?? '',
  buckets: stored?.env_buckets ?? [],
  network: stored?.network ?? '',
  memory: stored?.memory_enabled ?? false,
  permissions: stored?.permissions ?? [],
});

type SetupBody = Pick<Body<'create-scheduled-task'>, keyof Stored>;

/** setupBody returns the fields of a request. A production agent defines the others, which must then be empty. */
export function setupBody(setup: Setup): SetupBody {
  const [kind, id = ''] = split(setup.agent, ':');
  const [solution = '', role = ''] = kind === 'agent' ? [] : split(id, ' ');
  const own = kind !== 'agent';
  return {
    agent_id: own ? '' : id,
    solution_id: solution,
    biz_role_id: role,
    mode: (own && setup.mode) || null,
    skills: own ? linesOf(setup.skills) : [],
    env_buckets: own ? setup.buckets : [],
    network: (own && setup.network) || null,
    memory_enabled: own && setup.memory,
    permissions: own ? setup.permissions.filter((rule) => rule.tool.trim() !== '') : [],
  };
}

function split(text: string, by: string): [string, string?] {
  const at = text.indexOf(by);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + by.length)];
}
