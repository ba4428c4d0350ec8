import { afterEach, describe, expect, test, vi } from 'vitest';

// page gives the module as a page that was just loaded has it.
const page = async () => {
  vi.resetModules();
  return import('../src/lib/drafts');
};

describe('drafts', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    sessionStorage.clear();
  });

  test('outlive a reload, for the person who wrote them', async () => {
    (await page()).keepDraft('ann', 's1', 'half a sentence');
    const { draftOf } = await page();
    expect([draftOf('ann', 's1'), draftOf('bob', 's1'), draftOf('ann', 's2')]).toEqual(['half a sentence', '', '']);
  });
  test('what was sent is forgotten', async () => {
    const { keepDraft } = await page();
    keepDraft('ann', 's1', 'text');
    keepDraft('ann', 's1', '');
    expect((await page()).draftOf('ann', 's1')).toBe('');
    expect(sessionStorage.length).toBe(0);
  });
  test('a sign-out forgets all, and nothing else', async () => {
    sessionStorage.setItem('other', 'stays');
    const { draftOf, forgetDrafts, keepDraft } = await page();
    keepDraft('ann', 's1', 'one');
    keepDraft('bob', 'new', 'two');
    forgetDrafts();
    expect([draftOf('ann', 's1'), draftOf('bob', 'new')]).toEqual(['', '']);
    expect(Object.keys(sessionStorage)).toEqual(['other']);
  });
  test('without a storage they last as long as the page', async () => {
    const off = () => { throw new DOMException('off', 'SecurityError'); };
    vi.stubGlobal('sessionStorage', { getItem: off, setItem: off, removeItem: off });
    const { draftOf, keepDraft } = await page();
    keepDraft('ann', 's1', 'text');
    expect(draftOf('ann', 's1')).toBe('text');
  });
});
