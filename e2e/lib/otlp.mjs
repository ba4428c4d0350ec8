// A collector of OpenTelemetry traces over HTTP, which reads of each span what the suites look at.
import { createServer } from 'node:http';

// fields gives the fields of a protobuf message, each with its number: numbers, or bytes.
function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const [number, kind] = [key >> 3, key & 7];
    if (kind === 0) yield [number, varint()];
    else {
      const length = kind === 1 ? 8 : kind === 5 ? 4 : Number(varint());
      yield [number, bytes.subarray(at, at + length)];
      at += length;
    }
  }
}

const all = (bytes, number) => [...fields(bytes)].filter(([n]) => n === number).map(([, value]) => value);
const one = (bytes, number) => all(bytes, number)[0] ?? Buffer.alloc(0);

// valueOf reads an AnyValue: its text or whole number.
function valueOf(bytes) {
  for (const [number, value] of fields(bytes)) return number === 1 ? String(value) : number === 3 ? Number(value) : undefined;
  return undefined;
}

// spansOf reads an ExportTraceServiceRequest.
export const spansOf = (bytes) => all(bytes, 1).flatMap((resource) => all(resource, 2)).flatMap((scope) => all(scope, 2)).map((span) => ({
  trace: one(span, 1).toString('hex'),
  id: one(span, 2).toString('hex'),
  parent: one(span, 4).toString('hex'),
  name: String(one(span, 5)),
  attributes: Object.fromEntries(all(span, 9).map((pair) => [String(one(pair, 1)), valueOf(one(pair, 2))])),
}));

export class Collector {
  spans = [];
  bodies = []; // as they came

  static async start() {
    const collector = new Collector();
    collector.server = createServer(async (request, response) => {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      const body = Buffer.concat(chunks);
      collector.bodies.push(body);
      if (request.url === '/v1/traces') collector.spans.push(...spansOf(body));
      response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
    });
    await new Promise((resolve) => collector.server.listen(0, '127.0.0.1', resolve));
    collector.url = `http://127.0.0.1:${collector.server.address().port}`;
    return collector;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}
