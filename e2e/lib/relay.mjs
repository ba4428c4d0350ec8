// Leads a port of the loopback to a socket in the file system, until its standard input
// ends: outside.mjs starts it in the network of a container.
import { connect, createServer } from 'node:net';
import { pipeline } from 'node:stream';

const [port, path] = process.argv.slice(2);
createServer((from) => {
  const to = connect(path);
  pipeline(from, to, () => {});
  pipeline(to, from, () => {});
}).listen(Number(port), '127.0.0.1', () => process.stdout.write('ready\n'));
process.stdin.resume().on('end', () => process.exit());
