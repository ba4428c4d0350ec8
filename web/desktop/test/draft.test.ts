import { act, cleanup, renderHook } from '@testing-library/react';
import { afterEach, describe, expect, test } from 'vitest';
import { useDraft } from '../src/rooms/dags/draft';

let keys = 0;
const open = (key = `dag ${keys++}`) => {
  const hook = renderHook(({ version, content }) => useDraft(key, version, content), { initialProps: { version: 1, content: 'one' } });
  const state = () => {
    const { base, content, dirty, stale } = hook.result.current;
    return { base, content, dirty, stale };
  };
  return { ...hook, key, state, draft: () => hook.result.current };
};
afterEach(cleanup);

describe('useDraft', () => {
  test('what was saved is shown until the document has been read again', () => {
    const { draft, state, rerender } = open();
    act(() => draft().change('two'));
    expect(state()).toEqual({ base: 1, content: 'two', dirty: true, stale: false });
    act(() => draft().saved(2, 'two'));
    expect(state()).toEqual({ base: 2, content: 'two', dirty: false, stale: false });
    rerender({ version: 2, content: 'two of the service' });
    expect(state()).toEqual({ base: 2, content: 'two of the service', dirty: false, stale: false });
  });
  test('changes during a save stay, from the version that was saved', () => {
    const { draft, state, rerender } = open();
    act(() => draft().change('two'));
    const sent = draft(); // as the save has it
    act(() => draft().change('three'));
    act(() => sent.saved(2, sent.content));
    expect(state()).toEqual({ base: 2, content: 'three', dirty: true, stale: false });
    rerender({ version: 2, content: 'two' });
    expect(state()).toEqual({ base: 2, content: 'three', dirty: true, stale: false });
  });
  test('a save that ends after the view was left and opened again keeps the changes of the new view', () => {
    const first = open();
    act(() => first.draft().change('two'));
    const sent = first.draft();
    first.unmount();
    const { draft, state } = open(first.key);
    act(() => draft().change('three'));
    act(() => sent.saved(2, sent.content));
    expect(state()).toEqual({ base: 2, content: 'three', dirty: true, stale: false });
  });
  test('a draft that is discarded during a save stays discarded', () => {
    const { draft, state } = open();
    act(() => draft().change('two'));
    const sent = draft();
    act(() => draft().discard());
    act(() => sent.saved(2, sent.content));
    expect(state()).toEqual({ base: 1, content: 'one', dirty: false, stale: false });
  });
  test('a version of another user makes a draft stale, and is shown without one', () => {
    const { draft, state, rerender } = open();
    act(() => draft().change('two'));
    rerender({ version: 2, content: 'theirs' });
    expect(state()).toEqual({ base: 1, content: 'two', dirty: true, stale: true });
    act(() => draft().discard());
    expect(state()).toEqual({ base: 2, content: 'theirs', dirty: false, stale: false });
    rerender({ version: 3, content: 'newer' });
    expect(state()).toEqual({ base: 3, content: 'newer', dirty: false, stale: false });
  });
});
