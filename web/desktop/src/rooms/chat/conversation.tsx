import type { Question, Session, Snapshot, TurnView } from '@everloop/sdk';
import { useVirtualizer } from '@tanstack/react-virtual';
import { ArrowDown, MessageSquare } from 'lucide-react';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { t } from '../../lib/i18n';
import { IconButton } from '../../ui/button';
import { Empty, Spinner } from '../../ui/page';
import { QuestionForm } from './questions';
import { Turn } from './turn';

type Row = { kind: 'turn'; key: string; turn: TurnView } | { kind: 'question'; key: string; question: Question };

const near = 80; // pixels from the end that count as being there

/** Conversation shows the turns, of which only those in view are in the page. It stays at the end until the reader scrolls up. */
export function Conversation({ session, state, quote }: { session: Session; state: Snapshot; quote: (text: string) => void }) {
  const rows = useMemo<Row[]>(() => [
    ...state.turns.map((turn) => ({ kind: 'turn', key: turn.turn_id, turn }) as const),
    ...state.questions.map((question) => ({ kind: 'question', key: question.question_id, question }) as const),
  ], [state.turns, state.questions]);
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [atEnd, setAtEnd] = useState(true);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => 120,
    overscan: 8,
    getItemKey: (index) => rows[index]?.key ?? index,
    paddingStart: 16,
    paddingEnd: 24,
    anchorTo: 'end', // earlier turns that come in above leave what is read where it is
    useFlushSync: false,
  });
  const size = virtual.getTotalSize();

  // A message of the reader's own is shown, wherever the reader had scrolled to.
  const own = state.turns.filter((turn) => turn.role === 'user').at(-1)?.turn_id;
  const shown = useRef(own);
  useLayoutEffect(() => {
    if (shown.current !== undefined && shown.current !== own) follows.current = true;
    shown.current = own;
  }, [own]);

  useLayoutEffect(() => {
    if (follows.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [rows, size, state.loaded]);

  // A link to a turn opens there.
  const linked = useRef(location.hash.slice(1));
  useEffect(() => {
    const index = linked.current ? rows.findIndex((row) => row.key === linked.current) : -1;
    if (index < 0) return;
    linked.current = '';
    follows.current = false;
    virtual.scrollToIndex(index, { align: 'start' });
  }, [rows, virtual]);

  const scrolled = () => {
    const place = box.current;
    if (!place) return;
    const end = place.scrollHeight - place.scrollTop - place.clientHeight < near;
    follows.current = end;
    setAtEnd(end);
  };
  const toEnd = () => {
    follows.current = true;
    setAtEnd(true);
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  };

  if (rows.length === 0) {
    return (
      <div className="min-h-0 flex-1 overflow-y-auto">
        {state.loaded ? (
          <Empty icon={<MessageSquare size={28} />} title={t('Nothing was said yet')}>
            {t('Describe the task. The agent can run commands, edit files and ask you.')}
          </Empty>
        ) : (
          <div className="p-4">
            <Spinner label={t('Loading the messages')} />
          </div>
        )}
      </div>
    );
  }
  return (
    <div className="relative min-h-0 flex-1">
      <div
        ref={box}
        onScroll={scrolled}
        tabIndex={0}
        role="region"
        aria-label={t('Conversation')}
        className="h-full overflow-y-auto [overflow-anchor:none]"
      >
        <div className="relative mx-auto w-full max-w-3xl" style={{ height: size }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            if (!row) return null;
            return (
              <div
                key={item.key}
                data-index={item.index}
                ref={virtual.measureElement}
                className="absolute inset-x-0 top-0 px-4"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                {row.kind === 'turn' ? (
                  <Turn turn={row.turn} nested={state.children} quote={quote} />
                ) : (
                  <QuestionForm question={row.question} session={session} />
                )}
              </div>
            );
          })}
        </div>
      </div>
      {!atEnd && (
        <IconButton
          label={t('To the end')}
          look="plain"
          className="absolute bottom-3 left-1/2 -translate-x-1/2 rounded-full shadow-md"
          onClick={toEnd}
        >
          <ArrowDown size={16} />
        </IconButton>
      )}
    </div>
  );
}
