// What must hold of the events of a session at all times (docs/events.md).
// Rules takes each event in the order in which a client got it,
// keeps the state that a front end would, and lists what was broken.
import { isDeepStrictEqual } from 'node:util';

export class Rules {
  problems = [];
  turns = new Map(); // by turn_id: {role, status, blocks, calls, ends, chat, usage}
  calls = new Map(); // tool call id -> its turn id
  chats = new Map(); // by chat_id: {starts, ends, open, last}
  last; // seq of the last event; undefined: the first event's prev_seq is not known

  constructor(session) {
    this.session = session;
  }

  // join takes the state that the subscribe acknowledgement gives.
  join(ack, fromStart) {
    this.last = ack.seq;
    this.whole = fromStart;
    for (const turn of fromStart ? [] : ack.open_turns) {
      this.turns.set(turn.turn_id, {
        role: turn.role, status: turn.status, chat: turn.chat_id, ends: turn.status === 'paused' ? ['paused'] : [], joined: true,
        blocks: turn.blocks.filter((b) => b.type !== 'tool_use' && b.type !== 'tool_result')
          .map((b) => ({ type: b.type, text: b.content })),
        calls: new Map(turn.tool_calls.map((c) => [c.id, { ...c }])),
      });
      for (const c of turn.tool_calls) this.calls.set(c.id, turn.turn_id);
    }
  }

  #bad(event, why) {
    this.problems.push(`${event.name} seq ${event.data.seq}: ${why}`);
  }

  take(event) {
    const { name, data } = event;
    if (name === 'session:error' || name === 'session:resync') return;
    this.#order(event);
    if (data.session_id !== this.session) this.#bad(event, `session_id is ${data.session_id}`);
    if (Number.isNaN(Date.parse(data.ts))) this.#bad(event, `ts is ${data.ts}`);
    if (name === 'session:compacted') return this.#compacted(event, data.turn);
    const handle = {
      'chat:start': this.#chatStart, 'chat:end': this.#chatEnd,
      'turn:start': this.#turnStart, 'turn:patch': this.#patch, 'turn:end': this.#turnEnd,
    }[name];
    if (!handle) return;
    if (!data.chat_id) this.#bad(event, 'has no chat_id');
    handle.call(this, event, data);
  }

  #order(event) {
    const { seq, prev_seq: prev } = event.data;
    if (!Number.isSafeInteger(seq) || seq <= 0) this.#bad(event, 'has no seq');
    if (this.last !== undefined) {
      if (seq <= this.last) this.#bad(event, `does not grow: before it came ${this.last}`);
      if (prev !== this.last) this.#bad(event, `prev_seq is ${prev}, before it came ${this.last}`);
    }
    this.last = seq;
  }

  #chatStart(event, data) {
    const chat = this.chats.get(data.chat_id) ?? { starts: 0, ends: 0, open: false };
    if (chat.open && !data.resumed) this.#bad(event, 'the chat runs already');
    if (!chat.open && chat.ends > 0 && data.trigger !== 'answer') this.#bad(event, 'the chat has ended');
    for (const [id, other] of this.chats) {
      if (other.open && id !== data.chat_id) this.#bad(event, `chat ${id} still runs`);
    }
    if (!data.resumed) chat.starts++;
    chat.open = true;
    this.chats.set(data.chat_id, chat);
  }

  #chatEnd(event, data) {
    const chat = this.chats.get(data.chat_id) ?? { starts: 0, ends: 0, open: false };
    const dropped = chat.starts === 0 && data.status === 'interrupted'; // from the queue
    if (!chat.open && !dropped && this.whole) this.#bad(event, 'the chat does not run');
    const fits = {
      completed: 'completed', awaiting_answer: 'completed', interrupted: 'interrupted',
    }[data.finish_reason] ?? 'failed';
    if (data.status !== fits) this.#bad(event, `status ${data.status} with ${data.finish_reason}`);
    for (const [id, turn] of this.turns) {
      if (turn.chat !== data.chat_id || this.#outlives(turn)) continue;
      if (turn.status === 'streaming') this.#bad(event, `turn ${id} still streams`);
      for (const [call, { status }] of turn.calls) {
        const waits = status === 'awaiting_answer' && data.finish_reason === 'awaiting_answer';
        const held = status === 'pending' && data.finish_reason === 'awaiting_answer' && this.#asks(call);
        if ((status === 'pending' && !held) || (status === 'awaiting_answer' && !waits)) this.#bad(event, `call ${call} is ${status}`);
      }
    }
    chat.ends++;
    chat.open = false;
    chat.last = data;
    this.chats.set(data.chat_id, chat);
  }

  // asks: the call waits for permission, or it is a sub-agent that waits for an
  // answer, or one of its own does.
  #asks(fork) {
    if ([...this.turns.values()].some((t) => [...t.calls.values()].some((c) =>
      c.status === 'awaiting_answer' && c.arguments.includes(`"permission_for":"${fork}"`)))) return true;
    return [...this.turns.values()].some((t) => t.fork === fork
      && [...t.calls.values()].some((c) => c.status === 'awaiting_answer' || (c.status === 'pending' && this.#asks(c.id))));
  }

  // outlives: the turn belongs to a sub-agent in the background, which does not
  // end with its chat.
  #outlives({ fork }) {
    if (!fork) return false;
    const owner = this.turns.get(this.calls.get(fork));
    if (!owner) return false;
    const { arguments: args } = owner.calls.get(fork);
    return /"run_in_background":\s*true/.test(args) || this.#outlives(owner);
  }

  #turnStart(event, data) {
    if (this.turns.has(data.turn_id)) return this.#bad(event, `turn ${data.turn_id} started before`);
    const beyond = this.#outlives({ fork: data.parent_fork_tool_call_id });
    if (this.whole && !this.chats.get(data.chat_id)?.open && !beyond) this.#bad(event, 'its chat does not run');
    const blocks = data.role === 'user' ? data.blocks.map((b) => ({ type: b.type, text: b.content })) : [];
    this.turns.set(data.turn_id, {
      role: data.role, status: data.role === 'assistant' ? 'streaming' : data.status, blocks, calls: new Map(), ends: [],
      chat: data.chat_id, sequence: data.sequence, fork: data.parent_fork_tool_call_id,
    });
    if (data.role === 'assistant' && data.status !== 'streaming') this.#bad(event, `status is ${data.status}`);
  }

  // A summary comes whole, as one turn.
  #compacted(event, turn) {
    if (this.turns.has(turn.turn_id)) return this.#bad(event, `compaction ${turn.turn_id} was announced before`);
    if (turn.kind !== 'compaction' || turn.role !== 'system') this.#bad(event, `is a ${turn.kind} of ${turn.role}`);
    this.turns.set(turn.turn_id, {
      role: turn.role, status: turn.status, blocks: [], calls: new Map(), ends: [turn.status], chat: turn.chat_id, sequence: turn.sequence,
      fork: turn.parent_fork_tool_call_id,
    });
  }

  #patch(event, data) {
    const turn = this.turns.get(data.turn_id);
    if (!turn) {
      if (this.whole) this.#bad(event, `turn ${data.turn_id} never started`);
      return;
    }
    switch (data.patch_type) {
      case 'add_content': return this.#content(event, data, turn);
      case 'add_tool_call': {
        const call = data.tool_call;
        if (this.calls.has(call.id)) this.#bad(event, `call ${call.id} was added before`);
        if (turn.status !== 'streaming') this.#bad(event, `adds a call to a ${turn.status} turn`);
        JSON.stringify(call.arguments);
        if (typeof call.arguments !== 'string') this.#bad(event, 'arguments is not a text');
        this.calls.set(call.id, data.turn_id);
        turn.calls.set(call.id, { ...call });
        return;
      }
      case 'tool_result': {
        const call = turn.calls.get(data.tool_call_id);
        if (!call) return this.#bad(event, `turn ${data.turn_id} has no call ${data.tool_call_id}`);
        if (call.status !== 'pending' && call.status !== 'awaiting_answer') {
          this.#bad(event, `call ${data.tool_call_id} is ${call.status} already`);
        }
        if (!['done', 'error', 'cancelled'].includes(data.status)) this.#bad(event, `status is ${data.status}`);
        Object.assign(call, { status: data.status, result: data.result, duration_ms: data.duration_ms, images: data.images });
        return;
      }
      case 'tool_progress':
        if (turn.calls.get(data.tool_call_id)?.status !== 'pending') this.#bad(event, 'progress of a call that does not run');
        return;
      case 'retry':
        return;
      default:
        this.#bad(event, `patch_type is ${data.patch_type}`);
    }
  }

  #content(event, data, turn) {
    // What was said in a recording comes after its user turn.
    if (turn.status !== 'streaming' && turn.role !== 'user') this.#bad(event, `text for a ${turn.status} turn`);
    const block = turn.blocks.at(-1);
    if (data.offset === 0 && block?.type !== data.block_type) {
      turn.blocks.push({ type: data.block_type, text: data.text_delta });
      return;
    }
    if (block?.type !== data.block_type || block.text.length !== data.offset) {
      this.#bad(event, `offset ${data.offset} of ${data.block_type}; got are ${block?.text.length} of ${block?.type}`);
    }
    if (block) block.text += data.text_delta;
  }

  #turnEnd(event, data) {
    const turn = this.turns.get(data.turn_id);
    if (!turn) {
      if (this.whole) this.#bad(event, `turn ${data.turn_id} never started`);
      return;
    }
    const first = turn.ends.length === 0;
    const second = turn.ends.length === 1 && turn.ends[0] === 'paused' && ['completed', 'interrupted'].includes(data.status);
    if (!first && !second) this.#bad(event, `turn ${data.turn_id} ended before (${turn.ends}), now ${data.status}`);
    turn.ends.push(data.status);
    turn.status = data.status;
    turn.usage = data.usage;
  }

  // text of a turn, of its text blocks.
  text(turnID) {
    return this.turns.get(turnID).blocks.filter((b) => b.type === 'text').map((b) => b.text).join('');
  }

  // assistants are the assistant turns of a chat, in order.
  assistants(chat) {
    return [...this.turns].filter(([, t]) => t.chat === chat && t.role === 'assistant').map(([id, t]) => ({ id, ...t }));
  }
}

// plain is a value as JSON holds it: the order of fields does not matter, absent ones are not there.
const plain = (value) => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)));

// compare holds the stored messages against what was streamed.
export function compare(messages, rules) {
  const problems = [];
  const differ = (id, what, stored, streamed) => {
    if (!isDeepStrictEqual(plain(stored), plain(streamed))) {
      problems.push(
        `message ${id}: ${what} is stored as ${JSON.stringify(stored)?.slice(0, 300)}, was streamed as ` +
          `${JSON.stringify(streamed)?.slice(0, 300)}`,
      );
    }
  };
  messages.forEach((m, i) => {
    if (m.sequence !== i) problems.push(`message ${m.turn_id} has sequence ${m.sequence}, its place is ${i}`);
    const turn = rules.turns.get(m.turn_id);
    if (!turn) {
      problems.push(`message ${m.turn_id} (${m.role}) was never streamed`);
      return;
    }
    differ(m.turn_id, 'role', m.role, turn.role);
    differ(m.turn_id, 'status', m.status, turn.status);
    differ(m.turn_id, 'sequence', m.sequence, turn.sequence);
    const shown = m.blocks.filter((b) => ['text', 'thinking', 'image', 'audio'].includes(b.type));
    differ(m.turn_id, 'blocks', shown.map((b) => [b.type, b.content]), turn.blocks.map((b) => [b.type, b.text]));
    const short = (c) => [c.id, c.tool_name, c.status, c.result ?? '', c.arguments, c.images ?? []];
    differ(m.turn_id, 'calls', m.tool_calls.map(short), [...turn.calls.values()].map(short));
    if (m.role === 'assistant') differ(m.turn_id, 'usage', m.usage, turn.usage);
  });
  const stored = new Set(messages.map((m) => m.turn_id));
  for (const id of rules.turns.keys()) {
    if (!stored.has(id)) problems.push(`turn ${id} was streamed and is not stored`);
  }
  return problems;
}
