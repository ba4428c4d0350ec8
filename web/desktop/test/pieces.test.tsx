import type { TurnView } from '@everloop/sdk';
import { describe, expect, test } from 'vitest';
import { bytes, compact, duration } from '../src/lib/format';
import { answerOf } from '../src/rooms/chat/questions';
import { messageOf } from '../src/rooms/chat/composer';
import { parseArguments, picturesOf, sourcesOf } from '../src/rooms/chat/tools';
import { partsOf } from '../src/rooms/chat/turn';
import { parseTable } from '../src/rooms/files/preview';
import { lay } from '../src/rooms/history/tree';
import { lineDiff, unifiedLines } from '../src/ui/diff';
import { splitBlocks } from '../src/ui/markdown';
import { bounded } from '../src/ui/code';

describe('format', () => {
  test('units change where the number would be long', () => {
    expect([bytes(999), bytes(1500), bytes(999_700), bytes(12_000_000)]).toEqual(['999 B', '1.5 kB', '1.0 MB', '12 MB']);
    expect([compact(950), compact(1234), compact(33_900), compact(2_500_000)]).toEqual(['950', '1.2K', '33.9K', '2.5M']);
    expect([duration(250), duration(1500), duration(61_000), duration(7_260_000)]).toEqual(['250 ms', '1.5 s', '1 min 1 s', '2 h 1 min']);
  });
});

describe('splitBlocks', () => {
  test('paragraphs are apart, fences and lists are whole', () => {
    expect(splitBlocks('one\n\ntwo')).toEqual(['one', 'two']);
    expect(splitBlocks('```js\na\n\nb\n```\n\nend')).toEqual(['```js\na\n\nb\n```', 'end']);
    expect(splitBlocks('- a\n\n- b\n\n  more\n\nend')).toEqual(['- a\n\n- b\n\n  more', 'end']);
  });
  test('an open fence keeps the rest of a text that streams', () => expect(splitBlocks('a\n\n```\nx\n\ny')).toEqual(['a', '```\nx\n\ny']));
  test('nothing is lost', () => {
    const text = '# T\n\nA\n\n1. x\n2. y\n\n~~~\n```\n\n~~~\n\nZ';
    expect(splitBlocks(text).join('\n').replace(/\s/g, '')).toBe(text.replace(/\s/g, ''));
  });
});

describe('questions', () => {
  const item = { question: 'Which?', options: [{ label: 'a' }, { label: 'b' }] };
  test('a choice is its number, several are a list, other text is itself', () => {
    expect(answerOf(item, { chosen: [1], text: '', custom: false })).toBe(1);
    expect(answerOf({ ...item, multiSelect: true }, { chosen: [1, 0], text: '', custom: false })).toEqual([0, 1]);
    expect(answerOf(item, { chosen: [], text: ' c ', custom: true })).toBe('c');
    expect(answerOf({ question: 'Name?' }, { chosen: [], text: 'x', custom: false })).toBe('x');
  });
  test('what was not answered is undefined', () => {
    expect(answerOf(item, { chosen: [], text: 'not chosen', custom: false })).toBeUndefined();
    expect(answerOf(item, { chosen: [0], text: ' ', custom: true })).toBeUndefined();
  });
});

describe('messages', () => {
  test('a text stays a text; pictures make parts; stored files are named', () => {
    expect(messageOf('hello', [], [])).toBe('hello');
    expect(messageOf('see', [], ['a b.txt'])).toBe('see\n\nAttached files: `a b.txt`');
    expect(messageOf('', ['data:image/png;base64,AA=='], [])).toEqual([{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }]);
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
    const block = (type: string, content: string, id: string | null = null) => ({ type, content, tool_call_id: id, tool_name: null, display_name: null });
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
  test('long lines are cut', () => expect(bounded('x'.repeat(6000)).length).toBeLessThan(5100));
});

describe('history', () => {
  test('each branch has a lane, and turns of sub-agents are left out', () => {
    const node = (id: string, parent: string | null, branch: string, loop = 'root') => ({ id, parent_id: parent, branch_id: branch, loop_id: loop }) as never;
    const { placed, lanes } = lay([node('1', null, 'a'), node('2', '1', 'a'), node('s', '2', 'a', 'call'), node('3', '1', 'b')]);
    expect(lanes).toBe(2);
    expect(placed.map((one) => [one.node.id, one.row, one.lane, one.parent?.row])).toEqual([['1', 0, 0, undefined], ['2', 1, 0, 0], ['3', 2, 1, 0]]);
  });
});

