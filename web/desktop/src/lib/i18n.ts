/**
 * Texts in the language of the reader. The English text is the key of a message, so that it is read where it is used, and
 * English needs no catalogue. `src/texts` has the other languages: `start.json` what the sign-in and the chat say,
 * `rooms.json` the rest, which is loaded with the first other room. test/texts.test.ts holds catalogues and sources together.
 */
import { createElement, Fragment, type ReactNode } from 'react';

/** languages have the name that their readers look for. */
export const languages = { en: 'English', zh: '简体中文', ru: 'Русский' } as const;

export type Language = keyof typeof languages;

/** Message is a translation; one that depends on a number has a form for each plural category of its language. */
export type Message = string | Partial<Record<Intl.LDMLPluralRule, string>>;

type Catalogue = Record<string, Message>;
type Value = string | number | null | undefined;

const name = 'everloop.language'; // in the local storage: it is needed before anyone has signed in

const start: Record<Language, (() => Promise<{ default: Catalogue }>) | undefined> = {
  en: undefined, zh: () => import('../texts/zh/start.json'), ru: () => import('../texts/ru/start.json'),
};
const rooms: typeof start = { en: undefined, zh: () => import('../texts/zh/rooms.json'), ru: () => import('../texts/ru/rooms.json') };

const isLanguage = (value: unknown): value is Language => typeof value === 'string' && Object.hasOwn(languages, value);

/** chosenLanguage is what the reader has chosen in the settings; undefined: as the browser. */
export function chosenLanguage(): Language | undefined {
  try {
    const stored = localStorage.getItem(name);
    return isLanguage(stored) ? stored : undefined;
  } catch {
    return undefined;
  }
}

/** languageOf finds the first of the browser's languages that there is; otherwise it is English. */
export function languageOf(preferred: readonly string[]): Language {
  return preferred.map((one) => one.toLowerCase().split('-')[0]).find(isLanguage) ?? 'en';
}

/** chooseLanguage keeps the choice and loads the page again in it: texts of modules are made once. */
export function chooseLanguage(next: Language | undefined): void {
  try {
    if (next) localStorage.setItem(name, next);
    else localStorage.removeItem(name);
  } catch {
    return; // without a storage the browser's language holds
  }
  location.reload();
}

const preferred = navigator.languages ?? [navigator.language];

export const language: Language = chosenLanguage() ?? languageOf(preferred);

/** locale is for Intl: the reader's own form of the language, as en-GB, where the browser names one. */
export const locale: string =
  preferred.find((one) => languageOf([one]) === language && one.toLowerCase().startsWith(language)) ??
  (language === 'zh' ? 'zh-CN' : language);

document.documentElement.lang = language === 'zh' ? 'zh-Hans' : language;

const messages = new Map<string, Message>();

function add(catalogue: Catalogue): void {
  for (const [key, message] of Object.entries(catalogue)) messages.set(key, message);
}

let rest: Promise<void> | undefined;

/** roomTexts loads what rooms other than the chat say; await it before their modules. */
export function roomTexts(): Promise<void> {
  rest ??= Promise.resolve(rooms[language]?.()).then((loaded) => { if (loaded) add(loaded.default); });
  rest.catch(() => { rest = undefined; }); // the next room tries again
  return rest;
}

const category = new Intl.PluralRules(locale);
const numbers = new Intl.NumberFormat(locale);

/** shownOf is the English text of a key: what follows a bar says where it is used, for words with several meanings. */
const shownOf = (key: string): string => key.split('|', 1)[0] ?? key;

const placeholder = /\{(\w+)\}/g;

function filled(text: string, values: Record<string, Value> | undefined): string {
  if (!values) return text;
  return text.replace(placeholder, (whole, field: string) => {
    const value = values[field];
    if (value === undefined || value === null) return Object.hasOwn(values, field) ? '' : whole;
    return typeof value === 'number' ? numbers.format(value) : value;
  });
}

/** t gives a text in the language of the reader, with values at its placeholders. Numbers are written as the language does. */
export function t(key: string, values?: Record<string, Value>): string {
  const message = messages.get(key);
  return filled(typeof message === 'string' ? message : shownOf(key), values);
}

/** plural gives the text that fits a number. `many` is the key; {count} stands for the number. */
export function plural(count: number, one: string, many: string, values?: Record<string, Value>): string {
  const message = messages.get(many);
  const form = category.select(count);
  const text =
    message === undefined ? (count === 1 ? one : many) : typeof message === 'string' ? message : (message[form] ?? message.other ?? many);
  return filled(text, { count, ...values });
}

/** rich is t with elements at the placeholders. */
export function rich(key: string, values: Record<string, ReactNode>): ReactNode {
  const parts = t(key).split(placeholder); // texts, and between them names
  return createElement(Fragment, null, ...parts.map((part, index) => (index % 2 === 0 ? part : values[part])));
}

const loaded = await start[language]?.();
if (loaded) add(loaded.default);
