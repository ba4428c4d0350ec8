import type { CallView, TurnView } from '@everloop/sdk';
import { Brain, ChevronRight, Info, Link2, MessageSquareQuote, RefreshCw } from 'lucide-react';
import { memo, useEffect, useMemo, useState } from 'react';
import { cn } from '../../lib/cn';
import { compact, cost, dateTime, duration } from '../../lib/format';
import { t } from '../../lib/i18n';
import { visible } from '../../lib/visible';
import { IconButton } from '../../ui/button';
import { bounded, Code, copyText, CopyButton, maxParagraph } from '../../ui/code';
import { Prose } from '../../ui/markdown';
import { toast } from '../../ui/toast';
import { Attached } from './attached';
import { isOpenQuestion, type ShowTurn, ToolCard } from './tools';

type Nested = ReadonlyMap<string, readonly TurnView[]>;
type Block = TurnView['blocks'][number];

interface TurnProps {
  turn: TurnView;
  nested: Nested;
  inner?: boolean;
  quote?: (text: string) => void;
}

/** Turn shows what was said in one turn, and its calls in their places. */
export const Turn = memo(function Turn({ turn, nested, inner, quote }: TurnProps) {
  if (turn.kind === 'compaction') return <Compaction turn={turn} />;
  if (turn.role === 'user') return <User turn={turn} quote={quote} inner={inner ?? false} />;
  if (turn.role === 'system') return <System turn={turn} />;
  return <Assistant turn={turn} nested={nested} inner={inner ?? false} quote={quote} />;
}, (a, b) => a.turn === b.turn && a.quote === b.quote && sameCalls(a, b));

/** showInner shows a turn of a sub-agent in the card of its call. */
const showInner: ShowTurn = (turn, nested) => <Turn key={turn.turn_id} turn={turn} nested={nested} inner />;

// Calls of sub-agents change below a turn that stays the same.
const sameCalls = (a: TurnProps, b: TurnProps): boolean =>
  a.nested === b.nested || !a.turn.tool_calls.some((call) => b.nested.has(call.id));

export const textOf = (turn: TurnView): string =>
  turn.blocks
    .filter((block) => block.type === 'text')
    .map((block) => block.content)
    .join('\n\n');

function User({ turn, quote, inner }: { turn: TurnView; quote?: ((text: string) => void) | undefined; inner: boolean }) {
  return (
    <article aria-label={inner ? t('Task') : t('Your message')} className="group/turn flex flex-col items-end py-2">
      <div className={cn('max-w-[85%] min-w-0 rounded-2xl px-3.5 py-2', inner ? 'border bg-panel text-sm' : 'bg-accent-soft')}>
        {turn.blocks.map((block, index) =>
          block.type === 'image' ? (
            <Picture key={index} block={block} turn={turn} />
          ) : (
            <p key={index} className="break-words whitespace-pre-wrap" dir="auto">
              {visible(bounded(block.content, maxParagraph))}
            </p>
          ),
        )}
      </div>
      {!inner && <Actions turn={turn} quote={quote} />}
    </article>
  );
}

/** Picture shows a picture of a message. */
function Picture({ block }: { block: Block; turn: TurnView }) {
  const own = /^\/api\/sessions\/([^/]+)\/attachments\/([^/?#]+)$/.exec(block.content);
  if (block.content.startsWith('data:image/'))
    return <img src={block.content} alt={t('Attached picture')} className="my-1 max-h-72 rounded-lg" />;
  if (!own)
    return (
      <a
        href={/^https?:/.test(block.content) ? block.content : undefined}
        target="_blank"
        rel="noopener noreferrer"
        className="text-accent underline"
      >
        {t('Picture')}
      </a>
    );
  return (
    <Attached
      session={own[1] ?? ''}
      name={decodeURIComponent(own[2] ?? '')}
      label={t('Attached picture')}
      className="my-1 max-h-72 rounded-lg"
    />
  );
}

function System({ turn }: { turn: TurnView }) {
  return (
    <article aria-label={t('Note of the service')} className="my-2 flex gap-2 rounded-lg bg-panel px-3 py-2 text-sm text-soft">
      <Info size={15} className="mt-0.5 shrink-0" aria-hidden />
      <div className="min-w-0 break-words whitespace-pre-wrap" dir="auto">{turn.blocks.map((block) => block.content).join('\n')}</div>
    </article>
  );
}

function Compaction({ turn }: { turn: TurnView }) {
  const [open, setOpen] = useState(false);
  return (
    <article aria-label={t('Summary of the history')} className="my-3 border-y py-2 text-sm">
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="flex w-full items-center gap-2 text-soft">
        <ChevronRight size={14} className={cn('transition-transform', open && 'rotate-90')} aria-hidden />
        {turn.tokens_before && turn.tokens_after
          ? t('Earlier messages were summarised: {before} to {after} tokens', {
              before: compact(turn.tokens_before),
              after: compact(turn.tokens_after),
            })
          : t('Earlier messages were summarised')}
      </button>
      {open && (
        <div className="mt-2">
          <Prose text={turn.summary_full ?? turn.summary_preview ?? ''} />
        </div>
      )}
    </article>
  );
}

type Part = { kind: 'block'; block: Block } | { kind: 'call'; call: CallView };

/** partsOf puts calls where the blocks name them, those that no block names behind. */
export function partsOf(turn: TurnView): Part[] {
  const calls = new Map(turn.tool_calls.map((call) => [call.id, call]));
  const parts: Part[] = [];
  for (const block of turn.blocks) {
    if (block.type === 'tool_result') continue;
    if (block.type !== 'tool_use') {
      parts.push({ kind: 'block', block });
      continue;
    }
    const call = calls.get(block.tool_call_id ?? '');
    if (call) parts.push({ kind: 'call', call });
    calls.delete(block.tool_call_id ?? '');
  }
  for (const call of calls.values()) parts.push({ kind: 'call', call });
  return parts;
}

function Assistant({
  turn,
  nested,
  inner,
  quote,
}: {
  turn: TurnView;
  nested: Nested;
  inner: boolean;
  quote?: ((text: string) => void) | undefined;
}) {
  const parts = useMemo(() => partsOf(turn).filter((part) => part.kind === 'block' || !isOpenQuestion(part.call)), [turn]);
  const streaming = turn.status === 'streaming';
  return (
    <article
      aria-label={inner ? t('Answer of the sub-agent') : t('Answer')}
      className={cn('group/turn relative min-w-0 py-1', turn.deprecated && 'opacity-60')}
    >
      {parts.map((part, index) => {
        if (part.kind === 'call') {
          const { call } = part;
          return <ToolCard key={call.id} call={call} nested={nested} showTurn={showInner} {...given(nested, call.id)} />;
        }
        const { block } = part;
        if (block.type === 'thinking') return <Thinking key={index} text={block.content} live={streaming && index === parts.length - 1} />;
        if (block.type === 'plan') return <Plan key={index} text={block.content} />;
        if (block.type === 'image') return <Picture key={index} block={block} turn={turn} />;
        const json = streaming ? undefined : jsonOf(block.content);
        return json ? <Json key={index} text={json} /> : <Prose key={index} text={block.content} />;
      })}
      {streaming && parts.length === 0 && !turn.retry && (
        <span role="status" className="inline-block animate-pulse py-1 text-sm text-soft">
          {t('Thinking…')}
        </span>
      )}
      {turn.retry && <RetryNote retry={turn.retry} />}
      {turn.status === 'failed' && (
        <p role="alert" className="my-1 rounded-md bg-bad-soft px-3 py-1.5 text-sm text-bad">
          {turn.failure_reason || t('This turn failed.')}
        </p>
      )}
      {turn.status === 'interrupted' && <p className="my-1 text-sm text-soft">{t('Stopped.')}</p>}
      {!inner && !streaming && <Actions turn={turn} quote={quote} over={turn.tool_calls.length > 0} />}
    </article>
  );
}

/** jsonOf lays out a text that is one JSON object or list, as the result of a schema is. */
export function jsonOf(text: string): string | undefined {
  const said = text.trim();
  if (!/^(\{[^]*\}|\[[^]*\])$/.test(said)) return undefined;
  try {
    const value: unknown = JSON.parse(said);
    return /\d{16}/.test(said) ? said : JSON.stringify(value, null, 2); // long numbers would be rounded
  } catch {
    return undefined;
  }
}

const Json = ({ text }: { text: string }) => (
  <div className="relative my-1">
    <Code text={text} language="json" label={t('Result')} className="pr-9" />
    <span className="absolute top-1 right-1">
      <CopyButton text={text} label={t('Copy the result')} />
    </span>
  </div>
);

function given(nested: Nested, id: string): { children?: readonly TurnView[] } {
  const children = nested.get(id);
  return children ? { children } : {};
}

function Thinking({ text, live }: { text: string; live: boolean }) {
  const [open, setOpen] = useState(false);
  const last = text.trimEnd().split('\n').at(-1) ?? '';
  return (
    <div className="my-1 text-sm text-soft">
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="flex max-w-full items-center gap-1.5 rounded hover:text-ink"
      >
        <Brain size={14} className={cn('shrink-0', live && 'animate-pulse text-accent')} aria-hidden />
        <span className="shrink-0">{live ? t('Thinking') : t('Thought')}</span>
        {!open && (
          <span className="min-w-0 truncate opacity-90" dir="auto">
            {last.slice(0, 160)}
          </span>
        )}
        <ChevronRight size={13} className={cn('shrink-0 transition-transform', open && 'rotate-90')} aria-hidden />
      </button>
      {open && (
        <p className="mt-1 border-l-2 pl-3 break-words whitespace-pre-wrap" dir="auto">
          {visible(bounded(text, maxParagraph))}
        </p>
      )}
    </div>
  );
}

interface PlanContent {
  title?: string;
  steps?: { id: string; title: string; detail?: string; depends_on?: string[] }[];
}

function Plan({ text }: { text: string }) {
  const plan = useMemo<PlanContent>(() => {
    try {
      return JSON.parse(text) as PlanContent;
    } catch {
      return {};
    }
  }, [text]);
  if (!Array.isArray(plan.steps)) return <Prose text={text} />;
  return (
    <section aria-label={t('Plan')} className="my-2 rounded-lg border border-accent/40 bg-raised px-3.5 py-3">
      <h3 className="mb-2 font-semibold" dir="auto">
        {t('Plan: {title}', { title: plan.title })}
      </h3>
      <ol className="list-decimal space-y-1.5 pl-5">
        {plan.steps.map((step) => (
          <li key={step.id} dir="auto">
            <span className="font-medium">{step.title}</span>
            {step.depends_on && step.depends_on.length > 0 && (
              <span className="ml-2 text-xs text-soft">{t('after {steps}', { steps: step.depends_on.join(', ') })}</span>
            )}
            {step.detail && (
              <div className="text-sm text-soft">
                <Prose text={step.detail} />
              </div>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}

function RetryNote({ retry }: { retry: NonNullable<TurnView['retry']> }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  const left = Math.ceil((new Date(retry.next_attempt_at).getTime() - now) / 1000);
  return (
    <p role="status" className="my-1 flex items-start gap-2 rounded-md bg-warn-soft px-3 py-1.5 text-sm text-warn">
      <RefreshCw size={14} className="mt-1 shrink-0" aria-hidden />
      <span>
        {t('The model did not answer (attempt {attempt}).', { attempt: retry.attempt })}{' '}
        {left > 0 ? t('Next attempt in {seconds} s.', { seconds: left }) : t('Trying again now.')}{' '}
        <span className="opacity-90">{retry.reason}</span>
      </span>
    </p>
  );
}

function Actions({ turn, quote, over }: { turn: TurnView; quote?: ((text: string) => void) | undefined; over?: boolean }) {
  const said = textOf(turn);
  const { usage } = turn;
  const link = () => {
    const url = new URL(location.href);
    url.hash = turn.turn_id;
    void copyText(url.href).then(() => toast(t('The link was copied.')));
  };
  return (
    <div
      className={cn(
        'flex min-h-7 flex-wrap items-center gap-0.5 text-xs text-soft opacity-0 group-focus-within/turn:opacity-100',
        'group-hover/turn:opacity-100',
        over && 'absolute -top-5 right-0 rounded-md border bg-raised', // steps follow each other without gaps
      )}
    >
      {said && <CopyButton text={said} label={t('Copy the text')} />}
      {said && quote && (
        <IconButton small label={t('Quote')} onClick={() => quote(said)}>
          <MessageSquareQuote size={14} />
        </IconButton>
      )}
      <IconButton small label={t('Copy a link to this turn')} onClick={link}>
        <Link2 size={14} />
      </IconButton>
      <span className="px-1.5">
        {[
          dateTime(turn.started_at),
          turn.role === 'assistant' ? turn.model : '',
          turn.duration_ms > 0 && duration(turn.duration_ms),
          usage.output_tokens > 0 &&
            t('{input} in, {output} out', { input: compact(usage.input_tokens), output: compact(usage.output_tokens) }),
          usage.cost_usd ? cost(usage.cost_usd) : '',
        ]
          .filter(Boolean)
          .join(' · ')}
      </span>
    </div>
  );
}
