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
import { useCandidates } from './data';

type Role = Schemas['WorkspaceMembership']['role'];

const roles: Record<Role, string> = { viewer: t('viewer: reads'), member: t('member: works'), admin: t('admin: adds members'), owner: t('owner: everything') };

/** Members shows who is in a workspace, and its squads. */
export function Members({ workspace, administers, close }: { workspace: string; administers: boolean; close: () => void }) {
  const refresh = [['board', workspace], ['board', 'workspaces']];
  const members = useQuery({ queryKey: ['board', workspace, 'members'], queryFn: ({ signal }) => api().listProdWorkspaceMembers(workspace, { signal }) });
  const squads = useQuery({ queryKey: ['board', workspace, 'squads'], queryFn: ({ signal }) => api().listSquads(workspace, { signal }) });
  const candidates = useCandidates(workspace);
  const [user, setUser] = useState('');
  const [role, setRole] = useState<Role>('member');
  const [squad, setSquad] = useState('');
  const [leader, setLeader] = useState('');
  const set = useAction((body: { user_id: string; role: Role }) => api().setProdWorkspaceMember(workspace, body), { refresh });
  const remove = useAction((id: string) => api().removeProdWorkspaceMember(workspace, id), { done: t('The member was removed.'), refresh });
  const make = useAction(() => api().createSquad(workspace, { name: squad.trim(), leader_id: leader }), { done: t('The squad was created.'), refresh });
  const agents = candidates.data?.filter((one) => one.type === 'agent') ?? [];
  const add = async (event: FormEvent) => {
    event.preventDefault();
    await set.mutateAsync({ user_id: user.trim(), role }).then(() => setUser(''), () => {});
  };
  const found = async (event: FormEvent) => {
    event.preventDefault();
    await make.mutateAsync().then(() => setSquad(''), () => {});
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
                    <span className="min-w-0 flex-1 truncate" dir="auto" title={one.email}>{one.name || one.email || one.user_id}{one.user_id === account().me.id && <span className="text-soft"> {t('(you)')}</span>}</span>
                    {administers && one.role !== 'owner' ? (
                      <>
                        <Select aria-label={t('Role of {name}', { name: one.name || one.user_id })} className="w-auto!" value={one.role} onChange={(event) => set.mutate({ user_id: one.user_id, role: event.target.value as Role })}>
                          {(Object.keys(roles) as Role[]).map((id) => <option key={id} value={id}>{word(id)}</option>)}
                        </Select>
                        <IconButton small label={t('Remove {name}', { name: one.name || one.user_id })} onClick={() => remove.mutate(one.user_id)}><Trash2 size={14} /></IconButton>
                      </>
                    ) : <span className="text-soft">{word(one.role)}</span>}
                  </li>
                ))}
              </ul>
            )}
          </Loaded>
          {administers && (
            <form onSubmit={(event) => void add(event)} className="flex flex-wrap items-end gap-2">
              <div className="min-w-40 flex-1"><Field label={t('User id or name')}>{(ids) => <Input {...ids} value={user} onChange={(event) => setUser(event.target.value)} required maxLength={200} />}</Field></div>
              <Field label={t('Role')}>{(ids) => <Select {...ids} value={role} onChange={(event) => setRole(event.target.value as Role)}>{Object.entries(roles).map(([id, label]) => <option key={id} value={id}>{label}</option>)}</Select>}</Field>
              <Button type="submit" busy={set.isPending}>{t('Add')}</Button>
            </form>
          )}
        </Section>
        <Section title={t('Squads')}>
          <p className="text-sm text-soft">{t('Issues that are assigned to a squad are worked on by its leader, an agent.')}</p>
          <Loaded query={squads} isEmpty={(data) => data.items.length === 0} empty={<p className="text-sm text-soft">{t('There is no squad.')}</p>}>
            {(data) => <ul className="text-sm">{data.items.map((one) => <li key={one.id} className="py-1">{one.name} <span className="text-soft">· {agents.find((agent) => agent.id === one.leader_id)?.name ?? t('leader')}</span></li>)}</ul>}
          </Loaded>
          {administers && agents.length > 0 && (
            <form onSubmit={(event) => void found(event)} className="flex flex-wrap items-end gap-2">
              <div className="min-w-40 flex-1"><Field label={t('Name of a new squad')}>{(ids) => <Input {...ids} value={squad} onChange={(event) => setSquad(event.target.value)} required maxLength={128} />}</Field></div>
              <Field label={t('Leader')}>{(ids) => <Select {...ids} value={leader} required onChange={(event) => setLeader(event.target.value)}><option value="">{t('choose')}</option>{agents.map((one) => <option key={one.id} value={one.id}>{one.name}</option>)}</Select>}</Field>
              <Button type="submit" busy={make.isPending}>{t('Create')}</Button>
            </form>
          )}
        </Section>
      </div>
    </Dialog>
  );
}
