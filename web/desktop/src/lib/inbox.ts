import { answerFields, type Question, type QuestionItem, type Schemas, type Session } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { api, invalidate, queryClient } from './query';

export type InboxItem = Schemas['InboxItem'];

/** inboxKey begins the keys of all queries that an answer makes outdated. */
export const inboxKey = ['inbox'] as const;

/** useInbox reads what waits for the person, again and again while the window is looked at. */
export const useInbox = (everyMs: number) =>
  useQuery({
    queryKey: [...inboxKey, 'open'],
    queryFn: ({ signal }) => api().listInbox({ query: { limit: 200 }, signal }),
    refetchInterval: everyMs,
    staleTime: 2000,
  });

/** questionOf makes of an item what the form of the chat takes. */
export function questionOf(item: InboxItem): Question {
  return {
    question_id: item.question_id,
    tool_call_id: item.tool_call_id,
    turn_id: '',
    chat_id: item.chat_id,
    loop_id: item.source_loop?.loop_id ?? 'root',
    questions: (Array.isArray(item.questions) ? item.questions : []) as QuestionItem[],
    asked_at: item.asked_at,
    expires_at: item.expires_at ?? undefined,
    default_policy: item.default_policy ?? undefined,
    source_loop: item.source_loop,
    ...(item.kind === 'permission' ? { permission_for: true } : {}),
  };
}

/** answering answers questions of the inbox, of whatever session. Queries that begin with one of `refresh` are read again. */
export const answering = (refresh: readonly (readonly unknown[])[] = []): Pick<Session, 'answer'> => ({
  answer: async (question, answer) => {
    const { question_id } = question as Question;
    const answered = await api().answerInbox(question_id, answerFields(answer));
    await Promise.all([inboxKey, ...refresh].map((key) => invalidate(queryClient, key)));
    return answered;
  },
});
