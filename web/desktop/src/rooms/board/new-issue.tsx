import { useState } from 'react';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { word } from '../../lib/words';
import { FormDialog } from '../../ui/dialog';
import { Area, Check, Field, Input, Select } from '../../ui/field';
import { linesOf } from '../unattended/pieces';
import { AssigneeSelect } from './assignee';
import type { Candidate } from './data';
import { type Issue, priorities, type Status, statuses, statusNames } from './place';

/** NewIssue creates an issue. One that is assigned to an agent is begun at once, unless it should wait. */
export function NewIssue({ workspace, status, close }: { workspace: string; status: Status; close: () => void }) {
  const [title, setTitle] = useState('');
  const [description, setDescription] = useState('');
  const [at, setAt] = useState(status);
  const [priority, setPriority] = useState<Issue['priority']>('none');
  const [labels, setLabels] = useState('');
  const [assignee, setAssignee] = useState<Candidate>();
  const [wait, setWait] = useState(false);
  const works = assignee?.type === 'agent' || assignee?.type === 'squad';
  const make = useAction(() => api().createIssue(workspace, {
    title: title.trim(), description, status: at, priority, labels: linesOf(labels.replaceAll(',', '\n')),
    ...(assignee ? { assignee_type: assignee.type, assignee_id: assignee.id } : {}), ...(works && wait ? { suppress_run: true } : {}),
  }), { done: (issue) => t('{name} was created.', { name: issue.identifier }), refresh: [['board', workspace]] });
  return (
    <FormDialog open onOpenChange={close} title={t('New issue')} confirm={t('Create')} submit={() => make.mutateAsync()}>
      <Field label={t('Title')}>
        {(ids) => (
          <Input {...ids} value={title} onChange={(event) => setTitle(event.target.value)} required maxLength={500} autoFocus dir="auto" />
        )}
      </Field>
      <Field label={t('Description')} hint={t('Sent to the agent as its task.')}>
        {(ids) => <Area {...ids} value={description} onChange={(event) => setDescription(event.target.value)} rows={4} dir="auto" />}
      </Field>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label={t('Status')}>
          {(ids) => (
            <Select {...ids} value={at} onChange={(event) => setAt(event.target.value as Status)}>
              {statuses.map((one) => (
                <option key={one} value={one}>
                  {statusNames[one]}
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Field label={t('Priority')}>
          {(ids) => (
            <Select {...ids} value={priority} onChange={(event) => setPriority(event.target.value as Issue['priority'])}>
              {priorities.map((one) => (
                <option key={one} value={one}>
                  {word(one)}
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Field label={t('Assigned to')}>
          {(ids) => <AssigneeSelect workspace={workspace} ids={ids} value={assignee?.key ?? ''} change={setAssignee} />}
        </Field>
        <Field label={t('Labels')} hint={t('Separated by commas.')}>
          {(ids) => <Input {...ids} value={labels} onChange={(event) => setLabels(event.target.value)} />}
        </Field>
      </div>
      {works && (
        <Check
          label={t('Do not begin yet')}
          hint={t('The agent starts when you start a run.')}
          checked={wait}
          onChange={(event) => setWait(event.target.checked)}
        />
      )}
    </FormDialog>
  );
}
