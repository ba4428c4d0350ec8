import type { Schemas } from '@everloop/sdk';
import { Link } from '@tanstack/react-router';
import { Sparkles, X } from 'lucide-react';
import { account } from '../../lib/auth';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { useSession } from '../../lib/session';
import { Button, IconButton } from '../../ui/button';
import { Empty, Failure, Spinner } from '../../ui/page';
import { Room } from '../chat/chat';

/** Assistant is the session of a solution whose agent edits its DAG and its architecture. */
export function Assistant({ solution, archived, close }: { solution: Schemas['ProdSolution']; archived: boolean; close: () => void }) {
  const own = solution.owner_id === account().me.id;
  const assist = useAction((on: boolean) => api().changeProdSolution(solution.id, { ai_assist: on }), {
    refresh: [['dags', solution.id], ['sessions']],
  });
  const session = solution.ai_assist ? solution.session_id : undefined;
  return (
    <aside aria-label={t('Assistant')} className="flex w-md shrink-0 flex-col border-l max-lg:w-full max-lg:border-l-0">
      <div className="flex min-h-9 items-center gap-2 border-b px-3 py-1 text-sm">
        <h2 className="flex-1 font-semibold">{t('Assistant')}</h2>
        {session && (
          <>
            <Link to="/s/$sessionId" params={{ sessionId: session }} className="text-accent underline-offset-2 hover:underline">
              {t('Open the session')}
            </Link>
            <Button small look="ghost" busy={assist.isPending} onClick={() => assist.mutate(false)}>
              {t('Turn off')}
            </Button>
          </>
        )}
        <IconButton small label={t('Close the assistant')} onClick={close}>
          <X size={15} />
        </IconButton>
      </div>
      <div className="min-h-0 flex-1">
        {session ? (
          <Conversation id={session} />
        ) : (
          <Empty
            icon={<Sparkles size={28} />}
            title={t('An agent can edit it with you')}
            action={
              own &&
              !archived && (
                <Button look="primary" busy={assist.isPending} onClick={() => assist.mutate(true)}>
                  {t('Turn the assistant on')}
                </Button>
              )
            }
          >
            {own
              ? t('Describe what you need: it reads and edits the DAG and the architecture. Each edit is a version; it publishes nothing.')
              : t('Only the owner can turn on the assistant.')}
          </Empty>
        )}
      </div>
    </aside>
  );
}

function Conversation({ id }: { id: string }) {
  const { followed, error } = useSession(id);
  if (error) return <div className="p-4"><Failure error={error} /></div>;
  return followed ? <Room key={id} followed={followed} /> : <div className="p-4"><Spinner label={t('Opening the session')} /></div>;
}
