import { EverloopError } from './errors.js';

/** ServerSentEvent is one event of a stream over HTTP; `data` is parsed JSON. */
export interface ServerSentEvent {
  id: string | undefined;
  event: string;
  data: unknown;
}

/** maxEvent bounds one event; the service sends at most 16 MB. */
const maxEvent = 32 << 20;

/** parseEvents reads server-sent events from a body until it ends. */
export async function* parseEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let lines: string[] = [];
  let rest = '';
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const parts = rest.split(/\r\n|\n|\r(?!$)/);
      rest = parts.pop() ?? '';
      for (const line of parts) {
        if (line !== '') {
          lines.push(line);
          size += line.length;
          continue;
        }
        const event = parse(lines);
        lines = [];
        size = 0;
        if (event) yield event;
      }
      if (size + rest.length > maxEvent) throw new EverloopError('invalid_response', 'an event of the stream is too large');
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function parse(lines: string[]): ServerSentEvent | undefined {
  let id: string | undefined;
  let event = 'message';
  const data: string[] = [];
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon === 0) continue; // a comment
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'id') id = value;
    if (field === 'event') event = value;
    if (field === 'data') data.push(value);
  }
  if (data.length === 0) return undefined;
  try {
    return { id, event, data: JSON.parse(data.join('\n')) };
  } catch (cause) {
    throw new EverloopError('invalid_response', 'an event of the stream is no JSON', { cause });
  }
}
