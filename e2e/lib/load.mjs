// Chats with commands, sub-agents and questions, and what must hold of them after
// any fault: each accepted chat ends once, none fails, no effect happens twice.
import assert from 'node:assert/strict';
import { bash, call, eventually, order, steps } from './fixture.mjs';

// patience bounds what would never come.
const patience = 300_000;

const ask = () => call('AskUserQuestion', { questions: [{ question: 'Which?', options: [{ label: 'a' }, { label: 'b' }] }] });

// Talk is one session with one chat under way.
export class Talk {
  static async open(fixture, name, { kind, length, lasts = 0.3 }) {
    const talk = new Talk();
    Object.assign(talk, { fixture, name, kind, lasts });
    talk.view = await fixture.session({ intent: name });
    talk.session = talk.view.session;
    talk.chat = (await talk.view.say(talk.#script(length))).chat_id;
    return talk;
  }

  #script(length) {
    const mark = (n) => bash(`echo ${this.name}-${n} >> marks; sleep ${this.lasts}`);
    const list = Array.from({ length }, (_, n) => ({ text: `step ${n} of ${this.name}, word by word`, delay_ms: 10, ...mark(n) }));
    if (this.kind === 'sub-agent') {
      const inner = order({ steps: Array.from({ length }, (_, n) => mark(`inner-${n}`)).concat({ text: 'inner done' }), note: this.name });
      list.splice(1, 0, { calls: [call('Agent', { description: `inner ${this.name}`, prompt: inner })] });
    }
    if (this.kind === 'question') list.splice(1, 0, { calls: [ask()] });
    return steps(...list, { text: `all of ${this.name} is done` });
  }

  // began waits until its first command runs.
  began() {
    return eventually(`a command of ${this.name} runs`, () => this.fixture.rest.file(this.session, 'marks').catch(() => false));
  }

  // end answers its questions until the chat has ended for good.
  async end() {
    const view = await this.#follow();
    for (const started = Date.now(); ;) {
      const from = view.events.length;
      const now = await this.fixture.rest.detail(this.session).catch(() => undefined);
      if (now?.status === 'waiting_for_input') {
        const open = [...view.rules.turns.values()].flatMap((t) => [...t.calls.values()]).filter((c) => c.status === 'awaiting_answer');
        for (const { id } of open) await view.answer(id, { selections: { 0: [0] } }).catch(() => {});
      }
      if (now && now.status !== 'running' && now.status !== 'waiting_for_input' && now.queue_length === 0) return;
      if (Date.now() - started > patience) throw new Error(`not within ${patience} ms: ${this.name} (${this.kind}) ends`);
      // A chat ends when it asks, and when it is done. Its event may be lost with an API.
      await view.wait('end of a chat', (e) => e.name === 'chat:end', { from, timeout: 2000 }).catch(() => {});
    }
  }

  // follow reads the session again when its connection was lost with an API.
  async #follow() {
    if (!this.view.client.socket.connected) this.view = await this.fixture.follow(this.session, 0);
    return this.view;
  }

  // check holds the session to its promises; lost: calls may have been lost with
  // their worker.
  async check({ lost = false } = {}) {
    const seen = await this.fixture.follow(this.session, 0);
    const of = (name) => seen.events.filter((e) => e.name === name && e.data.chat_id === this.chat);
    // Not by the number of events: those of a worker that stood still may be left out.
    await eventually(`the end of ${this.name} is read`, () => of('chat:end').some((e) => e.data.finish_reason !== 'awaiting_answer'));
    assert.deepEqual(seen.rules.problems, [], `${this.name} (${this.kind}): ${JSON.stringify(outline(seen.events))}`);
    const starts = of('chat:start').filter((e) => !e.data.resumed);
    const ends = of('chat:end');
    assert.equal(ends.length, starts.length, `${this.name} started ${starts.length} times and ended ${ends.length} times`);
    assert.equal(ends.at(-1).data.finish_reason, 'completed', `${this.name}: ${JSON.stringify(ends.at(-1).data)}`);

    const marks = (await this.fixture.rest.file(this.session, 'marks')).split('\n').filter(Boolean);
    assert.equal(new Set(marks).size, marks.length, `an effect happened twice: ${marks}`);
    const commands = [...seen.rules.turns.values()].flatMap((t) => [...t.calls.values()]).filter((c) => c.tool_name === 'Bash');
    for (const { status, arguments: args, result } of commands) {
      if (!lost) assert.equal(status, 'done', `${this.name}: ${args}: ${result}`);
      const mark = /echo (\S+)/.exec(args)[1];
      if (status === 'done') assert.ok(marks.includes(mark), `${mark} is done and has no effect`);
    }
    noTextTwice(seen.events);
    return seen;
  }
}

// outline names the events that a broken rule is judged by, pieces of text aside.
function outline(events) {
  return events.filter((e) => e.data.patch_type !== 'add_content')
    .map(({ name, data }) => `${data.seq} ${data.ts} ${name} ${data.patch_type ?? data.finish_reason ?? data.status ?? ''}`);
}

// noTextTwice: no piece of a block comes twice, under whatever seq.
function noTextTwice(events) {
  const pieces = events.filter((e) => e.data.patch_type === 'add_content')
    .map(({ data }) => `${data.turn_id} ${data.block_type} ${data.offset}`);
  // The offset starts again with each new block of a turn, so only neighbours are compared.
  pieces.forEach((piece, i) => assert.notEqual(piece, pieces[i - 1], 'the same piece came twice'));
}

// openMany starts so many talks, of all kinds unless the options name them; lasts is how
// many seconds each of their commands takes.
export function openMany(fixture, count, options = {}) {
  const { kinds = ['commands', 'commands', 'sub-agent', 'question'] } = options;
  return Promise.all(Array.from({ length: count }, (_, i) => Talk.open(fixture, `t${i}${options.name ?? ''}`, {
    kind: kinds[i % kinds.length], length: options.length ?? 5, lasts: options.lasts,
  })));
}

export async function endAndCheck(talks, options) {
  await Promise.all(talks.map((t) => t.end()));
  for (const t of talks) await t.check(options);
}
