// A skill registry of a test's own, with the endpoints that the agent reads.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { crc32 } from 'node:zlib';

// zip packs files without compression.
function zip(files) {
  const parts = [];
  const directory = [];
  let at = 0;
  for (const [name, content] of Object.entries(files)) {
    const path = Buffer.from(name);
    const data = Buffer.from(content);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0); // version needed
    common.writeUInt16LE(0x0800, 2); // UTF-8 names
    common.writeUInt32LE(crc32(data), 10);
    common.writeUInt32LE(data.length, 14);
    common.writeUInt32LE(data.length, 18);
    common.writeUInt16LE(path.length, 22);
    parts.push(Buffer.from('PK\x03\x04'), common, path, data);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(at, 10);
    directory.push(Buffer.from('PK\x01\x02\x14\x00'), common, tail, path);
    at += 30 + path.length + data.length;
  }
  const list = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(Object.keys(files).length, 4);
  end.writeUInt16LE(Object.keys(files).length, 6);
  end.writeUInt32LE(list.length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...parts, list, Buffer.from('PK\x05\x06'), end]);
}

// Registry answers as the skill registry does.
export class Registry {
  skills = new Map(); // org/name -> [{version, released, archive}]

  static async start() {
    const registry = new Registry();
    registry.server = createServer((request, response) => registry.answer(request, response));
    await new Promise((resolve) => registry.server.listen(0, '127.0.0.1', resolve));
    registry.url = `http://127.0.0.1:${registry.server.address().port}`;
    return registry;
  }

  publish(skill, version, files) {
    const versions = this.skills.get(skill) ?? [];
    for (const v of versions) v.released = false;
    const archive = zip(files);
    const digest = `sha256:${createHash('sha256').update(archive).digest('hex')}`;
    this.skills.set(skill, [...versions, { version, released: true, yanked: false, archive, digest }]);
    return digest;
  }

  answer(request, response) {
    const url = new URL(request.url, this.url);
    const [, , org, name, rest] = url.pathname.split('/');
    const versions = this.skills.get(`${org}/${name}`);
    if (versions && rest === 'versions') {
      const items = versions.map(({ archive, ...v }) => v);
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ items }));
      return;
    }
    const found = rest === 'download' && versions?.find((v) => v.version === url.searchParams.get('version'));
    if (found) {
      response.end(found.archive);
      return;
    }
    response.statusCode = 404;
    response.end();
  }

  close() {
    this.server.close();
    this.server.closeAllConnections();
  }
}
