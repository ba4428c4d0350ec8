import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { api } from '../../lib/query';

export const useWorkspace = (id: string) =>
  useQuery({ queryKey: ['board', id], queryFn: ({ signal }) => api().getProdWorkspace(id, { signal }), staleTime: 30_000 });

export type AssigneeType = NonNullable<Schemas['Issue']['assignee_type']>;

/** Candidate is whom issues can be assigned to; `key` is its type and id. */
export interface Candidate {
  key: string;
  type: AssigneeType;
  id: string;
  name: string;
}

export const candidateKey = (type: string | null, id: string | null): string => (type && id ? `${type}:${id}` : '');

/** useCandidates reads the agents, squads and members of a workspace. */
export function useCandidates(workspace: string) {
  return useQuery({
    queryKey: ['board', workspace, 'candidates'], staleTime: 30_000,
    queryFn: async ({ signal }): Promise<Candidate[]> => {
      const [agents, squads, members] = await Promise.all([
        api().listProdWorkspaceAgents(workspace, { query: { limit: 200 }, signal }),
        api().listSquads(workspace, { signal }),
        api().listProdWorkspaceMembers(workspace, { signal }),
      ]);
      const candidate = (type: AssigneeType, id: string, name: string): Candidate => ({ key: candidateKey(type, id), type, id, name });
      return [
        ...agents.items.map((one) => candidate('agent', one.id, one.name)),
        ...squads.items.map((one) => candidate('squad', one.id, one.name)),
        ...members.items.map((one) => candidate('member', one.user_id, one.name || one.email || one.user_id)),
      ];
    },
  });
}
