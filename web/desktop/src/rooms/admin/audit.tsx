import { useQuery } from '@tanstack/react-query';
import { ScrollText } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { dateTime } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api, usePages } from '../../lib/query';
import { Field, Input, Select } from '../../ui/field';
import { Badge, Empty, Loaded, More } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';

export function Audit() {
  const [actor, setActor] = useState('');
  const [action, setAction] = useState('');
  const [target, setTarget] = useState('');
  const by = useDeferredValue({
    ...(actor ? { actor_id: actor } : {}),
    ...(action.trim() ? { action: action.trim() } : {}),
    ...(target.trim() ? { target: target.trim() } : {}),
  });
  const users = useQuery({ queryKey: ['admin', 'users'], queryFn: ({ signal }) => api().listUsers({ signal }), staleTime: 60_000 });
  const list = usePages(['admin', 'audit', by], (page, signal) => api().listAudit({ query: { ...page, ...by }, signal }), 50);
  return (
    <Section title={t('Audit trail')} note={t('Actions of users and administrators, newest first.')}>
      <div className="mb-3 grid gap-3 sm:grid-cols-3">
        <Field label={t('Who')}>
          {(ids) => (
            <Select {...ids} value={actor} onChange={(event) => setActor(event.target.value)}>
              <option value="">{t('all users')}</option>
              {users.data?.items.map((user) => (
                <option key={user.id} value={user.id}>
                  {user.name || user.username}
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Field label={t('Action')}>
          {(ids) => <Input {...ids} placeholder={t('as user.create')} value={action} onChange={(event) => setAction(event.target.value)} />}
        </Field>
        <Field label={t('Target')}>
          {(ids) => <Input {...ids} placeholder={t('an id')} value={target} onChange={(event) => setTarget(event.target.value)} />}
        </Field>
      </div>
      <Loaded
        query={{ data: list.items, error: list.error, refetch: list.refetch }}
        empty={
          <Empty icon={<ScrollText size={28} />} title={t('No matching records')}>
            {t('Enter the full name of an action, such as run.cancel. Leave the fields empty to see all.')}
          </Empty>
        }
      >
        {(items) => (
          <Rows label={t('Audit records')}>
            {items.map((record) => (
              <Row
                key={record.id}
                title={record.action}
                badges={record.action === 'auth.refused' && <Badge tone="warn">{t('refused')}</Badge>}
                note={
                  <>
                    {[record.actor_name || record.actor_id || t('unknown'), dateTime(record.created_at)].join(' · ')}
                    {record.target && <code className="code block break-all">{record.target}</code>}
                    {Object.keys(record.details).length > 0 && (
                      <span className="block text-xs break-words">
                        {Object.entries(record.details)
                          .map(([name, value]) => `${name}: ${value}`)
                          .join(' · ')}
                      </span>
                    )}
                  </>
                }
              />
            ))}
          </Rows>
        )}
      </Loaded>
      <More pages={list} />
    </Section>
  );
}
