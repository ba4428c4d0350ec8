// The tools for the web and those of the framework: what they give, what they
// refuse, and what becomes of a fetch that hangs (docs/web.md).
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, call, eventually, order, steps } from './lib/fixture.mjs';
import { listen } from './lib/outside.mjs';
import { ownOnly } from './lib/stack.mjs';

// site is a web server of this test: /hang never answers, and says who waits.
const site = { waiting: new Set(), hits: {}, release: false };
let fixture;

before(async () => {
  site.server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://site');
    site.hits[pathname] = (site.hits[pathname] ?? 0) + 1;
    const html = (body) => response.setHeader('content-type', 'text/html; charset=utf-8').end(body);
    switch (pathname) {
      case '/hang':
        if (site.release) return html('<title>Late</title><p>It came at last.</p>');
        site.waiting.add(response);
        return response.once('close', () => site.waiting.delete(response));
      case '/inside':
        return response.writeHead(302, { location: `${fixture.server.url}/api/docs` }).end();
      case '/long':
        return html(`<title>Long</title>${Array.from({ length: 20_000 }, (_, i) => `<p>paragraph ${i}</p>`).join('')}`);
      case '/missing':
        return response.writeHead(404, { 'content-type': 'text/plain' }).end('nothing here');
      case '/pdf':
        return response.setHeader('content-type', 'application/pdf').end('%PDF-1.7');
      case '/data':
        return response.setHeader('content-type', 'application/json').end('{"name": "bäume"}');
      case '/w/api.php':
        return fetch(fixture.server.mockURL + request.url).then(async (answer) => response.end(await answer.text()));
      case '/search':
        return search(request, response);
      default:
        return html(
          `<title>Page</title><h1>${pathname}</h1><p>Some <b>bold</b> <a href="other">link</a></p><script>secret-script</script>`,
        );
    }
  });
  site.host = `127.0.0.1:${await listen(site.server)}`;
  site.url = `http://${site.host}`;
  fixture = await Fixture.start({
    WEB_ALLOW: `${site.host},192.0.2.0/24`,
    LANGCHAIN_TOOLS: `calculator,wikipedia=${site.url}/w/api.php`,
  });
});
after(async () => {
  await fixture?.close();
  site.server.closeAllConnections();
  site.server.close();
});
afterEach(() => fixture.settle());

// search is a search engine with its moods.
function search(request, response) {
  const query = new URL(request.url, 'http://site').searchParams.get('q');
  if (query.includes('too many')) return response.writeHead(429, { 'retry-after': '7' }).end();
  if (query.includes('broken')) return response.writeHead(503).end();
  const results = ['https://go.dev/a', 'https://example.com/b'].map((url) => ({ url, title: `Found ${url}`, content: `for ${query}` }));
  return response.setHeader('content-type', 'application/json').end(JSON.stringify({ query, results }));
}

async function tools(view, ...calls) {
  const { end, calls: made } = await view.run(steps({ calls }, { text: 'done' }));
  assert.equal(end.finish_reason, 'completed');
  return made;
}

const web = (url, more = {}) => call('WebFetch', { url, ...more });

describe('WebFetch', () => {
  test('gives pages as Markdown, text as it is, and says what came', async () => {
    const view = await fixture.session();
    const [page, data, missing, pdf] = await tools(
      view,
      web(`${site.url}/page#part`),
      web(`${site.url}/data`),
      web(`${site.url}/missing`),
      web(`${site.url}/pdf`),
    );
    assert.equal(page.status, 'done', page.result);
    assert.equal(
      page.result,
      `URL: ${site.url}/page\nStatus: 200 OK\nTitle: Page\nType: text/html\n\n# /page\n\nSome **bold** [link](${site.url}/other)`,
    );
    assert.match(data.result, /application\/json\n\n\{"name": "bäume"\}$/);
    assert.deepEqual([missing.status, pdf.status], ['error', 'error']);
    assert.match(missing.result, /404 Not Found[\s\S]*nothing here/);
    assert.match(pdf.result, /application\/pdf/);
  });

  test('keeps a long page as a file that Read can page', async () => {
    const view = await fixture.session();
    const [long] = await tools(view, web(`${site.url}/long`));
    assert.equal(long.status, 'done');
    assert.ok([...long.result].length <= 100_000);
    const path = /(\.everloop\/\S+?)[,\s]/.exec(long.result)?.[1];
    assert.ok(path, 'the result names no file');
    const [read] = await tools(view, call('Grep', { pattern: 'paragraph 19999', path, output_mode: 'content' }));
    assert.match(read.result, /paragraph 19999/);
  });

  test('answers a prompt by a model call without tools, which counts', async () => {
    const view = await fixture.session();
    const usage = (n) => ({ prompt_tokens: n, completion_tokens: 1, total_tokens: n + 1 });
    const prompt = `What is bold? ${order({ steps: [{ text: 'The word is bold-5512.', usage: usage(1000) }] })}`;
    const { end, calls: [fetched] } = await view.run(steps(
      { calls: [web(`${site.url}/page`, { prompt })], usage: usage(10) }, { text: 'done', usage: usage(20) }));
    assert.equal(fetched.status, 'done');
    assert.match(fetched.result, /^URL: [\s\S]*The word is bold-5512\.$/);
    assert.doesNotMatch(fetched.result, /Some \*\*bold/);
    assert.deepEqual([end.usage.input_tokens, end.usage.output_tokens], [1030, 3]);
    const asked = (await fixture.requests('<page url=')).at(-1).body;
    assert.equal(asked.tools?.length ?? 0, 0);
    assert.match(asked.messages.at(-1).content, /Some \*\*bold\*\*/);
  });

  test('reaches nothing inside, however it is asked', async () => {
    const view = await fixture.session();
    const { agent, mock, temporal, ui } = fixture.server.ports;
    const urls = [
      `${fixture.server.url}/api/docs`,
      `http://localhost:${agent}/readyz`,
      `http://[::1]:${agent}/`,
      `http://[::ffff:127.0.0.1]:${agent}/readyz`,
      `http://2130706433:${agent}/readyz`,
      `http://0x7f.1:${agent}/readyz`,
      `http://0:${agent}/readyz`,
      `http://127.1:${ui}/`,
      `http://127.0.0.1:${temporal}/`,
      `http://127.0.0.1:${mock}/control/requests`,
      `http://127.0.0.1:${mock}/pages/../control/requests`,
      `http://127.0.0.1:${mock}/pages/%2e%2e/control/requests`,
      `http://localhost:${mock}/control/requests`,
      `http://127.0.0.1:${mock}/v1/models`,
      'http://169.254.169.254/latest/meta-data/',
      'http://10.0.0.1/',
      `${site.url}/inside`,
      'file:///etc/passwd',
      'ftp://example.com/',
      'gopher://127.0.0.1:6379/',
      `http://user:secret-8841@${site.host}/`,
      'no url at all',
      'http://',
    ];
    const made = await tools(view, ...urls.map((url) => web(url)));
    for (const [i, { status, result }] of made.entries()) {
      assert.equal(status, 'error', urls[i]);
      assert.match(result, /^The page was not fetched: .+\.$/, urls[i]);
      assert.doesNotMatch(result, /secret-8841|model_call|messages/, urls[i]);
    }
    assert.equal(site.hits['/'], undefined, 'a URL with a password was fetched');
  });

  test('is not offered while planning, and can be taken from a session', async () => {
    const view = await fixture.session({ disable_tools: ['WebSearch'] });
    await view.run(`offer-7719 ${steps({ text: 'fine' })}`);
    await view.run(`offer-7720 ${steps({ text: 'a plan' })}`, { mode: 'planning' });
    const names = async (text) => (await fixture.requests(text))[0].body.tools.map((t) => t.function.name);
    const offered = await names('offer-7719');
    assert.deepEqual(['WebFetch', 'WebSearch', 'Calculator', 'Wikipedia'].map((n) => offered.includes(n)), [true, false, true, true]);
    assert.ok(!(await names('offer-7720')).some((n) => /Web|Calc|Wiki/.test(n)));
  });
});

describe('a fetch that hangs', () => {
  test('ends with chat:stop', async () => {
    const view = await fixture.session();
    const { chat_id: chat } = await view.say(steps({ calls: [web(`${site.url}/hang`)] }, { text: 'never' }));
    await eventually('the fetch is under way', () => site.waiting.size === 1);
    assert.deepEqual(await view.stop(), { ok: true, stopped: true });
    const end = await view.ended(chat);
    assert.equal(end.status, 'interrupted');
    assert.equal(view.callsOf(chat)[0].status, 'cancelled');
    await eventually('the connection is closed', () => site.waiting.size === 0);
  });

  test('is made again when its worker was killed', async () => {
    const view = await fixture.session();
    const hits = site.hits['/hang'] ?? 0;
    const { chat_id: chat } = await view.say(steps({ calls: [web(`${site.url}/hang`)] }, { text: 'I read it' }));
    await eventually('the fetch is under way', () => site.waiting.size === 1);
    await fixture.server.kill();
    await eventually('the connection is closed', () => site.waiting.size === 0);
    site.release = true;
    try {
      await fixture.server.start();
      const again = await fixture.follow(view.session, 0);
      const end = await again.ended(chat);
      assert.equal(end.finish_reason, 'completed');
      const [fetched] = again.callsOf(chat);
      assert.equal(fetched.status, 'done', fetched.result);
      assert.match(fetched.result, /Title: Late[\s\S]*It came at last\./);
      assert.equal(site.hits['/hang'], hits + 2);
    } finally {
      site.release = false;
    }
  });
});

describe('WebSearch', () => {
  before(() => ownOnly('`everloop up` lends WebSearch its mock service'));

  test('finds demo pages that WebFetch reads, when no engine is set', async () => {
    const view = await fixture.session();
    const [found] = await tools(view, call('WebSearch', { query: 'how to make green tea' }));
    assert.equal(found.status, 'done', found.result);
    assert.match(found.result, /^\[DEMO: /);
    const url = /https?:\/\/\S+/.exec(found.result.split('\n').find((l) => l.includes('http')))[0];
    assert.equal(url, `${fixture.server.mockURL}/pages/tea`);
    const [page] = await tools(view, web(url));
    assert.equal(page.status, 'done', page.result);
    assert.match(page.result, /\| Green \| 70 °C \| 3 \|/);
  });

  test('is what a first user sees', async () => {
    const view = await fixture.session();
    const { end, calls, turns } = await view.run('Please search the web for release notes of examplelang');
    assert.equal(end.finish_reason, 'completed');
    assert.deepEqual(calls.map((c) => [c.tool_name, c.status]), [['WebSearch', 'done'], ['WebFetch', 'done']]);
    assert.match(JSON.stringify(turns.at(-1).blocks), /Examplelang/);
  });

  test('holds results to the domains of both lists', async () => {
    const view = await fixture.session();
    const [both, none, bad] = await tools(view,
      call('WebSearch', { query: 'tea', allowed_domains: ['a.com'], blocked_domains: ['b.com'] }),
      call('WebSearch', { query: 'tea', allowed_domains: ['example.com'] }),
      call('WebSearch', { query: 'tea', allowed_domains: ['not a domain'] }),
    );
    assert.deepEqual([both.status, none.status, bad.status], ['done', 'done', 'error']);
    assert.match(both.result, /Nothing was found/);
    assert.match(none.result, /Nothing was found/);
  });
});

describe('tools of the framework', () => {
  test('work, and are checked by the same guard', async () => {
    const view = await fixture.session();
    const [sum, wiki, bomb, code] = await tools(
      view,
      call('Calculator', { input: '(3 + 4) * pow(2, 3)' }),
      call('Wikipedia', { input: 'durable execution' }),
      call('Calculator', { input: '[x for x in range(1000000000) for y in range(1000000000)]' }),
      call('Calculator', { input: '"a" * 1000000000' }),
    );
    assert.deepEqual([sum.status, sum.result], ['done', '56.0']);
    assert.equal(wiki.status, 'done', wiki.result);
    assert.match(wiki.result, /durable program/);
    assert.deepEqual([bomb.status, code.status], ['error', 'error']);
    assert.ok(site.hits['/w/api.php'] >= 2);
  });
});

describe('a search engine of the operator', () => {
  let other;
  before(async () => { other = await Fixture.start({ SEARCH_URL: site.url, LANGCHAIN_TOOLS: '' }); });
  after(() => other?.close());
  afterEach(() => other.settle());

  test('is asked, and its failures are reported', async () => {
    const view = await other.session();
    const [good, only, many, broken] = await tools(
      view,
      call('WebSearch', { query: 'go news' }),
      call('WebSearch', { query: 'go', blocked_domains: ['go.dev'] }),
      call('WebSearch', { query: 'too many' }),
      call('WebSearch', { query: 'broken' }),
    );
    assert.equal(
      good.result,
      '1. Found https://go.dev/a\n   https://go.dev/a\n   for go news\n2. Found https://example.com/b\n   https://example.com/b\n   for ' +
        'go news\n\nRead a page with WebFetch before you rely on it.',
    );
    assert.doesNotMatch(only.result, /Found https:\/\/go\.dev/);
    assert.match(only.result, /1\. Found https:\/\/example\.com/);
    assert.deepEqual([many.status, broken.status], ['error', 'error']);
    assert.match(many.result, /7 seconds \(status 429\)/);
    assert.match(broken.result, /status 503/);
  });

  test('opens nothing else', async () => {
    const view = await other.session();
    const made = await tools(view, web(`${site.url}/page`), web(`${other.server.mockURL}/pages/tea`));
    assert.deepEqual(made.map((c) => c.status), ['error', 'error']);
    const [gone] = await tools(view, call('Calculator', { input: '1' }));
    assert.match(gone.result, /There is no tool named "Calculator"/);
  });
});
