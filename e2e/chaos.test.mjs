// Many clients doing everything at once, and the service killed under them. What
// must hold afterwards does not depend on who came first: every acknowledged
// chat ended as often as it started, no message is lost, no effect happened
// twice. CHAOS_SEED repeats a run as far as timing allows.
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Fixture, call, eventually, steps } from './lib/fixture.mjs';

const seed = Number(process.env.CHAOS_SEED ?? randomInt(1, 1 << 30));

let fixture;
before(async () => { fixture = await Fixture.start(); });
after(() => fixture?.close());
afterEach(() => fixture.settle());

// dice gives a repeatable generator (mulberry32).
function dice(start) {
  let a = start >>> 0;
  const next = () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return { below: (n) => Math.floor(next() * n), chance: (p) => next() < p, of: (list) => list[Math.floor(next() * list.length)] };
}

// Player is one session with a user who sends, steers, stops and answers at random.
class Player {
  acks = []; // of messages: {chat_id, turn_id, delivery_applied}
  unknown = []; // messages whose acknowledgement was lost: {id, message, options}
  dropped = false; // chat_and_queue was asked for
  marks = 0;
  sent = 0;

  constructor(name, random) {
    this.name = name;
    this.random = random;
  }

  async join() {
    this.view = await fixture.session({ intent: this.name });
    this.session = this.view.session;
  }

  script() {
    const { random } = this;
    const mark = () => call('Bash', { command: `echo ${this.name}-${++this.marks} >> marks; sleep 0.${random.below(4)}` });
    const list = [];
    for (let n = 1 + random.below(3); n > 0; n--) {
      const step = { text: `step ${n} of ${this.name} 🥊 and more words to stream`, delay_ms: random.below(20), chunk: 1 + random.below(8) };
      if (random.chance(0.5)) step.calls = Array.from({ length: 1 + random.below(3) }, mark);
      if (random.chance(0.25))
        step.calls = [
          ...(step.calls ?? []),
          call('AskUserQuestion', { questions: [{ question: 'So?', options: [{ label: 'a' }, { label: 'b' }] }] }),
        ];
      if (random.chance(0.15)) Object.assign(step, { fail_times: 1, cut_after: random.below(6) });
      list.push(step);
    }
    return steps(...list);
  }

  async send() {
    const options = { client_message_id: `m${++this.sent}` };
    if (this.random.chance(0.6)) options.delivery = this.random.of(['enqueue', 'steer', 'interrupt', 'reject']);
    const message = this.script();
    try {
      const ack = await this.view.send(message, options);
      if (ack.ok) this.acks.push(ack);
      else assert.equal(ack.error.code, 'session_busy');
    } catch (err) {
      if (err instanceof assert.AssertionError) throw err;
      this.unknown.push({ message, options });
    }
  }

  async act() {
    const roll = this.random.below(10);
    if (roll < 5) return this.send();
    if (roll < 6) return this.view.stop(this.random.chance(0.3) ? this.drop() : undefined).catch(() => {});
    if (roll < 9) return this.answer();
    return this.look();
  }

  drop() {
    this.dropped = true;
    return 'chat_and_queue';
  }

  // answer tries the last question that it knows of, whatever became of it.
  async answer() {
    const asked = [...this.view.rules.turns.values()]
      .flatMap((t) => [...t.calls.values()])
      .filter((c) => c.tool_name === 'AskUserQuestion');
    if (asked.length === 0) return;
    const answers = asked
      .slice(-2)
      .map(({ id }) => this.view.answer(id, { selections: { 0: [this.random.below(2)] } }).catch(() => ({ ok: true })));
    for (const ack of await Promise.all(answers)) assert.ok(ack.ok, JSON.stringify(ack));
  }

  // look joins with another client for a moment.
  async look() {
    const seen = await fixture.follow(this.session, this.random.chance(0.5) ? this.view.rules.last : undefined,
      this.random.chance(0.3) ? { transports: ['polling'] } : {}).catch(() => undefined);
    await pause(this.random.below(300));
    assert.deepEqual(seen?.rules.problems ?? [], []);
    seen?.client.close();
  }

  async play(goesOn) {
    while (goesOn()) {
      await this.act();
      await pause(this.random.below(250));
    }
  }

  // after a crash: the same messages again, under their ids.
  async comeBack() {
    assert.deepEqual(this.view.rules.problems, []);
    this.view = await fixture.follow(this.session, 0);
    for (const { message, options } of this.unknown.splice(0)) {
      const ack = await this.view.send(message, options);
      if (ack.ok) this.acks.push(ack);
    }
  }

  // rest answers and waits until nothing runs any more.
  async rest() {
    await eventually(`${this.name} rests (seed ${seed})`, async () => {
      const now = await fixture.rest.detail(this.session);
      if (now.status === 'waiting_for_input') {
        const { pending_questions: open } = (await fixture.follow(this.session)).ack;
        for (const q of open) await this.view.answer(q.tool_call_id, { selections: { 0: [0] } });
        return false;
      }
      return now.status !== 'running' && now.queue_length === 0;
    }, 300_000);
  }

  async check() {
    const seen = await fixture.follow(this.session, 0);
    await eventually('all events are there', () => seen.events.length >= seen.ack.replayed);
    assert.deepEqual(seen.rules.problems, []);
    for (const ack of this.acks) {
      const ended = seen.events.filter((e) => e.name === 'chat:end' && e.data.chat_id === ack.chat_id);
      assert.ok(ended.length >= 1, `chat ${ack.chat_id} (${ack.delivery_applied}) never ended`);
      const started = seen.events.filter((e) => e.name === 'chat:start' && e.data.chat_id === ack.chat_id && !e.data.resumed);
      assert.ok(ended.length === started.length || (started.length === 0 && this.dropped && ended.length === 1),
        `chat ${ack.chat_id} started ${started.length} times and ended ${ended.length} times`);
      if (!this.dropped) assert.ok(seen.rules.turns.has(ack.turn_id), `message ${ack.turn_id} (${ack.delivery_applied}) is lost`);
    }
    const marks = await fixture.rest.call('GET', `/api/sessions/${this.session}/files/marks`);
    const lines = marks.status === 200 ? marks.body.split('\n').filter(Boolean) : [];
    assert.equal(new Set(lines).size, lines.length, `an effect happened twice: ${lines}`);
    // Every call that says that it is done has left its mark.
    for (const c of [...seen.rules.turns.values()].flatMap((t) => [...t.calls.values()])) {
      const mark = c.tool_name === 'Bash' && /echo (\S+)/.exec(c.arguments)?.[1];
      if (mark && c.status === 'done') assert.ok(lines.includes(mark), `${mark} is done and has no effect`);
    }
  }
}

async function play(t, count, seconds, crashes) {
  t.diagnostic(`seed ${seed}`);
  const players = Array.from({ length: count }, (_, i) => new Player(`p${i}`, dice(seed + i)));
  await Promise.all(players.map((p) => p.join()));
  for (let crash = 0; crash <= crashes; crash++) {
    let end = Date.now() + seconds * 1000;
    // On a slow machine the last round takes until enough was done.
    const idle = () => crash === crashes && !players.some((p) => p.acks.length > 3) && Date.now() < end + 180_000;
    const playing = Promise.all(players.map((p) => p.play(() => Date.now() < end || idle())));
    if (crash < crashes) {
      await pause((seconds * 1000) * (0.3 + 0.6 * dice(seed + 1000 + crash).below(1000) / 1000));
      await fixture.server.kill();
      end = 0;
      await playing;
      await fixture.server.start();
      await Promise.all(players.map((p) => p.comeBack()));
    } else {
      await playing;
    }
  }
  await Promise.all(players.map((p) => p.rest()));
  for (const p of players) await p.check();
  assert.ok(players.some((p) => p.acks.length > 3), 'hardly anything was done');
}

test('ten players', (t) => play(t, 10, 12, 0));
test('ten players, and the service is killed twice', (t) => play(t, 10, 6, 2));
