import type { Schemas } from '@everloop/sdk';
import { Link, useNavigate } from '@tanstack/react-router';
import { ListChecks, Plus, Workflow } from 'lucide-react';
import { useState } from 'react';
import { ago, dateTime } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api, useAction, usePages } from '../../lib/query';
import { Button } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Area, Field, Input } from '../../ui/field';
import { Empty, Loaded, More, Page } from '../../ui/page';
import { State } from '../unattended/pieces';

/** Dags are the production solutions of the person. */
export default function Dags() {
  const pages = usePages<Schemas['ProdSolution']>(['dags', 'list'], (query, signal) => api().listProdSolutions({ query, signal }));
  const [making, setMaking] = useState(false);
  const button = <Button look="primary" onClick={() => setMaking(true)}><Plus size={15} aria-hidden />{t('New DAG')}</Button>;
  return (
    <Page
      title={t('DAGs')}
      actions={
        <>
          <Link
            to="/dags/runs"
            className="inline-flex h-8 items-center gap-1.5 rounded-md border bg-raised px-3 text-sm font-medium hover:bg-hover"
          >
            <ListChecks size={15} aria-hidden />
            {t('All runs')}
          </Link>
          {button}
        </>
      }
    >
      <Loaded
        query={pages}
        isEmpty={() => pages.items?.length === 0}
        empty={
          <Empty icon={<Workflow size={28} />} title={t('There is no DAG yet')} action={button}>
            {t(
              'A DAG runs agents, tools and questions to people in order, in parallel where possible. A run survives ' +
                'crashes and can take as long as it needs.',
            )}
          </Empty>
        }
      >
        {() => (
          <ul className="mx-auto max-w-4xl space-y-2">
            {pages.items?.map((one) => (
              <li
                key={one.id}
                className="relative flex items-center gap-3 rounded-lg border bg-raised px-3 py-2.5 hover:border-line-strong"
              >
                <div className="min-w-0 flex-1">
                  <div className="flex flex-wrap items-center gap-x-2">
                    <Link
                      to="/dags/$dagId"
                      params={{ dagId: one.id }}
                      className="min-w-0 truncate font-medium after:absolute after:inset-0"
                      dir="auto"
                    >
                      {one.name}
                    </Link>
                    <State value={one.status} />
                    {one.last_run && (
                      <span className="text-xs text-soft">
                        {t('last run')} <State value={one.last_run.status} />
                      </span>
                    )}
                  </div>
                  {one.description && (
                    <p className="truncate text-sm text-soft" dir="auto">
                      {one.description}
                    </p>
                  )}
                </div>
                <span className="shrink-0 text-xs text-soft" title={dateTime(one.updated_at)}>
                  {t('version {version}', { version: one.dag.current_version })} · {ago(one.updated_at)}
                </span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      <More pages={pages} />
      {making && <NewDag close={() => setMaking(false)} />}
    </Page>
  );
}

function NewDag({ close }: { close: () => void }) {
  const navigate = useNavigate();
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const make = useAction(
    () => api().createProdSolution({ name: name.trim(), ...(description.trim() ? { description: description.trim() } : {}) }),
    { refresh: [['dags', 'list']] },
  );
  const submit = async () => {
    const made = await make.mutateAsync();
    await navigate({ to: '/dags/$dagId', params: { dagId: made.id } });
  };
  return (
    <FormDialog open onOpenChange={close} title={t('New DAG')} confirm={t('Create')} submit={submit}>
      <Field label={t('Name')}>
        {(ids) => <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} required maxLength={128} autoFocus />}
      </Field>
      <Field label={t('Description')}>
        {(ids) => (
          <Area
            {...ids}
            value={description}
            onChange={(event) => setDescription(event.target.value)}
            rows={2}
            className="min-h-14"
            dir="auto"
          />
        )}
      </Field>
    </FormDialog>
  );
}
