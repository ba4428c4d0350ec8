import type { Schemas } from '@everloop/sdk';

/**
 * temporalUI is the address of Temporal's web UI: the one that is set, else where the service itself runs it, on this
 * page's host when that names none.
 */
export function temporalUI(config: readonly Schemas['ConfigGroup'][] | undefined, host = location.hostname): string | undefined {
  const items = config?.flatMap((group) => group.items) ?? [];
  const value = (name: string) => items.find((item) => item.env_var === name)?.value ?? '';
  const set = value('TEMPORAL_UI_URL').replace(/\/+$/, '');
  if (set) return set;
  const found = /^(.*):(\d+)$/.exec(value('TEMPORAL_UI_ADDR'));
  if (!found) return undefined;
  const named = ['', '0.0.0.0', '[::]'].includes(found[1] ?? '') ? host : found[1];
  return `http://${named}:${found[2]}`;
}

/** temporalRun is the page of a run there. */
export function temporalRun(ui: string, namespace: string, run: Pick<Schemas['OperatorRun'], 'workflow_id' | 'run_id'>): string {
  const workflow = encodeURIComponent(run.workflow_id);
  return `${ui}/namespaces/${encodeURIComponent(namespace)}/workflows/${workflow}/${encodeURIComponent(run.run_id)}/history`;
}
