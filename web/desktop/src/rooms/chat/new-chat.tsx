import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { account } from '../../lib/auth';
import { t } from '../../lib/i18n';
import { usePreferences } from '../../lib/preferences';
import { api, invalidate, useAction } from '../../lib/query';
import { Select } from '../../ui/field';
import { toast } from '../../ui/toast';
import { Composer, messageOf, type Outgoing, wantedOptions } from './composer';
import { type Mode, ModeChoice } from './mode';

/** NewChat makes a session with the first message. */
export default function NewChat() {
  const navigate = useNavigate();
  const client = useQueryClient();
  const models = useQuery({ queryKey: ['models'], queryFn: ({ signal }) => api().listModels({ signal }), staleTime: 60_000 });
  const solutions = useQuery({ queryKey: ['solutions'], queryFn: ({ signal }) => api().listSolutions({ signal }), staleTime: 60_000 });
  const { preferences } = usePreferences();
  const [chosenModel, setModel] = useState<string>();
  const [solution, setSolution] = useState('');
  const [chosenMode, setMode] = useState<Mode>();
  const mode = chosenMode ?? preferences.mode;
  // It may be gone.
  const preferred = models.data && !models.data.models.some((one) => one.id === preferences.model) ? '' : preferences.model;
  const model = chosenModel ?? (preferred === models.data?.default ? '' : preferred);

  const send = async (out: Outgoing) => {
    const session = await account().client.createSession({
      mode,
      ...(model ? { model } : {}),
      ...(solution ? { solution_id: solution } : {}),
    });
    try {
      let stored: string[] = [];
      if (out.files.length > 0) {
        const { uploaded, failed } = await session.upload('', Object.fromEntries(out.files.map((file) => [file.name, file])));
        if (failed.length > 0)
          toast(
            t('Failed to store {path}: {message}', { path: failed[0]?.path ?? t('A file'), message: failed[0]?.message ?? '' }),
            'bad',
          );
        stored = uploaded;
      }
      await session.send(messageOf(out.text, out.pictures, stored), wantedOptions(out.wanted));
    } finally {
      void session.close(); // the room of the session opens it again, with its history
    }
    void invalidate(client, ['sessions']);
    await navigate({ to: '/s/$sessionId', params: { sessionId: session.id } });
  };

  const picker = useRef<HTMLInputElement>(null);
  const take = useAction(
    async (file: File) => {
      const form = new FormData();
      form.append('file', file);
      const { session_id } = await api().importSession(form, { timeoutMs: 600_000 });
      await navigate({ to: '/s/$sessionId', params: { sessionId: session_id } });
    },
    { done: t('The session was imported.'), refresh: [['sessions']] },
  );

  const offered = solutions.data?.items ?? [];
  return (
    <div className="grid h-full place-items-center overflow-y-auto p-4">
      <div className="w-full max-w-2xl pb-[12vh]">
        <h1 className="mb-5 text-center text-2xl font-semibold">{t('What should be done?')}</h1>
        <Composer
          draftKey="new"
          running={false}
          send={send}
          placeholder={t('Describe a task, or ask something')}
          tools={
            <>
              <ModeChoice value={mode} change={setMode} />
              <Select
                aria-label={t('Model')}
                value={model}
                onChange={(event) => setModel(event.target.value)}
                className="w-auto! max-w-72 border-transparent bg-transparent text-soft"
              >
                <option value="">{models.data ? t('{model} (default)', { model: models.data.default }) : t('Default model')}</option>
                {models.data?.models
                  .filter((one) => one.id !== models.data.default)
                  .map((one) => (
                    <option key={one.id} value={one.id}>
                      {one.name || one.id}
                    </option>
                  ))}
              </Select>
              {offered.length > 0 && (
                <Select
                  aria-label={t('Solution')}
                  value={solution}
                  onChange={(event) => setSolution(event.target.value)}
                  className="w-auto! max-w-44 border-transparent bg-transparent text-soft"
                >
                  <option value="">{t('No solution')}</option>
                  {offered.map((one) => (
                    <option key={one.id} value={one.id}>
                      {one.name || one.id}
                    </option>
                  ))}
                </Select>
              )}
            </>
          }
        />
        <p className="mt-4 text-center text-sm text-soft">
          {preferences.send === 'enter' ? t('Enter sends, Shift+Enter makes a new line.') : t('Ctrl+Enter sends.')}{' '}
          {t('Drop or paste files and pictures.')}
        </p>
        <p className="mt-1 text-center text-sm">
          <button
            type="button"
            disabled={take.isPending}
            className="text-accent underline underline-offset-2 disabled:opacity-50"
            onClick={() => picker.current?.click()}
          >
            {take.isPending ? t('Importing…') : t('Import an exported session')}
          </button>
          <input
            ref={picker}
            type="file"
            accept=".zip"
            hidden
            onChange={(event) => {
              const file = event.target.files?.[0];
              if (file) take.mutate(file);
              event.target.value = '';
            }}
          />
        </p>
      </div>
    </div>
  );
}
