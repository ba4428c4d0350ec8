import { type EverloopError, type EventMap, type Session, type Snapshot } from '@everloop/sdk';
import { useQuery, useQueryClient, type QueryClient } from '@tanstack/react-query';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { account } from './auth';
import { api, invalidate } from './query';

interface Open {
  session: Promise<Session>;
  users: number;
  timer?: ReturnType<typeof setTimeout>;
}

// Rooms of one session share its stream; it stays open for a moment when a room is left, so that the next one has it at once.
const open = new Map<string, Open>();
const lingerMs = 30_000;

function acquire(id: string, client: QueryClient): Open {
  const entry = open.get(id) ?? start(id, client);
  entry.users++;
  clearTimeout(entry.timer);
  return entry;
}

function start(id: string, client: QueryClient): Open {
  const session = account().client.session(id, { schedule: (flush) => requestAnimationFrame(flush), onJoined: refresher(client) });
  const entry: Open = { session, users: 0 };
  open.set(id, entry);
  session.then((ready) => void ready.onClose(() => forget(id, entry)), () => forget(id, entry));
  return entry;
}

// forget has the next room open the session again, unless that was done already.
function forget(id: string, entry: Open): void {
  if (open.get(id) === entry) open.delete(id);
}

function release(id: string, entry: Open): void {
  if (--entry.users > 0) return;
  entry.timer = setTimeout(() => {
    forget(id, entry);
    void entry.session.then((session) => session.close(), () => {});
  }, lingerMs);
}

const ofSession = ['session', 'history', 'files', 'context', 'usage', 'tasks']; // keys of what is read of a session

// refresher is called when a stream is joined. What was read before, or is being read, may lack events before the position
// where the stream begins; from there on events say what is outdated.
function refresher(client: QueryClient): (session: Session) => void {
  let off = () => {};
  return (session) => {
    off();
    off = refreshOnEvents(session, client);
    for (const name of ofSession) void invalidate(client, [name, session.id]);
  };
}

// What events say to be outdated is read again.
function refreshOnEvents(session: Session, client: QueryClient): () => void {
  const stale = (...queryKey: unknown[]) => void invalidate(client, queryKey);
  return session.on((event) => {
    switch (event.name) {
      case 'session:updated':
        stale('sessions');
        stale('session', session.id);
        if ((event.data as EventMap['session:updated']).history) {
          stale('history', session.id);
          stale('files', session.id);
        }
        return;
      case 'checkpoint:created': return stale('history', session.id);
      case 'session:compacted': return stale('history', session.id);
      case 'file:changed': return stale('files', session.id);
      case 'chat:end':
        stale('context', session.id);
        stale('usage', session.id);
        return stale('tasks', session.id);
      default:
    }
  });
}

export interface Followed {
  session: Session;
  state: Snapshot;
}

const nothing = () => () => {};

/** useSession follows a session. The state changes at most once a frame, and parts that did not change stay the same objects. */
export function useSession(id: string): { followed: Followed | undefined; error: EverloopError | undefined } {
  const client = useQueryClient();
  const [session, setSession] = useState<Session>();
  const [error, setError] = useState<EverloopError>();
  useEffect(() => {
    let left = false;
    let off = () => {};
    setSession(undefined);
    setError(undefined);
    const entry = acquire(id, client);
    entry.session.then((ready) => {
      if (left) return;
      setSession(ready);
      off = ready.onClose((why) => { if (why.code !== 'closed') setError(why); });
    }, (why: EverloopError) => { if (!left) setError(why); });
    return () => {
      left = true;
      off();
      release(id, entry);
    };
  }, [id, client]);
  const current = session?.id === id ? session : undefined;
  const state = useSyncExternalStore(current?.view.subscribe ?? nothing, () => current?.view.snapshot());
  return { followed: current && state ? { session: current, state } : undefined, error };
}

/** useDetail reads the session's settings; it is read again when events say that they changed. */
export const useDetail = (id: string) => useQuery({ queryKey: ['session', id], queryFn: ({ signal }) => api().getSession(id, { signal }) });
