// Production workspaces and issues (docs/board.md) through the public interface: an agent
// works on an issue, asks in comments, is stopped, and survives a crash.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Rest } from './lib/rest.mjs';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';

let fixture;
let board;
let agent;
before(async () => {
  fixture = await Fixture.start();
  board = `/api/prod_workspaces/${(await fixture.rest.post('/api/prod_workspaces', { name: 'Website' })).id}`;
  agent = (await fixture.rest.post('/api/agent-instances', { name: 'Builder', runtime_id: 'builtin' })).instance_id;
});
after(() => fixture?.close());

const create = (body) => fixture.rest.post(`${board}/issues`, { title: 'T', ...body });
const assigned = (description, body) => create({ description, assignee_type: 'agent', assignee_id: agent, ...body });
const read = (issue) => fixture.rest.get(`${board}/issues/${issue.id}`);
const comments = async (issue) => (await fixture.rest.get(`${board}/issues/${issue.id}/comments`)).items;
const comment = (issue, content) => fixture.rest.post(`${board}/issues/${issue.id}/comments`, { content });
const runs = async (issue) => (await fixture.rest.get(`${board}/issues/${issue.id}/task-runs`)).items;
const over = (issue, n = 1) => eventually(`${n} runs are over`, async () => {
  const all = await runs(issue);
  return all.length >= n && all.every((r) => r.finished_at !== null) ? all : undefined;
});
const begun = (issue, status) => eventually(`a run is ${status}`, async () => (await runs(issue)).find((r) => r.status === status));

test('an issue of an agent is worked on and reported', async () => {
  const issue = await assigned(steps({ text: 'It is done.' }));
  assert.match(issue.identifier, /^WEB-\d+$/);
  const [run] = await over(issue);
  assert.deepEqual([run.status, run.attempt, run.trigger.kind], ['completed', 1, 'assign'], JSON.stringify(run));
  const now = await read(issue);
  assert.deepEqual([now.status, now.active_run, now.assignee.name], ['in_review', null, 'Builder']);
  assert.deepEqual((await comments(issue)).map((c) => [c.actor_type, c.content]), [['agent', 'It is done.']]);
  const timeline = (await fixture.rest.get(`${board}/issues/${issue.id}/timeline`)).items;
  const actions = timeline.map((e) => e.action ?? e.type);
  for (const action of ['created', 'run', 'run_started', 'status_changed', 'comment', 'run_finished'])
    assert.ok(actions.includes(action), `${action} of ${actions}`);
  const usage = await fixture.rest.get(`${board}/issues/${issue.id}/usage`);
  assert.equal(usage.run_count, 1);
  // All is without a cost, or nothing: a stack may know prices.
  const uncosted = usage.cost_usd > 0 ? 0 : usage.output_tokens;
  assert.ok(usage.output_tokens > 0 && usage.uncosted.output_tokens === uncosted, JSON.stringify(usage));
  const session = await fixture.rest.detail(run.session_id);
  assert.equal(session.workspace_id, issue.workspace_id);
});

test('issues are queried, grouped, and counted by their parts', async () => {
  const whole = await create({ title: 'Whole' });
  const part = (title, stage) => create({ title, stage, parent_issue_id: whole.id });
  const [first, second, third] = [await part('A', 'build'), await part('B', 'build'), await part('C', 'ship')];
  await fixture.rest.put(`${board}/issues/${first.id}`, { status: 'done' });

  const query = `parent_id=${whole.id}`;
  const page = await fixture.rest.get(`${board}/issues/query?${query}&sort=title&direction=desc&limit=2`);
  assert.deepEqual([page.total, page.items.map((i) => i.id)], [3, [third.id, second.id]]);
  const open = await fixture.rest.get(`${board}/issues/query?${query}&open_only=true&offset=1&sort=title`);
  assert.deepEqual([open.total, open.items.map((i) => i.id)], [2, [third.id]]);

  const { groups } = await fixture.rest.get(`${board}/issues/grouped?${query}&group_by=status&sort=title&limit=1`);
  assert.deepEqual(groups.map((g) => [g.id, g.total, g.items.map((i) => i.id)]),
    [['status:todo', 2, [second.id]], ['status:done', 1, [first.id]]]);
  const one = await fixture.rest.get(`${board}/issues/grouped?${query}&group_by=status&group_key=status:todo&sort=title&limit=1&offset=1`);
  assert.deepEqual(one.groups.map((g) => g.items.map((i) => i.id)), [[third.id]]);

  const { items } = await fixture.rest.get(`${board}/issues/child-progress`);
  const progress = items.find((i) => i.parent_issue_id === whole.id);
  assert.deepEqual([progress.total, progress.done, progress.by_stage],
    [3, 1, [{ stage: 'build', total: 2, done: 1 }, { stage: 'ship', total: 1, done: 0 }]]);
});

test('a workspace has an assistant, and members as their roles allow', async () => {
  const assistant = `${board}/assistant-session`;
  const made = await fixture.rest.get(assistant);
  const again = await fixture.rest.get(assistant);
  assert.deepEqual([made.created, again.created, again.id], [true, false, made.id]);
  assert.equal(made.workspace_id, board.split('/').at(-1));

  const added = await fixture.rest.post('/api/admin/users', { username: `member-${process.pid}` });
  const member = new Rest(fixture.server.url, added.api_key.plaintext);
  const wants = async (status, code) => {
    const { status: got, body } = await member.call('POST', `${board}/issues`, { title: 'of a member' });
    assert.deepEqual([got, body.code], [status, code]);
  };
  await wants(404, 'workspace_not_found');
  await fixture.rest.join(board, member, added.user.id, 'viewer');
  await wants(403, 'workspace_role_required');
  await fixture.rest.post(`${board}/members`, { user_id: added.user.id, role: 'member' });
  await wants(200, undefined);
  const theirs = await member.get(assistant);
  assert.ok(theirs.created && theirs.id !== made.id, 'each member has an assistant of their own');
});

test('a run that others steer gets secrets of the owner only when they allow it, and shows none', async () => {
  const person = async (name) => {
    const added = await fixture.rest.post('/api/admin/users', { username: `${name}-${process.pid}` });
    return { id: added.user.id, rest: new Rest(fixture.server.url, added.api_key.plaintext) };
  };
  const [alice, bob] = [await person('alice'), await person('bob')];
  await alice.rest.put('/api/env/buckets/default', { env: { GITHUB_TOKEN: 'alice-bucket-1' } });
  const { instance_id: theirs } = await alice.rest.post('/api/agent-instances', {
    name: 'Reviewer', runtime_id: 'builtin', env: { DEPLOY: 'alice-env-2' },
  });
  const { id: workspace } = await bob.rest.post('/api/prod_workspaces', { name: 'Trap' });
  const trap = `/api/prod_workspaces/${workspace}`;
  const assign = (command) => bob.rest.call('POST', `${trap}/issues`, {
    title: 'x', description: steps(bash(command), { text: 'done' }), assignee_type: 'agent', assignee_id: theirs,
  });
  const worked = async (command) => {
    const { status, body } = await assign(command);
    assert.equal(status, 200, JSON.stringify(body));
    return eventually('the run is over', async () => {
      const [run] = (await bob.rest.get(`${trap}/issues/${body.id}/task-runs`)).items;
      return run?.finished_at ? run : undefined;
    });
  };
  const read = async (run) => (await bob.rest.messages(run.session_id)).flatMap((turn) => turn.tool_calls).map((c) => c.result).join();
  const command = 'echo [$GITHUB_TOKEN] [$DEPLOY]; env > env.txt';

  await bob.rest.post(`${trap}/members`, { user_id: alice.id, role: 'member' });
  assert.equal((await assign(command)).body.code, 'assignee_not_found', 'before the invitation is accepted');
  await alice.rest.post(`/api/invitations/${(await alice.rest.get('/api/invitations')).items[0].id}/accept`);
  assert.equal((await assign(command)).body.code, 'assignee_not_found', 'before the instance is shared');

  await alice.rest.patch(`/api/agent-instances/${theirs}`, { shared_with: [{ workspace_id: workspace }] });
  const without = await worked(command);
  assert.equal(without.status, 'completed', JSON.stringify(without));
  assert.match(await read(without), /\[\] \[\]/);
  assert.ok(!/alice-/.test(await bob.rest.file(without.session_id, 'env.txt')));

  await alice.rest.patch(`/api/agent-instances/${theirs}`, { shared_with: [{ workspace_id: workspace, secrets: true }] });
  const allowed = await worked(`${command}; grep -c alice- env.txt`);
  const shown = await read(allowed);
  assert.match(shown, /\[\*{3}\] \[\*{3}\]/);
  assert.match(shown, /\D2\D/, 'the commands get both values');
  assert.ok(!/alice-(bucket|env)/.test(shown), shown);
  const file = await bob.rest.call('GET', `/api/sessions/${allowed.session_id}/files/env.txt`);
  assert.deepEqual([file.status, file.body.code], [403, 'files_withheld']);
  assert.match(await alice.rest.file(allowed.session_id, 'env.txt'), /alice-bucket-1/);

  await alice.rest.patch(`/api/agent-instances/${theirs}`, { shared_with: [] });
  assert.equal((await assign(command)).body.code, 'assignee_not_found');
});

test('with suppress_run an agent waits until a run is asked for', async () => {
  const issue = await assigned(steps({ text: 'begun' }), { suppress_run: true });
  assert.deepEqual([issue.active_run, await runs(issue)], [null, []]);
  await fixture.rest.post(`${board}/issues/${issue.id}/task-runs`, { handoff_note: 'go' });
  assert.equal((await over(issue))[0].trigger.kind, 'manual');
});

test('a question is asked in a comment and answered by one', async () => {
  const question = call('AskUserQuestion', { questions: [{ question: 'Which colour?', options: [{ label: 'Red' }, { label: 'Blue' }] }] });
  const issue = await assigned(steps({ calls: [question] }, { text: 'painted' }));
  const asked = await eventually('the question is a comment', async () =>
    (await comments(issue)).find((c) => /Which colour/.test(c.content)),
  );
  assert.equal(asked.actor_type, 'agent');
  const waiting = await read(issue);
  assert.equal(waiting.active_run.status, 'waiting');
  const open = (await fixture.rest.get('/api/inbox')).items.find((i) => i.issue_id === issue.id);
  assert.deepEqual([open.trigger, open.workspace_id, open.run_id], ['issue', issue.workspace_id, waiting.active_run.id]);
  assert.deepEqual([open.task_id, open.prod_solution_id, open.node_id], [null, null, null]);
  await comment(issue, 'blue');
  const [run] = await over(issue);
  assert.equal(run.status, 'completed');
  assert.match(JSON.stringify(await fixture.rest.messages(run.session_id)), /Blue/);
  assert.notEqual((await comments(issue)).find((c) => c.id === asked.id).resolved_at, null);
});

test('a permission is asked in a comment and given by none, only by the owner of the agent', async () => {
  const domain = 'packages.example.org';
  const request = call('RequestAccess', { domains: [domain], reason: 'To install what is missing' });
  const issue = await assigned(steps({ calls: [request] }, { text: 'went on' }));
  const asked = await eventually('the request is a comment', async () => (await comments(issue)).find((c) => c.content.includes(domain)));
  assert.match(asked.content, /The owner of the agent answers this in their inbox\.$/);
  const [, option] = asked.content.match(/^- (Always allow)/m);
  await comment(issue, option);
  const pending = (await fixture.rest.get('/api/inbox')).items.find((i) => JSON.stringify(i).includes(domain));
  assert.equal(pending.kind, 'permission');
  // A question beside it is answered by the next comment: whatever takes comments has seen both.
  const question = call('AskUserQuestion', { questions: [{ question: 'Go on?', options: [{ label: 'Yes' }, { label: 'No' }] }] });
  const other = await assigned(steps({ calls: [question] }, { text: 'done' }));
  await eventually('the question is a comment', async () => (await comments(other)).find((c) => /Go on/.test(c.content)));
  await comment(other, 'yes');
  await over(other);
  assert.equal((await read(issue)).active_run.status, 'waiting');
  assert.equal((await fixture.rest.post(`/api/inbox/${pending.question_id}/answer`, { selections: { 0: [2] } })).resolved, true);
  const [run] = await over(issue);
  const calls = (await fixture.rest.messages(run.session_id)).flatMap((turn) => turn.tool_calls);
  assert.deepEqual(calls.filter((c) => c.tool_name === 'RequestAccess').map((c) => c.status), ['error'], JSON.stringify(calls));
  assert.equal((await fixture.rest.get('/api/network-rules')).total, 0);
});

test('closing an issue stops its run', async () => {
  const issue = await assigned(order({ steps: [{ text: 'held back', hold: true }] }));
  await begun(issue, 'running');
  const closed = await fixture.rest.call('PUT', `${board}/issues/${issue.id}`, { status: 'cancelled' });
  assert.equal(closed.status, 200, JSON.stringify(closed.body));
  const [run] = await over(issue);
  assert.deepEqual([run.status, run.reason_code], ['cancelled', 'issue_closed']);
  assert.equal((await read(issue)).status, 'cancelled');
});

test('issues and squads are deleted, but not while a run works', async () => {
  const squads = `${board}/squads`;
  const squad = await fixture.rest.post(squads, { name: 'Crew', leader_id: agent });
  const changed = await fixture.rest.patch(`${squads}/${squad.id}`, { name: 'Team', instructions: 'Look twice.' });
  assert.deepEqual([changed.name, changed.instructions, changed.leader_id], ['Team', 'Look twice.', agent]);
  const issue = await create({
    description: order({ steps: [{ text: 'held back', hold: true }] }), assignee_type: 'squad', assignee_id: squad.id,
  });
  const { session_id: session } = await begun(issue, 'running');
  for (const path of [`${squads}/${squad.id}`, `${board}/issues/${issue.id}`]) {
    const refused = await fixture.rest.call('DELETE', path);
    assert.deepEqual([refused.status, refused.body.code], [409, 'issue_run_active']);
  }
  const [{ id: run }] = await runs(issue);
  await fixture.rest.post(`${board}/issues/${issue.id}/task-runs/${run}/cancel`);
  await over(issue);

  await fixture.rest.delete(`${squads}/${squad.id}`);
  const left = await read(issue);
  assert.deepEqual([left.assignee_id, left.assignee], [null, null]);
  const part = await create({ parent_issue_id: issue.id });
  await fixture.rest.delete(`${board}/issues/${issue.id}`);
  for (const path of ['', '/comments', '/timeline', '/task-runs', '/usage']) {
    assert.equal((await fixture.rest.call('GET', `${board}/issues/${issue.id}${path}`)).body.code, 'issue_not_found', path);
  }
  assert.equal((await read(part)).parent_issue_id, null);
  assert.equal((await fixture.rest.detail(session)).status, 'interrupted', 'the session of the run stays');
});

test('SIGKILL of everything in the middle of a run', async () => {
  const issue = await assigned(order({ steps: [bash('echo once >> effects'), { text: 'finished', hold: true }] }));
  const { session_id: session } = await begun(issue, 'running');
  await eventually('the effect', async () => (await fixture.rest.call('GET', `/api/sessions/${session}/files/effects`)).status === 200);
  await fixture.server.kill();
  await fixture.server.start();
  const [run, ...others] = await fixture.releaseUntil(over(issue));
  assert.deepEqual([run.status, run.session_id, others], ['completed', session, []]);
  assert.equal(await fixture.rest.file(session, 'effects'), 'once\n');
  assert.deepEqual((await comments(issue)).map((c) => c.content), ['finished']);
  assert.equal((await read(issue)).status, 'in_review');
});
