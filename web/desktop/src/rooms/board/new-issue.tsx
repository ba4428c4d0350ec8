import { useState } from 'react';
import { api, useAction } from '../../lib/query';
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
  }), { done: (issue) => `${issue.identifier} was created.`, refresh: [['board', workspace]] });
  return (
    <FormDialog open onOpenChange={close} title="New issue" confirm="Create" submit={() => make.mutateAsync()}>
      <Field label="Title">{(ids) => <Input {...ids} value={title} onChange={(event) => setTitle(event.target.value)} required maxLength={500} autoFocus dir="auto" />}</Field>
      <Field label="Description" hint="An agent is sent it as its task.">{(ids) => <Area {...ids} value={description} onChange={(event) => setDescription(event.target.value)} rows={4} dir="auto" />}</Field>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label="Status">{(ids) => <Select {...ids} value={at} onChange={(event) => setAt(event.target.value as Status)}>{statuses.map((one) => <option key={one} value={one}>{statusNames[one]}</option>)}</Select>}</Field>
        <Field label="Priority">{(ids) => <Select {...ids} value={priority} onChange={(event) => setPriority(event.target.value as Issue['priority'])}>{priorities.map((one) => <option key={one}>{one}</option>)}</Select>}</Field>
        <Field label="Assigned to">{(ids) => <AssigneeSelect workspace={workspace} ids={ids} value={assignee?.key ?? ''} change={setAssignee} />}</Field>
        <Field label="Labels" hint="Separated by commas.">{(ids) => <Input {...ids} value={labels} onChange={(event) => setLabels(event.target.value)} />}</Field>
      </div>
      {works && <Check label="Do not begin yet" hint="The agent begins when you start a run." checked={wait} onChange={(event) => setWait(event.target.checked)} />}
    </FormDialog>
  );
}
