import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useId, useState } from 'react';
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
          <label key={one} className="flex cursor-pointer items-center gap-2 rounded-md border px-3 py-1.5 text-sm hover:bg-hover has-checked:border-accent has-checked:bg-accent-soft has-disabled:cursor-default">
            <input type="radio" name={name} checked={value === one} onChange={() => change(one)} className="accent-(--accent)" />{text}
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
      <Section title="In this browser">
        <div className="space-y-4">
          <Choice<Theme> label="Theme" value={theme} change={setTheme} options={[['system', 'As the system'], ['light', 'Light'], ['dark', 'Dark']]} />
          <NotificationChoice />
        </div>
      </Section>
      <Section title="Wherever you sign in" note="The service keeps these.">
        {kept.error ? <Failure error={kept.error} retry={() => void kept.refetch()} /> : (
          <div className="space-y-4">
            <Choice<Preferences['mode']> label="New sessions begin with" value={preferences.mode} disabled={waits} change={(mode) => change({ mode })} options={[['executing', 'Act: use tools'], ['planning', 'Plan: only read']]} />
            <Field label="Model of new sessions">
              {(ids) => (
                <Select {...ids} className="max-w-80" value={preferences.model} disabled={waits} onChange={(event) => change({ model: event.target.value })}>
                  <option value="">{models.data ? `The service’s default (${models.data.default})` : 'The service’s default'}</option>
                  {preferences.model && !models.data?.models.some((one) => one.id === preferences.model) && <option value={preferences.model}>{preferences.model}</option>}
                  {models.data?.models.map((one) => <option key={one.id} value={one.id}>{one.name || one.id}</option>)}
                </Select>
              )}
            </Field>
            <Choice<Preferences['send']> label="A message is sent with" value={preferences.send} disabled={waits} change={(send) => change({ send })} options={[['enter', 'Enter'], ['ctrl-enter', 'Ctrl+Enter or Cmd+Enter']]} />
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
      <p className="mb-1 text-sm font-medium">Notifications</p>
      {state === 'on' && <Button onClick={turnOff}>Turn notifications off</Button>}
      {state === 'off' && <Button onClick={() => void turnOn()}>Turn notifications on</Button>}
      <p className="mt-1 text-sm text-soft" role="status">
        {state === 'unsupported' ? 'This browser shows no notifications on this page.'
          : state === 'blocked' ? 'This browser blocks notifications of this page. Allow them in its settings.'
            : state === 'on' ? 'When an agent asks a question while you are elsewhere, the browser shows it.'
              : 'The browser can show when an agent asks a question. It asks you for the right to do so.'}
      </p>
    </div>
  );
}
