import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { t } from '../../lib/i18n';
import { api } from '../../lib/query';
import { Field, Select } from '../../ui/field';

/** useSessions are the newest sessions of the person, for lists to choose from. */
export const useSessions = () =>
  useQuery({ queryKey: ['sessions', 'choice'], queryFn: ({ signal }) => api().listSessions({ query: { limit: 100 }, signal }) });

/** SessionChoice chooses one of the newest sessions. */
export function SessionChoice({
  label = t('Session'),
  hint,
  value,
  change,
  empty,
}: {
  label?: string;
  hint?: ReactNode;
  value: string;
  change: (id: string) => void;
  empty?: string;
}) {
  const sessions = useSessions();
  return (
    <Field label={label} hint={hint}>
      {(ids) => (
        <Select {...ids} required={empty === undefined} value={value} onChange={(event) => change(event.target.value)}>
          <option value="">{sessions.data ? (empty ?? t('Choose a session')) : t('Loading…')}</option>
          {sessions.data?.items.map((one) => (
            <option key={one.id} value={one.id}>
              {(one.intent || t('New session')).slice(0, 80)}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}
