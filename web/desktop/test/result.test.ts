import { describe, expect, test } from 'vitest';
import { wantedOptions } from '../src/rooms/chat/composer';
import { outcomeOf } from '../src/rooms/chat/outcome';
import { readSchema } from '../src/rooms/chat/result';
import { jsonOf } from '../src/rooms/chat/turn';

describe('a single result', () => {
  test('a schema is an object; nothing asks for a result without one', () => {
    expect(readSchema(' {"type":"object"} ')).toEqual({ schema: { type: 'object' } });
    expect(readSchema(' \n')).toEqual({});
    for (const text of ['[]', 'null', '1', '{"type"']) expect(readSchema(text), text).toBeUndefined();
  });
  test('is asked for in the fields of the message', () => {
    expect(wantedOptions(undefined)).toEqual({});
    expect(wantedOptions({})).toEqual({ headless: true });
    expect(wantedOptions({ schema: { type: 'array' } })).toEqual({ headless: true, outputSchema: { type: 'array' } });
  });
  test('an answer that is one JSON object or list is laid out, and nothing else', () => {
    expect(jsonOf(' {"n":2} ')).toBe('{\n  "n": 2\n}');
    expect(jsonOf('[1]')).toBe('[\n  1\n]');
    expect(jsonOf('{"id":12345678901234567890}')).toBe('{"id":12345678901234567890}');
    for (const text of ['text', '2', '{"n":', '[a](b)', '{"n":2} is it']) expect(jsonOf(text), text).toBeUndefined();
  });
});

describe('how the last chat ended', () => {
  const end = (part: object) => ({ chat_id: 'c', status: 'completed', finish_reason: 'completed', ...part });
  const state = (part: object) => ({ chat: undefined, status: 'completed', lastEnd: undefined, ...part }) as never;
  test('a failure has its code, and what to do', () => {
    const error = { code: 'schema_mismatch', message: 'no answer followed', retryable: false };
    expect(outcomeOf(state({ status: 'failed', lastEnd: end({ status: 'failed', finish_reason: 'schema_mismatch', error }) }))).toEqual({
      kind: 'failed', code: 'schema_mismatch', message: 'no answer followed', advice: 'Ask again, or use a simpler schema.',
    });
    const other = outcomeOf(state({ lastEnd: end({ status: 'failed', error: { ...error, code: 'new_one' } }) }));
    expect(other).toEqual({ kind: 'failed', code: 'new_one', message: 'no answer followed' });
    expect(outcomeOf(state({ lastEnd: end({ status: 'failed', finish_reason: 'max_steps' }) }))).toEqual({
      kind: 'failed', code: 'max_steps', advice: 'Send a message to continue.',
    });
  });
  test('a result, with a schema and without', () => {
    expect(outcomeOf(state({ lastEnd: end({ result: { output: 1, schema: {} } }) }))).toEqual({ kind: 'schema' });
    expect(outcomeOf(state({ lastEnd: end({ result: { output: 'x' } }) }))).toEqual({ kind: 'result' });
    expect(outcomeOf(state({ lastEnd: end({}) }))).toBeUndefined();
  });
  test('a stop, also of a chat that waited for an answer', () => {
    const stopped = { kind: 'stopped' };
    expect(outcomeOf(state({ lastEnd: end({ status: 'interrupted', finish_reason: 'interrupted' }) }))).toEqual(stopped);
    expect(outcomeOf(state({ status: 'interrupted', lastEnd: end({ finish_reason: 'awaiting_answer' }) }))).toEqual(stopped);
  });
  test('nothing after a move in the history, whatever the status is', () => {
    for (const status of ['created', 'failed', 'interrupted']) expect(outcomeOf(state({ status }))).toBeUndefined();
  });
  test('nothing is said of it while a chat runs or waits', () => {
    const failed = end({ status: 'failed' });
    for (const part of [{ status: 'running' }, { status: 'waiting_for_input' }, { chat: { chat_id: 'c' } }]) {
      expect(outcomeOf(state({ lastEnd: failed, ...part }))).toBeUndefined();
    }
  });
});
