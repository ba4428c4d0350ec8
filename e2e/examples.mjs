// Makes api/examples.json, the examples of the OpenAPI document, from the answers
// of a running service: node examples.mjs > ../api/examples.json
// It is no test; those of package api hold each example to its schema.
import { writeSync } from 'node:fs';
import { Registry } from './lib/registry.mjs';
import { Rest } from './lib/rest.mjs';
import { World, bash, call, eventually, order } from './lib/world.mjs';

const registry = await Registry.start();
const world = await World.start({ REGISTRY_URL: registry.url });
const examples = {};

// shown makes a value short and free of what is this run's only.
function shown(value) {
  if (Array.isArray(value)) return value.slice(0, typeof value[0] === 'object' ? 2 : 4).map(shown);
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, shown(v)]));
  if (typeof value !== 'string') return value;
  const text = value.replace(/\[\[script\]\].*?\[\[\/script\]\]/gs, '')
    .replaceAll(registry.url, 'http://127.0.0.1:8060').replaceAll(world.server.url.slice(7), '127.0.0.1:8020').replaceAll(world.server.dir, '.');
  if (/^el_\w+$/.test(text)) return 'el_0000000000000000000000000000';
  return text.length > 240 ? `${text.slice(0, 200)}…` : text;
}

function keep(id, status, request, answer) {
  examples[id] = { ...examples[id], ...(request === undefined ? {} : { request: shown(request) }), answers: { ...examples[id]?.answers, [status]: answer } };
}

// take makes a request and keeps it with its answer, and gives the answer.
async function take(id, method, path, body, rest = world.rest) {
  const answer = await rest.call(method, path, body);
  if (answer.status >= 300) throw new Error(`${id}: ${answer.status} ${JSON.stringify(answer.body)}`);
  if (answer.status === 204) return undefined;
  keep(id, answer.status, body, shown(answer.body));
  return answer.body;
}

// stream keeps the events of an answer as they come over the line.
async function stream(id, method, path, body, stop) {
  const answer = await fetch(world.server.url + path, {
    method, body: body && JSON.stringify(body),
    headers: { accept: 'text/event-stream', authorization: `Bearer ${world.rest.key}`, ...(body && { 'content-type': 'application/json' }) },
  });
  let text = '';
  for await (const chunk of answer.body) {
    text += new TextDecoder().decode(chunk);
    if (stop.test(text)) break;
  }
  const events = text.split('\n\n').filter((e) => e.includes('data: '));
  const short = events.length > 3 ? [...events.slice(0, 2), events.at(-1)] : events;
  const clean = short.map((e) => e.replace(/data: (.*)/, (_, data) => `data: ${JSON.stringify(shown(JSON.parse(data)))}`));
  keep(id, `${answer.status} text/event-stream`, undefined, `${clean.join('\n\n')}\n\n`);
}

async function form(id, path, parts) {
  const body = new FormData();
  for (const [name, value, file] of parts) body.append(name, ...(file ? [value, file] : [value]));
  const answer = await fetch(world.server.url + path, { method: 'POST', headers: { authorization: `Bearer ${world.rest.key}` }, body });
  const json = await answer.json();
  if (answer.status >= 300) throw new Error(`${id}: ${JSON.stringify(json)}`);
  keep(id, answer.status, Object.fromEntries(parts.map(([name, value, file]) => [name, file ?? value])), shown(json));
  return json;
}

const question = { question: 'Which format?', header: 'Format', options: [{ label: 'Markdown', description: 'Easy to read' }, { label: 'HTML', description: 'Ready to publish' }], multiSelect: false };
const skill = '---\nname: release-notes\ndescription: Writes release notes from the history of a repository.\nversion: 1.0.0\n---\n# Release notes\n\nRead the log first.\n';

async function sessions() {
  const { session_id: id } = await take('create-session', 'POST', '/api/sessions', {
    intent: 'Write the release notes', env: { GREETING: 'hello' }, session_setup: { max_steps: 50 } });
  const s = `/api/sessions/${id}`;
  await take('update-session', 'PATCH', s, { intent: 'Write the release notes of June', session_setup: { budget: { max_tokens: 200000 } } });
  await take('set-session-env', 'PUT', `${s}/env`, { env: { GREETING: 'hi' } });
  await take('pin-session', 'PATCH', `${s}/pin`, { pinned: true });
  await take('share-session', 'PATCH', `${s}/sharing`, { shared: true });
  await take('set-session-memory', 'PATCH', `${s}/memory`, { memory_enabled: true });
  await take('set-session-budget', 'PATCH', `${s}/budget`, { max_tokens: 500000, max_cost: null });
  const view = await world.follow(id, 0);
  const first = await view.run(order({ said: 'What is in the repository?', steps: [
    { text: 'I look first.', ...bash('echo "# Notes" > notes.md; ls') }, { text: 'A file notes.md.' }] }));
  await stream('send-chat', 'POST', `${s}/chat`, { message: order({ said: 'And now?', steps: [{ text: 'Now it is done.' }] }) }, /event: chat:end\ndata: .*\n\n/);
  const sent = { message: 'Summarise the changes of June.', client_message_id: 'm-1', delivery: 'enqueue' };
  await take('send-chat', 'POST', `${s}/chat`, sent);
  await view.wait('the chat\'s end', () => [...view.rules.chats.values()].every((c) => !c.open));
  await stream('stream-events', 'GET', `${s}/events?after_seq=0`, undefined, /event: turn:start\ndata: .*\n\n/);
  await view.run(order({ said: 'Keep a list.', steps: [{ calls: [call('TaskCreate', { subject: 'Read the log', description: 'Commits of June' })] },
    { calls: [call('Bash', { command: 'echo started; sleep 60', run_in_background: true })] }, { text: 'I do.' }] }));
  const { items: [task] } = await take('list-background-tasks', 'GET', `${s}/background-tasks`);
  await eventually('output', async () => (await world.rest.get(`${s}/background-tasks/${task.task_id}`)).lines.length > 0);
  await take('get-background-task-output', 'GET', `${s}/background-tasks/${task.task_id}`);
  await take('stop-background-task', 'POST', `${s}/background-tasks/${task.task_id}/stop`);
  await take('list-session-tasks', 'GET', `${s}/tasks`);
  await take('list-messages', 'GET', `${s}/messages?limit=2`);
  await take('list-sessions', 'GET', '/api/sessions?q=notes');
  await take('get-session', 'GET', s);
  await history(s, view, first);
  await view.send(order({ said: 'Ask me.', steps: [{ calls: [call('AskUserQuestion', { questions: [question] })] }, { text: 'Good.' }] }));
  await eventually('a question', async () => (await world.rest.get('/api/inbox')).total > 0);
  await take('list-inbox', 'GET', '/api/inbox');
  await eventually('the run is in the list', async () => (await world.rest.get('/api/admin/runs?status=running')).items.length > 0);
  await take('list-runs', 'GET', '/api/admin/runs?status=running');
  await take('stop-chat', 'POST', `${s}/stop`, { scope: 'chat_and_queue' });
  return { id, s };
}

async function history(s, view) {
  const list = await take('list-checkpoints', 'GET', `${s}/checkpoints`);
  await take('checkout', 'POST', `${s}/checkout`, { checkpoint_id: list[1].checkpoint_id, position: 'before' });
  const moved = await take('rewind', 'POST', `${s}/rewind`, { checkpoint_id: list[1].checkpoint_id });
  await view.run(order({ said: 'Another way.', steps: [{ ...bash('echo other > other.md') }, { text: 'So.' }] }));
  await take('compare-branches', 'GET', `${s}/compare?base=${moved.previous_branch_id}&other=${moved.branch_id}`);
  await take('switch-branch', 'POST', `${s}/switch-branch`, { checkpoint_id: moved.pre_rewind_checkpoint_id });
  await take('get-history', 'GET', `${s}/history`);
  await take('get-context-stats', 'GET', `${s}/context-stats`);
  await take('compact-session', 'POST', `${s}/compact`);
}

async function files(s) {
  await take('write-file', 'PUT', `${s}/files/notes/today.md`, { content: '# Today\n' });
  await take('list-files', 'GET', `${s}/ls/`);
  await take('copy-file', 'POST', `${s}/files/notes/today.md/copy`, { target_path: 'notes/tomorrow.md', overwrite: false });
  await take('rename-file', 'POST', `${s}/files/notes/tomorrow.md/rename`, { new_name: 'later.md' });
  await take('share-file', 'POST', `${s}/share-file`, { source_path: 'notes/today.md', share_folder: 'team' });
  await form('upload-files', `${s}/upload/data`, [['files', new Blob(['a,b\n1,2\n']), 'table.csv'], ['files', new Blob(['x']), 'x'], ['paths', '["table.csv","../x"]']]);
  examples['upload-files'].request.files = ['table.csv', 'x'];
  await take('delete-file', 'DELETE', `${s}/files/notes/later.md`);
  await world.rest.put(`${s}/files/site/index.html`, { content: '<h1>Hello</h1>' });
}

async function apps(id) {
  const app = await take('publish-app', 'POST', '/api/apps', { session_id: id, working_dir: 'site' });
  await take('list-apps', 'GET', '/api/apps');
  await take('get-app', 'GET', `/api/apps/${app.app_id}`);
  await take('unpublish-app', 'DELETE', `/api/apps/${app.app_id}`);
}

async function skills(s) {
  const digest = registry.publish('acme/tables', '1.0.0', { 'tables/SKILL.md': skill.replaceAll('release-notes', 'tables') });
  await take('upload-skill', 'POST', `${s}/skills:upload`, { name: 'release-notes', files: [{ path: 'SKILL.md', content: skill }] });
  await take('install-skill', 'POST', `${s}/skills/install`, { org: 'acme', name: 'tables', version: '1.0.0', digest });
  await take('resync-skills', 'POST', `${s}/skills:resync`);
  const { items } = await take('list-session-skills', 'GET', `${s}/skills`);
  await take('list-skills', 'GET', '/api/skills');
  await take('list-installed-skills', 'GET', '/api/skills/installed');
  await take('search-skills', 'GET', '/api/skills/search?q=tables');
  await take('get-skill', 'GET', `/api/skills/${encodeURIComponent(items[0].id)}`);
  await take('get-skill-stats', 'GET', `${s}/skill-stats`);
}

async function toolServers(id, s) {
  const made = await take('create-mcp-server', 'POST', '/api/mcp-servers', {
    session_id: id, name: 'tickets', transport: 'http', url: 'https://tickets.example/mcp', headers: { authorization: 'Bearer 123' } });
  examples['create-mcp-server'].answers[200] = examples['create-mcp-server'].answers[201]; // for a name that is there
  await take('list-mcp-servers', 'GET', '/api/mcp-servers?scope=session');
  await take('get-mcp-server', 'GET', `/api/mcp-servers/${made.id}`);
  await take('change-mcp-server', 'PATCH', `/api/mcp-servers/${made.id}`, { timeout_s: 30, enabled: false });
  await take('list-session-mcp-servers', 'GET', `${s}/mcp-servers`);
  await take('delete-mcp-server', 'DELETE', `/api/mcp-servers/${made.id}`);
}

async function memories() {
  const made = await take('create-memory', 'POST', '/api/memories', { content: 'Release notes begin with what users see.', type: 'feedback', topic: 'style' });
  await take('list-memories', 'GET', '/api/memories');
  await take('get-memory', 'GET', `/api/memories/${made.id}`);
  await take('update-memory', 'PUT', `/api/memories/${made.id}`, { content: 'Release notes begin with what changes for users.' });
  await take('disable-memory', 'PATCH', `/api/memories/${made.id}`, { disabled: true });
  await take('change-memories', 'POST', '/api/memories/batch', { action: 'enable', ids: [made.id] });
  await take('delete-memory', 'DELETE', `/api/memories/${made.id}`);
}

async function sharing(id, s) {
  const link = await take('create-share-link', 'POST', `${s}/share`, { ttl_seconds: 3600, redact: { tool_results: true } });
  await take('read-shared-session', 'GET', `/api/share/${link.token}`);
  await take('revoke-share-link', 'DELETE', `${s}/share/${link.token}`);
  await take('preview-replay', 'GET', `${s}/replay/preview`);
  const { session_id: replay } = await take('start-replay', 'POST', `${s}/replay`, { speed: 5 });
  await take('change-replay', 'PATCH', `/api/sessions/${replay}/replay`, { speed: 2 });
  await take('upset-extra-info', 'POST', `${s}/upset_extra_info`, { extra: { task_id: 'ticket-4711' } });
  await take('get-extra-info', 'GET', `${s}/extra_info`);
  await take('get-extra-info-by-task', 'GET', '/api/sessions/extra_info/by_task/ticket-4711');
  const archive = await (await fetch(`${world.server.url}${s}/export`, { headers: { authorization: `Bearer ${world.rest.key}` } })).blob();
  await form('preview-import', '/api/sessions/preview-import', [['file', archive, 'session.zip']]);
  await form('import-session', '/api/sessions/import', [['file', archive, 'session.zip'], ['name', 'Release notes, again']]);
}

async function settings() {
  await take('set-env-bucket', 'PUT', '/api/env/buckets/default', { env: { TOKEN: 'abc' } });
  await take('list-env-buckets', 'GET', '/api/env/buckets');
  await take('get-env-bucket', 'GET', '/api/env/buckets/default');
  await take('delete-env-bucket', 'DELETE', '/api/env/buckets/default');
  await take('get-env-config', 'GET', '/api/env/config');
  await stream('run-diagnostics', 'GET', '/api/env/diagnostics', undefined, /event: done\ndata: .*\n\n/);
  await take('run-diagnostic', 'GET', '/api/env/diagnostics/postgres');
  await stream('run-diagnostic', 'GET', '/api/env/diagnostics/postgres', undefined, /event: done\ndata: .*\n\n/);
  await take('set-preference', 'PUT', '/api/user/preferences/theme', { value: 'dark' });
  await take('get-preference', 'GET', '/api/user/preferences/theme');
  await take('set-profile', 'PUT', '/api/profile', { layout: 'wide' });
  await take('get-profile', 'GET', '/api/profile');
  const { key } = await take('create-api-key', 'POST', '/api/user/api-keys/', { name: 'ci', scopes: ['sessions:read', 'chat'] });
  await take('list-api-keys', 'GET', '/api/user/api-keys/');
  await take('get-api-key', 'GET', `/api/user/api-keys/${key.id}`);
  await take('rename-api-key', 'PATCH', `/api/user/api-keys/${key.id}`, { name: 'reader' });
  await take('get-me', 'GET', '/api/auth/me');
  await eventually('no chat runs', async () => (await world.rest.call('POST', '/api/user/compute-env/reset')).status === 200);
  await take('reset-compute-env', 'POST', '/api/user/compute-env/reset');
  await take('check-compute-env-upgrade', 'GET', '/api/user/compute-env/upgrade');
  await take('upgrade-compute-env', 'POST', '/api/user/compute-env/upgrade');
}

async function administration() {
  const { user, api_key: first } = await take('create-user', 'POST', '/api/admin/users', { username: 'eve', name: 'Eve', email: 'eve@example.org' });
  await take('grant-administrator', 'POST', '/api/admin/admins', { user_id: user.id });
  await take('list-administrators', 'GET', '/api/admin/admins');
  await take('revoke-administrator', 'DELETE', `/api/admin/admins/${user.id}`);
  const { items: solutions } = await take('list-solutions', 'GET', '/api/solutions');
  const [solution] = solutions.filter((s) => s.roles.length > 0);
  const of = `solution_id=${solution.id}`;
  await take('set-allowed-biz-roles', 'PUT', `/api/admin/users/${user.id}/biz-roles?${of}`, { biz_role_ids: [solution.roles[0].id] });
  await take('get-allowed-biz-roles', 'GET', `/api/admin/users/${user.id}/biz-roles?${of}`);
  await take('list-biz-roles', 'GET', `/api/solutions/${solution.id}/biz-roles`, undefined, new Rest(world.server.url, first.plaintext));
  await take('check-token-state', 'POST', '/api/admin/users/token-state', { users: [{ sub: user.id, email: 'eve@example.org', name: 'Eve' }] });
  await take('list-users', 'GET', '/api/admin/users');
  await take('list-audit', 'GET', '/api/admin/audit');
  await take('delete-user', 'DELETE', `/api/admin/users/${user.id}`);
}

async function service() {
  for (const [id, path] of Object.entries({
    'get-version': '/api/version', 'get-health': '/api/health', 'get-healthz': '/healthz', 'get-readiness': '/readyz',
    'get-config': '/api/config', 'list-models': '/api/config/models', 'get-gis-status': '/api/gis/status',
  })) await take(id, 'GET', path);
  await take('tokenize-prompt', 'POST', '/api/sessions/tokenize/prompt', { prompt: 'Write the release notes.', model: 'gpt-4o' });
  await take('tokenize-messages', 'POST', '/api/sessions/tokenize/messages', { messages: [{ role: 'user', content: 'Write the release notes.' }] });
}

// What a run cannot show: the registry of the tests has no resources, and what
// ends runs by force has none to end.
function byHand() {
  const at = { created_at: '2026-11-20T08:00:00Z', updated_at: '2026-11-20T08:00:00Z' };
  const resource = { id: 'agent.basic', type: 'agent', subtype: 'basic', name: 'Basic agent', version: '1.2.0', description: 'A plain agent to begin with.', digest: 'sha256:9f86d081884c7d65', size: 4096, owner: 'acme', tags: ['start'], ...at };
  const template = { type_key: 'agent', subtype: 'basic', title: 'Basic agent', description: 'What a new agent is made from.', version: '1.0.0', schema: { type: 'object' }, defaults: {} };
  keep('list-registry-resources', 200, undefined, { items: [resource], total: 1 });
  keep('get-registry-resource', 200, undefined, resource);
  keep('list-registry-organizations', 200, undefined, { items: [{ name: 'acme', display_name: 'Acme', skill_count: 3 }], total: 1 });
  keep('list-registry-templates', 200, undefined, { items: [template], total: 1 });
  keep('get-registry-template', 200, undefined, template);
  keep('list-registry-scenarios', 200, undefined, { items: [{ id: 'first-steps', title: 'First steps', description: 'An agent and the skills that it begins with.', type: 'demo', tags: ['start'], resource_ids: ['agent.basic'] }] });
  keep('get-skill-store-stats', 200, undefined, { skills: 3, versions: 9, organizations: 1, downloads: 40, updated_at: at.updated_at });
  keep('get-skill-stats', 200, undefined, { items: [{ name: 'release-notes', invocations: 3, errors: 0, last_used_at: at.updated_at, avg_duration_ms: 12, tokens: 96 }], total: 1 });
  keep('get-openapi', 200, undefined, { openapi: '3.1.0', info: { title: 'Everloop', version: '2611.0.0' }, paths: {} });
  keep('get-metrics', 200, undefined, 'everloop_http_request_seconds_count{method="GET",route="/api/sessions",status="200"} 12\n');
  keep('cancel-run', 200, undefined, { ok: true });
  keep('force-fail-run', 200, undefined, { ok: true });
  keep('delete-session', 200, undefined, { deleted: true });
}

try {
  const { id, s } = await sessions();
  for (const part of [() => files(s), () => apps(id), () => skills(s), () => toolServers(id, s), memories, () => sharing(id, s), settings, administration, service]) {
    await part().catch((error) => console.error(error.message));
  }
  byHand();
} catch (error) {
  console.error(error);
} finally {
  await world.close();
  registry.close();
}
const sorted = Object.fromEntries(Object.entries(examples).sort(([a], [b]) => a.localeCompare(b)));
writeSync(1, `${JSON.stringify(sorted, null, 2)}\n`);
process.exit(0);
