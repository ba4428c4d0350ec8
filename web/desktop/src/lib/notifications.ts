import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useSyncExternalStore } from 'react';
import { t } from './i18n';
import { api } from './query';

const name = 'everloop.notifications'; // in the local storage: a browser decides for itself
const listeners = new Set<() => void>();

function stored(): boolean {
  try {
    return localStorage.getItem(name) === 'on';
  } catch {
    return false;
  }
}

let wanted = stored();

function set(on: boolean): void {
  wanted = on;
  try {
    if (on) localStorage.setItem(name, 'on');
    else localStorage.removeItem(name);
  } catch {
    // Storage is off: it holds for this page.
  }
  for (const listener of listeners) listener();
}

export type Notifications = 'unsupported' | 'blocked' | 'on' | 'off';

function current(): Notifications {
  if (!('Notification' in globalThis)) return 'unsupported';
  if (Notification.permission === 'denied') return 'blocked';
  return wanted && Notification.permission === 'granted' ? 'on' : 'off';
}

/** turnOn asks the browser for the right to show notifications; call it on a click alone. */
export async function turnOn(): Promise<void> {
  set(await Notification.requestPermission() === 'granted');
}

export const turnOff = (): void => set(false);

export function useNotifications(): Notifications {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, current);
}

interface Asked {
  question_id: string;
}

/** newQuestions are those that were not there before; of the first answer none is new. */
export function newQuestions<Item extends Asked>(seen: ReadonlySet<string> | undefined, items: readonly Item[]): Item[] {
  return seen ? items.filter((item) => !seen.has(item.question_id)) : [];
}

/** useQuestionNotifications shows a notification for each new question while the page is not looked at. */
export function useQuestionNotifications(open: (sessionId: string) => void): void {
  const on = useNotifications() === 'on';
  const inbox = useQuery({
    queryKey: ['inbox', 'notifications'], enabled: on, refetchInterval: 15_000, refetchIntervalInBackground: true,
    queryFn: ({ signal }) => api().listInbox({ query: { limit: 50 }, signal }),
  });
  const seen = useRef<Set<string>>(undefined);
  const items = inbox.data?.items;
  useEffect(() => {
    if (!on) seen.current = undefined;
    if (!on || !items) return;
    const fresh = newQuestions(seen.current, items);
    seen.current = new Set(items.map((item) => item.question_id));
    if (document.visibilityState === 'visible' && document.hasFocus()) return;
    for (const item of fresh.slice(0, 3)) {
      const shown = new Notification(item.kind === 'permission' ? t('A tool needs your permission') : t('A question for you'), {
        body: item.intent || t('In a session'), tag: item.question_id, icon: '/favicon.svg',
      });
      shown.onclick = () => {
        window.focus();
        shown.close();
        open(item.session_id);
      };
    }
  }, [on, items, open]);
}
