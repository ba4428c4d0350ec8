// The rooms of the desktop for unattended work (docs/desktop.md) in Debian's Chromium, as
// a person uses them, against a real service with the scripted model.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { program } from './lib/browser.mjs';
import { Desktop } from './lib/desktop.mjs';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';
import { listen } from './lib/outside.mjs';

const chromium = program();
const required = Boolean(process.env.EVERLOOP_E2E_BROWSER); // as .ci/run sets it: there nothing is left out
const colour = call('AskUserQuestion', { questions: [{ question: 'Which colour?', options: [{ label: 'Red' }, { label: 'Blue' }] }] });
let fixture;
let desktop;
let receiver;
let hooks = 0;

describe('desktop, unattended work', {
  skip: chromium || required ? false : 'Chromium is missing: install it (Debian: chromium), or set EVERLOOP_CHROMIUM',
}, () => {
  before(async () => {
    assert.ok(chromium, 'Chromium is missing');
    receiver = createServer((request, response) => {
      request.resume().on('end', () => response.writeHead(hooks++ === 0 ? 410 : 200).end('noted'));
    });
    const port = await listen(receiver);
    fixture = await Fixture.start({ WEBHOOK_ALLOW: `127.0.0.1:${port}` });
    desktop = await Desktop.start(fixture, chromium);
  });
  after(async () => {
    await desktop?.close();
    await fixture?.close();
    receiver?.closeAllConnections();
    receiver?.close();
  });

  const menu = async (page, of, item) => {
    await page.getByRole('button', { name: of, exact: true }).click();
    await page.getByRole('menuitem', { name: item, exact: true }).click();
  };

  test('the inbox: empty, a question and a permission, answered in place', async () => {
    const page = await desktop.open('/inbox');
    await page.getByText('Nothing waits for you').waitFor();
    await desktop.clean(page, 'empty inbox');
    const { session_id: asks } = await fixture.rest.post('/api/sessions', { intent: 'Paint the fence' });
    await fixture.rest.post(`/api/sessions/${asks}/chat`, { message: steps({ calls: [colour] }, { text: 'painted' }) });
    const { session_id: wants } = await fixture.rest.post('/api/sessions', {
      intent: 'Clean up', session_setup: { permissions: [{ tool: 'Bash', pattern: '*', decision: 'ask' }] },
    });
    await fixture.rest.post(`/api/sessions/${wants}/chat`, { message: steps(bash('echo allowed'), { text: 'cleaned' }) });

    // Both appear by themselves, and the sidebar counts them.
    const list = page.getByRole('list', { name: 'Open questions' });
    await list.getByRole('link', { name: 'Clean up' }).waitFor();
    await list.getByRole('link', { name: 'Paint the fence' }).waitFor();
    await page.getByRole('navigation', { name: 'Rooms' }).getByRole('link', { name: 'Inbox 2 open questions' }).waitFor();
    await desktop.clean(page, 'inbox');
    const question = page.getByRole('form', { name: 'Question' });
    await question.getByLabel('Blue').check();
    await question.getByRole('button', { name: 'Answer' }).click();
    await list.getByRole('link', { name: 'Paint the fence' }).waitFor({ state: 'detached' });
    const permission = page.getByRole('form', { name: 'Permission' });
    await permission.getByRole('radio').first().check();
    await permission.getByRole('button', { name: 'Decide' }).click();
    await page.getByText('Nothing waits for you').waitFor();
    await eventually(
      'both chats have ended',
      async () => (await Promise.all([asks, wants].map((id) => fixture.rest.detail(id)))).every((one) => one.status === 'completed'),
    );
    assert.match(JSON.stringify(await fixture.rest.messages(asks)), /Blue/);
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });

  test('an agent is made; sessions begin with it, and instances of it', async () => {
    const page = await desktop.open('/agents');
    await page.getByText('There is no agent yet').waitFor();
    await page.getByRole('button', { name: 'New agent' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('Builder');
    await dialog.getByLabel('Solution and role').selectOption({ label: 'Engineer' })
      .catch(() => dialog.getByLabel('Solution and role').selectOption({ index: 1 }));
    await dialog.getByLabel('Instructions').fill('Answer in one word.');
    await desktop.clean(page, 'new agent');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await menu(page, 'Actions of Builder', 'Make an instance');
    await page.getByText('The instance was made.').waitFor();
    await menu(page, 'Actions of Builder', 'Edit');
    await page.getByRole('dialog').getByLabel('Instructions').fill('Answer in two words.');
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByText('The agent was saved.').waitFor();
    await desktop.clean(page, 'agents');

    await page.getByRole('tab', { name: 'Instances' }).click();
    await page.getByRole('button', { name: 'New instance' }).first().click();
    await dialog.getByLabel('Name').fill('Plain worker');
    await dialog.getByLabel('Variables').fill('TOKEN=x=y');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByText('1 variable').waitFor();
    await menu(page, 'Actions of Plain worker', 'Archive');
    await page.getByText('Plain worker', { exact: true }).waitFor({ state: 'detached' });
    await page.getByLabel('Show archived ones').check();
    await page.getByText('archived', { exact: true }).waitFor();
    await desktop.clean(page, 'instances');
    await page.getByRole('tab', { name: 'Runtimes' }).click();
    await page.getByText('online', { exact: true }).waitFor();
    await desktop.clean(page, 'runtimes');

    await page.getByRole('tab', { name: 'Agents' }).click();
    await page.getByRole('button', { name: 'Begin a session' }).click();
    await page.getByRole('textbox', { name: 'Message' }).waitFor();
    const id = new URL(page.url()).pathname.split('/')[2];
    assert.ok((await fixture.rest.detail(id)).session_setup.agent.record_id);
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });

  test('an issue is made, moved, assigned to an agent, answered and done again', async () => {
    const agent = (await fixture.rest.post('/api/agent-instances', { name: 'Painter', runtime_id: 'builtin' })).instance_id;
    const page = await desktop.open('/board');
    await page.getByText('No workspaces yet').waitFor();
    await page.getByRole('button', { name: 'New workspace' }).first().click();
    await page.getByRole('dialog').getByLabel('Name').fill('Website');
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    const column = (name) => page.getByRole('region', { name, exact: true });
    for (const title of ['First', 'Second']) {
      await page.getByRole('button', { name: 'New issue', exact: true }).click();
      await page.getByRole('dialog').getByLabel('Title').fill(title);
      await page.getByRole('dialog').getByLabel('Labels').fill('ui, search');
      await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
      await column('To do').getByRole('link', { name: title }).waitFor();
    }
    const workspace = new URL(page.url()).pathname.split('/')[2];
    const issues = async () => (await fixture.rest.get(`/api/prod_workspaces/${workspace}/issues`)).items;
    const at = (title, status) => eventually(
      `${title} is ${status}`, async () => (await issues()).find((one) => one.title === title && one.status === status),
    );
    await desktop.clean(page, 'board');

    // By the pointer, by the keyboard, by the menu.
    await column('To do').getByRole('link', { name: 'First' }).dragTo(column('In progress'));
    await column('In progress').getByRole('link', { name: 'First' }).waitFor();
    await at('First', 'in_progress');
    await column('To do').getByRole('link', { name: 'Second' }).focus();
    await page.keyboard.press('Space');
    await page.keyboard.press('ArrowLeft');
    await column('Backlog').getByRole('link', { name: 'Second' }).waitFor();
    await page.keyboard.press('Escape');
    await column('To do').getByRole('link', { name: 'Second' }).focus();
    await page.keyboard.press('Space');
    await page.keyboard.press('ArrowRight');
    await column('In progress').getByRole('link', { name: 'Second' }).waitFor();
    await page.keyboard.press('Space');
    await at('Second', 'in_progress');
    await menu(page, `Move ${(await at('First', 'in_progress')).identifier}`, 'To To do');
    await at('First', 'todo');

    // The agent asks, and is answered.
    await column('To do').getByRole('link', { name: 'First' }).click();
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('dialog').getByLabel('Description').fill(steps({ calls: [colour] }, { text: 'The fence is painted.' }));
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByLabel('Assigned to').selectOption(`agent:${agent}`);
    await page.getByRole('dialog').getByLabel('Note').fill('Use the big brush.');
    await page.getByRole('dialog').getByRole('button', { name: 'Assign' }).click();
    const form = page.getByRole('form', { name: 'Question' });
    await form.getByLabel('Red').check();
    await desktop.clean(page, 'issue that waits');
    await form.getByRole('button', { name: 'Answer' }).click();
    await page.getByText('The fence is painted.', { exact: true }).last().waitFor();
    await at('First', 'in_review');
    await page.getByText('moved it from In progress to In review').waitFor();
    await page.getByRole('region', { name: 'Usage' }).waitFor();
    const runs = page.getByRole('region', { name: 'Runs' });
    await runs.getByText('completed', { exact: true }).waitFor(); // the button Stop is that of the next one

    // A comment begins another run; one that hangs is stopped, and begun again.
    await page.getByLabel('Comment').fill(order({ steps: [{ text: 'held back', hold: true }] }));
    await page.getByRole('button', { name: 'Comment' }).click();
    await page.getByRole('button', { name: 'Stop' }).click();
    await runs.getByText('cancelled', { exact: true }).waitFor();
    await runs.getByRole('button', { name: 'Retry' }).click();
    await page.getByRole('dialog').getByLabel('Note to the agent').fill(steps({ text: 'Painted again.' }));
    await page.getByRole('dialog').getByRole('button', { name: 'Start' }).click();
    await page.getByText('Painted again.', { exact: true }).last().waitFor();
    await page.getByLabel('Priority').selectOption('high');
    await page.getByText('set the priority from none to high').waitFor();
    await desktop.clean(page, 'issue');
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });

  test('a DAG is drawn, validated, published, run, answered and retried', async () => {
    const page = await desktop.open('/dags');
    await page.getByText('There is no DAG yet').waitFor();
    await page.getByRole('button', { name: 'New DAG' }).first().click();
    await page.getByRole('dialog').getByLabel('Name').fill('Reports');
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    await page.getByRole('button', { name: 'Begin with an example' }).click();
    await page.getByLabel('Prompt').fill('');
    await page.getByRole('list', { name: 'Findings' }).getByText(/prompt/).waitFor();
    await page.getByRole('group', { name: 'Agent work' }).getByText('1 error').waitFor(); // at its node
    await desktop.clean(page, 'DAG with an error');
    await page.getByLabel('Prompt').fill(`On {{input.topic}} ${steps({ text: 'A note on fences.' })}`);
    await page.getByRole('button', { name: 'Close the node' }).click();
    await page.getByText('The DAG is valid.').waitFor();

    // Another node, whose tool fails at first, before the end.
    await page.getByRole('region', { name: 'Nodes' }).getByRole('button', { name: 'ask' }).click();
    await page.getByRole('button', { name: 'Remove the edge to end' }).click();
    await page.getByRole('button', { name: 'Node', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Tool' }).click();
    await page.getByLabel('Tool', { exact: true }).fill('Bash');
    await page.getByLabel('Arguments').fill('{"command": "exit 3"}');
    await page.getByLabel('Node to lead to').selectOption('end');
    await page.getByRole('button', { name: 'Edge', exact: true }).click();
    await page.getByRole('button', { name: 'Close the node' }).click();
    await page.getByText('The DAG is valid.').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Version 2 was saved.').waitFor();
    await page.getByRole('button', { name: 'Publish' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Publish' }).click();
    await page.getByText('Version 2 is published.').waitFor();
    await desktop.clean(page, 'DAG');

    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('dialog').getByLabel('topic').fill('fences');
    await page.getByRole('dialog').getByRole('button', { name: 'Start' }).click();
    const form = page.getByRole('form', { name: 'Question' });
    await form.getByLabel('yes').check();
    await desktop.clean(page, 'run that waits');
    await form.getByRole('button', { name: 'Answer' }).click();
    await page.getByRole('status').getByText('failed', { exact: true }).waitFor();
    const nodes = page.getByRole('region', { name: 'Nodes' });
    await nodes.getByRole('button', { name: /^work/ }).click();
    await page.getByRole('region', { name: 'Output' }).getByText('A note on fences.').waitFor();
    await page.getByRole('link', { name: 'Open the session' }).waitFor();
    await page.getByRole('button', { name: 'Close the node' }).click();
    await nodes.getByRole('button', { name: /^tool/ }).click();
    await page.getByRole('alert').getByText(/tool_failed/).waitFor();
    await desktop.clean(page, 'run that failed');
    await page.getByRole('button', { name: 'Retry from here' }).click();
    await page.getByText('The run begins again.').waitFor();
    await page.getByRole('button', { name: 'Close the node' }).click();
    await nodes.getByRole('button', { name: /^work.*reused/ }).waitFor();
    await page.getByRole('status').getByText('failed', { exact: true }).waitFor();

    // One node alone, with what the run before has given it; and all runs of all DAGs.
    await page.getByRole('main').getByRole('link', { name: 'Reports' }).click();
    await page.getByRole('region', { name: 'Nodes' }).getByRole('button', { name: 'work' }).click();
    await page.getByRole('button', { name: 'Run only this node' }).click();
    await page.getByRole('dialog').getByLabel('Inputs of the run').fill('{"topic": "hedges"}');
    await desktop.clean(page, 'one node of a DAG');
    await page.getByRole('dialog').getByRole('button', { name: 'Start' }).click();
    await page.getByRole('status').getByText('completed', { exact: true }).waitFor();
    await page.getByRole('main').getByRole('link', { name: 'DAGs' }).click();
    await page.getByRole('link', { name: 'All runs' }).click();
    await page.getByText('only node work').waitFor();
    await page.getByText('2 runs').waitFor();
    await desktop.clean(page, 'all runs');
    await page.getByLabel('Status').selectOption('cancelled');
    await page.getByText('Nothing fits').waitFor();
    await page.getByRole('button', { name: 'Show all runs' }).click();
    await page.getByLabel('Status').selectOption('failed');
    await page.getByText('only node work').waitFor({ state: 'detached' });
    await page.getByRole('main').getByRole('link', { name: /^Reports/ }).click();
    await page.getByRole('status').getByText('failed', { exact: true }).waitFor();

    // Back to the empty version, and what would change.
    await page.getByRole('main').getByRole('link', { name: 'Reports' }).click();
    await page.getByRole('tab', { name: 'Runs' }).click();
    await page.getByText(/version 2, retried 1 time/).waitFor();
    await desktop.clean(page, 'runs of a DAG');
    await page.getByRole('tab', { name: 'Versions' }).click();
    const act = async (item) => {
      await page.getByRole('region', { name: 'DAG', exact: true }).getByRole(
        'button', { name: 'Actions of version 1', exact: true },
      ).click();
      await page.getByRole('menuitem', { name: item, exact: true }).click();
    };
    await act('Compare with the newest');
    await page.getByRole('dialog').getByText('node added').first().waitFor();
    await desktop.clean(page, 'versions compared');
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
    await act('Go back to this version');
    await page.getByText('Version 3 restores the content of version 1.').waitFor();
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });

  test('an architecture is drawn; the assistant edits both documents', async () => {
    const { id } = await fixture.rest.post('/api/prod_solution', { name: 'Shop' });
    const page = await desktop.open(`/dags/${id}`);
    await page.getByRole('tab', { name: 'Architecture' }).click();
    await page.getByText('The architecture is empty').waitFor();
    const add = async (type, name) => {
      await page.getByRole('button', { name: 'Component', exact: true }).click();
      await page.getByRole('menuitem', { name: type, exact: true }).click();
      await page.getByLabel('Name').fill(name);
    };
    await add('Service', 'Web shop');
    await page.getByLabel('Technology').fill('Go');
    await add('Data store', 'Orders'); // linked from the service, which was chosen
    await page.getByRole('button', { name: 'Close the component' }).click();
    await page.getByRole('region', { name: 'Components' }).getByRole('button', { name: 'Web shop' }).click();
    await page.getByRole('group', { name: 'Link to Orders' }).getByLabel('Protocol').fill('SQL');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Version 2 was saved.').waitFor();
    const saved = (await fixture.rest.get(`/api/prod_solution/architecture/${id}`)).architecture.nodes;
    assert.deepEqual(
      saved.map((node) => [node.type, node.name, node.technology, node.links?.[0]?.protocol]),
      [['service', 'Web shop', 'Go', 'SQL'], ['data_store', 'Orders', undefined, undefined]],
    );
    await page.getByRole('button', { name: 'Publish' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Publish' }).click();
    await page.getByText('Version 2 is published.').waitFor();
    await desktop.clean(page, 'architecture');

    // The assistant adds a node, which appears by itself; what it says is beside the drawing.
    await page.getByRole('tab', { name: 'Graph' }).click();
    await page.getByText('The DAG is empty').waitFor();
    await page.getByRole('button', { name: 'Assistant', exact: true }).click();
    await desktop.clean(page, 'assistant, off');
    await page.getByRole('button', { name: 'Turn the assistant on' }).click();
    const box = page.getByRole('complementary', { name: 'Assistant' }).getByRole('textbox', { name: 'Message' });
    const edit = {
      base_version: 1, set_nodes: [{ id: 'begin', type: 'start' }, { id: 'finish', type: 'end' }],
      set_edges: [{ id: 'e', source: 'begin', target: 'finish' }],
    };
    await box.fill(steps({ calls: [call('ReadDAG', {})] }, { calls: [call('EditDAG', edit)] }, { text: 'Two nodes are there.' }));
    await box.press('Enter');
    await page.getByText('Two nodes are there.').waitFor();
    await page.getByRole('region', { name: 'Nodes' }).getByRole('button', { name: 'finish' }).waitFor();
    await desktop.clean(page, 'assistant');
    await page.getByRole('button', { name: 'Turn off' }).click();
    await page.getByRole('button', { name: 'Turn the assistant on' }).waitFor();
    assert.equal((await fixture.rest.get(`/api/prod_solution/${id}`)).ai_assist, false);
    await page.getByRole('button', { name: 'Close the assistant' }).click();
    await page.getByRole('tab', { name: 'Versions' }).click();
    await page.getByRole('region', { name: 'Architecture' }).getByText('published').waitFor();
    await desktop.clean(page, 'versions');
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });

  test('a squad is made, changed and deleted', async () => {
    await fixture.rest.post('/api/agent-instances', { name: 'Lead', runtime_id: 'builtin' });
    await fixture.rest.post('/api/agent-instances', { name: 'Helper', runtime_id: 'builtin' });
    const { id: workspace } = await fixture.rest.post('/api/prod_workspaces', { name: 'Crew' });
    const page = await desktop.open(`/board/${workspace}`);
    await menu(page, 'Actions of the workspace', 'Members and squads');
    await page.getByText('There is no squad').waitFor();
    await page.getByRole('button', { name: 'New squad' }).click();
    const form = page.getByRole('dialog', { name: 'New squad' });
    await form.getByLabel('Name').fill('Painters');
    await form.getByLabel('Leader').selectOption({ label: 'Lead' });
    await form.getByLabel('Instructions').fill('Use the big brush.');
    await form.getByLabel('Helper', { exact: true }).check();
    await form.getByLabel('What Helper does in it').fill('mixes colours');
    await desktop.clean(page, 'new squad');
    await form.getByRole('button', { name: 'Create' }).click();
    await page.getByText('leader: Lead · 1 member').waitFor();
    await page.getByRole('button', { name: 'Edit Painters' }).click();
    await page.getByRole('dialog', { name: 'Edit Painters' }).getByLabel('Name').fill('Decorators');
    await page.getByRole('dialog', { name: 'Edit Painters' }).getByRole('button', { name: 'Save' }).click();
    await page.getByRole('list', { name: 'Squads' }).getByText('Decorators').waitFor();
    const [squad] = (await fixture.rest.get(`/api/prod_workspaces/${workspace}/squads`)).items;
    assert.deepEqual(
      [squad.name, squad.instructions, squad.members.map((one) => one.role)], ['Decorators', 'Use the big brush.', ['mixes colours']],
    );
    await desktop.clean(page, 'members and squads');
    await page.getByRole('button', { name: 'Delete Decorators' }).click();
    await page.getByRole('dialog', { name: 'Delete Decorators?' }).getByRole('button', { name: 'Delete' }).click();
    await page.getByText('There is no squad').waitFor();
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });

  test('a webhook is made; what was sent is shown and sent again', async () => {
    const page = await desktop.open('/webhooks');
    await page.getByText('There is no webhook').waitFor();
    await page.getByRole('button', { name: 'New webhook' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Address').fill(`http://127.0.0.1:${receiver.address().port}/hook`);
    await dialog.getByLabel('Description').fill('Receiver');
    await dialog.getByLabel('All events').uncheck();
    await dialog.getByLabel('chat.completed').check();
    await desktop.clean(page, 'new webhook');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByText(/^whsec_/).waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();

    // Its receiver answers 410, so that it is disabled; then it takes what is sent.
    const { session_id: id } = await fixture.rest.post('/api/sessions');
    await fixture.rest.post(`/api/sessions/${id}/chat`, { message: steps({ text: 'done' }) });
    await page.getByRole('link', { name: 'Receiver' }).click();
    await page.getByRole('alert').getByText(/Disabled/).waitFor();
    await page.getByRole('button', { name: 'Enable' }).click();
    await page.getByRole('alert').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Send again' }).click();
    await page.getByText('delivered', { exact: true }).last().waitFor();
    await page.getByRole('button', { name: /chat\.completed/ }).click();
    await page.getByLabel('Answer to attempt 2').getByText('noted').waitFor();
    await page.getByLabel('Request').getByText(/chat\.completed/).waitFor();
    await page.getByLabel('Status').selectOption('failed');
    await page.getByText('Nothing fits').waitFor();
    await page.getByLabel('Status').selectOption('');
    await desktop.clean(page, 'webhook');
    await menu(page, 'Actions of the webhook', 'New secret');
    await dialog.getByRole('button', { name: 'Make a new secret' }).click();
    await page.getByText(/^whsec_/).waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
    await menu(page, 'Actions of the webhook', 'Delete');
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('There is no webhook').waitFor();
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  });
});
