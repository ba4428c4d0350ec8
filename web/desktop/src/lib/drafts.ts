// What was written and not sent, by where it was written: it outlives a reload of the page, and ends with the tab.
const prefix = 'everloop.draft.';

// Storage may be off or full: then a draft lasts as long as the page.
const inPage = new Map<string, string>();

function stored(act: (storage: Storage) => void): void {
  try {
    act(sessionStorage);
  } catch {
    // Only what the page holds is left.
  }
}

/** draftOf is the draft of a person at a place, or ''. */
export function draftOf(person: string, place: string): string {
  let text = inPage.get(`${person}.${place}`);
  stored((storage) => { text ??= storage.getItem(`${prefix}${person}.${place}`) ?? undefined; });
  return text ?? '';
}

/** keepDraft keeps a draft; an empty one is forgotten. */
export function keepDraft(person: string, place: string, text: string): void {
  const name = `${person}.${place}`;
  if (text) inPage.set(name, text);
  else inPage.delete(name);
  stored((storage) => (text ? storage.setItem(prefix + name, text) : storage.removeItem(prefix + name)));
}

/** forgetDrafts forgets all drafts, of all people. */
export function forgetDrafts(): void {
  inPage.clear();
  stored((storage) => {
    for (const name of Object.keys(storage).filter((one) => one.startsWith(prefix))) storage.removeItem(name);
  });
}
