import { useQuery } from '@tanstack/react-query';
import { KeyRound, LogOut } from 'lucide-react';
import { useState } from 'react';
import { changePassword, signOut, signOutEverywhere, useAuth } from '../../lib/auth';
import { dateTime } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Field, Input } from '../../ui/field';
import { Badge, Loaded } from '../../ui/page';
import { Facts, Section } from '../../ui/rows';
import { UsageCharts } from '../../ui/usage';
import { SignIns } from './sign-ins';

export function AccountPart() {
  const auth = useAuth();
  const [asking, setAsking] = useState<'password' | 'everywhere'>();
  const usage = useQuery({
    queryKey: ['user-usage'],
    queryFn: ({ signal }) => api().getUserUsage({ query: { group_by: 'day_model', limit: 1000 }, signal }),
    staleTime: 60_000,
  });
  if (auth.status !== 'in') return null;
  const { me, way } = auth;
  return (
    <>
      <Section
        title={t('Who you are')}
        note={me.issuer ? t('Your account comes from {issuer}.', { issuer: me.issuer }) : t('Your account exists only in this service.')}
      >
        <Facts
          items={[
            [t('Name'), me.name || me.username],
            [t('User name'), me.username],
            me.email ? [t('E-mail'), me.email] : undefined,
            [t('Rights'), me.administrator ? <Badge tone="accent">{t('administrator')}</Badge> : t('user')],
            [
              t('Signed in with'),
              { password: t('a user name and password'), openid: t('the sign-in page'), api_key: t('an API key, in this tab') }[way],
            ],
            [t('The sign-in ends'), me.expires_at ? dateTime(me.expires_at) : t('when you end it')],
            [t('Restricted to'), me.scopes === null ? t('nothing: it has all your rights') : me.scopes.join(', ')],
            [t('Member since'), dateTime(me.created_at)],
            [
              t('Id'),
              <code key="id" className="code">
                {me.id}
              </code>,
            ],
          ]}
        />
      </Section>
      <Section
        title={t('Sign-ins')}
        note={way !== 'api_key' ? undefined : t('Sign in with a user name and password to change the password or to sign out everywhere.')}
      >
        <div className="flex flex-wrap gap-2">
          {way !== 'api_key' && (
            <Button onClick={() => setAsking('password')}>
              <KeyRound size={15} aria-hidden />
              {t('Change the password')}
            </Button>
          )}
          <Button onClick={() => void signOut()}>
            <LogOut size={15} aria-hidden />
            {t('Sign out here')}
          </Button>
          {way !== 'api_key' && (
            <Button look="danger" onClick={() => setAsking('everywhere')}>
              {t('Sign out everywhere')}
            </Button>
          )}
        </div>
        {way !== 'api_key' && <SignIns />}
      </Section>
      <Section title={t('Your usage')} note={t('Usage of your model calls in the last 30 days.')}>
        <Loaded query={usage}>
          {(report) => (
            <UsageCharts
              report={report}
              series={(item) => item.model ?? ''}
              titles={{ tokens: t('Tokens by model'), cost: t('Cost by model') }}
            />
          )}
        </Loaded>
      </Section>
      {asking === 'password' && <Password done={() => setAsking(undefined)} />}
      {asking === 'everywhere' && <Everywhere done={() => setAsking(undefined)} />}
    </>
  );
}

function Password({ done }: { done: () => void }) {
  const [current, setCurrent] = useState('');
  const [next, setNext] = useState('');
  const [again, setAgain] = useState('');
  const change = useAction(() => changePassword(current, next), { done: t('The password was changed. Your other sessions were signed out.') });
  const differs = again !== '' && again !== next;
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={t('Change the password')}
      confirm={t('Change')}
      description={t('Your other sessions are signed out.')}
      submit={() => (again === next ? change.mutateAsync() : Promise.reject(new Error(t('the passwords differ'))))}
    >
      <Field label={t('Current password')}>
        {(ids) => (
          <Input
            {...ids}
            type="password"
            autoComplete="current-password"
            required
            autoFocus
            value={current}
            onChange={(event) => setCurrent(event.target.value)}
          />
        )}
      </Field>
      <Field label={t('New password')} hint={t('10 characters or more')}>
        {(ids) => (
          <Input
            {...ids}
            type="password"
            autoComplete="new-password"
            required
            minLength={10}
            value={next}
            onChange={(event) => setNext(event.target.value)}
          />
        )}
      </Field>
      <Field label={t('New password, again')} error={differs ? t('The passwords do not match.') : undefined}>
        {(ids) => (
          <Input
            {...ids}
            type="password"
            autoComplete="new-password"
            required
            value={again}
            onChange={(event) => setAgain(event.target.value)}
          />
        )}
      </Field>
    </FormDialog>
  );
}

function Everywhere({ done }: { done: () => void }) {
  const end = useAction(() => signOutEverywhere());
  return (
    <FormDialog
      open onOpenChange={done} danger title={t('Sign out everywhere?')} confirm={t('Sign out')} submit={() => end.mutateAsync()}
      description={t('Signs out all browsers and programs that use your password, including this one. API keys stay valid.')}
    />
  );
}
