import { useQuery } from '@tanstack/react-query';
import type { Body, Schemas } from '@everloop/sdk';
import { ShieldCheck, ShieldOff, Trash2, UserCog, UserPlus } from 'lucide-react';
import { useState } from 'react';
import { account } from '../../lib/auth';
import { dateTime } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Check, Field, Input, Select } from '../../ui/field';
import { Badge, Loaded } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';
import { SecretDialog } from '../../ui/secret';

type User = Schemas['User'];
const refresh = [['admin', 'users']] as const;

export function Users() {
  const users = useQuery({ queryKey: ['admin', 'users'], queryFn: ({ signal }) => api().listUsers({ signal }) });
  const [asking, setAsking] = useState<{ what: 'create' } | { what: 'roles' | 'delete' | 'rights'; user: User }>();
  const [made, setMade] = useState<{ name: string; secret: string }>();
  const close = () => setAsking(undefined);
  return (
    <Section
      title={t('Users')}
      note={t('Users with a password are added when they first sign in. Users created here sign in with a key.')}
      actions={
        <Button look="primary" onClick={() => setAsking({ what: 'create' })}>
          <UserPlus size={15} aria-hidden />
          {t('Create a user')}
        </Button>
      }
    >
      <Loaded query={users}>
        {({ items }) => (
          <Rows label={t('Users')}>
            {items.map((user) => (
              <Row
                key={user.id}
                title={user.name || user.username}
                badges={
                  <>
                    {user.administrator && <Badge tone="accent">{t('administrator')}</Badge>}
                    {user.id === account().me.id && <Badge>{t('you')}</Badge>}
                  </>
                }
                note={[user.username, user.email, t('since {time}', { time: dateTime(user.created_at) })].filter(Boolean).join(' · ')}
                actions={
                  <>
                    <IconButton
                      label={t('Roles of {username}', { username: user.username })}
                      onClick={() => setAsking({ what: 'roles', user })}
                    >
                      <UserCog size={16} />
                    </IconButton>
                    <IconButton
                      label={
                        user.administrator
                          ? t('Revoke the administrator rights of {username}', { username: user.username })
                          : t('Make {username} an administrator', { username: user.username })
                      }
                      onClick={() => setAsking({ what: 'rights', user })}
                    >
                      {user.administrator ? <ShieldOff size={16} /> : <ShieldCheck size={16} />}
                    </IconButton>
                    <IconButton
                      label={t('Delete {username}', { username: user.username })}
                      disabled={user.id === account().me.id}
                      onClick={() => setAsking({ what: 'delete', user })}
                    >
                      <Trash2 size={16} />
                    </IconButton>
                  </>
                }
              />
            ))}
          </Rows>
        )}
      </Loaded>
      {asking?.what === 'create' && <Create done={close} made={setMade} />}
      {asking?.what === 'roles' && <Roles user={asking.user} done={close} />}
      {asking?.what === 'rights' && <Rights user={asking.user} done={close} />}
      {asking?.what === 'delete' && <Delete user={asking.user} done={close} />}
      {made && (
        <SecretDialog
          title={t('The API key of {name}', { name: made.name })}
          secret={made.secret}
          note={t('Copy it now and pass it on. It is not shown again.')}
          close={() => setMade(undefined)}
        />
      )}
    </Section>
  );
}

function Create({ done, made }: { done: () => void; made: (made: { name: string; secret: string }) => void }) {
  const [username, setUsername] = useState('');
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [administrator, setAdministrator] = useState(false);
  const create = useAction((body: Body<'create-user'>) => api().createUser(body), { refresh });
  const submit = async () => {
    const result = await create.mutateAsync({ username: username.trim(), name: name.trim(), email: email.trim(), administrator });
    made({ name: result.user.username, secret: result.api_key.plaintext });
  };
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={t('Create a user')}
      confirm={t('Create')}
      submit={submit}
      description={t('They get an API key, which is shown only once.')}
    >
      <Field label={t('User name')} hint={t('Without spaces and slashes')}>
        {(ids) => (
          <Input
            {...ids}
            required
            autoFocus
            maxLength={128}
            pattern="[^\s\/]+"
            value={username}
            onChange={(event) => setUsername(event.target.value)}
          />
        )}
      </Field>
      <Field label={t('Name')}>{(ids) => <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} />}</Field>
      <Field label={t('E-mail')}>
        {(ids) => <Input {...ids} type="email" value={email} onChange={(event) => setEmail(event.target.value)} />}
      </Field>
      <Check
        label={t('Administrator')}
        hint={t('Can see and change everything')}
        checked={administrator}
        onChange={(event) => setAdministrator(event.target.checked)}
      />
    </FormDialog>
  );
}

function Rights({ user, done }: { user: User; done: () => void }) {
  const change = useAction(
    () => (user.administrator ? api().revokeAdministrator(user.id) : api().grantAdministrator({ user_id: user.id })),
    { done: t('The rights were changed.'), refresh },
  );
  return (
    <FormDialog
      open
      onOpenChange={done}
      danger={user.administrator}
      confirm={user.administrator ? t('Revoke') : t('Grant')}
      submit={() => change.mutateAsync()}
      title={user.administrator ? t('Revoke administrator rights?') : t('Make an administrator?')}
      description={
        user.administrator
          ? t('{username} no longer administers the service.', { username: user.username })
          : t('{username} can see and change everything.', { username: user.username })
      }
    />
  );
}

function Delete({ user, done }: { user: User; done: () => void }) {
  const remove = useAction(() => api().deleteUser(user.id), { done: t('The user was deleted.'), refresh });
  return (
    <FormDialog
      open onOpenChange={done} danger title={t('Delete the user?')} confirm={t('Delete')} submit={() => remove.mutateAsync()}
      description={t('{username} can no longer sign in, and all their API keys are revoked.', { username: user.username })}
    />
  );
}

function Roles({ user, done }: { user: User; done: () => void }) {
  const solutions = useQuery({ queryKey: ['solutions'], queryFn: ({ signal }) => api().listSolutions({ signal }), staleTime: 60_000 });
  const offered = solutions.data?.items.filter((one) => one.roles.length > 0) ?? [];
  const [chosen, setChosen] = useState<string>();
  const solution = offered.find((one) => one.id === chosen) ?? offered[0];
  const allowed = useQuery({
    queryKey: ['admin', 'roles', user.id, solution?.id], enabled: solution !== undefined, staleTime: 0,
    queryFn: ({ signal }) => api().getAllowedBizRoles(user.id, { query: { solution_id: solution?.id ?? '' }, signal }),
  });
  const [changed, setChanged] = useState<{ solution: string; roles: string[] }>();
  const roles =
    changed && changed.solution === solution?.id ? changed.roles : allowed.data?.default_all ? [] : (allowed.data?.biz_role_ids ?? []);
  const save = useAction(() => api().setAllowedBizRoles(user.id, { biz_role_ids: roles }, { query: { solution_id: solution?.id ?? '' } }), {
    done: t('The roles were saved.'),
    refresh: [['admin', 'roles', user.id]],
  });
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={t('Roles of {username}', { username: user.username })}
      confirm={t('Save')}
      description={t('Roles of a solution that they can use. None selected: all roles.')}
      submit={() => save.mutateAsync()}
    >
      <Loaded
        query={solutions}
        isEmpty={() => offered.length === 0}
        empty={<p className="text-sm text-soft">{t('No solution has roles.')}</p>}
      >
        {() => (
          <>
            <Field label={t('Solution')}>
              {(ids) => (
                <Select {...ids} value={solution?.id} onChange={(event) => setChosen(event.target.value)}>
                  {offered.map((one) => (
                    <option key={one.id} value={one.id}>
                      {one.name || one.id}
                    </option>
                  ))}
                </Select>
              )}
            </Field>
            <Loaded query={allowed}>
              {() => (
                <fieldset className="space-y-1.5">
                  <legend className="mb-1 text-sm font-medium">{t('Roles')}</legend>
                  {solution?.roles.map((role) => (
                    <Check
                      key={role.id}
                      label={role.name || role.id}
                      hint={role.description}
                      checked={roles.includes(role.id)}
                      onChange={(event) =>
                        setChanged({
                          solution: solution.id,
                          roles: event.target.checked ? [...roles, role.id] : roles.filter((one) => one !== role.id),
                        })
                      }
                    />
                  ))}
                </fieldset>
              )}
            </Loaded>
          </>
        )}
      </Loaded>
    </FormDialog>
  );
}
