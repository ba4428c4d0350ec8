import { Link } from '@tanstack/react-router';
import { Inbox as InboxIcon, MessageSquare } from 'lucide-react';
import { ago, dateTime } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { answering, type InboxItem, questionOf, useInbox } from '../../lib/inbox';
import { Badge, Empty, Loaded, Page } from '../../ui/page';
import { QuestionForm } from '../chat/questions';

const triggers: Record<InboxItem['trigger'], string> = {
  user: t('chat'),
  answer: t('chat'),
  api: t('chat'),
  schedule: t('schedule'),
  dag: t('DAG'),
  issue: t('issue'),
  whatif: t('what-if'),
  replay: t('replay'),
};

const session = answering([['sessions']]);

/** Inbox has all that waits for the person, the oldest first, each answered where it stands. */
export default function Inbox() {
  const inbox = useInbox(4000);
  return (
    <Page
      title={t('Inbox')}
      narrow
      actions={
        inbox.data &&
        inbox.data.total > 0 && (
          <span className="text-sm text-soft" role="status">
            {t('{count} open', { count: inbox.data.total })}
          </span>
        )
      }
    >
      <Loaded
        query={inbox}
        isEmpty={(data) => data.items.length === 0}
        empty={
          <Empty icon={<InboxIcon size={28} />} title={t('Nothing waits for you')}>
            {t(
              'Questions and permission requests of agents from chats, scheduled runs, DAGs and issues appear here. ' +
                'Answer them to let the work continue.',
            )}
          </Empty>
        }
      >
        {(data) => (
          <>
            <ol aria-label={t('Open questions')} className="space-y-6">
              {data.items.map((item) => (
                <Item key={item.question_id} item={item} />
              ))}
            </ol>
            {data.total > data.items.length && (
              <p className="mt-4 text-center text-sm text-soft">
                {plural(
                  data.total - data.items.length,
                  '{count} more after you answer these.',
                  '{count} more after you answer these.',
                )}
              </p>
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Item({ item }: { item: InboxItem }) {
  const name = item.intent || t('Session');
  return (
    <li>
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1 text-sm">
        <Link
          to="/s/$sessionId"
          params={{ sessionId: item.session_id }}
          className="flex min-w-0 items-center gap-1.5 font-medium text-accent hover:underline"
        >
          <MessageSquare size={14} className="shrink-0" aria-hidden />
          <span className="truncate" dir="auto">
            {name}
          </span>
        </Link>
        <Badge>{triggers[item.trigger] ?? item.trigger}</Badge>
        {item.task_id && (
          <Link to="/schedules/$taskId" params={{ taskId: item.task_id }} className="text-accent hover:underline">
            {t('Schedule')}
          </Link>
        )}
        {item.prod_solution_id && item.run_id && !item.escalated && (
          <Link
            to="/dags/$dagId/runs/$runId"
            params={{ dagId: item.prod_solution_id, runId: item.run_id }}
            className="text-accent hover:underline"
          >
            {item.node_id}
          </Link>
        )}
        {item.workspace_id && item.issue_id && !item.escalated && (
          <Link
            to="/board/$workspaceId/$issueId"
            params={{ workspaceId: item.workspace_id, issueId: item.issue_id }}
            className="text-accent hover:underline"
          >
            {t('issue')}
          </Link>
        )}
        {item.source_loop && (
          <span className="min-w-0 truncate text-soft" dir="auto">
            {t('sub-agent: {name}', { name: item.source_loop.description || item.source_loop.agent_type })}
          </span>
        )}
        <time dateTime={item.asked_at} title={dateTime(item.asked_at)} className="ml-auto text-xs text-soft">
          {ago(item.asked_at)}
        </time>
      </div>
      <QuestionForm question={questionOf(item)} session={session} />
    </li>
  );
}
