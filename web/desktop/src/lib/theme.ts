import { useSyncExternalStore } from 'react';

export type Theme = 'system' | 'light' | 'dark';

const key = 'everloop.theme'; // public/theme.js reads it before the page is drawn
const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

function stored(): Theme {
  try {
    const value = localStorage.getItem(key);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system';
  }
}

let current = stored();

function apply(): void {
  document.documentElement.classList.toggle('dark', current === 'dark' || (current === 'system' && system.matches));
}

system.addEventListener('change', apply);

/** setTheme keeps the theme in this browser. */
export function setTheme(theme: Theme): void {
  current = theme;
  try {
    localStorage.setItem(key, theme);
  } catch {
    // Storage is off: the theme holds for this page.
  }
  apply();
  for (const listener of listeners) listener();
}

export function useTheme(): Theme {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, () => current);
}
