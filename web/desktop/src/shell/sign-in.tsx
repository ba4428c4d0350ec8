import { EverloopError } from '@everloop/sdk';
import { type FormEvent, useState } from 'react';
import { type SignInWay, signInWithKey, signInWithOpenID, signInWithPassword } from '../lib/auth';
import { t } from '../lib/i18n';
import { errorText } from '../lib/query';
import { Button } from '../ui/button';
import { Field, Input } from '../ui/field';

const others: Record<SignInWay, string> = {
  password: t('Use a user name and password'), openid: t('Use the sign-in page'), api_key: t('Use an API key'),
};

/** SignIn offers the ways that the service knows, the preferred one first. */
export function SignIn({ ways, notice }: { ways: SignInWay[]; notice?: string | undefined }) {
  const [way, setWay] = useState<SignInWay>(ways[0] ?? 'api_key');
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [coded, setCoded] = useState(false); // the account has a second factor

  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? '');
    setBusy(true);
    setError(undefined);
    try {
      if (way === 'password') await signInWithPassword(text('username').trim(), text('password'), text('code').trim());
      else if (way === 'openid') await signInWithOpenID();
      else await signInWithKey(text('key').trim());
    } catch (failure) {
      const asked = failure instanceof EverloopError && failure.code === 'code_required' && !coded;
      if (asked) setCoded(true);
      else setError(errorText(failure));
      setBusy(false);
    }
  };

  return (
    <main className="grid min-h-full place-items-center bg-panel p-4">
      <div className="w-full max-w-sm rounded-xl border bg-raised p-6 shadow-sm">
        <img src="/favicon.svg" alt="" width={36} height={36} />
        <h1 className="mt-3 mb-4 text-xl font-semibold">{t('Sign in to Everloop')}</h1>
        {(error ?? notice) && (
          <p role="alert" className="mb-4 rounded-md bg-bad-soft px-3 py-2 text-sm text-bad">
            {error ?? notice}
          </p>
        )}
        <form key={way} onSubmit={(event) => void submit(event)} className="space-y-4">
          {way === 'password' && (
            <>
              <Field label={t('User name')}>
                {(ids) => <Input {...ids} name="username" autoComplete="username" autoCapitalize="off" required autoFocus />}
              </Field>
              <Field label={t('Password')}>
                {(ids) => <Input {...ids} name="password" type="password" autoComplete="current-password" required />}
              </Field>
              {coded && (
                <Field label={t('Code')} hint={t('From your authenticator app, or a recovery code')}>
                  {(ids) => (
                    <Input {...ids} name="code" autoComplete="one-time-code" spellCheck={false} required autoFocus maxLength={64} />
                  )}
                </Field>
              )}
            </>
          )}
          {way === 'openid' && <p className="text-sm text-soft">{t('You sign in at the identity service and come back here.')}</p>}
          {way === 'api_key' && (
            <Field
              label={t('API key')}
              hint={t('Kept in this tab only, until you close it. The first key was printed when the service started for the first time.')}
            >
              {(ids) => <Input {...ids} name="key" type="password" autoComplete="off" spellCheck={false} required autoFocus />}
            </Field>
          )}
          <Button type="submit" look="primary" busy={busy} className="w-full">
            {t('Sign in')}
          </Button>
        </form>
        {ways.length > 1 && (
          <ul className="mt-4 space-y-1 text-sm">
            {ways
              .filter((one) => one !== way)
              .map((one) => (
                <li key={one}>
                  <button
                    type="button"
                    className="text-accent underline underline-offset-2"
                    onClick={() => {
                      setWay(one);
                      setError(undefined);
                      setCoded(false);
                    }}
                  >
                    {others[one]}
                  </button>
                </li>
              ))}
          </ul>
        )}
      </div>
    </main>
  );
}
