import type { components, operations } from './generated/api.js';

/** Schemas are the types of the OpenAPI document by their names. */
export type Schemas = components['schemas'];

/** CallOptions are options of every REST call. */
export interface CallOptions {
  signal?: AbortSignal;
  /** Milliseconds until the call fails with `timeout`; the client's default when absent. */
  timeoutMs?: number;
  headers?: Record<string, string>;
  /** Makes a POST repeatable: the same key and body give the first answer again. */
  idempotencyKey?: string;
}

type Content<T> = T extends { content: { 'application/json': infer B } } ? B : never;

/** Body is the JSON body of an operation. */
export type Body<Id extends keyof operations> = operations[Id] extends { requestBody?: infer B } ? Content<NonNullable<B>> : never;

/** Query are the query parameters of an operation. */
export type Query<Id extends keyof operations> = operations[Id] extends { parameters: { query?: infer Q } } ? NonNullable<Q> : never;

/** Reply is the JSON answer of an operation with a status. */
export type Reply<Id extends keyof operations, Status extends number> = operations[Id] extends { responses: infer R }
  ? Status extends keyof R ? Content<R[Status]> : never : never;
