// Access to Temporal, and what is in it (docs/operators/temporal.md).
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { Rest } from './lib/rest.mjs';
import { Fixture, bash, call, steps } from './lib/fixture.mjs';

let fixture, ui;
before(async () => {
  fixture = await Fixture.start();
  ui = fixture.server.uiURL;
});
after(() => fixture?.close());

// send makes a request with headers that fetch would not send, as Host.
const send = (url, { method = 'GET', headers = {}, body = '' } = {}) => new Promise((resolve, reject) => {
  const request = http.request(url, { method, headers }, (answer) => {
    const pieces = [];
    answer.on('data', (piece) => pieces.push(piece));
    answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, text: Buffer.concat(pieces).toString() }));
  });
  request.on('error', reject);
  request.end(body);
});

const signIn = async (key) => {
  const answer = await send(`${ui}/signin`, {
    method: 'POST', headers: { 'Content-Type': 'application/x-www-form-urlencoded' }, body: `key=${encodeURIComponent(key)}`,
  });
  return { status: answer.status, cookie: answer.headers['set-cookie']?.[0] };
};

test('a page whose name was made to point here is refused everywhere', async () => {
  const headers = { Host: 'evil.example' };
  for (const url of [
    `${fixture.server.url}/api/version`,
    `${fixture.server.url}/api/docs`,
    `${fixture.server.url}/metrics`,
    `${fixture.server.url}/apps/x/`,
    `${fixture.server.url}/socket.io/?EIO=4&transport=polling`,
    `${fixture.server.mockURL}/control/requests`,
    `${fixture.server.mockURL}/v1/models`,
    ...['identity', 'registry', 'git', 'desktop'].flatMap((name) => {
      const at = fixture.server[`${name}URL`];
      return [`${at}/`, `${at}/api/health`];
    }),
    `${fixture.server.registryURL}/skills`,
    `${fixture.server.identityURL}/.well-known/openid-configuration`,
    `${fixture.server.gatewayURL}/v1/models`,
    `${ui}/`,
    `${ui}/signin`,
    `${ui}/healthz`,
    `${ui}/api/v1/namespaces`,
  ]) {
    assert.equal((await send(url, { headers })).status, 403, url);
    assert.notEqual((await send(url)).status, 403, url);
  }
  const upgrade = {
    ...headers,
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  };
  assert.equal((await send(`${fixture.server.url}/socket.io/?EIO=4&transport=websocket`, { headers: upgrade })).status, 403);
});

test('only administrators sign in to the UI of Temporal', async () => {
  const { body } = await fixture.rest.call('POST', '/api/admin/users', { username: 'carla' });
  assert.equal((await signIn(body.api_key.plaintext)).status, 401, 'an ordinary user');
  assert.equal((await signIn('el_unknown')).status, 401);
  const { status, cookie } = await signIn(fixture.server.key);
  assert.equal(status, 303);
  assert.match(cookie, /HttpOnly; SameSite=Strict/);
  assert.equal((await send(`${ui}/api/v1/namespaces/everloop/workflows`)).status, 401, 'without a sign-in');
});

// texts gives every string of an answer, decoded where it holds a payload.
function* texts(value) {
  if (typeof value === 'string') {
    yield value;
    yield Buffer.from(value, 'base64').toString();
  } else if (value && typeof value === 'object') {
    for (const [name, inner] of Object.entries(value)) {
      yield name;
      yield* texts(inner);
    }
  }
}

// everything gives all that Temporal keeps of all runs, as one text.
async function everything(cookie) {
  const get = async (path) => {
    const answer = await send(`${ui}/api/v1/namespaces/everloop${path}`, { headers: { Cookie: cookie.split(';')[0] } });
    assert.equal(answer.status, 200, answer.text);
    return JSON.parse(answer.text);
  };
  const all = [await get('/workflows?pageSize=1000')];
  for (const { execution } of all[0].executions) {
    const path = `/workflows/${encodeURIComponent(execution.workflowId)}`;
    const run = `execution.runId=${execution.runId}`;
    all.push(await get(`${path}?${run}`));
    for (let page = ''; ;) {
      const history = await get(`${path}/history?${run}&maximumPageSize=1000&nextPageToken=${encodeURIComponent(page)}`);
      all.push(history);
      page = history.nextPageToken;
      if (!page) break;
    }
  }
  return { runs: all[0].executions.length, text: [...texts(all)].join('\n') };
}

test('Temporal holds no text of messages and titles, and no secret', async () => {
  await fixture.rest.call('PUT', '/api/env/buckets/default', { env: { BUCKET_VALUE: 'plainbucketvalue' } });
  const view = await fixture.session({ intent: 'HIDDENWORDTITLE', env: { SESSION_VALUE: 'plainsessionvalue' } });
  const script = steps(
    { text: 'HIDDENWORDANSWER', calls: [
      bash('echo HIDDENWORDCOMMAND', { description: 'Say hello' }).calls[0],
      bash('echo shown-command plainsessionvalue plainbucketvalue').calls[0],
      call('Write', { file_path: 'HIDDENWORDPATH.txt', content: 'HIDDENWORDCONTENT' }),
      call('TaskCreate', { subject: 'HIDDENWORDTASK' }),
    ] },
    bash('echo HIDDENWORDBACKGROUND', { description: 'In the background', run_in_background: true }),
    { calls: [call('Agent', { description: 'Look around', prompt: 'HIDDENWORDPROMPT' })] },
    {
      calls: [
        call('AskUserQuestion', {
          questions: [{ question: 'HIDDENWORDQUESTION?', options: [{ label: 'HIDDENWORDLABEL' }, { label: 'b' }] }],
        }),
      ],
    },
    { text: 'done' },
  );
  const { calls } = await view.run(`HIDDENWORDMESSAGE ${script}`);
  assert.ok(calls.length >= 6, JSON.stringify(calls.map((c) => c.tool_name)));

  const { cookie } = await signIn(fixture.server.key);
  const { runs, text } = await everything(cookie);
  assert.ok(runs >= 2, `${runs} runs`);
  assert.match(text, /Bash: Say hello/);
  assert.match(text, /Bash: echo shown-command \*\*\* \*\*\*/);
  const found = text.match(/HIDDENWORD\w*|plain(session|bucket)value/g) ?? [];
  assert.deepEqual([...new Set(found)], []);
});
