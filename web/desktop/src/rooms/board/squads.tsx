import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Pencil, Plus, Trash2, Users } from 'lucide-react';
import { useState } from 'react';
import { plural, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Area, Check, Field, Input, Select } from '../../ui/field';
import { Empty, Loaded } from '../../ui/page';
import { Section } from '../unattended/pieces';
import { useCandidates } from './data';

type Squad = Schemas['Squad'];
type Member = Schemas['SquadMember'];

/** Squads lists the squads of a workspace; administrators make, change and delete them. */
export function Squads({
  workspace,
  administers,
  members,
}: {
  workspace: string;
  administers: boolean;
  members: Schemas['WorkspaceMembership'][];
}) {
  const squads = useQuery({ queryKey: ['board', workspace, 'squads'], queryFn: ({ signal }) => api().listSquads(workspace, { signal }) });
  const agents = useCandidates(workspace).data?.filter((one) => one.type === 'agent') ?? [];
  const [asking, setAsking] = useState<{ what: 'edit'; squad?: Squad } | { what: 'delete'; squad: Squad }>();
  const close = () => setAsking(undefined);
  const choices = [
    ...agents.map((one) => ({ member_type: 'agent' as const, member_id: one.id, name: one.name })),
    ...members.map((one) => ({ member_type: 'member' as const, member_id: one.user_id, name: one.name || one.email || one.user_id })),
  ];
  const make = administers && agents.length > 0 && (
    <Button small onClick={() => setAsking({ what: 'edit' })}>
      <Plus size={14} aria-hidden />
      {t('New squad')}
    </Button>
  );
  const leaderOf = (squad: Squad) => agents.find((one) => one.id === squad.leader_id)?.name ?? squad.leader_id;
  return (
    <Section title={t('Squads')} actions={make}>
      <Loaded
        query={squads}
        isEmpty={(data) => data.items.length === 0}
        empty={
          <Empty icon={<Users size={24} />} title={t('There is no squad')}>
            {agents.length > 0
              ? t('Issues assigned to a squad are worked on by its leader, an agent.')
              : t('A squad has an agent as its leader: make an instance of an agent first.')}
          </Empty>
        }
      >
        {(data) => (
          <ul aria-label={t('Squads')} className="divide-y">
            {data.items.map((one) => (
              <li key={one.id} className="flex items-center gap-2 py-1.5 text-sm">
                <span className="min-w-0 flex-1">
                  <span className="block truncate font-medium" dir="auto">
                    {one.name}
                  </span>
                  <span className="block truncate text-soft">
                    {t('leader: {name}', { name: leaderOf(one) })}
                    {one.members.length > 0 && ` · ${plural(one.members.length, '{count} member', '{count} members')}`}
                  </span>
                </span>
                {administers && (
                  <>
                    <IconButton small label={t('Edit {name}', { name: one.name })} onClick={() => setAsking({ what: 'edit', squad: one })}>
                      <Pencil size={14} />
                    </IconButton>
                    <IconButton
                      small
                      label={t('Delete {name}', { name: one.name })}
                      onClick={() => setAsking({ what: 'delete', squad: one })}
                    >
                      <Trash2 size={14} />
                    </IconButton>
                  </>
                )}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      {asking?.what === 'edit' && <SquadForm workspace={workspace} squad={asking.squad} agents={agents} choices={choices} close={close} />}
      {asking?.what === 'delete' && <Delete workspace={workspace} squad={asking.squad} close={close} />}
    </Section>
  );
}

const sameMember = (a: Member, b: Member): boolean => a.member_type === b.member_type && a.member_id === b.member_id;

function SquadForm({
  workspace,
  squad,
  agents,
  choices,
  close,
}: {
  workspace: string;
  squad: Squad | undefined;
  agents: { id: string; name: string }[];
  choices: (Member & { name: string })[];
  close: () => void;
}) {
  const [name, setName] = useState(squad?.name ?? '');
  const [leader, setLeader] = useState(squad?.leader_id ?? '');
  const [instructions, setInstructions] = useState(squad?.instructions ?? '');
  const [members, setMembers] = useState<Member[]>(squad?.members ?? []);
  const save = useAction(
    async () => {
      const body = {
        name: name.trim(),
        leader_id: leader,
        instructions,
        members: members
          .filter((one) => one.member_id !== leader)
          .map(({ member_type, member_id, role }) => ({ member_type, member_id, ...(role?.trim() ? { role: role.trim() } : {}) })),
      };
      return squad ? api().updateSquad(workspace, squad.id, body) : api().createSquad(workspace, body);
    },
    { done: squad ? t('The squad was saved.') : t('The squad was created.'), refresh: [['board', workspace]] },
  );
  const toggle = (one: Member, on: boolean) => setMembers((was) => (on ? [...was, one] : was.filter((other) => !sameMember(one, other))));
  return (
    <FormDialog
      open
      onOpenChange={close}
      title={squad ? t('Edit {name}', { name: squad.name }) : t('New squad')}
      confirm={squad ? t('Save') : t('Create')}
      submit={() => save.mutateAsync()}
    >
      <Field label={t('Name')}>
        {(ids) => (
          <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} required maxLength={128} autoFocus dir="auto" />
        )}
      </Field>
      <Field label={t('Leader')} hint={t('The agent that works on its issues.')}>
        {(ids) => (
          <Select {...ids} value={leader} required onChange={(event) => setLeader(event.target.value)}>
            <option value="">{t('choose')}</option>
            {leader && !agents.some((one) => one.id === leader) && <option value={leader}>{leader}</option>}
            {agents.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Field label={t('Instructions')} hint={t('Sent to the leader with each issue.')}>
        {(ids) => (
          <Area
            {...ids}
            rows={3}
            value={instructions}
            onChange={(event) => setInstructions(event.target.value)}
            maxLength={20_000}
            dir="auto"
          />
        )}
      </Field>
      <fieldset className="space-y-1.5">
        <legend className="mb-1 text-sm font-medium">{t('Members')}</legend>
        {choices
          .filter((one) => one.member_id !== leader)
          .map((choice) => {
            const chosen = members.find((one) => sameMember(one, choice));
            return (
              <div key={`${choice.member_type} ${choice.member_id}`} className="flex min-h-8 flex-wrap items-center gap-2">
                <Check
                  className="min-w-32 flex-1"
                  label={choice.name}
                  checked={chosen !== undefined}
                  onChange={(event) => toggle({ member_type: choice.member_type, member_id: choice.member_id }, event.target.checked)}
                />
                {chosen && (
                  <Input
                    aria-label={t('What {name} does in it', { name: choice.name })}
                    placeholder={t('What they do in it')}
                    className="w-48!"
                    maxLength={200}
                    dir="auto"
                    value={chosen.role ?? ''}
                    onChange={(event) =>
                      setMembers((was) => was.map((one) => (sameMember(one, choice) ? { ...one, role: event.target.value } : one)))
                    }
                  />
                )}
              </div>
            );
          })}
      </fieldset>
    </FormDialog>
  );
}

function Delete({ workspace, squad, close }: { workspace: string; squad: Squad; close: () => void }) {
  const remove = useAction(() => api().deleteSquad(workspace, squad.id), {
    done: t('The squad was deleted.'),
    refresh: [['board', workspace]],
  });
  return (
    <FormDialog
      open
      onOpenChange={close}
      danger
      title={t('Delete {name}?', { name: squad.name })}
      confirm={t('Delete')}
      submit={() => remove.mutateAsync()}
      description={t('Its issues become unassigned.')}
    />
  );
}
