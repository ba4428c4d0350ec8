import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useEffect, useMemo, useState } from 'react';
import { t } from '../../lib/i18n';
import { api } from '../../lib/query';
import { word } from '../../lib/words';
import { Field, Input, Select } from '../../ui/field';
import { AssigneeSelect } from '../board/assignee';
import { priorities } from '../board/place';
import { InputFields } from '../dags/input-fields';
import { fieldsOf, inputsFrom } from '../dags/inputs';
import type { Target } from './target';

type Change = (part: Partial<Target>) => void;
type At = (field: string) => string | undefined;

/** DagFields chooses a DAG and the inputs of its runs. The note says which references the texts may have. */
export function DagFields({ target, change, at, note }: { target: Target; change: Change; at: At; note: ReactNode }) {
  const dags = useQuery({
    queryKey: ['dags', 'list', 'all'],
    queryFn: ({ signal }) => api().listProdSolutions({ query: { limit: 200 }, signal }),
    staleTime: 60_000,
  });
  const chosen = dags.data?.items.find((one) => one.id === target.dag);
  const version = target.version || chosen?.dag.published_version || 0;
  const document = useQuery({
    queryKey: ['dags', target.dag, 'version', version],
    enabled: target.dag !== '' && version > 0,
    queryFn: ({ signal }) => api().getDagVersion(target.dag, String(version), { signal }),
    staleTime: Infinity,
  });
  const fields = useMemo(() => (document.data ? fieldsOf(document.data.dag) : []), [document.data]);
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    Object.fromEntries(Object.entries(target.inputs).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)])),
  );
  const read = inputsFrom(fields, texts);
  const put = (next: Record<string, string>) => {
    const { inputs, errors } = inputsFrom(fields, next);
    setTexts(next);
    change({ inputs, wrong: Object.keys(errors).length > 0 });
  };
  const choose = (dag: string) => {
    setTexts({});
    change({ dag, version: 0, inputs: {}, wrong: false });
  };
  useEffect(() => {
    if (document.data) put(texts); // what is shown without a change, such as defaults, is sent
  }, [document.data]);
  return (
    <>
      <Field
        label={t('DAG')}
        error={at('target.solution_id')}
        hint={
          chosen && !chosen.dag.published_version
            ? t('It has no published version yet.')
            : target.version > 0
              ? t('Each run takes version {version}.', { version: target.version })
              : t('Each run takes the published version.')
        }
      >
        {(ids) => (
          <Select {...ids} required value={target.dag} onChange={(event) => choose(event.target.value)}>
            <option value="">{dags.data ? t('choose') : t('Loading…')}</option>
            {target.dag && dags.data && !chosen && <option value={target.dag}>{target.dag}</option>}
            {dags.data?.items.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <InputFields fields={fields} texts={texts} errors={read.errors} change={put} />
      {fields.length > 0 && <p className="text-xs text-soft">{note}</p>}
      {at('target.inputs') && <p role="alert" className="text-xs text-bad">{at('target.inputs')}</p>}
    </>
  );
}

/** IssueFields describes the issue that each run creates. `title` says which title it has without one of its own. */
export function IssueFields({ target, change, at, title }: { target: Target; change: Change; at: At; title: string }) {
  const workspaces = useQuery({
    queryKey: ['board', 'workspaces', 'all'],
    queryFn: ({ signal }) => api().listProdWorkspaces({ query: { limit: 200 }, signal }),
    staleTime: 60_000,
  });
  const known = workspaces.data?.items.some((one) => one.id === target.workspace);
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      <Field label={t('Workspace')} error={at('target.workspace_id')}>
        {(ids) => (
          <Select {...ids} required value={target.workspace} onChange={(event) => change({ workspace: event.target.value, assignee: '' })}>
            <option value="">{workspaces.data ? t('choose') : t('Loading…')}</option>
            {target.workspace && workspaces.data && !known && <option value={target.workspace}>{target.workspace}</option>}
            {workspaces.data?.items.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Field label={t('Assigned to')} error={at('target.assignee_id')} hint={t('An agent or a squad starts to work at once.')}>
        {(ids) =>
          target.workspace ? (
            <AssigneeSelect
              workspace={target.workspace}
              ids={ids}
              value={target.assignee}
              change={(candidate) => change({ assignee: candidate?.key ?? '' })}
            />
          ) : (
            <Select {...ids} disabled>
              <option>{t('not assigned')}</option>
            </Select>
          )
        }
      </Field>
      <Field label={t('Title of the issue')} error={at('target.title')} hint={title}>
        {(ids) => <Input {...ids} maxLength={500} value={target.title} onChange={(event) => change({ title: event.target.value })} dir="auto" />}
      </Field>
      <Field label={t('Priority')}>
        {(ids) => (
          <Select {...ids} value={target.priority} onChange={(event) => change({ priority: event.target.value as Target['priority'] })}>
            {priorities.map((one) => (
              <option key={one} value={one}>
                {word(one)}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Field label={t('Project')} error={at('target.project')}>
        {(ids) => <Input {...ids} maxLength={200} value={target.project} onChange={(event) => change({ project: event.target.value })} />}
      </Field>
      <Field label={t('Labels')} error={at('target.labels')} hint={t('Separated by commas.')}>
        {(ids) => <Input {...ids} value={target.labels} onChange={(event) => change({ labels: event.target.value })} />}
      </Field>
    </div>
  );
}

/** TargetLink leads to the DAG or the board that a target names; of other targets it is a text. */
export function TargetLink({ target, label }: { target: Pick<Schemas['Target'], 'solution_id' | 'workspace_id'>; label: string }) {
  const look = 'text-accent underline-offset-2 hover:underline';
  if (target.solution_id)
    return <Link to="/dags/$dagId" params={{ dagId: target.solution_id }} className={look}>{label}</Link>;
  if (target.workspace_id)
    return <Link to="/board/$workspaceId" params={{ workspaceId: target.workspace_id }} className={look}>{label}</Link>;
  return label;
}
