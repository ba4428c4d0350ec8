import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Snapshot } from '@everloop/sdk';
import { FolderOpen, GitBranch, MessageSquare } from 'lucide-react';
import { Popover } from 'radix-ui';
import type { ReactNode } from 'react';
import { cn } from '../../lib/cn';
import { compact, cost } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api } from '../../lib/query';
import { useDetail } from '../../lib/session';

const tabs = [
  { to: '/s/$sessionId', label: t('Chat'), icon: MessageSquare }, { to: '/s/$sessionId/files', label: t('Files'), icon: FolderOpen },
  { to: '/s/$sessionId/history', label: t('History'), icon: GitBranch },
] as const;

/** SessionFrame is the frame of the rooms of one session: its name, the way between them, and what it has used. */
export function SessionFrame({
  id,
  state,
  actions,
  children,
}: {
  id: string;
  state?: Snapshot | undefined;
  actions?: ReactNode;
  children: ReactNode;
}) {
  const detail = useDetail(id);
  const name = state?.intent ?? detail.data?.intent;
  return (
    <div className="flex h-full min-h-0 flex-col">
      <header className="room-header flex min-h-12 items-center gap-2 border-b py-1 pr-3 pl-4">
        <h1 className="min-w-0 flex-1 truncate font-semibold" dir="auto" title={name}>
          {name || (detail.isError ? t('Session') : t('New session'))}
        </h1>
        {actions}
        <ContextMeter id={id} />
        <nav aria-label={t('Session')} className="flex rounded-lg bg-panel p-0.5">
          {tabs.map(({ to, label, icon: Icon }) => (
            <Link
              key={to}
              to={to}
              params={{ sessionId: id }}
              activeOptions={{ exact: true }}
              aria-label={label}
              className="inline-flex h-7 items-center gap-1.5 rounded-md px-2 text-sm text-soft hover:text-ink"
              activeProps={{ className: 'bg-raised text-ink shadow-sm' }}
            >
              <Icon size={15} aria-hidden />
              <span className="max-lg:hidden">{label}</span>
            </Link>
          ))}
        </nav>
      </header>
      <div className="min-h-0 flex-1">{children}</div>
    </div>
  );
}

const categories: Record<string, string> = {
  system_prompt: t('System prompt'),
  tools: t('Tools'),
  skills: t('Skills'),
  memories: t('Memories'),
  messages: t('Messages'),
  tool_results: t('Results of tools'),
  files: t('Files'),
  summary: t('Summary'),
};

/** ContextMeter shows how full the model's context is, of what, and what the session has cost. */
function ContextMeter({ id }: { id: string }) {
  const context = useQuery({
    queryKey: ['context', id],
    queryFn: ({ signal }) => api().getContextStats(id, { signal }),
    staleTime: 30_000,
  });
  const usage = useQuery({ queryKey: ['usage', id], queryFn: ({ signal }) => api().getSessionUsage(id, { signal }), staleTime: 30_000 });
  const stats = context.data;
  if (!stats) return null;
  const percent = Math.min(100, Math.round(stats.used_pct));
  const full = percent >= stats.threshold_pct - 10;
  return (
    <Popover.Root>
      <Popover.Trigger
        aria-label={t('Context: {percent} percent used', { percent })}
        className="flex h-7 items-center gap-2 rounded-md px-2 text-xs text-soft hover:bg-hover"
      >
        <span className="h-1.5 w-14 overflow-hidden rounded-full bg-hover max-sm:w-7">
          <span className={cn('block h-full', full ? 'bg-warn' : 'bg-accent')} style={{ width: `${Math.max(2, percent)}%` }} />
        </span>
        <span className="tabular-nums">{percent}%</span>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="end"
          sideOffset={4}
          collisionPadding={8}
          aria-label={t('Context and usage')}
          className="z-40 w-76 rounded-lg border bg-raised p-3 text-sm shadow-lg"
        >
          <p className="font-medium">
            {t(stats.estimated ? '{used} of {window} tokens, estimated' : '{used} of {window} tokens', {
              used: compact(stats.used_tokens),
              window: compact(stats.context_window),
            })}
          </p>
          <p className="mb-2 text-xs text-soft">
            {t('{model}; summarised at {percent}%', { model: stats.model, percent: stats.threshold_pct })}
          </p>
          <dl className="space-y-1">
            {stats.categories
              .filter((one) => one.tokens > 0)
              .map((one) => (
                <div key={one.name} className="grid grid-cols-[1fr_4rem_3rem] items-center gap-2">
                  <dt className="truncate">{categories[one.name] ?? one.name}</dt>
                  <dd className="h-1.5 overflow-hidden rounded-full bg-hover" aria-hidden>
                    <span
                      className="block h-full bg-accent"
                      style={{ width: `${Math.min(100, (one.tokens / Math.max(1, stats.used_tokens)) * 100)}%` }}
                    />
                  </dd>
                  <dd className="text-right text-soft tabular-nums">{compact(one.tokens)}</dd>
                </div>
              ))}
          </dl>
          {usage.data && (
            <p className="mt-3 border-t pt-2 text-soft">
              {t('Total: {input} in, {output} out', {
                input: compact(usage.data.input_tokens),
                output: compact(usage.data.output_tokens),
              })}
              {usage.data.cost_usd ? `, ${cost(usage.data.cost_usd)}` : ''}
            </p>
          )}
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}
