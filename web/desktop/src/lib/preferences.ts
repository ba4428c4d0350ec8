import { useQuery, useQueryClient } from '@tanstack/react-query';
import { t } from './i18n';
import { api, useAction } from './query';

/** Preferences are kept by the service, so that they hold in each browser of a person. */
export interface Preferences {
  mode: 'executing' | 'planning'; // of new sessions
  model: string; // of new sessions; '': the service's default
  send: 'enter' | 'ctrl-enter';
}

export const defaults: Preferences = { mode: 'executing', model: '', send: 'enter' };

const name = 'desktop'; // of the preference that has them all, as JSON

/** readPreferences takes what it knows of a stored text; it may be of another version, or anything. */
export function readPreferences(text: string | null | undefined): Preferences {
  let stored: Record<string, unknown> = {};
  try {
    const value: unknown = JSON.parse(text ?? '{}');
    if (typeof value === 'object' && value !== null) stored = value as Record<string, unknown>;
  } catch {
    // Not JSON: the defaults.
  }
  return {
    mode: stored.mode === 'planning' ? 'planning' : 'executing',
    model: typeof stored.model === 'string' ? stored.model : '',
    send: stored.send === 'ctrl-enter' ? 'ctrl-enter' : 'enter',
  };
}

const key = ['preferences', name] as const;

/** usePreferences gives the defaults while they are read, and where the key of the person may not read them. */
export function usePreferences() {
  const query = useQuery({ queryKey: key, queryFn: ({ signal }) => api().getPreference(name, { signal }), staleTime: 300_000 });
  return { ...query, preferences: query.data ? readPreferences(query.data.value) : defaults };
}

export function useSetPreferences() {
  const client = useQueryClient();
  return useAction(
    async (next: Preferences) => {
      const stored = await api().setPreference(name, { value: JSON.stringify(next) });
      await client.cancelQueries({ queryKey: key }); // an answer from before must not replace it
      client.setQueryData(key, stored);
    },
    { done: t('The preference was saved.') },
  );
}
