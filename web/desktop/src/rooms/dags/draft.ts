import { useEffect, useSyncExternalStore } from 'react';

interface Kept<Content> {
  base: number; // the version that it was made from
  content: Content;
}

/** Draft is a document while it is edited. */
export interface Draft<Content> extends Kept<Content> {
  dirty: boolean;
  stale: boolean; // a version was saved since
  change: (content: Content) => void;
  discard: () => void; // shows what the service has
  saved: (version: number, sent: Content) => void; // keeps what was changed since `sent`
}

// What is edited; it stays while other parts of the page are looked at. What was saved stays until the document is read again.
const drafts = new Map<string, Kept<unknown> & { dirty: boolean }>();
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** useDraft keeps what is edited of a document, by its key. Without changes of one's own it follows the newest version. */
export function useDraft<Content>(key: string, version: number, content: Content): Draft<Content> {
  const newest = () => drafts.get(key) as (Kept<Content> & { dirty: boolean }) | undefined;
  const kept = useSyncExternalStore(subscribe, newest);
  const put = (next: Kept<Content>, dirty: boolean) => {
    drafts.set(key, { ...next, dirty });
    for (const listener of listeners) listener();
  };
  const dirty = kept?.dirty ?? false;
  const shown = kept && (dirty || kept.base > version) ? kept : { base: version, content };

  useEffect(() => {
    if (!dirty) return undefined;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, [dirty]);

  return {
    base: shown.base,
    content: shown.content,
    dirty,
    stale: version > shown.base,
    // A change of a view from before a save is made from the version that was saved.
    change: (next) => put({ base: Math.max(shown.base, newest()?.base ?? 0), content: next }, true),
    discard: () => put({ base: version, content }, false),
    saved: (made, sent) => {
      const edited = newest();
      if (edited?.dirty) put({ base: made, content: edited.content }, edited.content !== sent);
    },
  };
}
