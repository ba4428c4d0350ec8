import type { CallView, TurnView } from '@everloop/sdk';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { Tooltip } from 'radix-ui';
import { afterEach, describe, expect, test } from 'vitest';
import { newQuestions } from '../src/lib/notifications';
import { defaults, readPreferences } from '../src/lib/preferences';
import { byDay, daysBetween, tokensOf } from '../src/lib/usage';
import { causeOf, chatsByHour, failuresByCause } from '../src/rooms/admin/chats';
import { type CheckView, withEvent } from '../src/rooms/admin/checks';
import { temporalRun, temporalUI } from '../src/rooms/admin/temporal';
import { waitText } from '../src/rooms/admin/waits';
import { Turn } from '../src/rooms/chat/turn';
import { linesOf, pairsOf, textOfPairs } from '../src/rooms/library/lines';
import { innerPaths, readPackage, skillName } from '../src/rooms/library/package';
import { tokenOf } from '../src/rooms/library/token';
import { expired } from '../src/rooms/settings/keys';
import { envOf, rowsOf } from '../src/rooms/settings/variables';
import { actionOf, matches, typesText } from '../src/shell/shortcuts';
import { Bars, ceiling, topSeries } from '../src/ui/chart';

afterEach(cleanup);

describe('preferences', () => {
  test('what is not known of a stored text has its default', () => {
    for (const text of [null, '', '[]', '{"mode":7,"send":"never"', '{"mode":"fly","model":1,"send":"x"}'])
      expect(readPreferences(text)).toEqual(defaults);
    expect(readPreferences('{"mode":"planning","model":"m","send":"ctrl-enter","later":1}')).toEqual({
      mode: 'planning', model: 'm', send: 'ctrl-enter',
    });
  });
});

describe('keys and variables', () => {
  test('a key ends at its time', () => {
    expect(expired({ expires_at: null })).toBe(false);
    expect(expired({ expires_at: '2026-01-01T00:00:00Z' }, Date.parse('2026-01-01T00:00:00Z'))).toBe(true);
    expect(expired({ expires_at: '2026-01-01T00:00:01Z' }, Date.parse('2026-01-01T00:00:00Z'))).toBe(false);
  });
  test('rows become an environment, or say what is wrong', () => {
    expect(envOf([{ name: ' B ', value: '2' }, { name: '', value: '' }, { name: 'A', value: '' }])).toEqual({ env: { B: '2', A: '' } });
    expect(envOf([{ name: '1A', value: '' }]).fault).toMatch(/1A/);
    expect(envOf([{ name: '', value: 'x' }]).fault).toMatch(/no name/);
    expect(envOf([{ name: 'A', value: '' }, { name: 'A', value: '' }]).fault).toMatch(/twice/);
    expect(rowsOf({ B: '2', A: '1' })).toEqual([{ name: 'A', value: '1' }, { name: 'B', value: '2' }]);
  });
  test('headers and variables are pairs; what is no pair is an error', () => {
    expect(pairsOf('A=1=2\n\n B = x ', '=')).toEqual({ A: '1=2', B: 'x' });
    expect(pairsOf('Authorization: Bearer a=b', ':')).toEqual({ Authorization: 'Bearer a=b' });
    expect(pairsOf(textOfPairs({ 'X-A': '********' }), ':')).toEqual({ 'X-A': '********' });
    expect(() => pairsOf('no pair', '=')).toThrow(/no pair/);
    expect(linesOf(' a \n\nb')).toEqual(['a', 'b']);
  });
});

describe('usage and chats', () => {
  const item = (day: string, model: string, input: number) => ({ day, model, input_tokens: input, output_tokens: 1 }) as never;
  test('each day of a report is a point, also one without usage', () => {
    expect(daysBetween('2026-02-27', '2026-03-02')).toEqual(['2026-02-27', '2026-02-28', '2026-03-01']);
    const { names, points } = byDay(
      { from: '2026-01-01', to: '2026-01-04', items: [item('2026-01-01', 'a', 4), item('2026-01-03', 'b', 2), item('2026-01-03', 'a', 1)] },
      (one) => one.model ?? '', tokensOf,
    );
    expect(names).toEqual(['a', 'b']);
    expect(points.map((point) => point.values)).toEqual([[5, 0], [0, 0], [2, 3]]);
  });
  test('the largest series stay, the others are one', () => {
    const { names, points } = topSeries(['a', 'b', 'c', 'd'], [{ label: 'x', values: [1, 9, 3, 2] }], 3);
    expect(names).toEqual(['b', 'c', '2 others']);
    expect(points[0]?.values).toEqual([9, 3, 3]);
  });
  test('scales end at round numbers', () => expect([0, 1, 3, 20, 21, 0.003].map(ceiling)).toEqual([1, 1, 5, 20, 50, 0.005]));
  test('chats are counted by hour and cause', () => {
    const now = Date.parse('2026-01-01T10:30:00Z');
    const run = (started_at: string, status: string, chat_status: string) => ({ started_at, status, chat_status }) as never;
    const runs = [
      run('2026-01-01T10:10:00Z', 'completed', 'completed'), run('2026-01-01T10:20:00Z', 'completed', 'max_steps'),
      run('2026-01-01T09:59:00Z', 'lost', ''), run('2025-12-31T00:00:00Z', 'completed', 'completed'),
    ];
    expect(chatsByHour(runs, now, 2).map((point) => point.values)).toEqual([[0, 1], [1, 1]]);
    expect(failuresByCause([...runs, runs[1] as never])).toEqual([['max steps', 2], ['lost', 1]]);
    expect(causeOf(run('', 'running', 'awaiting_answer'))).toBeUndefined();
  });
  test('a chart is a table, too', () => {
    render(<Bars title="Tokens" names={['a', 'b']} points={[{ label: 'Monday', values: [3, 4] }]} format={(value) => `${value} t`} />);
    expect(screen.queryByRole('table')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'Table Tokens' }));
    expect(screen.getByRole('row', { name: /Monday 3 t 4 t/ })).toBeTruthy();
  });
});

describe('administration', () => {
  test('checks appear when they start, and get their result', () => {
    let checks: CheckView[] = [];
    checks = withEvent(checks, { event: 'check_started', data: { id: 'db', title: 'Database' } });
    expect(checks).toEqual([{ id: 'db', title: 'Database' }]);
    checks = withEvent(checks, { event: 'check_result', data: { id: 'db', status: 'ok' } });
    expect(withEvent(checks, { event: 'done', data: {} })[0]?.result?.status).toBe('ok');
  });
  test('the page of a run in the Temporal UI', () => {
    const item = (name: string, value: string) => ({ env_var: name, value, default: '', remark: '' });
    const config = (addr: string, url = '') => [{ group: 'Service', items: [item('TEMPORAL_UI_ADDR', addr), item('TEMPORAL_UI_URL', url)] }];
    expect(temporalUI(config('127.0.0.1:8233'))).toBe('http://127.0.0.1:8233');
    expect(temporalUI(config(':8233'), 'ops.example')).toBe('http://ops.example:8233');
    expect(temporalUI(config('127.0.0.1:8233', 'https://temporal.example/'))).toBe('https://temporal.example');
    for (const value of ['', 'nothing']) expect(temporalUI(config(value))).toBeUndefined();
    expect(temporalUI(undefined)).toBeUndefined();
    expect(temporalRun('http://u', 'default', { workflow_id: 'session/1', run_id: 'r' })).toBe(
      'http://u/namespaces/default/workflows/session%2F1/r/history',
    );
  });
  test('a wait says on what, and nothing when there is none', () => {
    const wait = { reason: 'none', on: '', id: '', since: null, until: null } as const;
    expect(waitText(wait)).toBe('');
    expect(waitText({ ...wait, reason: 'model_unavailable', on: 'model', id: 'm1' })).toBe('The model server does not respond (m1)');
    expect(waitText({ ...wait, reason: 'timer', until: '2026-01-01T00:00:00Z' })).toMatch(/^Waits for its time until /);
  });
});

describe('skills and links', () => {
  test('paths begin at SKILL.md, and a package has one', () => {
    expect(innerPaths(['my/SKILL.md', 'my/a/b.md'])).toEqual(['SKILL.md', 'a/b.md']);
    expect(innerPaths(['a.md', 'SKILL.md', 'sub/SKILL.md'])).toEqual(['a.md', 'SKILL.md', 'sub/SKILL.md']);
    expect(() => innerPaths(['a.md'])).toThrow(/no SKILL.md/);
    expect(() => innerPaths(['my/SKILL.md', 'other/a.md'])).toThrow(/outside the directory/);
  });
  test('the name is that of the front matter', () => {
    expect(skillName('---\r\nname: "house-style"\r\n---\r\nname: no')).toBe('house-style');
    expect(() => skillName('# name: x')).toThrow(/must contain a name/);
  });
  test('binary files are encoded', async () => {
    const read = await readPackage([new File(['---\nname: n\n---\n'], 'SKILL.md'), new File([new Uint8Array([0xff, 0, 1])], 'a.bin')]);
    expect(read).toEqual({
      name: 'n', files: [{ path: 'SKILL.md', content: '---\nname: n\n---\n' }, { path: 'a.bin', content: '/wAB', encoding: 'base64' }],
    });
  });
  test('a link has a token', () => {
    expect(tokenOf(' http://x/api/share/abc?y=1 ')).toBe('abc');
    expect(tokenOf('abc')).toBe('abc');
  });
});

describe('keys of the keyboard', () => {
  const press = (part: Partial<KeyboardEvent>) => ({
    key: '', code: '', ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...part,
  });
  test('each shortcut has its action; in fields ? is a character', () => {
    expect(actionOf(press({ key: 'k', ctrlKey: true }), true)).toBe('palette');
    expect(actionOf(press({ key: 'K', metaKey: true }), false)).toBe('palette');
    expect(actionOf(press({ key: '?', shiftKey: true }), false)).toBe('help');
    expect(actionOf(press({ key: '?', shiftKey: true }), true)).toBeUndefined();
    expect(actionOf(press({ key: 'ñ', code: 'KeyN', altKey: true }), true)).toBe('new');
    expect(actionOf(press({ key: 'k' }), false)).toBeUndefined();
    expect(typesText(document.createElement('textarea'))).toBe(true);
    expect(typesText(document.createElement('button'))).toBe(false);
  });
  test('all words of a search have to be there', () => {
    expect(matches('Settings: API keys', 'keys sett')).toBe(true);
    expect(matches('Settings: API keys', 'keys audit')).toBe(false);
  });
});

describe('questions', () => {
  test('only questions that were not there before are shown as notifications', () => {
    const items = [{ question_id: 'a' }, { question_id: 'b' }];
    expect(newQuestions(undefined, items)).toEqual([]);
    expect(newQuestions(new Set(['a']), items)).toEqual([{ question_id: 'b' }]);
  });
  test('a question has no card while it is open, and one when it is answered', () => {
    const call = (status: string, result = '') => ({
      id: 'c', tool_name: 'AskUserQuestion', display_name: 'Question', arguments: '{"questions":[{"question":"Which colour?"}]}', status,
      result, duration_ms: 0, progress: '',
    }) as CallView;
    const turn = (one: CallView) => ({
      turn_id: 't', kind: 'message', role: 'assistant', status: 'paused', model: 'm', blocks: [], tool_calls: [one],
      started_at: '2026-01-01T00:00:00Z',
      usage: { input_tokens: 0, output_tokens: 0 }, duration_ms: 0, deprecated: false,
    }) as unknown as TurnView;
    const page = (one: CallView) => <QueryClientProvider client={new QueryClient()}>
      <Tooltip.Provider><Turn turn={turn(one)} nested={new Map()} /></Tooltip.Provider>
    </QueryClientProvider>;
    const { rerender } = render(page(call('pending')));
    expect(screen.queryByText('Which colour?')).toBeNull();
    rerender(page(call('awaiting_answer')));
    expect(screen.queryByText('Which colour?')).toBeNull();
    rerender(page(call('done', '{"answers":[{"selected":["Blue"]}]}')));
    expect(screen.getByRole('definition').textContent).toBe('Blue');
  });
});
