import { answerFields, type Schemas } from '@everloop/sdk';
import { describe, expect, test } from 'vitest';
import { questionOf } from '../src/lib/inbox';
import { activityText } from '../src/rooms/board/timeline';
import { columnsOf, type Issue, moved, placeOf, positionAt, stepped } from '../src/rooms/board/place';
import { added, connected, type Graph, inputsOf, layered, removed, replaced, set } from '../src/rooms/dags/graph';
import { before, fieldsOf, inputsFrom, valueOf } from '../src/rooms/dags/inputs';
import { cronOf, inZone, planOf, turnedInto, zones } from '../src/rooms/schedules/cron';
import { cronTextIn } from '../src/rooms/schedules/cron-text';
import { dayOf, daysOf, dueByDay } from '../src/rooms/schedules/days';
import { outcomeOf, reasonOf } from '../src/rooms/schedules/words';
import { eventsText } from '../src/rooms/webhooks/events';
import { linesOf, objectOf, secondsText, usageText } from '../src/rooms/unattended/pieces';

describe('cron', () => {
  test('is said in the language of the page, or as the service says it', async () => {
    const russian = await cronTextIn('ru');
    expect(russian('0 9 * * 1-5', 'At 09:00')).toBe('В 09:00, с понедельника по пятницу');
    expect((await cronTextIn('zh'))('30 8 * * *', 'At 08:30')).toBe('在08:30');
    expect((await cronTextIn('en'))('30 8 * * *', 'At 08:30')).toBe('At 08:30');
    expect(russian('0 9 1 * 1', 'At 09:00, on day 1 or on Monday'), 'either day').toBe('At 09:00, on day 1 or on Monday');
    expect(russian('nonsense', 'as it was')).toBe('as it was');
  });
  test('plain expressions are plans, and plans are the same expressions', () => {
    for (const text of ['* * * * *', '*/15 * * * *', '20 * * * *', '30 9 * * *', '0 9 * * 1-5', '0 9 * * 1,3,5', '5 23 31 * *']) {
      const plan = planOf(text);
      expect(plan.kind, text).not.toBe('expression');
      expect(cronOf(plan)).toBe(text);
    }
  });
  test('names, short forms and Sunday as 0 mean the same', () => {
    expect(planOf('0 7 * * MON-FRI')).toEqual({ kind: 'weekly', days: [1, 2, 3, 4, 5], hour: 7, minute: 0 });
    expect(planOf('@daily')).toEqual({ kind: 'daily', hour: 0, minute: 0 });
    expect(planOf('0 0 * * 0')).toEqual({ kind: 'weekly', days: [7], hour: 0, minute: 0 });
    expect(cronOf(planOf('0 0 * * sun,sat'))).toBe('0 0 * * 6,7');
  });
  test('what has no plain form stays as it is', () => {
    for (const text of [
      '*/7 * * * *', '0 9 1 * 1', '0 9 * 1 *', '0 9-17 * * *', '60 * * * *', '0 24 * * *', '0 9 0 * *', '0 9 * * 5-1', '0 9 * * 1-2-3',
      'nonsense', '@yearly', '',
    ]) {
      expect(planOf(text)).toEqual({ kind: 'expression', text });
    }
  });
  test('another kind keeps the time', () => {
    const daily = planOf('45 6 * * *');
    expect(cronOf(turnedInto(daily, 'weekly'))).toBe('45 6 * * 1-5');
    expect(cronOf(turnedInto(daily, 'monthly'))).toBe('45 6 1 * *');
    expect(turnedInto(daily, 'expression')).toEqual({ kind: 'expression', text: '45 6 * * *' });
  });
  test('times are shown in the zone of the schedule', () => {
    expect(inZone('2030-01-01T23:30:00Z', 'Asia/Tokyo')).toMatch(/8:30/);
    expect(inZone('2030-01-01T23:30:00Z', 'No/Where')).toBe('2030-01-01T23:30:00.000Z');
    expect(zones('Europe/Berlin').filter((one) => one === 'Europe/Berlin')).toHaveLength(1);
  });
});

describe('calendar', () => {
  const shown = (year: number, month: number, firstDay: number) => daysOf(year, month, firstDay).map(dayOf);
  test('a month has whole weeks, from the first day of the week on', () => {
    const march = shown(2026, 2, 1); // begins on a Sunday
    expect([march.length, march[0], march.at(-1)]).toEqual([42, '2026-02-23', '2026-04-05']);
    const sundays = shown(2026, 1, 7); // 28 days, from Sunday to Saturday
    expect([sundays.length, sundays[0], sundays.at(-1)]).toEqual([28, '2026-02-01', '2026-02-28']);
    expect(new Set(shown(2026, 2, 1)).size).toBe(42); // the day on which clocks change is there once
  });
  test('times are put to their days, schedules by their first time', () => {
    const at = (day: number, hour: number) => new Date(2026, 2, day, hour).toISOString();
    const entry = (task_id: string, ...occurrences: string[]) => ({ task_id, title: task_id.toUpperCase(), occurrences, truncated: false });
    const due = dueByDay([entry('late', at(2, 20), at(3, 1)), entry('often', at(2, 7), at(2, 8), at(2, 23))]);
    expect([...due.keys()].sort()).toEqual(['2026-03-02', '2026-03-03']);
    expect(due.get('2026-03-02')?.map((one) => [one.title, one.times.length])).toEqual([['OFTEN', 3], ['LATE', 1]]);
    expect(due.get('2026-03-03')?.map((one) => one.taskId)).toEqual(['late']);
  });
});

describe('runs of schedules', () => {
  const run = (part: Partial<Schemas['ScheduledRun']>) => ({
    outcome: 'fired', reason_code: null, error: null, ...part,
  }) as Schemas['ScheduledRun'];
  test('outcome and reason are words', () => {
    expect([outcomeOf(run({})), outcomeOf(run({ reason_code: 'run_now' })), outcomeOf(run({ outcome: 'coalesced' }))]).toEqual([
      'fired', 'run now', 'coalesced',
    ]);
    expect(reasonOf(run({ outcome: 'skipped', reason_code: 'previous_run_active' }))).toBe('an earlier run was still active');
    expect(reasonOf(run({ reason_code: 'max_steps' }))).toBe('max steps');
    expect(reasonOf(run({ reason_code: 'run_now', error_code: 'outcome_not_met' }))).toBe('the outcome contract is not met');
    expect(reasonOf(run({ reason_code: 'outcome_not_met', error: 'file "a": no file matches' }))).toBe('file "a": no file matches');
  });
});

describe('inbox', () => {
  test('answers are in the form of the interface', () => {
    expect(answerFields([1, [0, 2], 'other', { options: [1], text: 'more' }])).toEqual({
      selections: { 0: [1], 1: [0, 2], 3: [1] }, custom: { 2: 'other', 3: 'more' },
    });
  });
  test('an item is a question of the chat; a permission is shown as one', () => {
    const item = {
      kind: 'permission', question_id: 'q', tool_call_id: 't', chat_id: 'c', questions: [{ question: 'May I?' }], asked_at: '',
      expires_at: null, default_policy: null,
    } as unknown as Schemas['InboxItem'];
    expect(questionOf(item)).toMatchObject({ question_id: 'q', questions: [{ question: 'May I?' }], permission_for: true });
    expect(questionOf({ ...item, kind: 'question', questions: null })).toMatchObject({ questions: [] });
    expect(questionOf({ ...item, kind: 'question' }).permission_for).toBeUndefined();
  });
});

describe('board', () => {
  const issue = (id: string, status: Issue['status'], position: number) => ({ id, status, position, identifier: id }) as Issue;
  const columns = columnsOf([
    { key: { id: 'todo' }, items: [issue('a', 'todo', 1), issue('b', 'todo', 2), issue('c', 'todo', 3)] },
    { key: { id: 'done' }, items: [issue('d', 'done', 9)] }, { key: { id: 'other' }, items: [] },
  ]);
  const b = issue('b', 'todo', 2);
  test('an issue is put between its new neighbours', () => {
    const next = moved(columns, b, { status: 'done', index: 1 });
    expect(next.todo.map((one) => one.id)).toEqual(['a', 'c']);
    expect(next.done.map((one) => [one.id, one.status, one.position])).toEqual([['d', 'done', 9], ['b', 'done', 10]]);
    expect(moved(columns, b, { status: 'todo', index: 2 }).todo.map((one) => one.id)).toEqual(['a', 'c', 'b']);
    expect(placeOf(next, 'b')).toEqual({ status: 'done', index: 1 });
    expect(placeOf(columns, 'none')).toBeUndefined();
  });
  test('positions are between the neighbours', () => {
    expect([
      positionAt([], 0), positionAt(columns.todo, 0), positionAt(columns.todo, 1), positionAt(columns.todo, 3),
    ]).toEqual([0, 0, 1.5, 4]);
  });
  test('arrow keys stop at the edges', () => {
    expect(stepped(columns, 'b', { status: 'todo', index: 0 }, 'ArrowUp')).toEqual({ status: 'todo', index: 0 });
    expect(stepped(columns, 'b', { status: 'todo', index: 2 }, 'ArrowDown')).toEqual({ status: 'todo', index: 2 });
    expect(stepped(columns, 'b', { status: 'todo', index: 1 }, 'ArrowLeft')).toEqual({ status: 'backlog', index: 0 });
    expect(stepped(columns, 'b', { status: 'cancelled', index: 0 }, 'ArrowRight')).toEqual({ status: 'cancelled', index: 0 });
  });
  test('changes are described in words', () => {
    const entry = (action: string, from?: unknown, to?: unknown) => activityText(
      { action, details: { from, to } } as never, { identifier: 'WEB-1' }, (id) => (id === 'x' ? 'Builder' : undefined),
    );
    expect(entry('status_changed', 'todo', 'in_progress')).toBe('moved it from To do to In progress');
    expect(entry('assignee_changed', null, 'agent:x')).toBe('assigned it to Builder');
    expect(entry('assignee_changed', 'agent:x', null)).toBe('took the assignee away');
    expect(entry('created')).toBe('created WEB-1');
  });
});

describe('DAGs', () => {
  const graph: Graph = {
    nodes: [{ id: 's', type: 'start' }, { id: 'a', type: 'agent' }, { id: 'b', type: 'agent' }, { id: 'z', type: 'end' }],
    edges: [
      { id: '1', source: 's', target: 'a' }, { id: '2', source: 's', target: 'b' }, { id: '3', source: 'a', target: 'z' },
      { id: '4', source: 'b', target: 'z' },
    ],
  };
  test('nodes are in rows after those before them, and never at the same place', () => {
    const places = layered(graph);
    const y = (id: string) => places.get(id)?.y ?? NaN;
    expect(y('s')).toBeLessThan(y('a'));
    expect(y('a')).toBe(y('b'));
    expect(y('b')).toBeLessThan(y('z'));
    expect(new Set([...places.values()].map((at) => `${at.x} ${at.y}`)).size).toBe(4);
  });
  test('a cycle and edges that lead nowhere do no harm; a position of its own is kept', () => {
    const places = layered({
      nodes: [{ id: 'a', type: 'agent' }, { id: 'b', type: 'agent', position: { x: 7, y: 8 } }],
      edges: [
        { id: '1', source: 'a', target: 'b' }, { id: '2', source: 'b', target: 'a' }, { id: '3', source: 'a', target: 'gone' },
        { id: '4', source: 'a', target: 'a' },
      ],
    });
    expect(places.get('b')).toEqual({ x: 7, y: 8 });
    expect(Number.isFinite(places.get('a')?.x)).toBe(true);
  });
  test('a new node has a free id and an edge from the chosen one', () => {
    const once = added(graph, 'agent', 'a');
    const twice = added(once.graph, 'agent');
    expect([once.id, twice.id]).toEqual(['agent', 'agent_2']);
    expect(once.graph.edges?.at(-1)).toEqual({ id: 'a-agent', source: 'a', target: 'agent' });
    expect(added(graph, 'agent', 'z').graph.edges).toHaveLength(4);
  });
  test('edges follow a renamed node and go with a removed one', () => {
    const renamed = replaced(graph, 'a', { id: 'draft', type: 'agent' });
    expect(renamed.edges?.map((edge) => `${edge.source}>${edge.target}`)).toEqual(['s>draft', 's>b', 'draft>z', 'b>z']);
    expect(removed(graph, 'a').edges?.map((edge) => edge.id)).toEqual(['2', '4']);
  });
  test('files and workspaces of others follow a renamed node', () => {
    const user = { id: 'c', type: 'code' as const, workspace: 'a', inputs_files: [{ from: 'a', path: 'x' }, { from: 'b' }] };
    const renamed = replaced({ ...graph, nodes: [...(graph.nodes ?? []), user] }, 'a', { id: 'draft', type: 'agent' });
    expect(renamed.nodes?.at(-1)).toEqual({ ...user, workspace: 'draft', inputs_files: [{ from: 'draft', path: 'x' }, { from: 'b' }] });
  });
  test('an edge is not made twice, nor to the node itself', () => {
    expect(connected(graph, 's', 'a')).toBe(graph);
    expect(connected(graph, 'a', 'a')).toBe(graph);
    expect(connected(graph, 'a', 'b').edges).toHaveLength(5);
  });
  test('empty fields are left out of a node', () => {
    expect(set({ id: 'a', name: 'x' }, 'name', '')).toEqual({ id: 'a' });
    expect(set({ id: 'a' } as { id: string; name?: string }, 'name', 'y')).toEqual({ id: 'a', name: 'y' });
  });
  test('the inputs of a run are those of the schema and those that nodes refer to', () => {
    expect(inputsOf({
      nodes: [
        { id: 's', type: 'start', output_schema: {
          required: ['topic'], properties: { topic: { type: 'string' }, count: { type: 'integer' } },
        } },
        { id: 'a', type: 'agent', config: { prompt: 'On {{input.topic}} in {{ input.lang }}' } },
      ],
    })).toEqual({ topic: '', count: 0, lang: '' });
  });
});

describe('inputs of a DAG run', () => {
  const declared: Graph = {
    nodes: [
      { id: 's', type: 'start', output_schema: { required: ['topic', 'count'], properties: {
        topic: { type: 'string', description: 'What it is about' }, count: { type: 'integer', default: 3 }, deep: { type: 'boolean' },
        tone: { type: 'string', enum: ['dry', 'warm'] }, tags: { type: 'array' },
      } } },
      { id: 'a', type: 'agent', config: { prompt: 'In {{input.lang}}' } },
    ],
    edges: [{ id: '1', source: 's', target: 'a' }],
  };
  const fields = fieldsOf(declared);
  test('are the fields of the start node, and those that nodes refer to', () => {
    expect(fields.map((one) => [one.name, one.type, one.required])).toEqual([
      ['topic', 'string', true], ['count', 'integer', true], ['deep', 'boolean', false], ['tone', 'string', false], ['tags', 'json', false],
      ['lang', 'string', true],
    ]);
    expect(fields[0]?.hint).toBe('What it is about');
    expect(fields[3]?.options).toEqual(['dry', 'warm']);
  });
  test('have the types of their fields; empty optional ones are left out', () => {
    expect(inputsFrom(fields, { topic: '7', deep: 'true', tags: '["x"]', lang: 'de' })).toEqual({
      inputs: { topic: '7', count: 3, deep: true, tags: ['x'], lang: 'de' }, errors: {},
    });
  });
  test('name the fields that cannot be read', () => {
    expect(Object.keys(inputsFrom(fields, { count: '', tags: '[' }).errors)).toEqual(['count', 'tags']);
  });
  test('outputs are JSON or text, and of all nodes before', () => {
    expect([valueOf('{"a":1}'), valueOf('plain')]).toEqual([{ a: 1 }, 'plain']);
    expect(before({ nodes: [
      { id: 's', type: 'start' }, { id: 'a', type: 'agent' }, { id: 'b', type: 'agent' }, { id: 'c', type: 'agent' },
    ], edges: [
      { id: '1', source: 's', target: 'a' }, { id: '2', source: 'a', target: 'b' }, { id: '3', source: 'b', target: 'c' },
      { id: '4', source: 'c', target: 'b' },
    ] }, 'b')).toEqual(['a', 'c']);
  });
});

describe('pieces', () => {
  test('JSON objects and nothing else', () => {
    expect(objectOf(' ')).toEqual({ value: null });
    expect(objectOf('{"a":1}')).toEqual({ value: { a: 1 } });
    for (const text of ['[1]', '1', 'null', '{"a":']) expect(objectOf(text)).toHaveProperty('error');
  });
  test('lines, times, events and usage', () => {
    expect(linesOf(' a \n\nb\n')).toEqual(['a', 'b']);
    expect([secondsText(3600), secondsText(7200), secondsText(90), secondsText(86_400)]).toEqual([
      '1 hour', '2 hours', '90 seconds', '1 day',
    ]);
    expect([eventsText(['*']), eventsText([]), eventsText(['a', 'b', 'c', 'd'])]).toEqual([
      'all events', 'only events of schedules that use it', 'a, b and 2 more',
    ]);
    expect([
      usageText({ input_tokens: 0, output_tokens: 0 }), usageText({ input_tokens: 1200, output_tokens: 10, cost_usd: 0.5 }),
    ]).toEqual(['', '1.2K in, 10 out, $0.50']);
  });
});
