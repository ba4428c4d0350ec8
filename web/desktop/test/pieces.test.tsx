import type { TurnView } from '@everloop/sdk';
import { cleanup, render, screen, waitFor } from '@testing-library/react';
import { describe, expect, test } from 'vitest';
import { bytes, compact, duration } from '../src/lib/format';
import { answerOf } from '../src/rooms/chat/questions';
import { messageOf } from '../src/rooms/chat/composer';
import { parseArguments, picturesOf, sourcesOf } from '../src/rooms/chat/tools';
import { partsOf } from '../src/rooms/chat/turn';
import { boundTable, parseTable } from '../src/rooms/files/preview';
import { lay } from '../src/rooms/history/tree';
import { lineDiff, unifiedLines } from '../src/ui/diff';
import { groupParts, portion, portionsUnasked, split, weigh, within } from '../src/ui/blocks';
import { Growing } from '../src/ui/growing';
import { bounded } from '../src/ui/code';
import { Prose } from '../src/ui/markdown';

describe('format', () => {
  test('units change where the number would be long', () => {
    expect([bytes(999), bytes(1500), bytes(999_700), bytes(12_000_000)]).toEqual(['999 B', '1.5 kB', '1.0 MB', '12 MB']);
    expect([compact(950), compact(1234), compact(33_900), compact(2_500_000)]).toEqual(['950', '1.2K', '33.9K', '2.5M']);
    expect([duration(250), duration(1500), duration(61_000), duration(7_260_000)]).toEqual(['250 ms', '1.5 s', '1 min 1 s', '2 h 1 min']);
  });
});

const splitBlocks = (text: string) => split(text).parts;
const texts = (text: string): string[] => splitBlocks(text).map((part) => part.text);

describe('splitBlocks', () => {
  test('paragraphs are apart, fences and lists are whole', () => {
    expect(texts('one\n\ntwo')).toEqual(['one', 'two']);
    expect(texts('```js\na\n\nb\n```\n\nend')).toEqual(['```js\na\n\nb\n```', 'end']);
    expect(texts('- a\n\n- b\n\n  more\n\nend')).toEqual(['- a\n\n- b\n\n  more', 'end']);
  });
  test('an open fence keeps the rest of a text that streams', () => expect(texts('a\n\n```\nx\n\ny')).toEqual(['a', '```\nx\n\ny']));
  test('nothing is lost', () => {
    const text = '# T\n\nA\n\n1. x\n2. y\n\n~~~\n```\n\n~~~\n\nZ';
    expect(texts(text).join('\n').replace(/\s/g, '')).toBe(text.replace(/\s/g, ''));
  });
  test('a text that grows has the parts of the whole text, and keeps those that are steady', () => {
    const pieces = [
      'word', ' ', '\n', '\n\n', '- ', '1. ', '```', '~~~', '|', '|a|b|\n|-|-|\n', '    ', '# ', '> ', '*', '\t', '\r\n', '\u0007', '-', '---\n',
      'x'.repeat(60_000), '|1|2|\n'.repeat(300),
    ];
    let seed = 7;
    const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
    for (let round = 0; round < 60; round++) {
      const growing = new Growing();
      let text = '';
      for (let step = 0; step < 60; step++) {
        text += pieces[random(random(8) === 0 ? pieces.length : pieces.length - 2)] ?? '';
        const fresh = new Growing().parts(text);
        expect(growing.parts(text)).toEqual(fresh);
      }
    }
    const growing = new Growing();
    const before = growing.parts('one\n\ntwo\n\nthree\n\nfour');
    const after = growing.parts('one\n\ntwo\n\nthree\n\nfour and five\n\nsix');
    expect(after[0]).toBe(before[0]);
    expect(after[1]).toBe(before[1]);
    expect(after.map((part) => part.text)).toEqual(['one', 'two', 'three', 'four and five', 'six']);
    expect(growing.parts('another').map((part) => part.text)).toEqual(['another']);
  });
  test('a table is apart from what is before and behind it', () => {
    expect(splitBlocks('so:\n|a|b|\n|-|-|\n|1|2|\n- x\n- y')).toEqual([
      { text: 'so:' }, { text: '|a|b|\n|-|-|\n|1|2|', table: 'begins' }, { text: '- x\n- y' },
    ]);
    for (const other of ['a|b\n---', '- |a|b|\n|-|-|', '```\n|a|\n|-|\n```', 'a\n---']) {
      expect(splitBlocks(other), other).toEqual([{ text: other }]);
    }
  });
});

describe('Markdown that would keep the browser busy', () => {
  const plain = (text: string) => splitBlocks(text).some((block) => weigh(block).plain);
  const table = (columns: number, rows: number) =>
    [`|${'a|'.repeat(columns)}`, `|${'-|'.repeat(columns)}`, ...Array.from({ length: rows }, () => `|${'b|'.repeat(columns)}`)].join('\n');
  test.each([
    ['quotes', '> '.repeat(10_000)], ['quotes without blanks', `${'>'.repeat(10_000)}a`], ['lists', `${'- '.repeat(10_000)}a`],
    ['mixed', `${'> 1. * '.repeat(50)}a`],
    ['a list by its indents', Array.from({ length: 100 }, (_, i) => `${'  '.repeat(i)}- a`).join('\n')],
    ['columns', table(1000, 3)], ['stars', '*a** '.repeat(1500)], ['brackets', '['.repeat(3000) + ']'.repeat(3000)],
    ['brackets in lines', '[a](\n'.repeat(90).replaceAll('[', '['.repeat(20))], ['a long line', 'word '.repeat(10_000)],
    ['what only seems to be a fence', `\`\`\` a\`\n${'['.repeat(3000)}`],
  ])('is shown as it was written: %s', (_, text) => expect(plain(text)).toBe(true));
  test.each([
    ['prose', 'A **bold** word, `code` and [a link](https://example.com/).\n\n'.repeat(50)], ['a rule', '-'.repeat(200)],
    ['a list', '- one **bold** `item`\n'.repeat(2000)], ['numbers', Array.from({ length: 90 }, (_, i) => `${i + 1}. item`).join('\n')],
    ['a table', table(8, 500)], ['code', `\`\`\`\n${'a[i] = *b & c | d;\n'.repeat(5000)}\`\`\``], ['nested', '> - a\n>   - b\n'],
  ])('other is not: %s', (_, text) => expect(plain(text)).toBe(false));
  test('a long table goes on below its heading', () => {
    const parts = splitBlocks(table(8, 200));
    expect(parts.length).toBeGreaterThan(2);
    expect(parts.map((part) => part.table)).toEqual(['begins', ...parts.slice(1).map(() => 'goes on')]);
    for (const part of parts) expect(part.text.split('\n').slice(0, 2)).toEqual([`|${'a|'.repeat(8)}`, `|${'-|'.repeat(8)}`]);
    expect(parts.map((part) => part.text).join('\n').match(/^\|b/gm)).toHaveLength(200);
  });
  test.each([
    ['a table of 50 columns and 500 rows', table(50, 500).replaceAll('b', '**b**')], ['a narrow one', table(2, 3000)],
  ])('is one table, whole: %s', (_, text) => {
    const parts = splitBlocks(text).map((part) => ({ ...part, ...weigh(part) }));
    expect(groupParts(parts)).toHaveLength(1);
    expect(parts.filter((part) => part.plain)).toEqual([]);
    expect(within(parts, portion * portionsUnasked)).toBe(parts.length);
  });
  test('a table that is too wide is one text, as it was written', () => {
    const parts = splitBlocks(`${table(300, 5)}\n|c|`).map((part) => ({ ...part, ...weigh(part) }));
    const [group = [], ...others] = groupParts(parts);
    expect(others).toEqual([]);
    expect(group[0]?.plain).toBe(true);
    expect(group.map((part) => part.text).join('\n')).toBe(`${table(300, 5)}\n|c|`);
  });
  test('a long table is one in the page, with one heading', () => {
    const { container } = render(<Prose text={`Before\n${table(4, 120)}\n\nAfter`} />);
    expect(container.querySelectorAll('table')).toHaveLength(1);
    expect(container.querySelectorAll('thead tr')).toHaveLength(1);
    expect(container.querySelectorAll('tbody tr')).toHaveLength(120);
    expect(container.querySelectorAll('tbody').length).toBeGreaterThan(1);
    expect(container.querySelectorAll('p')).toHaveLength(2);
  }, 60_000);
  test('a long answer is shown whole without being asked for; a hostile one is not', async () => {
    const words = `${'word '.repeat(20)}\n\n`;
    const ordinary = splitBlocks(words.repeat(2000)).map(weigh);
    expect(within(ordinary, portion * portionsUnasked)).toBe(2000);
    expect(within(ordinary, portion)).toBeLessThan(320);
    const { container } = render(<Prose text={words.repeat(320)} />);
    await waitFor(() => expect(container.querySelectorAll('p')).toHaveLength(320), { timeout: 50_000 });
    expect(screen.queryByRole('button', { name: 'Show more' })).toBeNull();
    cleanup();
    const most = within(splitBlocks('```\n```\n\n'.repeat(20_000)).map(weigh), portion * portionsUnasked);
    expect(most).toBeLessThan(5000);
  }, 60_000);
  test('is shown part by part, at least one', () => {
    const weights = splitBlocks('- a\n'.repeat(5000)).map(weigh);
    expect(within(weights, 20)).toBeLessThan(weights.length);
    expect(within(weights, 1e9)).toBe(weights.length);
    for (const many of ['a\n\n', '```\n```\n\n', '```\n```\n']) {
      const parts = splitBlocks(many.repeat(20_000)).map(weigh);
      expect(within(parts, 20), many).toBeLessThan(500);
    }
    expect(within([{ units: 100, plain: true }, { units: 1, plain: false }], 20)).toBe(1);
  });
});

describe('questions', () => {
  const item = { question: 'Which?', options: [{ label: 'a' }, { label: 'b' }] };
  test('a choice is its number, several are a list, other text is itself', () => {
    expect(answerOf(item, { chosen: [1], text: '', custom: false })).toBe(1);
    expect(answerOf({ ...item, multiSelect: true }, { chosen: [1, 0], text: '', custom: false })).toEqual([0, 1]);
    expect(answerOf(item, { chosen: [], text: ' c ', custom: true })).toBe('c');
    expect(answerOf({ ...item, multiSelect: true }, { chosen: [1, 0], text: 'c', custom: true })).toEqual({ options: [0, 1], text: 'c' });
    expect(answerOf({ question: 'Name?' }, { chosen: [], text: 'x', custom: false })).toBe('x');
  });
  test('what was not answered is undefined', () => {
    expect(answerOf(item, { chosen: [], text: 'not chosen', custom: false })).toBeUndefined();
    expect(answerOf(item, { chosen: [], text: ' ', custom: true })).toBeUndefined();
    expect(answerOf({ ...item, multiSelect: true }, { chosen: [0], text: ' ', custom: true })).toBeUndefined();
  });
});

describe('messages', () => {
  test('a text stays a text; pictures make parts; stored files are named', () => {
    expect(messageOf('hello', [], [])).toBe('hello');
    expect(messageOf('see', [], ['a b.txt'])).toBe('see\n\nAttached files: `a b.txt`');
    expect(messageOf('', ['data:image/png;base64,AA=='], [])).toEqual([
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
    ]);
  });
});

describe('tools', () => {
  test('arguments that are no object are none', () => {
    expect(parseArguments('{"a":1}')).toEqual({ a: 1 });
    for (const text of ['', '[1]', 'null', '{"a":']) expect(parseArguments(text)).toEqual({});
  });
  test('sources have their titles', () => {
    expect(sourcesOf('1. Tea\n   https://tea.example/a\n2. [Cake](https://cake.example/)\n')).toEqual([
      { url: 'https://tea.example/a', title: 'Tea' }, { url: 'https://cake.example/', title: 'Cake' },
    ]);
  });
  test('only pictures of known types are shown', () => {
    const part = (mimeType: string, data: string) => JSON.stringify({ content: [{ type: 'image', mimeType, data }] });
    expect(picturesOf(part('image/png', 'iVBO'))).toHaveLength(1);
    expect(picturesOf(part('image/svg+xml', 'iVBO'))).toEqual([]);
    expect(picturesOf(part('image/png', '"><script>'))).toEqual([]);
    expect(picturesOf('plain text')).toEqual([]);
  });
  test('calls are where the blocks name them, others at the end', () => {
    const block = (type: string, content: string, id: string | null = null) => ({
      type, content, tool_call_id: id, tool_name: null, display_name: null,
    });
    const turn = {
      blocks: [block('text', 'a'), block('tool_use', '', 'c2'), block('tool_result', 'x', 'c2'), block('text', 'b')],
      tool_calls: [{ id: 'c1' }, { id: 'c2' }],
    } as unknown as TurnView;
    expect(partsOf(turn).map((part) => (part.kind === 'call' ? part.call.id : part.block.content))).toEqual(['a', 'c2', 'b', 'c1']);
  });
});

describe('differences', () => {
  test('unchanged lines far from a change are a gap', () => {
    const before = Array.from({ length: 20 }, (_, index) => `line ${index}`).join('\n');
    const lines = lineDiff(before, before.replace('line 10', 'LINE 10'), 1);
    expect(lines.map((line) => line.kind)).toEqual(['gap', 'same', 'removed', 'added', 'same', 'gap']);
    expect(lines[0]?.text).toBe('9 unchanged lines');
  });
  test('unified differences are read', () => {
    expect(unifiedLines('--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z\n').map((line) => line.kind)).toEqual(['gap', 'removed', 'added', 'same']);
  });
});

describe('files', () => {
  test('quoted fields, doubled quotes, line ends, and a bound', () => {
    expect(parseTable('a,"b, ""c"""\r\n1,2\n3', ',', 10)).toEqual([['a', 'b, "c"'], ['1', '2'], ['3']]);
    expect(parseTable('1\n2\n3', ',', 2)).toEqual([['1'], ['2']]);
  });
  test('a table is bounded in its rows, its columns and its cells', () => {
    const table = (rows: number, columns: number) => Array.from({ length: rows }, () => Array.from({ length: columns }, () => 'x'));
    expect(boundTable(table(3, 2))).toEqual({ rows: table(3, 2), cut: false });
    expect(boundTable(table(1002, 2))).toEqual({ rows: table(1001, 2), cut: true });
    expect(boundTable(table(300, 1000))).toEqual({ rows: table(200, 100), cut: true });
    expect(boundTable([]).rows).toEqual([]);
    expect(boundTable([['y'.repeat(100_000)]]).rows[0]?.[0]?.length).toBeLessThan(1100);
  });
  test('long lines are cut', () => expect(bounded('x'.repeat(6000)).length).toBeLessThan(5100));
});

describe('history', () => {
  test('each branch has a lane, and turns of sub-agents are left out', () => {
    const node = (id: string, parent: string | null, branch: string, loop = 'root') => ({
      id, parent_id: parent, branch_id: branch, loop_id: loop,
    }) as never;
    const { placed, lanes } = lay([node('1', null, 'a'), node('2', '1', 'a'), node('s', '2', 'a', 'call'), node('3', '1', 'b')]);
    expect(lanes).toBe(2);
    expect(placed.map((one) => [one.node.id, one.row, one.lane, one.parent?.row])).toEqual([
      ['1', 0, 0, undefined], ['2', 1, 0, 0], ['3', 2, 1, 0],
    ]);
  });
});

