import type { TurnView } from '@everloop/sdk';
import { describe, expect, test } from 'vitest';
import type { Followed } from '../src/lib/session';
import { laterTexts } from '../src/rooms/history/history';

// followed is a session whose turns say these texts.
const followed = (...texts: string[]): Followed => {
  const turns = texts.map((content, index) => ({ turn_id: `t${index}`, blocks: [{ type: 'text', content }] }) as unknown as TurnView);
  const text = (turn: TurnView) => turn.blocks.map((block) => block.content).join('');
  return { session: { view: { text } }, state: { turns } } as unknown as Followed;
};

describe('what another way can quote', () => {
  test('is what was said behind the turn where it begins, without turns that say nothing', () => {
    expect(laterTexts(followed('before', 'here', ' a result ', '\n', 'thanks'), 't1')).toEqual([
      { entry_id: 't2', text: 'a result' }, { entry_id: 't4', text: 'thanks' },
    ]);
  });
  test('is nothing behind the last turn, and on another branch', () => {
    expect(laterTexts(followed('only'), 't0')).toEqual([]);
    expect(laterTexts(followed('one', 'two'), 'elsewhere')).toEqual([]);
  });
  test('is bounded', () => expect(laterTexts(followed(...Array.from({ length: 200 }, () => 'text')), 't0')).toHaveLength(50));
});
