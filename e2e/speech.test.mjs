// Recordings: transcribed by POST /api/transcribe and in chats, through the model gateway
// and the mock service's speech model; once, whatever is killed.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Fixture, eventually, steps } from './lib/fixture.mjs';

let fixture;
before(async () => { fixture = await Fixture.start({ ASR_MODEL: 'everloop-demo-speech' }); });
afterEach(() => fixture.settle());
after(() => fixture?.close());

// wav is a recording whose samples spell a text.
function wav(text) {
  const samples = Buffer.from(text);
  const head = Buffer.alloc(44);
  head.write('RIFF');
  head.writeUInt32LE(36 + samples.length, 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(8000, 24);
  head.writeUInt32LE(8000, 28);
  head.writeUInt16LE(1, 32);
  head.writeUInt16LE(8, 34);
  head.write('data', 36);
  head.writeUInt32LE(samples.length, 40);
  return Buffer.concat([head, samples]);
}

const recording = (text) => ({
  type: 'audio_url', audio_url: { url: `data:audio/wav;base64,${wav(text).toString('base64')}` },
});
const spoken = async (bytes) => (await fixture.mock.get('/control/requests')).items
  .filter((r) => r.body?.file !== undefined && r.body.bytes === bytes);

const transcribe = (body, key = fixture.server.key) => {
  const form = new FormData();
  for (const [name, value] of Object.entries(body)) form.append(name, value, ...(value instanceof Blob ? ['question.wav'] : []));
  return fetch(`${fixture.server.url}/api/transcribe`, { method: 'POST', headers: { authorization: `Bearer ${key}` }, body: form });
};

describe('POST /api/transcribe', () => {
  test('gives the text', async () => {
    assert.deepEqual(((c) => [c.asrEnabled, c.asrProvider])(await fixture.rest.get('/api/config')), [true, 'gateway']);
    const res = await transcribe({ file: new Blob([wav('the text of a recording')]), language: 'en' });
    assert.equal(res.status, 200);
    const { text, model, usage } = await res.json();
    assert.deepEqual([text, model, usage.output_tokens], ['the text of a recording', 'everloop-demo-speech', 5]);
  });

  test('refuses what cannot be transcribed', async () => {
    const code = async (res) => [res.status, (await res.json()).code];
    assert.deepEqual(await code(await transcribe({ file: new Blob(['no audio']) })), [422, 'invalid_audio']);
    assert.deepEqual(await code(await transcribe({ language: 'en' })), [422, 'invalid_request']);
    assert.deepEqual(await code(await transcribe({ file: new Blob([wav('x')]), language: 'english' })), [422, 'invalid_request']);
    assert.deepEqual(await code(await transcribe({ file: new Blob([wav(steps({ status: 400 }))]) })), [422, 'transcription_refused']);
    assert.deepEqual(await code(await transcribe({ file: new Blob([wav(steps({ status: 503 }))]) })), [503, 'transcription_unavailable']);
    assert.deepEqual(await code(await transcribe({ file: new Blob([Buffer.alloc(26_214_401)]) })), [413, 'audio_too_large']);
    assert.equal((await transcribe({ file: new Blob([wav('x')]) }, 'wrong')).status, 401);
  });
});

describe('a recording in a message', () => {
  test('reaches the model as text, and the client', async () => {
    const view = await fixture.session();
    const { end, turn_id: turn } = await view.run([recording('hear-4411 in words'), { type: 'text', text: steps({ text: 'I heard it' }) }]);
    assert.equal(end.status, 'completed');
    const asked = (await fixture.requests('hear-4411')).at(-1).body.messages.at(-1);
    assert.match(JSON.stringify(asked.content), /hear-4411 in words/);
    assert.doesNotMatch(JSON.stringify(asked.content), /base64/);
    const stored = (await fixture.rest.messages(view.session)).find((m) => m.turn_id === turn);
    assert.deepEqual(stored.blocks.map((b) => b.type), ['audio', 'text']);
    assert.match(stored.blocks[1].content, /hear-4411 in words$/);
    const served = await fetch(
      fixture.server.url + stored.blocks[0].content, { headers: { authorization: `Bearer ${fixture.server.key}` } },
    );
    assert.equal(served.headers.get('content-type'), 'audio/wav');
    assert.deepEqual(Buffer.from(await served.arrayBuffer()), wav('hear-4411 in words'));
    // The next chat finds the text.
    await view.run(steps({ text: 'next-4411' }));
    assert.equal((await spoken(wav('hear-4411 in words').length)).length, 1);
  });

  test('that the speech model rejects fails its chat, and not the next one', async () => {
    const view = await fixture.session();
    const { end } = await view.run([recording(steps({ status: 400, error_message: 'refused-4412' })), { type: 'text', text: 'hello' }]);
    assert.deepEqual([end.status, end.error.code], ['failed', 'transcription_refused']);
    assert.equal((await view.run(steps({ text: 'go on' }))).end.status, 'completed');
  });

  test('is tried again, and transcribed once over a kill', async () => {
    const view = await fixture.session();
    const said = { type: 'text', text: steps({ text: 'I heard it' }) };
    const text = steps({ text: 'again-4413', fail_times: 1 });
    const { end } = await view.run([recording(text), said]);
    assert.equal(end.status, 'completed');
    assert.equal((await spoken(wav(text).length)).length, 2, 'a failure and an answer');

    const held = steps({ text: 'held-4413 words', hold: true });
    const sent = await view.say([recording(held), said]);
    await eventually('the recording is being transcribed', async () => (await spoken(wav(held).length)).length > 0);
    await fixture.server.kill();
    await fixture.server.start();
    const after = await fixture.follow(view.session, 0);
    const last = await fixture.releaseUntil(after.ended(sent.chat_id));
    assert.equal(last.status, 'completed');
    // The log of requests is that of the new process. What was recorded before the kill is not asked for again.
    assert.equal((await spoken(wav(held).length)).length, 1);
    assert.equal((await spoken(wav(text).length)).length, 0);
  });

  test('must be a recording', async () => {
    const view = await fixture.session();
    const code = async (url) => (await view.send([{ type: 'audio_url', audio_url: { url } }])).error.code;
    assert.equal(await code('data:audio/wav;base64,aGVsbG8='), 'invalid_audio');
    assert.equal(await code('https://x.example/a.wav'), 'invalid_request');
    const { end } = await view.run([
      { type: 'input_audio', input_audio: { data: wav('input-4414').toString('base64'), format: 'wav' } },
      { type: 'text', text: steps({ text: 'ok' }) },
    ]);
    assert.equal(end.status, 'completed');
    assert.match(JSON.stringify((await fixture.requests('input-4414')).at(-1).body.messages.at(-1)), /input-4414/);
  });
});
