const fs = require('fs');
const listing = (path) => { try { return fs.readdirSync(path).sort(); } catch (e) { return [String(e)]; } };
try { require('leftpad'); } catch { /* as a server looks for an optional package */ }

const answers = {
  initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'report', version: '1' } }),
  'tools/list': () => ({ tools: [{ name: 'report', inputSchema: { type: 'object' } }] }),
  'tools/call': () => ({ content: [{ type: 'text', text: JSON.stringify({
    env: process.env, cwd: listing('.'), home: listing(require('os').homedir()), place: process.cwd(),
    workspace: fs.existsSync('/workspace'),
  }) }] }),
};

require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result: (answers[method] ?? (() => ({})))() }));
});
