import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Trash2 } from 'lucide-react';
import { type FormEvent, useState } from 'react';
import { account } from '../../lib/auth';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { word } from '../../lib/words';
import { Button, IconButton } from '../../ui/button';
import { Dialog } from '../../ui/dialog';
import { Field, Input, Select } from '../../ui/field';
import { Loaded } from '../../ui/page';
import { Section } from '../unattended/pieces';
import { PendingMembers } from './invitations';
import { Squads } from './squads';

type Role = Schemas['WorkspaceMembership']['role'];

const roles: Record<Role, string> = {
  viewer: t('viewer: reads'),
  member: t('member: works'),
  admin: t('admin: invites members'),
  owner: t('owner: everything'),
};

/** Members shows who is in a workspace, and its squads. */
export function Members({ workspace, administers, close }: { workspace: string; administers: boolean; close: () => void }) {
  const refresh = [['board', workspace], ['board', 'workspaces'], ['board', workspace, 'invitations']];
  const members = useQuery({
    queryKey: ['board', workspace, 'members'],
    queryFn: ({ signal }) => api().listProdWorkspaceMembers(workspace, { signal }),
  });
  const [user, setUser] = useState('');
  const [role, setRole] = useState<Role>('member');
  const set = useAction((body: { user_id: string; role: Role }) => api().setProdWorkspaceMember(workspace, body), { refresh });
  const remove = useAction((id: string) => api().removeProdWorkspaceMember(workspace, id), { done: t('The member was removed.'), refresh });
  const add = async (event: FormEvent) => {
    event.preventDefault();
    await set.mutateAsync({ user_id: user.trim(), role }).then(() => setUser(''), () => {});
  };
  return (
    <Dialog open onOpenChange={close} title={t('Members and squads')}>
      <div className="space-y-6">
        <Section title={t('Members')}>
          <Loaded query={members}>
            {(data) => (
              <ul className="divide-y">
                {data.items.map((one) => (
                  <li key={one.user_id} className="flex items-center gap-2 py-1.5 text-sm">
                    <span className="min-w-0 flex-1 truncate" dir="auto" title={one.email}>
                      {one.name || one.email || one.user_id}
                      {one.user_id === account().me.id && <span className="text-soft"> {t('(you)')}</span>}
                    </span>
                    {administers && one.role !== 'owner' ? (
                      <>
                        <Select
                          aria-label={t('Role of {name}', { name: one.name || one.user_id })}
                          className="w-auto!"
                          value={one.role}
                          onChange={(event) => set.mutate({ user_id: one.user_id, role: event.target.value as Role })}
                        >
                          {(Object.keys(roles) as Role[]).map((id) => (
                            <option key={id} value={id}>
                              {word(id)}
                            </option>
                          ))}
                        </Select>
                        <IconButton
                          small
                          label={t('Remove {name}', { name: one.name || one.user_id })}
                          onClick={() => remove.mutate(one.user_id)}
                        >
                          <Trash2 size={14} />
                        </IconButton>
                      </>
                    ) : (
                      <span className="text-soft">{word(one.role)}</span>
                    )}
                  </li>
                ))}
              </ul>
            )}
          </Loaded>
          {administers && <PendingMembers workspace={workspace} />}
          {administers && (
            <form onSubmit={(event) => void add(event)} className="flex flex-wrap items-end gap-2">
              <div className="min-w-40 flex-1">
                <Field label={t('User id or name')} hint={t('They join when they accept the invitation.')}>
                  {(ids) => <Input {...ids} value={user} onChange={(event) => setUser(event.target.value)} required maxLength={200} />}
                </Field>
              </div>
              <Field label={t('Role')}>
                {(ids) => (
                  <Select {...ids} value={role} onChange={(event) => setRole(event.target.value as Role)}>
                    {Object.entries(roles).map(([id, label]) => (
                      <option key={id} value={id}>
                        {label}
                      </option>
                    ))}
                  </Select>
                )}
              </Field>
              <Button type="submit" busy={set.isPending}>
                {t('Invite')}
              </Button>
            </form>
          )}
        </Section>
        <Squads workspace={workspace} administers={administers} members={members.data?.items ?? []} />
      </div>
    </Dialog>
  );
}
