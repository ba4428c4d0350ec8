import type { Schemas } from '@everloop/sdk';
import { Link } from '@tanstack/react-router';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button } from '../../ui/button';
import { Select } from '../../ui/field';

type Speed = 1 | 2 | 5;

/** ReplayBar plays what happened in another session, faster or slower, and lets the agent go on from there. */
export function ReplayBar({ id, state }: { id: string; state: Schemas['ReplayState'] }) {
  const change = useAction((body: Parameters<ReturnType<typeof api>['changeReplay']>[1]) => api().changeReplay(id, body), {
    refresh: [['session', id]],
  });
  const total = Math.max(1, state.total);
  const over = state.status === 'finished' || state.status === 'autonomous';
  return (
    <section aria-label={t('Replay')} className="mx-auto mb-2 flex w-full max-w-3xl flex-wrap items-center gap-2 px-3 text-sm">
      <span className="text-soft">
        {state.status === 'autonomous'
          ? t('Assigned: the agent takes over from here')
          : state.status === 'finished'
            ? t('The replay is over')
            : t('Replay, {position} of {total}', { position: state.position, total: state.total })}
      </span>
      <span
        role="progressbar"
        aria-label={t('Position of the replay')}
        aria-valuenow={state.position}
        aria-valuemin={0}
        aria-valuemax={total}
        className="h-1.5 min-w-16 flex-1 overflow-hidden rounded-full bg-hover"
      >
        <span className="block h-full bg-accent" style={{ width: `${Math.min(100, (state.position / total) * 100)}%` }} />
      </span>
      <Select
        aria-label={t('Speed')}
        value={state.speed}
        disabled={over}
        onChange={(event) => change.mutate({ speed: Number(event.target.value) as Speed })}
        className="w-20!"
      >
        <option value={1}>1×</option>
        <option value={2}>2×</option>
        <option value={5}>5×</option>
      </Select>
      {state.status !== 'autonomous' && (
        <Button small busy={change.isPending} onClick={() => change.mutate({ status: 'autonomous' })}>
          {t('Hand over')}
        </Button>
      )}
      <Link to="/s/$sessionId" params={{ sessionId: state.source_session_id }} className="text-accent underline underline-offset-2">
        {t('Original')}
      </Link>
    </section>
  );
}
