import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useId, useState } from 'react';
import { chooseLanguage, chosenLanguage, type Language, languages, t } from '../../lib/i18n';
import { turnOff, turnOn, useNotifications } from '../../lib/notifications';
import { type Preferences, usePreferences, useSetPreferences } from '../../lib/preferences';
import { api } from '../../lib/query';
import { setTheme, type Theme, useTheme } from '../../lib/theme';
import { Button } from '../../ui/button';
import { Field, Select } from '../../ui/field';
import { Failure } from '../../ui/page';
import { Section } from '../../ui/rows';

/** Choice is one of a few, each in view. */
function Choice<Value extends string>({ label, value, options, change, disabled }: {
  label: string; value: Value; options: readonly (readonly [Value, ReactNode])[]; change: (value: Value) => void; disabled?: boolean;
}) {
  const name = useId();
  return (
    <fieldset disabled={disabled} className="min-w-0">
      <legend className="mb-1 text-sm font-medium">{label}</legend>
      <div className="flex flex-wrap gap-2">
        {options.map(([one, text]) => (
          <label
            key={one}
            className="flex cursor-pointer items-center gap-2 rounded-md border px-3 py-1.5 text-sm hover:bg-hover has-checked:border-accent
              has-checked:bg-accent-soft has-disabled:cursor-default"
          >
            <input type="radio" name={name} checked={value === one} onChange={() => change(one)} className="accent-(--accent)" />
            {text}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

export function PreferencesPart() {
  const theme = useTheme();
  const kept = usePreferences();
  const models = useQuery({ queryKey: ['models'], queryFn: ({ signal }) => api().listModels({ signal }), staleTime: 60_000 });
  const set = useSetPreferences();
  const [draft, setDraft] = useState<Preferences>(); // what was chosen, until it is saved
  const preferences = draft ?? kept.preferences;
  const waits = kept.data === undefined;
  const change = (part: Partial<Preferences>) => {
    const next = { ...preferences, ...part };
    setDraft(next);
    set.mutate(next, { onSettled: () => setDraft((current) => (current === next ? undefined : current)) });
  };
  return (
    <>
      <Section title={t('In this browser')}>
        <div className="space-y-4">
          <Choice<Theme>
            label={t('Theme')}
            value={theme}
            change={setTheme}
            options={[
              ['system', t('As the system')],
              ['light', t('Light')],
              ['dark', t('Dark')],
            ]}
          />
          <Field label={t('Language')} hint={t('The page reloads in this language.')}>
            {(ids) => (
              <Select
                {...ids}
                className="max-w-80"
                value={chosenLanguage() ?? ''}
                onChange={(event) => chooseLanguage((event.target.value || undefined) as Language | undefined)}
              >
                <option value="">{t('As the browser')}</option>
                {Object.entries(languages).map(([id, name]) => (
                  <option key={id} value={id} lang={id}>
                    {name}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <NotificationChoice />
        </div>
      </Section>
      <Section title={t('Wherever you sign in')} note={t('The service keeps these.')}>
        {kept.error ? (
          <Failure error={kept.error} retry={() => void kept.refetch()} />
        ) : (
          <div className="space-y-4">
            <Choice<Preferences['mode']>
              label={t('New sessions start with')}
              value={preferences.mode}
              disabled={waits}
              change={(mode) => change({ mode })}
              options={[
                ['executing', t('Act: use tools')],
                ['planning', t('Plan: only read')],
              ]}
            />
            <Field label={t('Model of new sessions')}>
              {(ids) => (
                <Select
                  {...ids}
                  className="max-w-80"
                  value={preferences.model}
                  disabled={waits}
                  onChange={(event) => change({ model: event.target.value })}
                >
                  <option value="">
                    {models.data ? t('The service’s default ({model})', { model: models.data.default }) : t('The service’s default')}
                  </option>
                  {preferences.model && !models.data?.models.some((one) => one.id === preferences.model) && (
                    <option value={preferences.model}>{preferences.model}</option>
                  )}
                  {models.data?.models.map((one) => (
                    <option key={one.id} value={one.id}>
                      {one.name || one.id}
                    </option>
                  ))}
                </Select>
              )}
            </Field>
            <Choice<Preferences['send']>
              label={t('A message is sent with')}
              value={preferences.send}
              disabled={waits}
              change={(send) => change({ send })}
              options={[
                ['enter', t('Enter')],
                ['ctrl-enter', t('Ctrl+Enter or Cmd+Enter')],
              ]}
            />
          </div>
        )}
      </Section>
    </>
  );
}

function NotificationChoice() {
  const state = useNotifications();
  return (
    <div>
      <p className="mb-1 text-sm font-medium">{t('Notifications')}</p>
      {state === 'on' && <Button onClick={turnOff}>{t('Turn notifications off')}</Button>}
      {state === 'off' && <Button onClick={() => void turnOn()}>{t('Turn notifications on')}</Button>}
      <p className="mt-1 text-sm text-soft" role="status">
        {state === 'unsupported' ? t('This browser shows no notifications on this page.')
          : state === 'blocked' ? t('This browser blocks notifications of this page. Allow them in its settings.')
            : state === 'on' ? t('The browser notifies you when an agent asks a question while you are on another page.')
              : t('The browser can notify you when an agent asks a question. It asks for your permission first.')}
      </p>
    </div>
  );
}
