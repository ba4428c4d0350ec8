import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { Message } from '../src/lib/i18n';
import { languageOf } from '../src/lib/i18n';
import { loadedWith, readSources } from './sources';

const root = join(import.meta.dirname, '../src');
const sources = readSources(root);
// What a visitor has loaded when they see the sign-in, the chat, and what opens over any page.
const start = loadedWith(sources, ['main.tsx', 'rooms/chat/new-chat.tsx', 'rooms/chat/chat.tsx', 'shell/palette.tsx', 'shell/help.tsx']);
const parts = { start: new Set<string>(), rooms: new Set<string>() };
for (const [key, { files }] of sources.uses) parts[files.some((file) => start.has(file)) ? 'start' : 'rooms'].add(key);

const catalogue = (language: string, part: string) => JSON.parse(readFileSync(
  `${root}/texts/${language}/${part}.json`, 'utf8',
)) as Record<string, Message>;
const placeholders = (text: string) => [...new Set(text.match(/\{\w+\}/g))].sort();
const formsOf = (message: Message) => (typeof message === 'string' ? [message] : Object.values(message));

describe('sources', () => {
  test('each key is a literal', () => expect(sources.computed).toEqual([]));
  test('no text is beside the catalogues', () => expect(sources.literals).toEqual([]));
  test('the two forms of an English plural have the same placeholders, but for the number', () => {
    for (const [key, { one }] of sources.uses) {
      if (one !== undefined) expect(placeholders(`${one}{count}`), key).toEqual(placeholders(`${key}{count}`));
    }
  });
});

describe.each(['zh', 'ru'])('%s', (language) => {
  const categories = new Intl.PluralRules(language).resolvedOptions().pluralCategories;
  describe.each(['start', 'rooms'] as const)('%s.json', (part) => {
    const texts = catalogue(language, part);
    test('has every text of its part and no other', () => expect(Object.keys(texts).sort()).toEqual([...parts[part]].sort()));
    test('has no empty text, and the placeholders of the English one', () => {
      for (const [key, message] of Object.entries(texts)) {
        for (const form of formsOf(message)) {
          expect(form.trim(), key).not.toBe('');
          expect(placeholders(form), key).toEqual(placeholders(key));
        }
      }
    });
    test('has all plural forms where the text depends on a number, and one text elsewhere', () => {
      for (const [key, message] of Object.entries(texts)) {
        if (sources.uses.get(key)?.one === undefined) expect(message, key).toBeTypeOf('string');
        else expect(Object.keys(message).sort(), key).toEqual([...categories].sort());
      }
    });
  });
});

describe('languageOf', () => {
  test('is the first that there is, whatever its region', () => {
    expect(languageOf(['de-DE', 'ru-RU', 'en'])).toBe('ru');
    expect(languageOf(['zh-Hans-CN'])).toBe('zh');
    expect(languageOf(['de', 'fr'])).toBe('en');
    expect(languageOf([])).toBe('en');
  });
});

describe('t, plural and rich', () => {
  afterEach(() => localStorage.clear());

  // in gives the module as a page in a language has it.
  const as = async (language: string) => {
    localStorage.setItem('everloop.language', language);
    vi.resetModules();
    const module = await import('../src/lib/i18n');
    await module.roomTexts();
    return module;
  };

  test('Russian has its plurals, and marks the page', async () => {
    const { plural, t } = await as('ru');
    const files = (count: number) => plural(count, '{count} file was stored.', '{count} files were stored.');
    expect([1, 2, 5, 11, 21, 22, 112].map(files)).toEqual([
      'Сохранён 1 файл.', 'Сохранено 2 файла.', 'Сохранено 5 файлов.', 'Сохранено 11 файлов.', 'Сохранён 21 файл.', 'Сохранено 22 файла.',
      'Сохранено 112 файлов.',
    ]);
    expect(t('Delete {name}?', { name: 'a.txt' })).toBe('Удалить a.txt?');
    expect(document.documentElement.lang).toBe('ru');
  });
  test('numbers, dates and sizes are written as the language does', async () => {
    await as('ru');
    const format = await import('../src/lib/format');
    expect([format.bytes(1500), format.cost(1234.5), format.duration(1500)]).toEqual(['1,5 кБ', '1\u00a0234,50\u00a0$', '1,5 с']);
    expect(format.dateTime('2026-03-01T12:00:00Z')).toMatch(/мар/);
  });
  test('Chinese has one form', async () => {
    const { plural } = await as('zh');
    expect([1, 3].map((count) => plural(count, '{count} turn', '{count} turns'))).toEqual(['1 轮', '3 轮']);
    expect(document.documentElement.lang).toBe('zh-Hans');
  });
  test('English is the key without what distinguishes words', async () => {
    const { plural, rich, t } = await as('en');
    expect(t('Answer|verb')).toBe('Answer');
    expect(plural(1200, '{count} file', '{count} files')).toBe('1,200 files');
    expect(t('a {b} {c}', { b: '{c}', c: 'x' })).toBe('a {c} x');
    expect(rich('See {link}.', { link: 'there' })).toMatchObject({ props: { children: ['See ', 'there', '.'] } });
  });
});
