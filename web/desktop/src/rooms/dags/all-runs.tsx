import type { Query, Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Play } from 'lucide-react';
import { useEffect, useState } from 'react';
import { plural, t } from '../../lib/i18n';
import { api, usePages } from '../../lib/query';
import { word } from '../../lib/words';
import { Button } from '../../ui/button';
import { Select } from '../../ui/field';
import { Empty, Loaded, More, Page } from '../../ui/page';
import { Crumbs } from '../unattended/pieces';
import { RunRows } from './runs';

type Status = Schemas['RunRecord']['status'];

const statuses: Status[] = ['pending', 'running', 'waiting', 'completed', 'failed', 'cancelled'];
const periods = [1, 7, 30];

/** AllRuns lists the runs of all DAGs. */
export default function AllRuns() {
  const [status, setStatus] = useState('');
  const [dag, setDag] = useState('');
  const [days, setDays] = useState(0);
  const [subflows, setSubflows] = useState(false);
  const dags = useQuery({
    queryKey: ['dags', 'list', 'all'],
    queryFn: ({ signal }) => api().listProdSolutions({ query: { limit: 200 }, signal }),
    staleTime: 60_000,
  });
  const pages = usePages<Schemas['RunRecord']>(['dag-runs', status, dag, days, subflows], (query, signal) => {
    const filter: Query<'list-all-dag-runs'> = { ...query };
    if (status) filter.status = [status as Status];
    if (dag) filter.prod_solution_id = dag;
    if (days > 0) filter.created_after = new Date(Date.now() - days * 86_400_000).toISOString();
    if (subflows) filter.trigger = 'subflow';
    return api().listAllDagRuns({ query: filter, signal });
  });
  const { refetch } = pages;
  useEffect(() => {
    const timer = setInterval(() => { if (document.visibilityState === 'visible') void refetch(); }, 5000);
    return () => clearInterval(timer);
  }, [refetch]);
  const filtered = status !== '' || dag !== '' || days > 0 || subflows;
  const clear = () => {
    setStatus('');
    setDag('');
    setDays(0);
    setSubflows(false);
  };
  return (
    <Page title={<Crumbs to="/dags" label={t('DAGs')}>{t('All runs')}</Crumbs>}>
      <div className="mx-auto max-w-4xl space-y-3">
        <div role="group" aria-label={t('Filter')} className="flex flex-wrap gap-2 max-sm:grid max-sm:grid-cols-2">
          <Select aria-label={t('Status')} className="sm:w-auto!" value={status} onChange={(event) => setStatus(event.target.value)}>
            <option value="">{t('any status')}</option>
            {statuses.map((one) => (
              <option key={one} value={one}>
                {word(one)}
              </option>
            ))}
          </Select>
          <Select aria-label={t('DAG')} className="sm:w-auto! sm:max-w-64" value={dag} onChange={(event) => setDag(event.target.value)}>
            <option value="">{t('all DAGs')}</option>
            {dags.data?.items.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name}
              </option>
            ))}
          </Select>
          <Select aria-label={t('Period')} className="sm:w-auto!" value={days} onChange={(event) => setDays(Number(event.target.value))}>
            <option value={0}>{t('any time')}</option>
            {periods.map((one) => (
              <option key={one} value={one}>
                {plural(one, 'the last day', 'the last {count} days')}
              </option>
            ))}
          </Select>
          <Select
            aria-label={t('Kind')}
            className="sm:w-auto!"
            value={subflows ? 'subflow' : ''}
            onChange={(event) => setSubflows(event.target.value !== '')}
          >
            <option value="">{t('runs without subflows')}</option>
            <option value="subflow">{t('runs of subflows')}</option>
          </Select>
          {pages.total > 0 && (
            <span className="self-center text-sm text-soft">{plural(pages.total, '{count} run', '{count} runs')}</span>
          )}
        </div>
        <Loaded
          query={pages}
          isEmpty={() => pages.items?.length === 0}
          empty={
            filtered ? (
              <Empty title={t('Nothing fits')} action={<Button onClick={clear}>{t('Show all runs')}</Button>}>
                {t('No run has this status, DAG and time.')}
              </Empty>
            ) : (
              <Empty
                icon={<Play size={28} />}
                title={t('No DAG has run yet')}
                action={
                  <Link
                    to="/dags"
                    className="inline-flex h-8 items-center rounded-md bg-accent px-3 text-sm font-medium text-accent-ink hover:bg-accent/90"
                  >
                    {t('Open the DAGs')}
                  </Link>
                }
              >
                {t('The runs of all your DAGs appear here, the newest first. Open a DAG, publish it and run it.')}
              </Empty>
            )
          }
        >
          {() => <RunRows runs={pages.items ?? []} named />}
        </Loaded>
        <More pages={pages} />
      </div>
    </Page>
  );
}
