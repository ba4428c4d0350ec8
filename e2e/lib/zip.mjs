// ZIP archives as the suites need them: read with nothing hidden, and written
// with every lie that an author could put into one.
import { crc32, deflateRawSync, inflateRawSync } from 'node:zlib';

// unzip gives the members of an archive, name -> {data, mode}.
export function unzip(archive) {
  const end = archive.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  const members = new Map();
  let at = archive.readUInt32LE(end + 16);
  for (let n = archive.readUInt16LE(end + 10); n > 0; n--) {
    const [method, packed] = [archive.readUInt16LE(at + 10), archive.readUInt32LE(at + 20)];
    const [nameLength, extra, comment] = [28, 30, 32].map((o) => archive.readUInt16LE(at + o));
    const mode = archive.readUInt32LE(at + 38) >>> 16;
    const local = archive.readUInt32LE(at + 42);
    const name = archive.toString('utf8', at + 46, at + 46 + nameLength);
    const start = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
    const raw = archive.subarray(start, start + packed);
    members.set(name, { data: method === 8 ? inflateRawSync(raw) : Buffer.from(raw), mode });
    at += 46 + nameLength + extra + comment;
  }
  return members;
}

// zip writes members: {name, data, mode?, store?, size?, crc?, flags?, method?}. What is
// given besides the data is written as it is, true or not.
export function zip(members) {
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const m of members) {
    const name = Buffer.from(m.name);
    const data = Buffer.from(m.data ?? '');
    const body = m.store ? data : deflateRawSync(data);
    const fields = Buffer.alloc(26);
    fields.writeUInt16LE(20, 0);
    fields.writeUInt16LE((m.flags ?? 0) | 0x800, 2); // the name is UTF-8
    fields.writeUInt16LE(m.method ?? (m.store ? 0 : 8), 4);
    fields.writeUInt32LE(m.crc ?? crc32(data), 10);
    fields.writeUInt32LE(body.length, 14);
    fields.writeUInt32LE(m.size ?? data.length, 18);
    fields.writeUInt16LE(name.length, 22);
    const head = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), fields, name]);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(((m.mode ?? 0o100644) << 16) >>> 0, 6);
    tail.writeUInt32LE(offset, 10);
    directory.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\x03', 'latin1'), fields, tail, name]));
    parts.push(head, body);
    offset += head.length + body.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 0, 'latin1');
  end.writeUInt16LE(members.length & 0xffff, 8);
  end.writeUInt16LE(members.length & 0xffff, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, central, end]);
}
