import type { EventMap, EventSchemas, LastEnd, Question, QuestionItem, QueuedMessage, SessionEvent, Subscribed } from './events.js';

/** CallView is a tool call with its live output. */
export interface CallView {
  readonly id: string;
  readonly tool_name: string;
  readonly display_name: string;
  /** JSON text as the model wrote it. */
  readonly arguments: string;
  readonly status: string;
  readonly result: string;
  readonly duration_ms: number;
  readonly connections?: EventSchemas['Connection'][] | undefined;
  readonly images?: EventSchemas['CallImage'][] | undefined;
  /** Live output since the view joined; the result has all of it. */
  readonly progress: string;
}

/** Retry says that a model call failed and is made again. */
export interface Retry {
  readonly attempt: number;
  readonly reason: string;
  readonly next_attempt_at: string;
}

/** TurnView is a turn as far as it has come. */
export type TurnView = Readonly<Omit<EventSchemas['Turn'], 'tool_calls' | 'blocks'>> & {
  readonly blocks: readonly Readonly<EventSchemas['Block']>[];
  readonly tool_calls: readonly CallView[];
  readonly retry?: Retry | undefined;
};

/** ChatState is the chat that runs, or waits for an answer. */
export interface ChatState {
  readonly chat_id: string;
  readonly mode?: string;
  readonly headless?: boolean;
  readonly trigger?: string;
}

/** Snapshot is an immutable state of a session; what did not change is the same object as before. */
export interface Snapshot {
  /** Turns of the agent itself by their sequence; those of sub-agents are in `children`. */
  readonly turns: readonly TurnView[];
  /** Turns of sub-agents by the call that started them. */
  readonly children: ReadonlyMap<string, readonly TurnView[]>;
  readonly status: string;
  readonly waitingReason: string;
  readonly intent: string | undefined;
  readonly model: string | null | undefined;
  readonly chat: ChatState | undefined;
  /** How the last chat ended, also one that was over before; undefined after a move in the history. */
  readonly lastEnd: LastEnd | undefined;
  readonly questions: readonly Question[];
  /** Messages known to wait; `queueLength` counts those of other clients, too. */
  readonly queue: readonly QueuedMessage[];
  readonly queueLength: number;
  /** Own messages that join the running chat, until its agent reads them. */
  readonly joining: readonly QueuedMessage[];
  readonly tasks: ReadonlyMap<string, EventMap['background_task:updated']>;
  readonly online: boolean;
  /** Whether all messages are there; the newest come first. */
  readonly loaded: boolean;
  readonly seq: number;
}

type Turn = EventSchemas['Turn'];

// Bounds of what is kept before the messages are loaded, and of one call's output.
const maxHeld = 20_000;
const maxProgress = 100_000;

/** ChatView assembles a session from its events. It must know no network: a session feeds it. */
export class ChatView {
  private turns = new Map<string, TurnView>();
  private early = new Map<string, string>(); // output of calls that no turn has shown yet
  private held: SessionEvent[] = []; // for turns that only the messages list has
  private state: Omit<Snapshot, 'turns' | 'children'> = {
    status: 'created', waitingReason: 'none', intent: undefined, model: undefined, chat: undefined, lastEnd: undefined,
    questions: [], queue: [], queueLength: 0, joining: [], tasks: new Map(), online: false, loaded: false, seq: 0,
  };
  private cached: Snapshot | undefined;
  private readonly listeners = new Set<() => void>();
  private scheduled = false;

  /** schedule batches notifications: a front end passes requestAnimationFrame. */
  constructor(private readonly schedule: (flush: () => void) => void = queueMicrotask) {}

  /** subscribe calls back after changes, at most once for each `schedule`. It gives a function that ends it. */
  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  /** snapshot is the state; the same object until something changes. */
  snapshot = (): Snapshot => (this.cached ??= this.assemble());

  turn(id: string): TurnView | undefined {
    return this.turns.get(id);
  }

  /** text is what a turn says, without its thinking. */
  text(turn: TurnView): string {
    return turn.blocks.filter((block) => block.type === 'text').map((block) => block.content).join('\n');
  }

  /** joined takes the state at the position where the stream begins or goes on. */
  joined(ack: Subscribed, fresh: boolean): void {
    if (fresh) {
      this.turns.clear();
      this.early.clear();
      this.held = [];
      for (const turn of ack.open_turns) this.put(turn);
    }
    // Behind the position come the events themselves: the rest of the state is as of now and they repeat it.
    this.set({
      online: true,
      ...(fresh ? {
        loaded: false, status: ack.status, waitingReason: ack.waiting_reason, seq: ack.seq,
        chat: ack.chat_id === undefined ? undefined : { chat_id: ack.chat_id },
        questions: ack.pending_questions.map((one) => ({ ...one, questions: items(one.questions) })),
        queue: ack.queue, queueLength: ack.queue.length, joining: [], lastEnd: ack.last_end ?? undefined,
      } : {}),
    });
  }

  disconnected(): void {
    this.set({ online: false });
  }

  /** reload drops what is over, because the active branch changed; `loaded` brings the turns of the new one. */
  reload(): void {
    for (const [id, turn] of this.turns) {
      if (turn.status !== 'streaming') this.turns.delete(id);
    }
    this.held = [];
    this.set({ loaded: false, lastEnd: undefined, joining: [] });
  }

  /** newest takes the last turns of the messages list: they are seen before `loaded` brings the others. */
  newest(list: readonly Turn[]): void {
    this.add(list);
    this.replay();
  }

  /** loaded takes the messages list, or what `newest` has left of it. What events have shown is newer than the list. */
  loaded(list: readonly Turn[]): void {
    this.add(list);
    this.set({ loaded: true });
    this.replay();
    this.early.clear();
  }

  private add(list: readonly Turn[]): void {
    for (const turn of list) {
      if (!this.turns.has(turn.turn_id)) this.put(turn);
    }
  }

  // replay applies the held events; those of turns that are still missing are held again until all are loaded.
  private replay(): void {
    const held = this.held;
    this.held = [];
    for (const event of held) this.take(event);
  }

  /** queued notes an own message that waits for its chat. */
  queued(message: QueuedMessage): void {
    if (this.turns.has(message.turn_id) || this.state.queue.some((one) => one.turn_id === message.turn_id)) return;
    const queue = [...this.state.queue, message].sort((a, b) => a.position - b.position);
    this.set({ queue, queueLength: Math.max(this.state.queueLength, queue.length) });
  }

  /** joins notes an own message that joins the running chat. */
  joins(message: QueuedMessage): void {
    if (!this.turns.has(message.turn_id)) this.set({ joining: [...this.state.joining, message] });
  }

  /** take applies an event. */
  take(event: SessionEvent): void {
    this.set({ seq: Math.max(this.state.seq, event.data.seq) });
    switch (event.name) {
      case 'chat:start': return this.chatStart(event.data);
      case 'chat:end': return this.chatEnd(event.data);
      case 'turn:start': return this.turnStart(event.data);
      case 'turn:patch': return this.patch(event);
      case 'turn:end': return this.turnEnd(event);
      case 'session:updated': return this.updated(event.data);
      case 'session:compacted': return this.put(event.data.turn);
      case 'question:resolved':
        return this.set({ questions: this.state.questions.filter((one) => one.question_id !== event.data.question_id) });
      case 'background_task:updated':
        return this.set({ tasks: new Map(this.state.tasks).set(event.data.task_id, event.data) });
      default: // events that change nothing here
    }
  }

  private chatStart(data: EventMap['chat:start']): void {
    const { chat_id, mode, headless, trigger } = data;
    this.set({ chat: { chat_id, mode, headless, trigger }, ...this.unqueue((one) => one.chat_id === chat_id) });
  }

  private chatEnd(data: EventMap['chat:end']): void {
    const waits = data.finish_reason === 'awaiting_answer';
    const chat = this.state.chat?.chat_id === data.chat_id && !waits ? undefined : this.state.chat;
    this.set({ chat, lastEnd: data, ...this.unqueue((one) => one.chat_id === data.chat_id) });
  }

  private unqueue(gone: (one: QueuedMessage) => boolean): Pick<Snapshot, 'queue'> {
    const { queue } = this.state;
    if (!queue.some(gone)) return { queue };
    return { queue: queue.filter((one) => !gone(one)).map((one, index) => ({ ...one, position: index + 1 })) };
  }

  private updated(data: EventMap['session:updated']): void {
    const { queue } = this.state;
    this.set({
      status: data.status, waitingReason: data.waiting_reason, intent: data.intent, model: data.model, queueLength: data.queue_length,
      queue: data.queue_length < queue.length ? queue.slice(queue.length - data.queue_length) : queue,
    });
  }

  private turnStart(data: EventMap['turn:start']): void {
    const { seq: _seq, prev_seq: _prev, ts: _ts, session_id: _session, ...turn } = data;
    const joining = this.state.joining.filter((one) => one.turn_id !== data.turn_id);
    this.set({ joining, ...this.unqueue((one) => one.turn_id === data.turn_id) });
    this.put({
      ...turn, id: turn.turn_id, chat_id: turn.chat_id ?? '', tool_calls: [], usage: { input_tokens: 0, output_tokens: 0 }, duration_ms: 0,
      context_window: 0, memory_refs: null, deprecated: false, failure_reason: null, compaction_id: null, summary_preview: null,
      summary_full: null, archived_count: null, tokens_before: null, tokens_after: null, saved_ratio: null, trigger: null,
    } as Turn);
  }

  private turnEnd(event: SessionEvent & { name: 'turn:end' }): void {
    const { turn_id, status, usage, duration_ms, failure_reason } = event.data;
    const turn = this.turns.get(turn_id);
    if (!turn) return this.hold(event);
    this.change(turn, { status, usage, duration_ms, failure_reason: failure_reason ?? null, retry: undefined });
  }

  private patch(event: SessionEvent & { name: 'turn:patch' }): void {
    const { data } = event;
    const turn = this.turns.get(data.turn_id);
    if (!turn) return this.hold(event);
    switch (data.patch_type) {
      case 'add_content': return this.content(turn, data.block_type, data.offset, data.text_delta);
      case 'retry': {
        const { attempt, reason, next_attempt_at } = data;
        return this.change(turn, { retry: { attempt, reason, next_attempt_at } });
      }
      case 'add_tool_call': return this.addCall(turn, data.tool_call, data);
      case 'tool_result':
        return this.changeCall(turn, data.tool_call_id, {
          result: data.result, status: data.status, duration_ms: data.duration_ms,
          ...(data.connections ? { connections: data.connections } : {}),
          ...(data.images ? { images: data.images } : {}),
        });
      case 'tool_progress': return this.progress(turn, data.tool_call_id, data.text_delta);
      default: // a type that this version does not know
    }
  }

  private content(turn: TurnView, type: string, offset: number, delta: string): void {
    const last = turn.blocks.at(-1);
    if (offset === 0 || last?.type !== type) {
      const block = { type, content: delta, tool_call_id: null, tool_name: null, display_name: null };
      return this.change(turn, { blocks: [...turn.blocks, block], retry: undefined });
    }
    if (offset + delta.length <= last.content.length) return; // the messages list had it already
    const block = { ...last, content: last.content.slice(0, offset) + delta };
    this.change(turn, { blocks: [...turn.blocks.slice(0, -1), block], retry: undefined });
  }

  private addCall(turn: TurnView, call: EventSchemas['PatchedToolCall'], data: { chat_id: string }): void {
    const { id, tool_name, display_name, status, pending_question_ref: ref } = call;
    const progress = this.early.get(id) ?? '';
    this.early.delete(id);
    const added = { id, tool_name, display_name, arguments: call.arguments, status, result: '', duration_ms: 0, progress };
    this.change(turn, { tool_calls: [...turn.tool_calls.filter((one) => one.id !== id), added], retry: undefined });
    if (!ref) return;
    const question: Question = {
      ...ref, tool_call_id: id, turn_id: turn.turn_id, chat_id: data.chat_id, loop_id: turn.loop_id, ...asked(call.arguments, call.display_name === 'Permission'),
    };
    this.set({ questions: [...this.state.questions.filter((one) => one.question_id !== ref.question_id), question] });
  }

  private changeCall(turn: TurnView, id: string, change: Partial<CallView>): void {
    this.change(turn, { tool_calls: turn.tool_calls.map((one) => (one.id === id ? { ...one, ...change } : one)) });
  }

  private progress(turn: TurnView, id: string, delta: string): void {
    const call = turn.tool_calls.find((one) => one.id === id);
    if (call) return this.changeCall(turn, id, { progress: (call.progress + delta).slice(-maxProgress) });
    if (this.early.size < 1000) this.early.set(id, ((this.early.get(id) ?? '') + delta).slice(-maxProgress));
  }

  // hold keeps an event for a turn that the messages list may bring.
  private hold(event: SessionEvent): void {
    if (!this.state.loaded && this.held.length < maxHeld) this.held.push(event);
  }

  private put(turn: Turn): void {
    const calls = turn.tool_calls.map((one) => ({ ...one, connections: one.connections, images: one.images, progress: '' }));
    this.turns.set(turn.turn_id, { ...turn, tool_calls: calls });
    this.touch();
  }

  private change(turn: TurnView, change: Partial<TurnView>): void {
    this.turns.set(turn.turn_id, { ...turn, ...change });
    this.touch();
  }

  private set(change: Partial<Omit<Snapshot, 'turns' | 'children'>>): void {
    this.state = { ...this.state, ...change };
    this.touch();
  }

  private touch(): void {
    this.cached = undefined;
    if (this.scheduled || this.listeners.size === 0) return;
    this.scheduled = true;
    this.schedule(() => {
      this.scheduled = false;
      for (const listener of [...this.listeners]) listener();
    });
  }

  private assemble(): Snapshot {
    const turns: TurnView[] = [];
    const children = new Map<string, TurnView[]>();
    for (const turn of this.turns.values()) {
      const parent = turn.parent_fork_tool_call_id;
      if (parent === null) turns.push(turn);
      else {
        const list = children.get(parent);
        if (list) list.push(turn);
        else children.set(parent, [turn]);
      }
    }
    const order = (a: TurnView, b: TurnView) => a.sequence - b.sequence;
    turns.sort(order);
    for (const list of children.values()) list.sort(order);
    return { ...this.state, turns, children };
  }
}

// items reads the questions of an acknowledgement, which has them as the tool got them.
function items(value: unknown): QuestionItem[] {
  const list = Array.isArray(value) ? value : (value as { questions?: unknown } | null)?.questions;
  return Array.isArray(list) ? list as QuestionItem[] : [];
}

// asked reads the arguments of a question. Only a question of the service is for permission.
function asked(text: string, permission: boolean): { questions: QuestionItem[]; permission_for?: unknown } {
  try {
    const value = JSON.parse(text) as { questions?: unknown; permission_for?: unknown };
    return { questions: items(value), ...(!permission || value.permission_for === undefined ? {} : { permission_for: value.permission_for }) };
  } catch {
    return { questions: [] };
  }
}
