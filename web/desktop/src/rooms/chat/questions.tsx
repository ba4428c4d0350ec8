import type { Answer, Question, QuestionItem, Session } from '@everloop/sdk';
import { MessageCircleQuestion, ShieldQuestion } from 'lucide-react';
import { type FormEvent, useId, useState } from 'react';
import { useAction } from '../../lib/query';
import { Button } from '../../ui/button';
import { Area } from '../../ui/field';
import { dateTime } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { exact, visible } from '../../lib/visible';
import { toast } from '../../ui/toast';

interface Draft {
  chosen: number[];
  text: string;
  custom: boolean;
}

const blank: Draft = { chosen: [], text: '', custom: false };

/** answerOf makes the answer to one question of what was entered; undefined: it is not complete. */
export function answerOf(item: QuestionItem, draft: Draft): Answer[number] | undefined {
  const text = draft.text.trim();
  const options = [...draft.chosen].sort((a, b) => a - b);
  if (draft.custom || !item.options?.length) {
    if (!text) return undefined;
    return options.length > 0 ? { options, text } : text;
  }
  if (options.length === 0) return undefined;
  return item.multiSelect ? options : options[0];
}

/** QuestionForm answers all questions of one call at once. */
export function QuestionForm({ question, session }: { question: Question; session: Pick<Session, 'answer'> }) {
  const [drafts, setDrafts] = useState<Draft[]>(() => question.questions.map(() => blank));
  const send = useAction((answer: Answer) => session.answer(question, answer), {
    done: (result) => (result.resolved ? undefined : t('This question is already answered.')),
  });
  const permission = question.permission_for !== undefined && question.permission_for !== null;
  const change = (index: number, part: Partial<Draft>) =>
    setDrafts((all) => all.map((one, at) => (at === index ? { ...one, ...part } : one)));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const answers = question.questions.map((item, index) => answerOf(item, drafts[index] ?? blank));
    const open = answers.findIndex((one) => one === undefined);
    if (open >= 0) return toast(t('Answer question {number} first.', { number: open + 1 }), 'bad');
    return send.mutate(answers as Answer);
  };
  const Icon = permission ? ShieldQuestion : MessageCircleQuestion;
  return (
    <form
      onSubmit={submit}
      aria-label={permission ? t('Permission') : t('Question')}
      className="my-3 rounded-xl border-2 border-warn/50 bg-raised p-4"
    >
      <p className="mb-3 flex items-center gap-2 font-semibold text-warn">
        <Icon size={17} aria-hidden />
        {permission
          ? t('A tool needs your permission')
          : question.questions.length > 1
            ? plural(question.questions.length, '{count} question for you', '{count} questions for you')
            : t('A question for you')}
        {question.source_loop && <span className="text-xs font-normal text-soft">{t('of a sub-agent')}</span>}
      </p>
      <div className="space-y-5">
        {question.questions.map((item, index) => (
          <Item key={index} item={item} permission={permission} draft={drafts[index] ?? blank} change={(part) => change(index, part)} />
        ))}
      </div>
      <div className="mt-4 flex flex-wrap items-center gap-3">
        <Button type="submit" look="primary" busy={send.isPending}>
          {permission ? t('Decide') : t('Answer|verb')}
        </Button>
        {question.expires_at && (
          <span className="text-xs text-soft">{t('Decided without you at {time}', { time: dateTime(question.expires_at) })}</span>
        )}
      </div>
    </form>
  );
}

interface ItemProps {
  item: QuestionItem;
  permission: boolean;
  draft: Draft;
  change: (part: Partial<Draft>) => void;
}

function Item({ item, permission, draft, change }: ItemProps) {
  const name = useId();
  // A question for permission shows a call below its first line, as it is.
  const cut = permission ? item.question.indexOf('\n\n') : -1;
  const title = cut < 0 ? item.question : item.question.slice(0, cut);
  const options = item.options ?? [];
  const pick = (index: number) => {
    if (!item.multiSelect) return change({ custom: false, chosen: [index] });
    const { chosen } = draft;
    return change({ chosen: chosen.includes(index) ? chosen.filter((one) => one !== index) : [...chosen, index] });
  };
  const kind = item.multiSelect ? 'checkbox' : 'radio';
  return (
    <fieldset className="min-w-0">
      <legend className="mb-1.5 font-medium break-words" dir="auto">
        {item.header && <span className="mr-2 rounded bg-hover px-1.5 py-0.5 text-xs text-soft">{item.header}</span>}
        {permission ? exact(title) : visible(title)}
        {item.multiSelect && <span className="ml-2 text-xs font-normal text-soft">{t('several are possible')}</span>}
      </legend>
      {cut >= 0 && (
        <pre
          className="mb-2 max-h-96 overflow-auto rounded-md border bg-hover p-2.5 font-mono text-xs break-all whitespace-pre-wrap"
          aria-label={t('The call')}
          tabIndex={0}
          dir="ltr"
        >
          {exact(item.question.slice(cut + 2))}
        </pre>
      )}
      <div className="space-y-1">
        {options.map((option, index) => (
          <label
            key={index}
            className="flex cursor-pointer items-start gap-2.5 rounded-md border px-3 py-1.5 hover:bg-hover has-checked:border-accent
              has-checked:bg-accent-soft"
          >
            <input
              type={kind}
              name={name}
              checked={draft.chosen.includes(index)}
              onChange={() => pick(index)}
              className="mt-1 accent-(--accent)"
            />
            <span className="min-w-0 break-words" dir="auto">
              {visible(option.label)}
              {option.description && <span className="block text-sm text-soft">{visible(option.description)}</span>}
            </span>
          </label>
        ))}
        {options.length > 0 && (
          <label className="flex cursor-pointer items-center gap-2.5 rounded-md border px-3 py-1.5 hover:bg-hover has-checked:border-accent
            has-checked:bg-accent-soft">
            <input
              type={kind}
              name={name}
              checked={draft.custom}
              onChange={() => change(item.multiSelect ? { custom: !draft.custom } : { custom: true, chosen: [] })}
              className="accent-(--accent)"
            />
            <span>{t('Something else')}</span>
          </label>
        )}
        {(draft.custom || options.length === 0) && (
          <Area
            aria-label={t('Answer: {question}', { question: item.question })}
            value={draft.text}
            onChange={(event) => change({ text: event.target.value })}
            rows={2}
            className="min-h-16"
          />
        )}
      </div>
    </fieldset>
  );
}
