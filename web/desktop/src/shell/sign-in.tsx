import { type FormEvent, useState } from 'react';
import { type SignInWay, signInWithKey, signInWithPassword } from '../lib/auth';
import { t } from '../lib/i18n';
import { errorText } from '../lib/query';
import { Button } from '../ui/button';
import { Field, Input } from '../ui/field';

/** SignIn offers the ways that the service knows, the preferred one first. */
export function SignIn({ ways, notice }: { ways: SignInWay[]; notice?: string | undefined }) {
  const [way, setWay] = useState<SignInWay>(ways[0] ?? 'api_key');
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const other = ways.find((one) => one !== way);

  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? '');
    setBusy(true);
    setError(undefined);
    try {
      if (way === 'password') await signInWithPassword(text('username').trim(), text('password'));
      else await signInWithKey(text('key').trim());
    } catch (failure) {
      setError(errorText(failure));
      setBusy(false);
    }
  };

  return (
    <main className="grid min-h-full place-items-center bg-panel p-4">
      <div className="w-full max-w-sm rounded-xl border bg-raised p-6 shadow-sm">
        <img src="/favicon.svg" alt="" width={36} height={36} />
        <h1 className="mt-3 mb-4 text-xl font-semibold">{t('Sign in to Everloop')}</h1>
        {(error ?? notice) && <p role="alert" className="mb-4 rounded-md bg-bad-soft px-3 py-2 text-sm text-bad">{error ?? notice}</p>}
        <form key={way} onSubmit={(event) => void submit(event)} className="space-y-4">
          {way === 'password' ? (
            <>
              <Field label={t('User name')}>{(ids) => <Input {...ids} name="username" autoComplete="username" autoCapitalize="off" required autoFocus />}</Field>
              <Field label={t('Password')}>{(ids) => <Input {...ids} name="password" type="password" autoComplete="current-password" required />}</Field>
            </>
          ) : (
            <Field label={t('API key')} hint={t('Kept in this tab only, until you close it. The first key was printed when the service started for the first time.')}>
              {(ids) => <Input {...ids} name="key" type="password" autoComplete="off" spellCheck={false} required autoFocus />}
            </Field>
          )}
          <Button type="submit" look="primary" busy={busy} className="w-full">{t('Sign in')}</Button>
        </form>
        {other && (
          <button type="button" className="mt-4 text-sm text-accent underline underline-offset-2" onClick={() => { setWay(other); setError(undefined); }}>
            {other === 'password' ? t('Use a user name and password') : t('Use an API key')}
          </button>
        )}
      </div>
    </main>
  );
}
