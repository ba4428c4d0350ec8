import type { CallView, TurnView } from '@everloop/sdk';
import {
  Bot,
  ChevronRight,
  CircleAlert,
  CircleCheck,
  CircleDashed,
  CircleSlash,
  FilePen,
  FileText,
  Globe,
  ListChecks,
  Loader,
  MessageCircleQuestion,
  Search,
  SquareTerminal,
  Wrench,
} from 'lucide-react';
import { type ComponentType, memo, type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { cn } from '../../lib/cn';
import { duration } from '../../lib/format';
import { plainOutput, visible } from '../../lib/visible';
import { t } from '../../lib/i18n';
import { bounded, Code, CopyButton, languageOf } from '../../ui/code';
import { Diff, lineDiff } from '../../ui/diff';
import { Prose } from '../../ui/markdown';
import { ResultImages } from './attached';

export type Arguments = Record<string, unknown>;

/** parseArguments reads what the model wrote; it may be anything. */
export function parseArguments(text: string): Arguments {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Arguments : {};
  } catch {
    return {};
  }
}

const text = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value);

type Nested = ReadonlyMap<string, readonly TurnView[]>;

/** ShowTurn shows a turn of a sub-agent; turns show tool cards themselves, so that it is given. */
export type ShowTurn = (turn: TurnView, nested: Nested) => ReactNode;

interface Tool {
  icon: ComponentType<{ size?: number; className?: string }>;
  summary: (args: Arguments) => string;
  /** open: whether it is shown without being asked for. */
  open?: (call: CallView) => boolean;
  body?: (props: {
    call: CallView;
    args: Arguments;
    children?: readonly TurnView[] | undefined;
    nested: Nested;
    showTurn: ShowTurn;
  }) => ReactNode;
}

const running = (call: CallView) => call.status === 'pending' || call.status === 'running';

/** isOpenQuestion says whether a call asks something that is not answered yet: its form is shown, and no card. */
export const isOpenQuestion = (call: CallView): boolean =>
  call.tool_name === 'AskUserQuestion' && (running(call) || call.status === 'awaiting_answer');

function Output({ call, label }: { call: CallView; label: string }) {
  const said = running(call) ? call.progress : call.result || call.progress;
  const shown = useMemo(() => plainOutput(said), [said]);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = place.current?.querySelector('pre');
    if (box && running(call)) box.scrollTop = box.scrollHeight;
  });
  if (!shown) return running(call) ? null : <p className="text-xs text-soft">{t('No output.')}</p>;
  return <div ref={place}><Code text={shown} label={label} className="max-h-72" /></div>;
}

const Labelled = ({ label, children }: { label: string; children: ReactNode }) => (
  <div><p className="mb-1 text-xs font-medium text-soft">{label}</p>{children}</div>
);

function Edited({ args, result, status }: { args: Arguments; result: string; status: string }) {
  const before = text(args.old_string);
  const after = text(args.new_string ?? args.content);
  const lines = useMemo(() => lineDiff(before, after), [before, after]);
  return (
    <>
      {status === 'error' && <p className="text-sm text-bad">{bounded(result)}</p>}
      <Diff lines={lines} label={t('Changes of {path}', { path: text(args.file_path) })} />
    </>
  );
}

/** sourcesOf finds the pages that a search or a fetch names. */
export function sourcesOf(result: string): { url: string; title: string }[] {
  const found = new Map<string, string>();
  let title = '';
  for (const line of result.split('\n').slice(0, 400)) {
    const named = /^(?:\d+[.)]\s*)?(?:Title:\s*)?(.*)$/.exec(line.trim())?.[1] ?? '';
    const url = /https?:\/\/[^\s<>)\]"']+/.exec(line)?.[0];
    if (!url) {
      if (line.trim()) title = named;
      continue;
    }
    const beside = /\[([^\]]+)\]\(/.exec(line)?.[1];
    if (found.size < 30 && !found.has(url)) found.set(url, beside ?? title);
    title = '';
  }
  return [...found].map(([url, name]) => ({ url, title: name.replace(/[*#_`]/g, '').trim() }));
}

const host = (url: string): string => {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
};

function Sources({ call }: { call: CallView }) {
  const sources = useMemo(() => sourcesOf(call.result), [call.result]);
  if (running(call)) return null;
  if (call.status === 'error' || sources.length === 0) return <Code text={call.result} label={t('Result')} />;
  return (
    <ul className="space-y-1">
      {sources.map(({ url, title }) => (
        <li key={url} className="flex min-w-0 items-baseline gap-2">
          <a
            href={url}
            target="_blank"
            rel="noopener noreferrer nofollow"
            className="truncate text-accent underline underline-offset-2"
            dir="auto"
          >
            {title || url}
          </a>
          <span className="shrink-0 text-xs text-soft">{host(url)}</span>
        </li>
      ))}
    </ul>
  );
}

function Fetched({ call }: { call: CallView }) {
  const [head = '', ...rest] = call.result.split(/\n\n/);
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(head)?.[1];
  const url = field('URL');
  if (running(call)) return null;
  if (!url || call.status === 'error') return <Code text={call.result} label={t('Result')} />;
  return (
    <div className="space-y-2">
      <p className="flex min-w-0 flex-wrap items-baseline gap-x-2">
        <a href={url} target="_blank" rel="noopener noreferrer nofollow" className="truncate text-accent underline underline-offset-2">
          {field('Title') ?? url}
        </a>
        <span className="text-xs text-soft">
          {host(url)} · {field('Status')}
        </span>
      </p>
      <div className="max-h-80 overflow-auto rounded-md border bg-panel p-3 text-sm" tabIndex={0} role="region" aria-label={t('Page')}>
        <Prose text={bounded(rest.join('\n\n'))} />
      </div>
    </div>
  );
}

const taskMarks: Record<string, ReactNode> = {
  pending: <CircleDashed size={15} className="text-soft" aria-label={t('pending')} />,
  in_progress: <Loader size={15} className="text-accent" aria-label={t('in progress')} />,
  completed: <CircleCheck size={15} className="text-good" aria-label={t('completed')} />,
  cancelled: <CircleSlash size={15} className="text-soft" aria-label={t('cancelled')} />,
};

function Task({ args }: { args: Arguments }) {
  return (
    <p className="flex items-center gap-2 text-sm">
      {taskMarks[text(args.status) || 'pending'] ?? taskMarks.pending}
      <span dir="auto">{text(args.subject) || t('Task {id}', { id: text(args.task_id) })}</span>
      {args.owner !== undefined && <span className="text-xs text-soft">{text(args.owner)}</span>}
    </p>
  );
}

function Answers({ call, args }: { call: CallView; args: Arguments }) {
  const questions = Array.isArray(args.questions) ? args.questions as Arguments[] : [];
  const answers = parseArguments(call.result).answers;
  const given = Array.isArray(answers) ? answers as { selected?: string[]; custom?: string }[] : [];
  return (
    <dl className="space-y-1.5 text-sm">
      {questions.map((one, index) => (
        <div key={index}>
          <dt className="text-soft" dir="auto">{text(one.question)}</dt>
          <dd className="font-medium" dir="auto">
            {[...(given[index]?.selected ?? []), given[index]?.custom].filter(Boolean).join(', ') || t('not answered')}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** picturesOf finds pictures in the result of a tool server: parts of type image with base64 data. */
export function picturesOf(result: string): { src: string; label: string }[] {
  const pictures: { src: string; label: string }[] = [];
  const visit = (value: unknown, depth: number): void => {
    if (depth > 6 || pictures.length >= 20 || typeof value !== 'object' || value === null) return;
    if (Array.isArray(value)) return value.forEach((one) => visit(one, depth + 1));
    const part = value as Arguments;
    const kind = text(part.mimeType ?? part.mime_type);
    if (part.type === 'image' && /^image\/(png|jpeg|gif|webp)$/.test(kind) && /^[A-Za-z0-9+/=\s]+$/.test(text(part.data))) {
      pictures.push({ src: `data:${kind};base64,${text(part.data)}`, label: t('Picture of the tool ({kind})', { kind }) });
      return;
    }
    for (const one of Object.values(part)) visit(one, depth + 1);
  };
  if (/^\s*[[{]/.test(result)) {
    try {
      visit(JSON.parse(result), 0);
    } catch {
      // Not JSON.
    }
  }
  return pictures;
}

function Other({ call, args }: { call: CallView; args: Arguments }) {
  const pictures = useMemo(() => picturesOf(call.result), [call.result]);
  const pretty = useMemo(() => {
    try {
      return JSON.stringify(JSON.parse(call.result), null, 2);
    } catch {
      return undefined;
    }
  }, [call.result]);
  return (
    <div className="space-y-2">
      {Object.keys(args).length > 0 && (
        <Labelled label={t('Arguments')}>
          <Code text={JSON.stringify(args, null, 2)} language="json" label={t('Arguments')} />
        </Labelled>
      )}
      {pictures.map((one, index) => (
        <img key={index} src={one.src} alt={one.label} className="max-h-96 max-w-full rounded-md border" />
      ))}
      {(call.result || call.progress) && pictures.length === 0 && (
        <Labelled label={running(call) ? t('Progress') : t('Result')}>
          <Code text={pretty ?? (call.result || call.progress)} language={pretty ? 'json' : undefined} label={t('Result')} />
        </Labelled>
      )}
    </div>
  );
}

const within = (pattern: string, place: string): string =>
  pattern && place ? t('{pattern} in {place}', { pattern, place }) : pattern || place;

const lineNumbers = /^ *\d+\t/gm;

const tools: Record<string, Tool> = {
  Bash: {
    icon: SquareTerminal,
    summary: (args) => text(args.description) || text(args.command),
    open: running,
    body: ({ call, args }) => (
      <div className="space-y-2">
        <div className="relative">
          <Code text={text(args.command)} language="bash" label={t('Command')} className="pr-9 wrap-anywhere whitespace-pre-wrap" />
          <span className="absolute top-1 right-1">
            <CopyButton text={text(args.command)} label={t('Copy the command')} />
          </span>
        </div>
        <Output call={call} label={t('Output')} />
      </div>
    ),
  },
  Read: {
    icon: FileText,
    summary: (args) =>
      args.offset ? t('{path} from line {line}', { path: text(args.file_path), line: text(args.offset) }) : text(args.file_path),
    body: ({ call, args }) => (
      <Code
        text={call.status === 'error' ? call.result : call.result.replace(lineNumbers, '')}
        language={languageOf(text(args.file_path))}
        label={text(args.file_path)}
      />
    ),
  },
  Write: {
    icon: FilePen,
    summary: (args) => text(args.file_path),
    open: (call) => call.arguments.length < 3000,
    body: ({ call, args }) => <Edited args={args} result={call.result} status={call.status} />,
  },
  Edit: {
    icon: FilePen,
    summary: (args) => text(args.file_path),
    open: (call) => call.arguments.length < 8000,
    body: ({ call, args }) => <Edited args={args} result={call.result} status={call.status} />,
  },
  Glob: {
    icon: Search,
    summary: (args) => within(text(args.pattern), text(args.path)),
    body: ({ call }) => <Code text={call.result} label={t('Files')} />,
  },
  Grep: {
    icon: Search,
    summary: (args) => within(text(args.pattern), text(args.path ?? args.glob)),
    body: ({ call }) => <Code text={call.result} label={t('Matches')} />,
  },
  WebFetch: { icon: Globe, summary: (args) => text(args.url), body: ({ call }) => <Fetched call={call} /> },
  WebSearch: {
    icon: Globe,
    summary: (args) => text(args.query),
    open: (call) => call.status === 'done',
    body: ({ call }) => <Sources call={call} />,
  },
  TaskCreate: {
    icon: ListChecks,
    summary: (args) => text(args.subject) || text(args.status),
    open: () => true,
    body: ({ args }) => <Task args={args} />,
  },
  AskUserQuestion: {
    icon: MessageCircleQuestion,
    summary: (args) => (Array.isArray(args.questions) ? text((args.questions[0] as Arguments | undefined)?.question) : ''),
    open: () => true,
    body: ({ call, args }) => <Answers call={call} args={args} />,
  },
  SubmitPlan: { icon: ListChecks, summary: (args) => text(args.title) },
  Agent: {
    icon: Bot,
    summary: (args) => [text(args.description), text(args.subagent_type)].filter(Boolean).join(' · '),
    open: running,
    body: ({ call, args, children, nested, showTurn }) => (
      <div className="space-y-3">
        {(!children || children.length === 0) && (
          <Labelled label={t('Task')}>
            <Prose text={text(args.prompt)} />
          </Labelled>
        )}
        {children?.map((turn) => showTurn(turn, nested))}
        {!running(call) && call.result && (
          <Labelled label={t('Result')}>
            <Prose text={bounded(call.result)} />
          </Labelled>
        )}
      </div>
    ),
  },
};

function Status({ call }: { call: CallView }) {
  switch (call.status) {
    case 'done':
      return <CircleCheck size={15} className="shrink-0 text-good" aria-label={t('done')} />;
    case 'error':
      return <CircleAlert size={15} className="shrink-0 text-bad" aria-label={t('failed')} />;
    case 'cancelled':
      return <CircleSlash size={15} className="shrink-0 text-soft" aria-label={t('cancelled')} />;
    case 'awaiting_answer':
      return <MessageCircleQuestion size={15} className="shrink-0 text-warn" aria-label={t('waits for your answer')} />;
    default:
      return <Loader size={15} className="shrink-0 animate-spin text-accent" aria-label={t('running')} />;
  }
}

/** ToolCard shows a call in one line, and opens to what it did. */
export const ToolCard = memo(function ToolCard({ call, children, nested, showTurn }: {
  call: CallView; children?: readonly TurnView[] | undefined; nested: Nested; showTurn: ShowTurn;
}) {
  const args = useMemo(() => parseArguments(call.arguments), [call.arguments]);
  const tool: Tool = tools[call.tool_name] ?? { icon: Wrench, summary: (given: Arguments) => text(Object.values(given)[0]) };
  const [chosen, setChosen] = useState<boolean>(); // by the user; until then the tool says
  const open = chosen ?? tool.open?.(call) ?? false;
  const Icon = tool.icon;
  const Body = tool.body;
  return (
    <div className="my-1.5 min-w-0 overflow-hidden rounded-lg border bg-raised">
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setChosen(!open)}
        className="flex w-full items-center gap-2 px-2.5 py-1.5 text-left text-sm hover:bg-hover"
      >
        <Icon size={15} className="shrink-0 text-soft" />
        <span className="shrink-0 font-medium">{call.display_name || call.tool_name}</span>
        <span className="min-w-0 flex-1 truncate text-soft" dir="auto">
          {visible(tool.summary(args).slice(0, 300))}
        </span>
        {call.duration_ms >= 100 && <span className="shrink-0 text-xs text-soft tabular-nums">{duration(call.duration_ms)}</span>}
        <Status call={call} />
        <ChevronRight size={14} aria-hidden className={cn('shrink-0 text-soft transition-transform', open && 'rotate-90')} />
      </button>
      {open && (
        <div className="space-y-2 border-t px-2.5 py-2">
          {Body
            ? <Body call={call} args={args} nested={nested} showTurn={showTurn} {...(children ? { children } : {})} />
            : <Other call={call} args={args} />}
          {call.images && call.images.length > 0 && <ResultImages images={call.images} />}
          {call.connections && call.connections.length > 0 && (
            <p className="text-xs text-soft">
              {t('Network: {hosts}', { hosts: call.connections.map((one) => text((one as Arguments).host ?? one)).join(', ') })}
            </p>
          )}
        </div>
      )}
    </div>
  );
});
