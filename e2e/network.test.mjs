// The network of commands: what rules allow and refuse, what a call shows of it,
// and how the agent asks for more (docs/network.md).
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, afterEach, before, test } from 'node:test';
import { Fixture, bash, call, eventually, steps } from './lib/fixture.mjs';
import { listen } from './lib/outside.mjs';

let fixture;
let site;
before(async () => {
  const server = createServer((request, response) => response.end(`page ${request.url}`));
  site = { server, port: await listen(server) };
  site.named = `localhost:${site.port}`;
  site.numbered = `127.0.0.1:${site.port}`;
  fixture = await Fixture.start({ SANDBOX_NETWORK_ALLOW: `${site.named},${site.numbered}` });
});
after(async () => {
  await fixture?.close();
  site.server.closeAllConnections();
  site.server.close();
});
afterEach(() => fixture.settle());

// get asks for a page by the proxy, also where the loopback is asked for directly.
const get = (place, more = '') => bash(`no_proxy= NO_PROXY= curl -sS --fail ${more} http://${place}/x`);
const rule = (pattern, decision = 'allow') => ({ tool: 'Network', pattern, decision });
const access = (...domains) => ({ calls: [call('RequestAccess', { domains, reason: 'The test needs it' })] });
const ends = (view, chat) => view.events.filter((e) => e.name === 'chat:end' && e.data.chat_id === chat).map((e) => e.data.finish_reason);
const round = (view, chat, n) => view.wait(`round ${n} of ${chat}`, () => ends(view, chat).length >= n);
const storedCalls = async (view) => (await fixture.rest.messages(view.session)).flatMap((turn) => turn.tool_calls);

test('a domain that a rule of the session allows is reached, and the call shows it in events and messages', async () => {
  const view = await fixture.session({ session_setup: { permissions: [rule(site.named)] } });
  const { calls: [made] } = await view.run(steps(get(site.named), { text: 'done' }));
  assert.equal(made.result.trim(), 'page /x');
  const patch = view.events.find((e) => e.name === 'turn:patch' && e.data.patch_type === 'tool_result').data;
  const [stored] = await storedCalls(view);
  for (const { connections } of [patch, stored]) {
    assert.equal(connections.length, 1);
    const [one] = connections;
    assert.deepEqual([one.host, one.port, one.decision, one.count], ['localhost', site.port, 'allowed', 1]);
    assert.ok(one.bytes_sent > 50 && one.bytes_received > 50, JSON.stringify(one));
  }
});

test('a domain that no rule allows is named in the result, and nothing else leads out', async () => {
  const view = await fixture.session();
  const { calls } = await view.run(steps(get(site.named), get('169.254.169.254'), get('example.org', "--noproxy '*' --max-time 5"),
    bash('getent hosts example.org || echo no DNS'), { text: 'done' }));
  assert.deepEqual(calls.map((c) => c.status), ['error', 'error', 'error', 'done']);
  assert.match(calls[0].result, new RegExp(`localhost:${site.port} \\(no rule allows it\\).*RequestAccess`));
  assert.match(calls[1].result, /169\.254\.169\.254:80/);
  assert.match(calls[3].result, /no DNS/);
  const [refused] = (await storedCalls(view))[0].connections;
  assert.deepEqual([refused.decision, refused.reason, refused.bytes_received], ['refused', 'no rule allows it', 0]);
});

test('an address that is not public stays out of reach by a rule', async () => {
  const places = ['10.0.0.1', '169.254.169.254', '[::1]'];
  const view = await fixture.session({ session_setup: { permissions: places.map((p) => rule(p.replace(/[[\]]/g, ''))) } });
  const { calls } = await view.run(steps(...places.map((place) => get(place)), { text: 'done' }));
  for (const c of calls) assert.match(c.result, /not on the public Internet/);
});

test('RequestAccess: allowed for the session', async () => {
  const view = await fixture.session();
  const first = await view.run(steps(access(site.named), get(site.named), { text: 'done' }));
  assert.equal(first.end.finish_reason, 'awaiting_answer');
  const question = first.calls.find((c) => c.tool_name === 'AskUserQuestion');
  const late = await fixture.follow(view.session);
  const [pending] = late.ack.pending_questions;
  assert.deepEqual(pending.questions[0].options.map((o) => o.label), ['Allow for this session', 'Always allow', 'Deny']);
  assert.match(pending.questions[0].question, new RegExp(`localhost:${site.port}[^]*The test needs it`));
  assert.equal((await fixture.rest.detail(view.session)).waiting_reason, 'permission');
  await view.answer(question.id, { selections: { 0: [0] } });
  await round(view, first.chat_id, 2);
  const [asked, , fetched] = view.callsOf(first.chat_id);
  assert.match(asked.result, /Allowed from now on/);
  assert.equal(fetched.result.trim(), 'page /x');
  const { session_setup: setup } = await fixture.rest.detail(view.session);
  assert.deepEqual(setup.permissions, [rule(site.named)]);
  assert.equal((await fixture.rest.get('/api/network-rules')).total, 0);
});

test('RequestAccess: allowed always is a rule of the user, until it is deleted', async () => {
  const view = await fixture.session();
  const first = await view.run(steps(access(site.numbered), get(site.numbered), { text: 'done' }));
  await view.answer(first.calls.find((c) => c.tool_name === 'AskUserQuestion').id, { selections: { 0: [1] } });
  await round(view, first.chat_id, 2);
  assert.equal(view.callsOf(first.chat_id).at(-1).result.trim(), 'page /x');
  const { items: [kept] } = await fixture.rest.get('/api/network-rules');
  assert.deepEqual([kept.domain, kept.decision], [site.numbered, 'allow']);
  const other = await fixture.session();
  assert.equal((await other.run(steps(get(site.numbered), { text: 'done' }))).calls[0].status, 'done');
  await fixture.rest.delete(`/api/network-rules/${kept.id}`);
  assert.equal((await other.run(steps(get(site.numbered), { text: 'done' }))).calls[0].status, 'error');
});

test('RequestAccess: denied, and denied without asking in a headless chat', async () => {
  const view = await fixture.session();
  const first = await view.run(steps(access(site.named), get(site.named), { text: 'done' }));
  await view.answer(first.calls.find((c) => c.tool_name === 'AskUserQuestion').id, { selections: { 0: [2] } });
  await round(view, first.chat_id, 2);
  const calls = view.callsOf(first.chat_id).filter((c) => c.tool_name !== 'AskUserQuestion');
  assert.deepEqual(calls.map((c) => c.status), ['error', 'error']);
  const headless = await view.run(steps(access(site.named), { text: 'done' }), { headless: true });
  assert.deepEqual([headless.end.finish_reason, headless.calls.length, headless.calls[0].status], ['completed', 1, 'error']);
  assert.match(headless.calls[0].result, /Denied: no user is there/);
  const odd = await view.run(steps(access('https://example.org/'), access('*'), { text: 'done' }));
  assert.deepEqual(odd.calls.map((c) => c.status), ['error', 'error']);
});

test('a rule of the user that denies comes before what others allow', async () => {
  const denied = await fixture.rest.post('/api/network-rules', { domain: site.named, decision: 'deny' });
  const view = await fixture.session({ session_setup: { permissions: [rule(site.named)] } });
  const { calls } = await view.run(steps(get(site.named), { text: 'done' }));
  assert.match(calls[0].result, /a rule denies it/);
  await fixture.rest.delete(`/api/network-rules/${denied.id}`);
});

test('a session can narrow the network and not widen it', async () => {
  const view = await fixture.session({ network: 'none', session_setup: { permissions: [rule(site.named)] } });
  const detail = await fixture.rest.detail(view.session);
  assert.equal(detail.session_setup.network, 'none');
  assert.ok(!detail.session_setup.tools_enabled.includes('RequestAccess'));
  const { calls } = await view.run(steps(get(site.named), access(site.named), { text: 'done' }));
  assert.deepEqual(calls.map((c) => c.status), ['error', 'error']);
  assert.match(calls[0].result, /no network/);
  await assert.rejects(fixture.rest.patch(`/api/sessions/${view.session}`, { network: 'public' }), /422|network/);
  await assert.rejects(fixture.rest.post('/api/sessions', { network: 'public' }), /422|network/);
  await assert.rejects(fixture.rest.post('/api/sessions', { session_setup: { permissions: [rule('http://x')] } }), /422|permissions/);
  assert.equal((await fixture.rest.patch(`/api/sessions/${view.session}`, { network: 'rules' })).session_setup.network, 'rules');
  assert.equal((await view.run(steps(get(site.named), { text: 'done' }))).calls[0].status, 'done');
});

test('the connections of a background task are shown with the call that started it', async () => {
  const view = await fixture.session({ session_setup: { permissions: [rule(site.named)] } });
  await view.run(
    steps(
      { calls: [call('Bash', { command: `no_proxy= NO_PROXY= curl -sS http://${site.named}/x`, run_in_background: true })] },
      { text: 'done' },
    ),
  );
  await eventually('the connection is recorded', async () => (await storedCalls(view))[0].connections?.[0]?.decision === 'allowed');
});
