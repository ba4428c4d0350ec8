import type { EventMap, components } from './generated/events.js';

export type { EventMap } from './generated/events.js';

/** EventSchemas are the types of docs/events.json by their names, with _ for the colon. */
export type EventSchemas = components['schemas'];

/** EventName is the name of an event that belongs to a session's order. */
export type EventName = Exclude<keyof EventMap, 'session:resync' | 'session:error'>;

/** SessionEvent is one event of a session: its name, and its data of that name's type. */
export type SessionEvent = { [Name in EventName]: { name: Name; data: EventMap[Name] } }[EventName];

/** Question is an open question of the agent. */
export interface Question {
  question_id: string;
  tool_call_id: string;
  turn_id: string;
  chat_id: string;
  loop_id: string;
  questions: QuestionItem[];
  asked_at: string;
  expires_at?: string | undefined;
  default_policy?: string | undefined;
  source_loop?: EventSchemas['SourceLoop'] | undefined;
  permission_for?: unknown;
}

/** QuestionItem is one of the questions that are asked together. */
export interface QuestionItem {
  question: string;
  header?: string;
  options?: { label: string; description?: string }[];
  multiSelect?: boolean;
}

/** QueuedMessage waits for its chat. */
export interface QueuedMessage {
  chat_id: string;
  turn_id: string;
  position: number;
  preview: string;
}

/** LastEnd is the last chat:end of a session without its place in the stream. */
export type LastEnd = Omit<EventMap['chat:end'], 'session_id' | 'seq' | 'prev_seq' | 'ts'>;

/** Subscribed is the acknowledgement of session:subscribe. */
export interface Subscribed {
  session_id: string;
  status: string;
  waiting_reason: string;
  seq: number;
  chat_id?: string;
  replayed: number;
  truncated: boolean;
  open_turns: EventSchemas['Turn'][];
  pending_questions: (Omit<Question, 'questions'> & { questions: unknown })[];
  queue: QueuedMessage[];
  last_end: LastEnd | null;
}
