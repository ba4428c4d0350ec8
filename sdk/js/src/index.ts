export { type Body, type CallOptions, type Query, type Reply, type Schemas } from './calls.js';
export { type ClientOptions, Everloop, type ServiceVersion } from './client.js';
export { type Credential, type TokenProvider } from './credentials.js';
export { EverloopError, type ErrorDetails, type FieldError } from './errors.js';
export {
  type EventMap,
  type EventName,
  type EventSchemas,
  type LastEnd,
  type Question,
  type QuestionItem,
  type QueuedMessage,
  type SessionEvent,
  type Subscribed,
} from './events.js';
export { Api } from './generated/operations.js';
export { version } from './generated/version.js';
export {
  type Answer,
  answerFields,
  type Message,
  type Ran,
  type RunOptions,
  type SendOptions,
  type Sent,
  Session,
  type SessionOptions,
} from './session.js';
export { type ServerSentEvent } from './sse.js';
export { type CallView, type ChatState, ChatView, type Retry, type Snapshot, type TurnView } from './view.js';
