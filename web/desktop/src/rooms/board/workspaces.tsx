import type { Schemas } from '@everloop/sdk';
import { Link, useNavigate } from '@tanstack/react-router';
import { SquareKanban, Plus } from 'lucide-react';
import { useState } from 'react';
import { plural, t } from '../../lib/i18n';
import { api, useAction, usePages } from '../../lib/query';
import { Button } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Area, Check, Field, Input } from '../../ui/field';
import { Badge, Empty, Loaded, More, Page } from '../../ui/page';
import { Invitations } from './invitations';

export type Workspace = Schemas['ProdWorkspace'];

/** Workspaces are the boards of the person. */
export default function Workspaces() {
  const pages = usePages<Workspace>(['board', 'workspaces'], (query, signal) => api().listProdWorkspaces({ query, signal }));
  const [making, setMaking] = useState(false);
  const button = <Button look="primary" onClick={() => setMaking(true)}><Plus size={15} aria-hidden />{t('New workspace')}</Button>;
  return (
    <Page title={t('Board')} actions={button}>
      <Invitations />
      <Loaded
        query={pages}
        isEmpty={() => pages.items?.length === 0}
        empty={
          <Empty icon={<SquareKanban size={28} />} title={t('No workspaces yet')} action={button}>
            {t(
              'A workspace is a board of issues with members. Assign an issue to an agent, and the agent works on it in ' +
                'a session that you can open.',
            )}
          </Empty>
        }
      >
        {() => (
          <ul className="mx-auto grid max-w-5xl gap-3 sm:grid-cols-2 lg:grid-cols-3">
            {pages.items?.map((one) => (
              <li key={one.id} className="relative rounded-lg border bg-raised p-4 hover:border-line-strong">
                <div className="flex items-center gap-2">
                  <Link
                    to="/board/$workspaceId"
                    params={{ workspaceId: one.id }}
                    className="min-w-0 flex-1 truncate font-semibold after:absolute after:inset-0"
                    dir="auto"
                  >
                    {one.name}
                  </Link>
                  <Badge>{one.role}</Badge>
                </div>
                {one.description && (
                  <p className="mt-1 line-clamp-2 text-sm text-soft" dir="auto">
                    {one.description}
                  </p>
                )}
                <p className="mt-2 text-xs text-soft">
                  {[
                    one.issue_prefix,
                    plural(one.member_count, '{count} member', '{count} members'),
                    plural(one.agent_count, '{count} agent', '{count} agents'),
                  ].join(' · ')}
                </p>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      <More pages={pages} />
      {making && <NewWorkspace close={() => setMaking(false)} />}
    </Page>
  );
}

function NewWorkspace({ close }: { close: () => void }) {
  const navigate = useNavigate();
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [prefix, setPrefix] = useState('');
  const [attempts, setAttempts] = useState(2);
  const [onComment, setOnComment] = useState(true);
  const make = useAction(() => api().createProdWorkspace({
    name: name.trim(), description: description.trim(), settings: { max_attempts: attempts, run_on_comment: onComment },
    ...(prefix.trim() ? { issue_prefix: prefix.trim().toUpperCase() } : {}),
  }), { refresh: [['board', 'workspaces']] });
  const submit = async () => {
    const made = await make.mutateAsync();
    await navigate({ to: '/board/$workspaceId', params: { workspaceId: made.id } });
  };
  return (
    <FormDialog open onOpenChange={close} title={t('New workspace')} confirm={t('Create')} submit={submit}>
      <Field label={t('Name')}>
        {(ids) => <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} required maxLength={128} autoFocus />}
      </Field>
      <Field label={t('Description')}>
        {(ids) => (
          <Area
            {...ids}
            value={description}
            onChange={(event) => setDescription(event.target.value)}
            rows={2}
            maxLength={1000}
            className="min-h-14"
            dir="auto"
          />
        )}
      </Field>
      <Field label={t('Prefix of issues')} hint={t('For example WEB for WEB-1. Empty: derived from the name.')}>
        {(ids) => (
          <Input
            {...ids}
            value={prefix}
            onChange={(event) => setPrefix(event.target.value)}
            maxLength={10}
            pattern="[A-Za-z][A-Za-z0-9]*"
          />
        )}
      </Field>
      <Field label={t('Attempts of a run')} hint={t('After the last attempt the issue is blocked.')}>
        {(ids) => (
          <Input
            {...ids}
            type="number"
            min={1}
            max={5}
            required
            value={attempts}
            onChange={(event) => setAttempts(Math.trunc(event.target.valueAsNumber) || 1)}
          />
        )}
      </Field>
      <Check
        label={t('A comment begins a run')}
        hint={t('When a member comments on an issue whose agent is not working.')}
        checked={onComment}
        onChange={(event) => setOnComment(event.target.checked)}
      />
    </FormDialog>
  );
}
