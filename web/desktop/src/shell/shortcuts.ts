import { t } from '../lib/i18n';

/** Shortcut is a key that works everywhere, or where its text says. */
export interface Shortcut {
  keys: readonly string[];
  text: string;
}

export const shortcuts: readonly { group: string; items: readonly Shortcut[] }[] = [
  {
    group: t('Everywhere'),
    items: [
      { keys: ['Ctrl+K'], text: t('Open the command palette: sessions, rooms and actions') },
      { keys: ['Ctrl+B'], text: t('Show or hide the sidebar') },
      { keys: ['Alt+N'], text: t('New session') },
      { keys: ['?'], text: t('Show this list') },
      { keys: ['Escape'], text: t('Close dialogs and menus') },
    ],
  },
  {
    group: t('Messages'),
    items: [
      { keys: ['Enter', 'Ctrl+Enter'], text: t('Send (according to your preference)') },
      { keys: ['Shift+Enter'], text: t('New line') },
    ],
  },
  {
    group: t('Files'),
    items: [
      { keys: ['Ctrl+S'], text: t('Save the file') },
      { keys: ['Ctrl+F'], text: t('Find in the file') },
    ],
  },
  {
    group: t('Lists and tabs'),
    items: [
      { keys: ['↑', '↓'], text: t('Move in menus and in the palette') },
      { keys: ['←', '→'], text: t('Move between tabs') },
    ],
  },
];

type Pressed = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey' | 'code'>;

/** actionOf says which action a key stands for; `typing` is whether it is pressed in a field for text. */
export function actionOf(event: Pressed, typing: boolean): 'palette' | 'help' | 'new' | undefined {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === 'k') return 'palette';
  if (event.altKey && !event.ctrlKey && !event.metaKey && event.code === 'KeyN') return 'new';
  if (event.key === '?' && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) return 'help';
  return undefined;
}

/** typesText says whether keys in an element make text. */
export function typesText(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName)
    || (target instanceof HTMLInputElement && !['checkbox', 'radio', 'button', 'submit', 'file'].includes(target.type)));
}

/** matches says whether all words of a search are in a text. */
export function matches(text: string, search: string): boolean {
  const lower = text.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}
