import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '@everloop/sdk';
import { ExternalLink } from 'lucide-react';
import type { ReactNode } from 'react';
import { useState } from 'react';
import { locale, plural, t } from '../../lib/i18n';
import { api } from '../../lib/query';
import { Bars } from '../../ui/chart';
import { Field, Select } from '../../ui/field';
import { Loaded } from '../../ui/page';
import { Section } from '../../ui/rows';
import { UsageCharts } from '../../ui/usage';
import { chatsByHour, failuresByCause } from './chats';
import { temporalUI } from './temporal';

const mostPages = 5; // of 200 runs

// recentChats reads the newest runs of chats, as far back as the service shows closed ones and no more than mostPages.
async function recentChats(signal: AbortSignal): Promise<{ runs: Schemas['OperatorRun'][]; more: boolean }> {
  const runs: Schemas['OperatorRun'][] = [];
  let page = '';
  for (let read = 0; read < mostPages; read++) {
    const answer = await api().listRuns({ query: { kind: 'chat', limit: 200, ...(page ? { page } : {}) }, signal });
    runs.push(...answer.items);
    page = answer.next_page;
    if (!page) break;
  }
  return { runs, more: page !== '' };
}

const titles = {
  model: { tokens: t('Tokens by model'), cost: t('Cost by model') },
  solution: { tokens: t('Tokens by solution'), cost: t('Cost by solution') },
  user: { tokens: t('Tokens by user'), cost: t('Cost by user') },
};

type By = keyof typeof titles;

const Count = ({ label, children }: { label: string; children: ReactNode }) => (
  <div className="rounded-lg border bg-raised px-3 py-2">
    <dt className="text-sm text-soft">{label}</dt>
    <dd className="text-xl font-semibold tabular-nums">{children}</dd>
  </div>
);

export function Overview() {
  const chats = useQuery({ queryKey: ['admin', 'chats'], queryFn: ({ signal }) => recentChats(signal), refetchInterval: 30_000 });
  const lost = useQuery({
    queryKey: ['admin', 'lost'],
    queryFn: ({ signal }) => api().listRuns({ query: { status: 'lost', limit: 50 }, signal }),
    refetchInterval: 30_000,
  });
  const users = useQuery({ queryKey: ['admin', 'users'], queryFn: ({ signal }) => api().listUsers({ signal }), staleTime: 60_000 });
  const [by, setBy] = useState<By>('model');
  const usage = useQuery({
    queryKey: ['admin', 'usage', by], staleTime: 60_000,
    queryFn: ({ signal }) => api().getUsage({ query: { group_by: `day_${by}`, limit: 1000 }, signal }),
  });
  const solutions = useQuery({ queryKey: ['solutions'], queryFn: ({ signal }) => api().listSolutions({ signal }), staleTime: 60_000 });
  const series = (item: Schemas['UsageItem']): string => {
    if (by === 'model') return item.model ?? '';
    if (by === 'user') return item.username || (item.user_id ?? '');
    const id = item.solution_id ?? '';
    const name = solutions.data?.items.find((one) => one.id === id)?.name;
    return id === '' ? t('No solution') : typeof name === 'string' && name !== '' ? name : id;
  };
  return (
    <>
      <Section title={t('Chats')} note={t('Last 6 hours, by the start of their run.')} actions={<Links />}>
        <Loaded query={chats}>
          {({ runs, more }) => {
            const failures = failuresByCause(runs);
            return (
              <div className="space-y-3">
                <dl className="grid grid-cols-2 gap-3 sm:grid-cols-4">
                  <Count label={t('Running')}>
                    {runs.filter((run) => run.status === 'running' && run.chat_status !== 'awaiting_answer').length}
                  </Count>
                  <Count label={t('Wait for an answer')}>
                    {runs.filter((run) => run.status === 'running' && run.chat_status === 'awaiting_answer').length}
                  </Count>
                  <Count label={t('Lost runs')}>{lost.data ? `${lost.data.items.length}${lost.data.next_page ? '+' : ''}` : '…'}</Count>
                  <Count label={t('Users')}>{users.data?.items.length ?? '…'}</Count>
                </dl>
                <div className="grid gap-3 md:grid-cols-2">
                  <Bars
                    title={t('Chats')}
                    names={[t('went well'), t('failed or ended early')]}
                    points={chatsByHour(runs, Date.now())}
                    format={(value) => (value < 1 && value > 0 ? '' : value.toLocaleString(locale))}
                    tones={['bg-accent', 'bg-bad']}
                  />
                  <div className="rounded-lg border bg-raised p-3">
                    <h3 className="mb-2 font-medium">{t('Failures by cause')}</h3>
                    {failures.length === 0 ? (
                      <p className="text-sm text-soft">{t('No chat has failed.')}</p>
                    ) : (
                      <dl className="space-y-1 text-sm">
                        {failures.slice(0, 8).map(([cause, count]) => (
                          <div key={cause} className="grid grid-cols-[1fr_5rem_2.5rem] items-center gap-2">
                            <dt className="truncate">{cause}</dt>
                            <dd aria-hidden className="h-2 overflow-hidden rounded-full bg-hover">
                              <span className="block h-full bg-bad" style={{ width: `${(count / (failures[0]?.[1] ?? 1)) * 100}%` }} />
                            </dd>
                            <dd className="text-right tabular-nums">{count}</dd>
                          </div>
                        ))}
                      </dl>
                    )}
                  </div>
                </div>
                {more && (
                  <p className="text-sm text-soft">
                    {plural(runs.length, 'Only the newest run is counted.', 'Only the newest {count} runs are counted.')}
                  </p>
                )}
              </div>
            );
          }}
        </Loaded>
      </Section>
      <Section
        title={t('Usage')}
        note={t('All users, last 30 days.')}
        actions={
          <Field label={t('Usage by')}>
            {(ids) => (
              <Select {...ids} value={by} onChange={(event) => setBy(event.target.value as By)}>
                <option value="model">{t('model')}</option>
                <option value="solution">{t('solution')}</option>
                <option value="user">{t('user')}</option>
              </Select>
            )}
          </Field>
        }
      >
        <Loaded query={usage}>
          {(report) => <UsageCharts report={report} titles={titles[by]} series={series} />}
        </Loaded>
      </Section>
    </>
  );
}

function Links() {
  const ui = temporalUI(useConfiguration().data);
  const look = 'inline-flex items-center gap-1 text-sm text-accent underline underline-offset-2';
  return (
    <nav aria-label={t('Further tools')} className="flex flex-wrap gap-3">
      <a href="/docs" target="_blank" rel="noopener noreferrer" className={look}>
        {t('Documentation')}
        <ExternalLink size={13} aria-hidden />
      </a>
      <a href="/api/docs" target="_blank" rel="noopener noreferrer" className={look}>
        {t('API reference')}
        <ExternalLink size={13} aria-hidden />
      </a>
      {ui && (
        <a href={ui} target="_blank" rel="noopener noreferrer" className={look}>
          {t('Temporal UI')}
          <ExternalLink size={13} aria-hidden />
        </a>
      )}
    </nav>
  );
}

export const useConfiguration = () =>
  useQuery({ queryKey: ['admin', 'config'], queryFn: ({ signal }) => api().getEnvConfig({ signal }), staleTime: 300_000 });
