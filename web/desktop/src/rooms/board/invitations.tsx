import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Check, X } from 'lucide-react';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { word } from '../../lib/words';
import { Button, IconButton } from '../../ui/button';

type Invitation = Schemas['Invitation'];
type Pending = Schemas['WorkspaceMembership'];

/** Invitations lets the person join workspaces that they were invited to. */
export function Invitations() {
  const open = useQuery({ queryKey: ['board', 'invitations'], queryFn: ({ signal }) => api().listInvitations({ signal }) });
  if (!open.data?.items.length) return null;
  return (
    <section aria-label={t('Invitations')} className="mx-auto mb-4 max-w-5xl">
      <ul className="space-y-2">
        {open.data.items.map((one) => <InvitationRow key={one.id} invitation={one} />)}
      </ul>
    </section>
  );
}

function InvitationRow({ invitation }: { invitation: Invitation }) {
  const refresh = [['board', 'invitations'], ['board', 'workspaces']];
  const accept = useAction(() => api().acceptInvitation(invitation.id), {
    done: t('You joined {name}.', { name: invitation.workspace_name }),
    refresh,
  });
  const decline = useAction(() => api().declineInvitation(invitation.id), { done: t('The invitation was declined.'), refresh });
  return (
    <li className="flex flex-wrap items-center gap-2 rounded-lg border bg-raised p-3">
      <div className="min-w-40 flex-1">
        <p className="font-semibold" dir="auto">
          {t('{who} invites you to {name}', { who: invitation.invited_by, name: invitation.workspace_name })}
        </p>
        <p className="text-sm text-soft">
          {t('Role: {role}. Until you accept, its members cannot see your data.', { role: word(invitation.role) })}
        </p>
      </div>
      <Button look="primary" busy={accept.isPending} onClick={() => accept.mutate()}>
        <Check size={15} aria-hidden />
        {t('Accept')}
      </Button>
      <Button busy={decline.isPending} onClick={() => decline.mutate()}>
        {t('Decline')}
      </Button>
    </li>
  );
}

/** PendingMembers are the users who were invited to a workspace and have not accepted. */
export function PendingMembers({ workspace }: { workspace: string }) {
  const key = ['board', workspace, 'invitations'];
  const pending = useQuery({ queryKey: key, queryFn: ({ signal }) => api().listProdWorkspaceInvitations(workspace, { signal }) });
  const withdraw = useAction((name: string) => api().removeProdWorkspaceMember(workspace, name), {
    done: t('The invitation was withdrawn.'),
    refresh: [key],
  });
  if (!pending.data?.items.length) return null;
  return (
    <ul className="divide-y" aria-label={t('Invited')}>
      {pending.data.items.map((one: Pending) => (
        <li key={one.id} className="flex items-center gap-2 py-1.5 text-sm">
          <span className="min-w-0 flex-1 truncate" dir="auto">
            {one.name} <span className="text-soft">{t('(invited)')}</span>
          </span>
          <span className="text-soft">{word(one.role)}</span>
          <IconButton small label={t('Withdraw the invitation of {name}', { name: one.name })} onClick={() => withdraw.mutate(one.user_id)}>
            <X size={14} />
          </IconButton>
        </li>
      ))}
    </ul>
  );
}
