import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Boxes, Plus } from 'lucide-react';
import { useState } from 'react';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Field, Input, Select } from '../../ui/field';
import { Badge, Empty, Loaded } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';

export function Solutions() {
  const solutions = useQuery({ queryKey: ['solutions'], queryFn: ({ signal }) => api().listSolutions({ signal }) });
  const [starting, setStarting] = useState<string>();
  return (
    <Section title={t('Solutions')} note={t('Templates for sessions: a prompt, roles, sub-agents and rules.')}>
      <Loaded
        query={solutions}
        isEmpty={(data) => data.items.length === 0}
        empty={
          <Empty icon={<Boxes size={28} />} title={t('There is no solution')}>
            {t('The operator provides solutions in a directory of the service.')}
          </Empty>
        }
      >
        {({ items }) => (
          <Rows label={t('Solutions')}>
            {items.map((solution) => (
              <Row
                key={solution.id}
                title={solution.name || solution.id}
                badges={solution.version && <Badge>{solution.version}</Badge>}
                note={solution.description}
                actions={
                  <Button small onClick={() => setStarting(solution.id)}>
                    <Plus size={14} aria-hidden />
                    {t('New session')}
                    <span className="sr-only"> {t('with {name}', { name: solution.name || solution.id })}</span>
                  </Button>
                }
              >
                {solution.roles.length > 0 && (
                  <dl className="mt-1 space-y-0.5 text-sm">
                    {solution.roles.map((role) => (
                      <div key={role.id} className="flex flex-wrap gap-x-2">
                        <dt className="font-medium">{role.name || role.id}</dt>
                        <dd className="min-w-0 text-soft">{role.description}</dd>
                      </div>
                    ))}
                  </dl>
                )}
              </Row>
            ))}
          </Rows>
        )}
      </Loaded>
      {starting && <Start id={starting} done={() => setStarting(undefined)} />}
    </Section>
  );
}

function Start({ id, done }: { id: string; done: () => void }) {
  const navigate = useNavigate();
  const roles = useQuery({ queryKey: ['solutions', id, 'roles'], queryFn: ({ signal }) => api().listBizRoles(id, { signal }) });
  const [role, setRole] = useState('');
  const [intent, setIntent] = useState('');
  const start = useAction(() => api().createSession({ solution_id: id, intent: intent.trim(), ...(role ? { biz_role_id: role } : {}) }), {
    refresh: [['sessions']],
  });
  const submit = async () => {
    const { session_id } = await start.mutateAsync();
    await navigate({ to: '/s/$sessionId', params: { sessionId: session_id } });
  };
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={t('New session')}
      confirm={t('Create')}
      submit={submit}
      description={t('With the solution {id}.', { id })}
    >
      <Field label={t('Name')} hint={t('Optional: the first message creates a title.')}>
        {(ids) => <Input {...ids} autoFocus maxLength={500} value={intent} onChange={(event) => setIntent(event.target.value)} />}
      </Field>
      <Field label={t('Role')} hint={roles.data?.items.find((one) => one.id === role)?.description}>
        {(ids) => (
          <Select {...ids} value={role} onChange={(event) => setRole(event.target.value)}>
            <option value="">{t('none')}</option>
            {roles.data?.items.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name || one.id}
              </option>
            ))}
          </Select>
        )}
      </Field>
    </FormDialog>
  );
}
