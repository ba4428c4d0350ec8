import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Schemas } from '@everloop/sdk';
import { Link2, Link2Off, Share2, Users } from 'lucide-react';
import { useState } from 'react';
import { account } from '../../lib/auth';
import { dateTime } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api, useAction, usePages } from '../../lib/query';
import { Button } from '../../ui/button';
import { CopyButton } from '../../ui/code';
import { FormDialog } from '../../ui/dialog';
import { Check, Field, Input, Select } from '../../ui/field';
import { Empty, Loaded, More } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';
import { tokenOf } from './token';
import { SessionChoice } from './session-choice';

interface Made { link: Schemas['ShareLink']; session: string }

const lives = [
  ['3600', t('an hour')],
  ['86400', t('a day')],
  ['604800', t('7 days')],
  ['2592000', t('30 days')],
  ['7776000', t('90 days')],
] as const;

export function Shared() {
  const config = useQuery({ queryKey: ['config'], queryFn: ({ signal }) => api().getConfig({ signal }), staleTime: 300_000 });
  const [asking, setAsking] = useState<'create' | 'revoke' | 'share'>();
  const [made, setMade] = useState<Made[]>([]); // in this room alone: the service keeps no link that it could show again
  const close = () => setAsking(undefined);
  const off = config.data?.publicSharingEnabled === false;
  return (
    <>
      <Section
        title={t('Public links')}
        note={
          off
            ? t('Public links are turned off in this service.')
            : t('Anyone with a link can read the session until the link expires. A link is shown only once, when it is created.')
        }
        actions={
          <>
            <Button look="primary" disabled={off} onClick={() => setAsking('create')}>
              <Link2 size={15} aria-hidden />
              {t('Create a link')}
            </Button>
            <Button onClick={() => setAsking('revoke')}>
              <Link2Off size={15} aria-hidden />
              {t('Revoke a link')}
            </Button>
          </>
        }
      >
        {made.length > 0 && (
          <Rows label={t('New links')}>
            {made.map(({ link, session }) => (
              <Row
                key={link.token}
                title={
                  <span className="flex items-center gap-1">
                    <code className="code min-w-0 break-all">{link.url}</code>
                    <CopyButton text={link.url} label={t('Copy the link')} />
                  </span>
                }
                note={[
                  link.expires_at ? t('ends {time}', { time: dateTime(link.expires_at) }) : t('does not end'),
                  link.redact.tool_results && t('without tool results'),
                  link.redact.thinking && t('without thinking'),
                  t('copy it now: it is not shown again'),
                ]
                  .filter(Boolean)
                  .join(' · ')}
                actions={
                  <Revoke
                    token={link.token}
                    session={session}
                    revoked={() => setMade((all) => all.filter((one) => one.link.token !== link.token))}
                  />
                }
              />
            ))}
          </Rows>
        )}
      </Section>
      <SharedSessions add={() => setAsking('share')} />
      {asking === 'create' && <Create done={close} made={(one) => setMade((all) => [one, ...all])} />}
      {asking === 'revoke' && <RevokeDialog done={close} />}
      {asking === 'share' && <ShareDialog done={close} />}
    </>
  );
}

function Revoke({ token, session, revoked }: { token: string; session: string; revoked: () => void }) {
  const revoke = useAction(() => api().revokeShareLink(session, token), { done: t('The link stops working.') });
  return (
    <Button small look="danger" busy={revoke.isPending} onClick={() => revoke.mutate(undefined, { onSuccess: revoked })}>
      {t('Revoke')}
    </Button>
  );
}

function Create({ done, made }: { done: () => void; made: (made: Made) => void }) {
  const [session, setSession] = useState('');
  const [life, setLife] = useState('604800');
  const [results, setResults] = useState(true);
  const [thinking, setThinking] = useState(true);
  const create = useAction(() =>
    api().createShareLink(session, { ttl_seconds: Number(life), redact: { tool_results: results, thinking } }),
  );
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={t('Create a public link')}
      confirm={t('Create')}
      submit={async () => made({ link: await create.mutateAsync(), session })}
      description={t('Check the session first: everyone with the link can read all of its turns, without a sign-in.')}
    >
      <SessionChoice value={session} change={setSession} />
      <Field label={t('It ends after')}>
        {(ids) => (
          <Select {...ids} value={life} onChange={(event) => setLife(event.target.value)}>
            {lives.map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Check label={t('Leave out the results of tools')} checked={results} onChange={(event) => setResults(event.target.checked)} />
      <Check label={t('Leave out thinking')} checked={thinking} onChange={(event) => setThinking(event.target.checked)} />
    </FormDialog>
  );
}

function RevokeDialog({ done }: { done: () => void }) {
  const [session, setSession] = useState('');
  const [url, setUrl] = useState('');
  const revoke = useAction(() => api().revokeShareLink(session, tokenOf(url)), { done: t('The link stops working.') });
  return (
    <FormDialog open onOpenChange={done} danger title={t('Revoke a public link')} confirm={t('Revoke')} submit={() => revoke.mutateAsync()}>
      <SessionChoice value={session} change={setSession} />
      <Field label={t('Link')}>
        {(ids) => <Input {...ids} required spellCheck={false} value={url} onChange={(event) => setUrl(event.target.value)} />}
      </Field>
    </FormDialog>
  );
}

function SharedSessions({ add }: { add: () => void }) {
  const list = usePages(['sessions', 'shared'], (page, signal) => api().listSessions({ query: page, signal }), 200);
  const stop = useAction((id: string) => api().shareSession(id, { shared: false }), {
    done: t('Only you can read it now.'),
    refresh: [['sessions'], ['session']],
  });
  const [stopping, setStopping] = useState<Schemas['SessionSummary']>();
  const shared = list.items?.filter((one) => one.shared);
  return (
    <Section
      title={t('Shared with all users')}
      note={t('Sessions of yours that all signed-in users can read.')}
      actions={
        <Button onClick={add}>
          <Users size={15} aria-hidden />
          {t('Share a session')}
        </Button>
      }
    >
      <Loaded
        query={{ data: shared, error: list.error, refetch: list.refetch }}
        empty={
          <Empty icon={<Share2 size={28} />} title={t('No session is shared')}>
            {list.hasNextPage
              ? t('None of your newest sessions is shared.')
              : t('Share one to let other users read it. They cannot write to it.')}
          </Empty>
        }
      >
        {(items) => (
          <Rows label={t('Shared sessions')}>
            {items.map((one) => (
              <Row
                key={one.id}
                title={
                  <Link to="/s/$sessionId" params={{ sessionId: one.id }} className="text-accent underline underline-offset-2">
                    {one.intent || t('New session')}
                  </Link>
                }
                note={t('changed {time}', { time: dateTime(one.updated_at) })}
                actions={
                  one.user_id === account().me.id && (
                    <Button small onClick={() => setStopping(one)}>
                      {t('Stop sharing')}
                    </Button>
                  )
                }
              />
            ))}
          </Rows>
        )}
      </Loaded>
      <More pages={list} />
      {stopping && (
        <FormDialog
          open
          onOpenChange={() => setStopping(undefined)}
          title={t('Stop sharing?')}
          confirm={t('Stop sharing')}
          submit={() => stop.mutateAsync(stopping.id)}
          description={
            <>
              {t('Other users can no longer read “{name}”. Public links stay until they are revoked.', {
                name: stopping.intent || t('New session'),
              })}
            </>
          }
        />
      )}
    </Section>
  );
}

function ShareDialog({ done }: { done: () => void }) {
  const [session, setSession] = useState('');
  const share = useAction(() => api().shareSession(session, { shared: true }), {
    done: t('All users can read it now.'),
    refresh: [['sessions'], ['session']],
  });
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={t('Share a session with all users')}
      confirm={t('Share')}
      submit={() => share.mutateAsync()}
      description={t('All signed-in users can read everything: all branches, the files of all checkpoints and the export. Only you can write to it.')}
    >
      <SessionChoice value={session} change={setSession} />
    </FormDialog>
  );
}
