import { describe, expect, test } from 'vitest';
import { wantedOptions } from '../src/rooms/chat/composer';
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
