// What moves in a session, in Debian's Chromium against a real service with the scripted model:
// sub-agents as they work, a stream that is cut, previews, branches, replays, single results, and
// texts that were made to do harm.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { program } from './lib/browser.mjs';
import { Desktop } from './lib/desktop.mjs';
import { Fixture, bash, call, eventually, order, steps } from './lib/fixture.mjs';

const chromium = program();
const required = Boolean(process.env.EVERLOOP_E2E_BROWSER); // as .ci/run sets it: there nothing is left out
let fixture;
let desktop;

const agent = (description, list) => call('Agent', { description, prompt: order({ steps: list, note: description }) });

describe('desktop, live', {
  skip: chromium || required ? false : 'Chromium is missing: install it (Debian: chromium), or set EVERLOOP_CHROMIUM',
}, () => {
  before(async () => {
    assert.ok(chromium, 'Chromium is missing');
    fixture = await Fixture.start();
    desktop = await Desktop.start(fixture, chromium);
  });
  after(async () => {
    await desktop?.close();
    await fixture?.close();
  });

  const clean = (page, place) => desktop.clean(page, place);
  const dialog = (page) => page.getByRole('dialog');
  const idOf = (page) => new URL(page.url()).pathname.split('/')[2];

  async function say(page, text) {
    const box = page.getByRole('textbox', { name: 'Message' });
    await box.fill(text);
    await box.press('Enter');
  }

  // finished is a session whose chats have ended.
  async function finished(...messages) {
    const { session_id: id } = await fixture.rest.post('/api/sessions', {});
    for (const message of messages) {
      await fixture.rest.post(`/api/sessions/${id}/chat`, { message });
      await eventually('the chat ends', async () => (await fixture.rest.detail(id)).status === 'completed');
    }
    return id;
  }

  async function close(page) {
    assert.deepEqual(desktop.faults, []);
    await page.context().close();
  }

  test('sub-agents work in their cards, one within the other', async () => {
    const page = await desktop.open();
    await say(page, steps(
      { calls: [
        agent('looks', [
          { calls: [agent('digs', [bash('echo gold-dust'), { text: 'Depth is reached at last', hold: true, hold_after: 2 }])] },
          { text: 'It is gold.' },
        ]),
        agent('counts', [{ text: 'Sheep are counted', hold: true, hold_after: 2 }]),
      ] },
      { text: 'Both are back.' },
    ));
    const answers = page.getByRole('article', { name: 'Answer of the sub-agent' });
    const inner = answers.filter({ has: page.getByRole('button', { name: /^Agent digs/ }) }).getByRole(
      'article', { name: 'Answer of the sub-agent' },
    );
    const seen = async () => {
      await inner.getByText('Depth is', { exact: true }).waitFor();
      await answers.getByText('Sheep are', { exact: true }).waitFor();
      await page.getByRole('button', { name: /^Agent looks.*running/ }).waitFor();
      assert.equal(await inner.getByText('Depth is', { exact: true }).count(), 1);
    };
    await seen();
    await inner.getByRole('button', { name: /^Bash echo gold-dust/ }).click();
    await inner.getByLabel('Output').getByText('gold-dust').waitFor();
    await clean(page, 'sub-agents');
    await page.reload(); // the same from the messages as from the events
    await seen();
    await fixture.releaseUntil(page.getByText('Both are back.', { exact: true }).waitFor());

    // Over, they are folded, and open with what they returned.
    const card = page.getByRole('button', { name: /^Agent looks.*done/ });
    await card.waitFor();
    if (await card.getAttribute('aria-expanded') === 'false') await card.click();
    await page.getByRole('button', { name: /^Agent digs.*done/ }).waitFor();
    await answers.getByText('It is gold.').waitFor();
    await clean(page, 'sub-agents, over');
    await close(page);
  });

  test('a network that is cut in the middle of a stream: nothing is lost, and nothing said twice', async () => {
    const page = await desktop.open('/', { expected: /ERR_INTERNET_DISCONNECTED|ERR_NETWORK|WebSocket/ });
    const words = Array.from({ length: 40 }, (_, i) => `word${i}`).join(' ');
    const lost = page.getByText(/Connection lost/);
    const answer = page.getByRole('article', { name: 'Answer', exact: true });
    for (const round of ['back before the end', 'back after the end']) {
      await say(page, steps({ text: `${round} ${words}`, hold: true, hold_after: 12 }));
      await answer.last().getByText(`${round} word0 word1 `).waitFor();
      await page.context().setOffline(true);
      await lost.waitFor();
      const id = idOf(page);
      const ends = async () => (await fixture.rest.detail(id)).status === 'completed';
      if (round === 'back after the end') await fixture.releaseUntil(eventually('the chat ends', ends));
      await page.context().setOffline(false);
      await lost.waitFor({ state: 'detached' });
      const whole = answer.filter({ hasText: 'word39' }).filter({ hasText: round }).waitFor();
      await (round === 'back before the end' ? fixture.releaseUntil(whole) : whole);
      assert.equal((await answer.last().locator('.prose').innerText()).trim(), `${round} ${words}`);
      assert.equal(await answer.filter({ hasText: round }).count(), 1);
    }
    await close(page);
  });

  test('a long session is there at once, and earlier turns leave what is read where it is', async () => {
    const turns = 2000;
    const id = await finished(steps({ text: 'Done.' }));
    const page = await desktop.open();
    let proceed;
    const held = new Promise((resolve) => { proceed = resolve; });
    await page.route(`**/api/sessions/${id}/messages?*`, async (route) => {
      const query = new URL(route.request().url()).searchParams;
      const response = await route.fetch();
      const [turn] = await response.json();
      const list = Array.from({ length: turns }, (_, n) => ({
        ...turn, id: `t${n}`, turn_id: `t${n}`, sequence: n, blocks: [{ ...turn.blocks[0], content: `This is turn ${n}.` }],
      }));
      if (!query.has('newest')) await held;
      const limit = Number(query.get('limit'));
      await route.fulfill({ response, json: query.has('newest') ? list.slice(-limit) : list.slice(0, limit) });
    });
    await page.goto(`${fixture.server.desktopURL}/s/${id}`);
    await page.getByText(`This is turn ${turns - 1}.`).waitFor();

    const box = page.getByRole('region', { name: 'Conversation' });
    const height = () => box.evaluate((one) => one.scrollHeight);
    await box.hover();
    await page.mouse.wheel(0, -1500);
    await page.getByRole('button', { name: 'To the end' }).waitFor();
    const read = page.getByText(`This is turn ${turns - 30}.`);
    await read.scrollIntoViewIfNeeded();
    let before;
    await eventually('the scrolling has ended', async () => {
      const { y } = await read.boundingBox();
      const still = y === before;
      before = y;
      return still;
    });
    const short = await height();
    proceed();
    await eventually('the other turns come', async () => await height() > 5 * short);
    await eventually('what is read is where it was', async () => Math.abs((await read.boundingBox()).y - before) < 3);
    await box.evaluate((one) => { one.scrollTop = 0; });
    await page.getByText('This is turn 0.').waitFor();
    await close(page);
  });

  test('a long queue, a long failure and many attachments leave the conversation its place', async () => {
    const { session_id: id } = await fixture.rest.post('/api/sessions', {});
    await fixture.rest.post(`/api/sessions/${id}/chat`, { message: `First of all. ${steps(bash('sleep 300'))}` });
    await eventually('the chat runs', async () => (await fixture.rest.detail(id)).status === 'running');
    for (let n = 0; n < 40; n++) {
      await fixture.rest.post(`/api/sessions/${id}/chat`, { message: `Message ${n} of the queue`, delivery: 'enqueue' });
    }
    const page = await desktop.open();
    await page.goto(`${fixture.server.desktopURL}/s/${id}`);
    await page.getByText('40 messages in the queue').waitFor();
    await page.locator('input[type=file]').first().setInputFiles(Array.from({ length: 15 }, (_, n) => ({
      name: `a file with a long name, number ${n}.txt`, mimeType: 'text/plain', buffer: Buffer.from('x'),
    })));
    const box = page.getByRole('region', { name: 'Conversation' });
    const roomy = async (what, least) => {
      const { height } = await box.boundingBox();
      assert.ok(height >= least, `${what}: the conversation has ${height} pixels`);
    };
    await roomy('with a queue and attachments', 300);
    await box.getByText('First of all.').waitFor();
    await page.getByText('Message 39 of the queue').scrollIntoViewIfNeeded();
    await clean(page, 'long-queue');
    await page.setViewportSize({ width: 360, height: 740 });
    await roomy('on a small screen', 120);
    await page.setViewportSize({ width: 1400, height: 900 });
    await page.getByRole('button', { name: 'Stop and clear' }).click();
    await page.getByText('messages in the queue').waitFor({ state: 'detached' });
    await close(page);

    const failed = await fixture.rest.post('/api/sessions', {});
    await fixture.rest.post(`/api/sessions/${failed.session_id}/chat`, {
      message: steps({ status: 400, error_message: 'the source refuses this request, for a reason of many words. '.repeat(100) }),
    });
    await eventually('the chat fails', async () => (await fixture.rest.detail(failed.session_id)).status === 'failed');
    const other = await desktop.open();
    await other.goto(`${fixture.server.desktopURL}/s/${failed.session_id}`);
    await other.getByText('The chat has failed').waitFor();
    const { height } = await other.getByRole('region', { name: 'Conversation' }).boundingBox();
    assert.ok(height >= 400, `the conversation has ${height} pixels`);
    await clean(other, 'long-failure');
    await close(other);
  });

  test('a sidebar of many sessions has those in view, and reads more when it is scrolled', async () => {
    for (let n = 0; n < 60; n++) await fixture.rest.post('/api/sessions', { intent: `Number ${n} of many` });
    const page = await desktop.open();
    const list = page.getByRole('navigation', { name: 'Sessions' });
    await list.getByRole('link', { name: 'Number 59 of many' }).waitFor();
    const shown = await list.getByRole('listitem').count();
    assert.ok(shown < 40, `${shown} sessions are in the page`);
    await desktop.clean(page, 'many sessions');
    await list.evaluate((one) => { one.scrollTop = one.scrollHeight; });
    await list.getByRole('link', { name: 'Number 59 of many' }).waitFor({ state: 'detached' });
    await list.evaluate((one) => { one.scrollTop = 34 * 50; });
    await list.getByRole('link', { name: 'Number 5 of many' }).waitFor();
    await page.setViewportSize({ width: 360, height: 740 }); // the sidebar is hidden, and lies over the room when it is shown
    await page.getByRole('button', { name: /^Show the sidebar/ }).click();
    await list.evaluate((one) => { one.scrollTop = 0; });
    await list.getByRole('link', { name: 'Number 59 of many' }).click();
    await page.getByRole('textbox', { name: 'Message' }).waitFor();
    await close(page);
  });

  test('pictures, Markdown, tables, PDF and HTML are shown; a page in a frame can do nothing', async () => {
    const id = await finished(steps({ text: 'Empty.' }));
    // The key of `open` would be set in the frame, too, which has no storage.
    const page = await desktop.open(`/s/${id}/files`, { signedIn: false, expected: /sandboxed|Content Security Policy/ });
    await page.getByRole('button', { name: 'Use an API key' }).click();
    await page.getByLabel('API key').fill(fixture.server.key);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    const asked = []; // of another origin
    const far = createServer((request, answer) => {
      asked.push(request.url);
      answer.end();
    });
    await new Promise((resolve) => far.listen(0, '127.0.0.1', resolve));
    const elsewhere = `http://127.0.0.1:${far.address().port}`;
    const choosing = page.waitForEvent('filechooser');
    await page.getByRole('button', { name: 'Upload files' }).click();
    const file = (name, content) => ({ name, mimeType: '', buffer: Buffer.from(content) });
    await (await choosing).setFiles([
      file(
        'pixel.png',
        Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64'),
      ),
      file('drawing.svg', '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><script>parent.harmed = 1</script><rect ' +
        'width="40" height="40"/></svg>'),
      file('notes.md', `# Notes\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<script>window.harmed = 1</script>\n\n![far](${elsewhere}/x.png)\n`),
      file('table.csv', 'name,remark\n"Ann, B.","says ""hi"""\nBob,=1+1\n'),
      file('page.html', `<h1>Framed</h1><img src="${elsewhere}/x.png" onerror="parent.harmed=1">
        <link rel="stylesheet" href="${elsewhere}/x.css"><script>parent.harmed = 1; top.location = "${elsewhere}/"</script>`),
      file('paper.pdf', pdf),
      file('blob.bin', Buffer.from([0, 1, 2, 3])),
    ]);
    await page.getByText('7 files were stored.').waitFor();
    const show = (name) => page.getByRole('button', { name, exact: true }).click();

    for (const picture of ['pixel.png', 'drawing.svg']) {
      await show(picture);
      const shown = page.getByRole('img', { name: picture });
      await shown.waitFor();
      await eventually('the picture is drawn', () => shown.evaluate((image) => image.complete && image.naturalWidth > 0));
    }
    await clean(page, 'preview, picture');
    await show('notes.md');
    const notes = page.getByRole('region', { name: 'Preview of notes.md' });
    await notes.getByRole('heading', { name: 'Notes' }).waitFor();
    await notes.getByRole('cell', { name: '2' }).waitFor();
    assert.equal(await notes.locator('img, script').count(), 0);
    await clean(page, 'preview, Markdown');
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await page.getByRole('textbox', { name: 'Content of notes.md' }).getByText('# Notes').waitFor();
    await show('table.csv');
    const table = page.getByRole('region', { name: 'Table table.csv' });
    await table.getByRole('columnheader', { name: 'remark' }).waitFor();
    assert.deepEqual(await table.getByRole('cell').allTextContents(), ['Ann, B.', 'says "hi"', 'Bob', '=1+1']);
    await clean(page, 'preview, table');
    await show('page.html');
    const frame = page.locator('iframe[title="Preview of page.html"]');
    assert.equal(await frame.getAttribute('sandbox'), '');
    await page.frameLocator('iframe[title="Preview of page.html"]').getByRole('heading', { name: 'Framed' }).waitFor();
    await desktop.show(page, 'preview, HTML');
    await show('paper.pdf');
    const paper = page.locator('iframe[title="paper.pdf"]');
    await paper.waitFor();
    assert.match(await paper.getAttribute('src'), /^blob:/);
    await desktop.show(page, 'preview, PDF');
    await show('blob.bin');
    await page.getByText('Cannot show this file').waitFor();
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    assert.equal(new URL(page.url()).origin, fixture.server.desktopURL);
    far.close();
    assert.deepEqual(asked, [], 'nothing was asked of another origin');
    // The browser reports requests that the policy has stopped.
    desktop.faults.splice(0).forEach((fault) => assert.ok(fault.startsWith(`request to ${elsewhere}/x.`), fault));
    await close(page);
  });

  test('another way is tried, and both are compared', async () => {
    const id = await finished(
      steps(bash('echo same > both.txt'), { text: 'The ground is laid.' }),
      steps(bash('echo first > first.txt'), { text: 'The first way.' }),
    );
    const page = await desktop.open(`/s/${id}/history`);
    await page.getByRole('button', { name: /^agent The ground is laid/ }).click();
    await page.getByRole('button', { name: 'Try another way' }).click();
    await dialog(page).getByLabel('Message').fill(steps(bash('echo second > second.txt'), { text: 'The second way.' }));
    await dialog(page).getByRole('button', { name: 'Try', exact: true }).click();
    await page.getByText('The second way.', { exact: true }).waitFor();
    await eventually('the chat ends', async () => (await fixture.rest.detail(id)).status === 'completed');
    assert.equal(await page.getByText('The first way.', { exact: true }).count(), 0, 'the other branch is not the conversation');

    await page.getByRole('link', { name: 'History' }).click();
    await page.getByText('2 branches').waitFor();
    await page.getByRole('button', { name: 'Compare' }).click();
    const sides = dialog(page).getByRole('region');
    await dialog(page).getByText('The first way.').waitFor();
    assert.equal(await sides.count(), 2);
    for (const [index, [has, not]] of [['first', 'second'], ['second', 'first']].entries()) {
      await sides.nth(index).getByText(`The ${has} way.`).waitFor();
      assert.equal(await sides.nth(index).getByText(`The ${not} way.`).count(), 0);
      await sides.nth(index).getByText(/\d turns · \d steps? · .* in, .* out/).waitFor();
    }
    const files = dialog(page).getByRole('listitem');
    await files.filter({ hasText: 'second.txt' }).getByText('created').waitFor();
    await files.filter({ hasText: 'first.txt' }).getByText('deleted').waitFor();
    assert.equal(await files.filter({ hasText: 'both.txt' }).count(), 0);
    await clean(page, 'comparison');
    const [one, other] = [dialog(page).getByLabel('One', { exact: true }), dialog(page).getByLabel('The other')];
    const [was, is] = [await one.inputValue(), await other.inputValue()];
    await other.selectOption(was);
    await dialog(page).getByText('Choose two different branches.').waitFor();
    await one.selectOption(is); // the other way round
    await files.filter({ hasText: 'first.txt' }).getByText('created').waitFor();
    await close(page);
  });

  test('a replay is played, made faster, and handed over', async () => {
    const id = await finished(steps(bash('for i in {1..30}; do echo line-$i; sleep 1; done'), { text: 'All lines are out.' }));
    const page = await desktop.open(`/s/${id}/history`);
    await page.getByRole('button', { name: 'Replay' }).click();
    await dialog(page).getByLabel('Speed').selectOption({ label: 'as it was' });
    await dialog(page).getByRole('button', { name: 'Play' }).click();
    const bar = page.getByRole('region', { name: 'Replay' });
    await bar.getByText(/^Replay, \d+ of \d+$/).waitFor();
    assert.notEqual(idOf(page), id);
    await page.getByLabel('Output').getByText('line-2').waitFor();
    await bar.getByLabel('Speed').selectOption('5'); // before it is over
    await eventually('the speed is stored', async () => (await fixture.rest.detail(idOf(page))).replay_state.speed === 5);
    await clean(page, 'replay');
    await page.getByText('All lines are out.', { exact: true }).waitFor();
    await bar.getByText('The replay is over').waitFor();
    assert.equal(await bar.getByLabel('Speed').isDisabled(), true);
    await bar.getByRole('button', { name: 'Hand over' }).click();
    await bar.getByText(/takes over from here/).waitFor();
    await say(page, steps({ text: 'I go on from here.' }));
    await page.getByText('I go on from here.', { exact: true }).waitFor();
    await bar.getByRole('link', { name: 'Original' }).click();
    await page.getByText('All lines are out.', { exact: true }).waitFor();
    assert.equal(idOf(page), id);
    assert.equal(await page.getByText('I go on from here.', { exact: true }).count(), 0);
    await close(page);
  });

  test('a message asks for one result, by a schema', async () => {
    const page = await desktop.open('/', { expected: /status of 4\d\d/ });
    await say(page, steps({ text: 'Ready.' })); // the page follows the session from here on
    await page.getByText('Ready.', { exact: true }).waitFor();
    const chip = page.getByText('One result that follows a schema');
    const ask = async (schema) => {
      await page.getByRole('button', { name: 'Ask for one result' }).click();
      await dialog(page).getByLabel('JSON Schema of the result').fill(schema);
      await dialog(page).getByRole('button', { name: 'Use it' }).click();
    };
    await ask('{"type":');
    await dialog(page).getByText('This must be a JSON object.').waitFor();
    await clean(page, 'schema');
    await dialog(page).getByLabel('JSON Schema of the result').fill(
      '{"type": "object", "required": ["total"], "properties": {"total": {"type": "integer"}}}',
    );
    await dialog(page).getByRole('button', { name: 'Use it' }).click();
    await chip.waitFor();
    await clean(page, 'schema, chosen');
    await say(page, steps({ text: '{"total": "seven"}' }, { text: '{"total": 7}' }));
    await page.getByText('The result follows the schema.').waitFor();
    await page.getByLabel('Result', { exact: true }).getByText('"total": 7').waitFor();
    await chip.waitFor({ state: 'detached' }); // it was for one message
    await clean(page, 'schema, result');
    await page.reload(); // a page that is opened after the end says the same
    await page.getByText('The result follows the schema.').waitFor();
    const { chat_id: chat } = (await fixture.rest.messages(idOf(page)))[0];
    assert.ok(chat);

    // One that is no schema is refused by the service; nothing that was typed is lost.
    await ask('{"type": 5}');
    await say(page, 'How many?');
    await page.getByText(/output_schema/i).first().waitFor();
    await chip.waitFor();
    assert.equal(await page.getByRole('textbox', { name: 'Message' }).inputValue(), 'How many?');
    await page.getByRole('button', { name: 'Do not require a result' }).click();
    await chip.waitFor({ state: 'detached' });

    // An answer that does not follow it three times.
    await ask('{"type": "object"}');
    await say(page, steps({ text: 'no' }, { text: 'no' }, { text: 'no' }));
    const failed = page.getByText(/^The chat has failed: .*schema_mismatch.*simpler schema/);
    await failed.waitFor();
    const note = await failed.innerText();
    await page.reload();
    await failed.waitFor();
    assert.equal(await failed.innerText(), note);
    await clean(page, 'schema, failed');

    // Without a schema: no question, and the last text.
    await ask('');
    await page.getByText('One result', { exact: true }).waitFor();
    await say(page, steps({ text: 'Just a text.' }));
    await page.getByText('Just a text.', { exact: true }).waitFor();
    await page.getByText('The chat ended with its result.').waitFor();

    // One that is stopped.
    await say(page, steps({ text: 'This is held back', hold: true, hold_after: 2 }));
    await page.getByText('This is', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await page.getByText('The chat was stopped.').waitFor();
    await page.reload();
    await page.getByText('The chat was stopped.').waitFor();
    assert.equal(await failed.count(), 0, 'only the last chat counts');
    await close(page);
  });

  test('Markdown that would keep the browser busy is shown as it was written', async () => {
    const page = await desktop.open();
    const times = (part, count) => part.repeat(count);
    const hostile = [
      `${times('> ', 10_000)}deep quote`, `${times('- ', 10_000)}deep list`,
      `|${times('a|', 1000)}\n|${times('-|', 1000)}\n${times(`|${times('b|', 1000)}\n`, 5)}`,
      times('*a** ', 4000), times('[', 5000) + times(']', 5000),
      '```js\nnever closed',
    ].join('\n\n');
    // How long the page could do nothing else.
    await page.evaluate(() => {
      window.longest = 0;
      let last = performance.now();
      setInterval(() => {
        const now = performance.now();
        window.longest = Math.max(window.longest, now - last);
        last = now;
      }, 20);
    });
    await say(page, steps({ text: `Begun.\n\n${hostile}` }));
    const answer = page.getByRole('article', { name: 'Answer', exact: true });
    await answer.getByText('Begun.', { exact: true }).waitFor();
    const plain = answer.getByRole('group', { name: 'Text' });
    await plain.first().waitFor();
    await eventually('the chat ends', async () => (await fixture.rest.detail(idOf(page))).status === 'completed');
    await answer.getByText('never closed').waitFor(); // to the end, without being asked for
    assert.equal(await answer.locator('blockquote blockquote, li li').count(), 0);
    assert.equal(await answer.locator('table').count(), 0, 'no table of a thousand columns');
    // It is parsed as Markdown in minutes; a busy machine may pause the page for seconds.
    const longest = await page.evaluate(() => window.longest);
    assert.ok(longest < 30_000, `the page did nothing for ${Math.round(longest)} ms`);
    await page.reload();
    await answer.getByText('Begun.', { exact: true }).waitFor();
    await clean(page, 'Markdown, cut');
    await close(page);
  });

  test('texts, names and output that were made to do harm are harmless', async () => {
    const page = await desktop.open();
    const said = [
      '# Fine <script>window.harmed = 1</script><img src="http://far.example/x.png" onerror="window.harmed = 1">',
      '<iframe src="http://far.example/"></iframe> <svg onload="window.harmed = 1"> <a href="javascript:window.harmed = 1">raw</a>',
      '[script](javascript:window.harmed=1) [data](data:text/html,<script>1</script>) [fine](https://example.com/) ' +
        '![far](http://far.example/y.png)',
      'turned \u202egnp.exe and \u0007bell, \u001b[31mred',
      '| broken | table\n|--\n| **bold `code\n> > > quote\n1. ```js\nnot closed',
    ].join('\n\n');
    const names = [
      '<img src=x onerror=window.harmed=1>.txt', 'photo\u202egnp.exe', 'tab\tand\u0001.md', `${'long'.repeat(60)}.txt`, '"\'`$(x).csv',
    ];
    const make = names.map((name) => `touch "$(printf %s ${Buffer.from(name).toString('base64')} | base64 -d)"`).join('; ');
    await say(page, steps(
      bash(`${make}; head -c 1000000 /dev/zero | tr '\\0' A > line.txt; cp line.txt line.md; ` +
        `printf '\\033[1;31mred\\033[0m <b>x</b> \\xe2\\x80\\xaeback\\n'; head -c 300000 line.txt`),
      { text: said }, { text: 'never' },
    ));
    const answer = page.getByRole('article', { name: 'Answer', exact: true }).last();
    await answer.getByRole('heading', { name: /Fine/ }).waitFor();
    assert.equal(await answer.locator('script, iframe, img, svg[onload], b').count(), 0);
    const links = await answer.locator('a').evaluateAll((all) => all.map((link) => link.getAttribute('href')));
    assert.deepEqual(links, ['https://example.com/', 'http://far.example/y.png']);
    await answer.getByText('turned [U+202E]gnp.exe and [U+0007]bell, [U+001B][31mred').waitFor();
    const card = page.getByRole('button', { name: /^Bash/ });
    if (await card.getAttribute('aria-expanded') === 'false') await card.click();
    const output = page.getByLabel('Output');
    await output.getByText('red <b>x</b> [U+202E]back').waitFor();
    await clean(page, 'hostile');

    await page.getByRole('link', { name: 'Files' }).click();
    const list = page.getByRole('region', { name: 'Files of the session' });
    for (const name of ['<img src=x onerror=window.harmed=1>.txt', 'photo[U+202E]gnp.exe', 'tab\tand[U+0001].md', '"\'`$(x).csv']) {
      await list.getByText(name, { exact: true }).waitFor();
    }
    await clean(page, 'hostile names');
    await list.getByText('"\'`$(x).csv', { exact: true }).click();
    await page.getByRole('region', { name: /^Table/ }).waitFor();
    await list.getByText('tab\tand[U+0001].md', { exact: true }).click();
    await page.getByRole('region', { name: /^Preview of/ }).waitFor();
    await list.getByText('line.md', { exact: true }).click();
    const prose = page.getByRole('region', { name: 'Preview of line.md' });
    await prose.getByText(/^A{100}/).waitFor();
    assert.ok((await prose.innerText()).length < 200_000, 'the line is cut');
    const saving = page.waitForEvent('download');
    await prose.getByRole('button', { name: 'Download the whole text' }).last().click();
    assert.equal(readFileSync(await (await saving).path(), 'utf8').length, 1_000_000);
    await list.getByText('line.txt', { exact: true }).click();
    const text = page.getByRole('textbox', { name: 'Content of line.txt' });
    await text.getByText(/^A{100}/).first().waitFor();
    assert.ok((await text.innerText()).length < 200_000, 'only what is in view is in the page');
    await clean(page, 'a line of a million characters');

    assert.equal(await page.evaluate(() => window.harmed), undefined);
    await close(page);
  });
});

const pdf = `%PDF-1.1
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R
/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj
4 0 obj<</Length 40>>stream
BT /F 18 Tf 20 50 Td (A paper) Tj ET    
endstream endobj
trailer<</Root 1 0 R>>
`;
