import { useParams } from '@tanstack/react-router';
import { WifiOff } from 'lucide-react';
import { useCallback, useState } from 'react';
import { plural, t } from '../../lib/i18n';
import { useAction } from '../../lib/query';
import { useDetail, useSession, type Followed } from '../../lib/session';
import { Failure, Spinner } from '../../ui/page';
import { toast } from '../../ui/toast';
import { Composer, messageOf, type Outgoing, wantedOptions } from './composer';
import { SessionOfCalls } from './attached';
import { Conversation } from './conversation';
import { SessionFrame } from './header';
import { ReplayBar } from './replay-bar';
import { ModeChoice } from './mode';
import { OutcomeNote } from './outcome';

export default function Chat() {
  const { sessionId } = useParams({ strict: false }) as { sessionId: string };
  const { followed, error } = useSession(sessionId);
  return (
    <SessionFrame id={sessionId} state={followed?.state}>
      {error ? (
        <div className="p-4">
          <Failure error={error} />
        </div>
      ) : !followed ? (
        <div className="p-4">
          <Spinner label={t('Opening the session')} />
        </div>
      ) : (
        <Room key={sessionId} followed={followed} />
      )}
    </SessionFrame>
  );
}

const words: Record<string, string> = {
  model: t('The model is working'),
  model_unavailable: t('The model server does not respond; retrying'),
  rate_limit: t('The model server asks for a pause; retrying'),
  tool: t('Tools are running'),
  question: t('Waiting for your answer'),
  permission: t('Waiting for your permission'),
  child: t('Sub-agents are working'),
  slot: t('A sub-agent is queued'),
  budget: t('The budget of this session is used up'),
  queued: t('The message is queued for its run'),
  worker_missing: t('No worker is running or reachable'),
};

/** waitingText says in words why a session makes no progress. */
export const waitingText = (reason: string): string | undefined => words[reason];

/** Room is the conversation of a session with its composer. */
export function Room({ followed: { session, state } }: { followed: Followed }) {
  const detail = useDetail(session.id);
  const [mode, setMode] = useState<'planning' | 'executing'>();
  const [quoted, setQuoted] = useState<{ text: string; at: number }>();
  const quote = useCallback((text: string) => setQuoted({ text, at: Date.now() }), []);
  const stop = useAction(() => session.stop(), { done: (stopped) => (stopped ? undefined : t('Nothing was running.')) });
  const clear = useAction(() => session.stop({ scope: 'chat_and_queue' }));
  const running = state.status === 'running' || state.chat !== undefined;
  const owner = detail.data === undefined || detail.data.viewer_role === 'owner';
  const waiting = waitingText(state.waitingReason);

  const send = async (out: Outgoing) => {
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
    const chosen = mode && !(running && out.delivery === 'steer') ? { mode } : {};
    await session.send(messageOf(out.text, out.pictures, stored), {
      ...chosen,
      ...wantedOptions(out.wanted),
      ...(running ? { delivery: out.delivery } : {}),
    });
  };

  return (
    <div className="flex h-full min-h-0 flex-col">
      <SessionOfCalls.Provider value={session.id}>
        <Conversation session={session} state={state} quote={quote} />
      </SessionOfCalls.Provider>
      {detail.data?.replay_state && <ReplayBar id={session.id} state={detail.data.replay_state} />}
      <div className="mx-auto w-full max-w-3xl px-3 pb-3">
        {!state.online && (
          <p role="status" className="mb-2 flex items-center gap-2 rounded-md bg-warn-soft px-3 py-1.5 text-sm text-warn">
            <WifiOff size={14} aria-hidden />
            {t('Connection lost. Reconnecting; no data is lost.')}
          </p>
        )}
        <div className="flex min-h-6 items-center gap-2 px-1 text-xs text-soft" role="status">
          {running && waiting && (
            <>
              <span className="size-1.5 animate-pulse rounded-full bg-accent" aria-hidden />
              {waiting}
            </>
          )}
          {!running && state.waitingReason === 'budget' && waiting}
          {!running && <OutcomeNote state={state} />}
        </div>
        {state.joining.length > 0 && (
          <section aria-label={t('On its way')} className="mb-2 rounded-lg border bg-panel px-3 py-1.5 text-sm">
            <p className="text-xs text-soft">{t('The agent reads this before its next step')}</p>
            <Previews messages={state.joining} />
          </section>
        )}
        {state.queueLength > 0 && (
          <section aria-label={t('Queue')} className="mb-2 rounded-lg border bg-panel px-3 py-1.5 text-sm">
            <p className="flex items-center text-xs text-soft">
              <span className="flex-1">{plural(state.queueLength, '{count} message in the queue', '{count} messages in the queue')}</span>
              <button type="button" className="text-bad hover:underline" onClick={() => clear.mutate()}>
                {t('Stop and clear')}
              </button>
            </p>
            <Previews messages={state.queue} />
          </section>
        )}
        {owner ? (
          <Composer
            draftKey={session.id}
            running={running}
            send={send}
            stop={() => stop.mutate()}
            quoted={quoted}
            tools={
              <ModeChoice
                value={mode ?? (detail.data?.session_setup.mode as 'planning' | 'executing' | undefined) ?? 'executing'}
                change={setMode}
                model={state.model ?? detail.data?.model}
              />
            }
          />
        ) : (
          <p className="rounded-lg border bg-panel px-3 py-2 text-sm text-soft">
            {t('You can read this session; only its owner can write to it.')}
          </p>
        )}
      </div>
    </div>
  );
}

// Previews lists messages that wait. Many of them scroll, so that the conversation keeps its place.
const Previews = ({ messages }: { messages: readonly { turn_id: string; preview: string }[] }) => (
  <ol className="max-h-32 overflow-y-auto" tabIndex={0}>
    {messages.map((one) => (
      <li key={one.turn_id} className="truncate" dir="auto">
        {one.preview || t('Picture')}
      </li>
    ))}
  </ol>
);
