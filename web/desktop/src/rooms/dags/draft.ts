import { useEffect, useState } from 'react';

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
  saved: (version: number) => void;
}

// What is edited and not saved; it stays while other parts of the page are looked at.
const drafts = new Map<string, Kept<unknown>>();

/** useDraft keeps what is edited of a document, by its key. Without changes of one's own it follows the newest version. */
export function useDraft<Content>(key: string, version: number, content: Content): Draft<Content> {
  const [kept, setKept] = useState(() => (drafts.get(key) as Kept<Content> | undefined) ?? { base: version, content });
  const dirty = drafts.has(key);
  const stale = version > kept.base;
  const put = (next: Kept<Content>, changed: boolean) => {
    if (changed) drafts.set(key, next);
    else drafts.delete(key);
    setKept(next);
  };

  useEffect(() => {
    if (stale && !drafts.has(key)) setKept({ base: version, content });
  }, [stale, key, version, content]);
  useEffect(() => {
    if (!dirty) return undefined;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, [dirty]);

  return {
    ...kept,
    dirty,
    stale,
    change: (next) => put({ base: kept.base, content: next }, true),
    discard: () => put({ base: version, content }, false),
    saved: (made) => put({ base: made, content: kept.content }, false),
  };
}
