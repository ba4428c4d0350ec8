// Uploads files into a session's workspace, changes one, exports the session and imports it again.
import { connect } from './connect.mjs';

const client = connect();
const session = await client.createSession({ intent: 'files' });
console.log((await session.upload('', { 'notes/today.md': '# Today\n', 'data.csv': 'a,b\n1,2\n' })).uploaded.join(' '));

const read = await client.api.readFile(session.id, 'notes/today.md');
await session.writeFile('notes/today.md', `${await read.text()}done\n`, { etag: read.headers.get('etag') });
await session.writeFile('notes/today.md', 'lost', { etag: read.headers.get('etag') }).catch((error) => console.log(error.code));
console.log(await session.readFile('notes/today.md'));

const archive = await (await client.api.exportSession(session.id)).blob();
const form = new FormData();
form.append('file', archive, 'session.zip');
const imported = await client.api.importSession(form);
console.log(await (await client.api.readFile(imported.id, 'data.csv')).text());
client.close();
