import type { Schemas } from '@everloop/sdk';
import { describe, expect, test } from 'vitest';
import { bodyOf, draftOf } from '../src/rooms/schedules/draft';
import { targetBody, targetOf } from '../src/rooms/unattended/target';

const dag = { kind: 'dag', solution_id: 's', version: 3, inputs: { since: '{{tick.previous}}', count: 2 } } as const;
const issue = {
  kind: 'issue', workspace_id: 'w', title: 'Restore {{tick.time}}', description: 'Restore the backup.', priority: 'high',
  assignee_type: 'squad', assignee_id: 'q', project: 'search', labels: ['a', 'b'],
} as const;

describe('target', () => {
  test('is the same after it was edited', () => {
    for (const stored of [dag, issue, { kind: 'prompt' }] as unknown as Schemas['Target'][])
      expect(targetBody(targetOf(stored), '')).toEqual(stored);
    expect(targetBody(targetOf({ kind: 'agent', agent_id: 'notes' }), 'agent:notes')).toEqual({ kind: 'agent', agent_id: 'notes' });
  });
  test('has the fields of its kind alone', () => {
    const form = { ...targetOf(issue as unknown as Schemas['Target']), dag: 's', inputs: { a: 1 } };
    expect(targetBody({ ...form, kind: 'prompt' }, 'solution:x')).toEqual({ kind: 'prompt' });
    expect(targetBody({ ...form, kind: 'dag' }, 'agent:notes')).toEqual({ kind: 'dag', solution_id: 's', inputs: { a: 1 } });
    expect(targetBody({ ...form, title: ' ', assignee: '', labels: ' , ' }, '')).toEqual({
      kind: 'issue', workspace_id: 'w', priority: 'high', description: 'Restore the backup.', project: 'search',
    });
  });
  test('of a schedule that starts no chat leaves out what configures chats', () => {
    const body = bodyOf({ ...draftOf(undefined), title: 'Nightly', target: targetOf(dag as unknown as Schemas['Target']), model: 'm' });
    expect(body).toMatchObject({ title: 'Nightly', target: dag });
    for (const field of ['prompt', 'model', 'agent_id', 'budget', 'files', 'output_schema', 'persistent']) expect(body).not.toHaveProperty(field);
  });
  test('of a schedule takes the description of its issue as the prompt', () => {
    const draft = draftOf({ ...bodyOf(draftOf(undefined)), prompt: 'old', target: issue, notify: [], files: [], commands: [] } as unknown as Schemas['ScheduledTask']);
    const { target, prompt } = bodyOf(draft);
    expect(prompt).toBe('Restore the backup.');
    expect(target).not.toHaveProperty('description');
  });
});
