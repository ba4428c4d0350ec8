"""The state of a session, assembled from its events. This module must know no network: a session feeds it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast

from .events import LastEnd, Question, QuestionItem, QueuedMessage, SessionEvent, Subscribed
from .generated import events as generated

# Bounds of what is kept before the messages are loaded, and of one call's output.
_max_held = 20_000
_max_early = 1_000
_max_progress = 100_000


@dataclass(frozen=True)
class CallView:
    """A tool call with its live output."""

    id: str
    tool_name: str
    display_name: str
    arguments: str
    """JSON text as the model wrote it."""
    status: str
    result: str = ""
    duration_ms: int = 0
    connections: Sequence[generated.Connection] | None = None
    images: Sequence[generated.CallImage] | None = None
    progress: str = ""
    """Live output since the view joined; the result has all of it."""


@dataclass(frozen=True)
class Retry:
    """A model call failed and is made again."""

    attempt: int
    reason: str
    next_attempt_at: str


@dataclass(frozen=True)
class TurnView:
    """A turn as far as it has come. `stored` has the further fields of a turn that is in the messages list."""

    turn_id: str
    chat_id: str
    sequence: int
    role: str
    status: str
    loop_id: str
    kind: str
    model: str
    started_at: str
    parent_fork_tool_call_id: str | None
    blocks: Sequence[generated.Block] = ()
    tool_calls: Sequence[CallView] = ()
    usage: generated.Usage = field(default_factory=lambda: generated.Usage(input_tokens=0, output_tokens=0))
    duration_ms: int = 0
    failure_reason: str | None = None
    retry: Retry | None = None
    stored: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """What the turn says, without its thinking."""
        return "\n".join(block["content"] for block in self.blocks if block["type"] == "text")


@dataclass(frozen=True)
class ChatState:
    """The chat that runs, or waits for an answer."""

    chat_id: str
    mode: str | None = None
    headless: bool | None = None
    trigger: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """An immutable state of a session; what did not change is the same object as before."""

    turns: Sequence[TurnView] = ()
    """Turns of the agent itself by their sequence; those of sub-agents are in `children`."""
    children: Mapping[str, Sequence[TurnView]] = field(default_factory=dict)
    """Turns of sub-agents by the call that started them."""
    status: str = "created"
    waiting_reason: str = "none"
    intent: str | None = None
    model: str | None = None
    chat: ChatState | None = None
    last_end: LastEnd | generated.ChatEnd | None = None
    """How the last chat ended, also one that was over before; None after a move in the history."""
    questions: Sequence[Question] = ()
    queue: Sequence[QueuedMessage] = ()
    """Messages known to wait; `queue_length` counts those of other clients, too."""
    queue_length: int = 0
    joining: Sequence[QueuedMessage] = ()
    """Own messages that join the running chat, until its agent reads them."""
    tasks: Mapping[str, generated.BackgroundTaskUpdated] = field(default_factory=dict)
    online: bool = False
    loaded: bool = False
    seq: int = 0


class ChatView:
    """Assembles a session from its events. `schedule` batches notifications."""

    def __init__(self, schedule: Callable[[Callable[[], None]], None] | None = None) -> None:
        self._schedule = schedule or _soon
        self._turns: dict[str, TurnView] = {}
        self._early: dict[str, str] = {}  # output of calls that no turn has shown yet
        self._held: list[SessionEvent] = []  # for turns that only the messages list has
        self._lengths: dict[str, tuple[str, int]] = {}  # of the last block of a turn, in UTF-16 code units
        self._state = Snapshot()  # its turns and children are not kept
        self._cached: Snapshot | None = None
        self._listeners: list[Callable[[], None]] = []
        self._scheduled = False

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls back after changes, at most once for each `schedule`. It gives a function that ends it."""
        entry = lambda: listener()  # noqa: E731 - the same listener may be there twice
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry) if entry in self._listeners else None

    def snapshot(self) -> Snapshot:
        """Gives the state; the same object until something changes."""
        if self._cached is None:
            self._cached = self._assemble()
        return self._cached

    def turn(self, turn_id: str) -> TurnView | None:
        """Gives a turn by its id."""
        return self._turns.get(turn_id)

    def joined(self, ack: Subscribed, fresh: bool) -> None:
        """Takes the state at the position where the stream begins or goes on."""
        # Behind the position come the events themselves: the rest of the state is as of now and they repeat it.
        if not fresh:
            return self._set(online=True)
        self._turns.clear()
        self._early.clear()
        self._held.clear()
        self._lengths.clear()
        for turn in ack["open_turns"]:
            self._put(turn)
        questions = tuple(cast(Question, {**one, "questions": _items(one.get("questions"))}) for one in ack["pending_questions"])
        chat_id = ack.get("chat_id")
        self._set(
            online=True,
            loaded=False,
            status=ack["status"],
            waiting_reason=ack["waiting_reason"],
            seq=ack["seq"],
            chat=None if chat_id is None else ChatState(chat_id),
            questions=questions,
            queue=tuple(ack["queue"]),
            queue_length=len(ack["queue"]),
            joining=(),
            last_end=ack["last_end"],
        )

    def disconnected(self) -> None:
        """Notes that the connection is lost."""
        self._set(online=False)

    def reload(self) -> None:
        """Drops what is over, because the active branch changed; `loaded` brings the turns of the new one."""
        self._turns = {name: turn for name, turn in self._turns.items() if turn.status == "streaming"}
        self._held.clear()
        self._set(loaded=False, last_end=None, joining=())

    def loaded(self, turns: Sequence[Mapping[str, Any]]) -> None:
        """Takes the messages list. What events have shown is newer than the list."""
        for turn in turns:
            if turn["turn_id"] not in self._turns:
                self._put(turn)
        self._set(loaded=True)
        held, self._held = self._held, []
        for event in held:
            self.take(event)
        self._early.clear()

    def queued(self, message: QueuedMessage) -> None:
        """Notes an own message that waits for its chat."""
        if message["turn_id"] in self._turns or any(one["turn_id"] == message["turn_id"] for one in self._state.queue):
            return
        queue = tuple(sorted([*self._state.queue, message], key=lambda one: one["position"]))
        self._set(queue=queue, queue_length=max(self._state.queue_length, len(queue)))

    def joins(self, message: QueuedMessage) -> None:
        """Notes an own message that joins the running chat."""
        if message["turn_id"] not in self._turns:
            self._set(joining=(*self._state.joining, message))

    def take(self, event: SessionEvent) -> None:
        """Applies an event."""
        self._set(seq=max(self._state.seq, event.data["seq"]))
        if event.name == "chat:start":
            self._chat_start(event.data)
        elif event.name == "chat:end":
            self._chat_end(event.data)
        elif event.name == "turn:start":
            self._turn_start(event.data)
        elif event.name == "turn:patch":
            self._patch(event, event.data)
        elif event.name == "turn:end":
            self._turn_end(event, event.data)
        elif event.name == "session:updated":
            self._updated(event.data)
        elif event.name == "session:compacted":
            self._put(event.data["turn"])
        elif event.name == "question:resolved":
            gone = event.data["question_id"]
            self._set(questions=tuple(one for one in self._state.questions if one["question_id"] != gone))
        elif event.name == "background_task:updated":
            self._set(tasks=MappingProxyType({**self._state.tasks, event.data["task_id"]: event.data}))

    def _chat_start(self, data: generated.ChatStart) -> None:
        chat_id = data["chat_id"]
        self._set(
            chat=ChatState(chat_id, data.get("mode"), data.get("headless"), data.get("trigger")),
            queue=self._unqueued(lambda one: one["chat_id"] == chat_id),
        )

    def _chat_end(self, data: generated.ChatEnd) -> None:
        chat, chat_id = self._state.chat, data["chat_id"]
        if chat and chat.chat_id == chat_id and data["finish_reason"] != "awaiting_answer":
            chat = None
        self._set(chat=chat, last_end=data, queue=self._unqueued(lambda one: one["chat_id"] == chat_id))

    def _unqueued(self, gone: Callable[[QueuedMessage], bool]) -> Sequence[QueuedMessage]:
        queue = self._state.queue
        if not any(map(gone, queue)):
            return queue
        kept = [one for one in queue if not gone(one)]
        return tuple(cast(QueuedMessage, {**one, "position": number}) for number, one in enumerate(kept, 1))

    def _updated(self, data: generated.SessionUpdated) -> None:
        queue, length = self._state.queue, data["queue_length"]
        self._set(
            status=data["status"],
            waiting_reason=data["waiting_reason"],
            intent=data["intent"],
            model=data["model"],
            queue_length=length,
            queue=queue[len(queue) - length :] if length < len(queue) else queue,
        )

    def _turn_start(self, data: generated.TurnStart) -> None:
        turn_id = data["turn_id"]
        joining = tuple(one for one in self._state.joining if one["turn_id"] != turn_id)
        self._set(joining=joining, queue=self._unqueued(lambda one: one["turn_id"] == turn_id))
        self._put({name: value for name, value in data.items() if name not in ("seq", "prev_seq", "ts", "session_id")})

    def _turn_end(self, event: SessionEvent, data: generated.TurnEnd) -> None:
        turn = self._turns.get(data["turn_id"])
        if not turn:
            return self._hold(event)
        self._lengths.pop(turn.turn_id, None)
        self._change(
            turn,
            status=data["status"],
            usage=data["usage"],
            duration_ms=data["duration_ms"],
            failure_reason=data.get("failure_reason"),
            retry=None,
        )

    def _patch(self, event: SessionEvent, data: generated.TurnPatch) -> None:
        turn = self._turns.get(data["turn_id"])
        if not turn:
            self._hold(event)
        elif data["patch_type"] == "add_content":
            self._content(turn, data)
        elif data["patch_type"] == "retry":
            self._change(turn, retry=Retry(data["attempt"], data["reason"], data["next_attempt_at"]))
        elif data["patch_type"] == "add_tool_call":
            self._add_call(turn, data)
        elif data["patch_type"] == "tool_result":
            change: dict[str, Any] = {name: data[name] for name in ("result", "status", "duration_ms")}  # type: ignore[literal-required]
            if data.get("connections"):
                change["connections"] = data["connections"]
            if data.get("images"):
                change["images"] = data["images"]
            self._change_call(turn, data["tool_call_id"], **change)
        elif data["patch_type"] == "tool_progress":
            self._progress(turn, data["tool_call_id"], data["text_delta"])

    def _content(self, turn: TurnView, data: generated.TurnPatchAddContent) -> None:
        delta, offset, kind = data["text_delta"], data["offset"], data["block_type"]
        last = turn.blocks[-1] if turn.blocks else None
        if offset == 0 or last is None or last["type"] != kind:
            block = generated.Block(type=kind, content=delta, tool_call_id=None, tool_name=None, display_name=None)
            self._lengths[turn.turn_id] = (delta, _units(delta))
            return self._change(turn, blocks=(*turn.blocks, block), retry=None)
        content, known = last["content"], self._lengths.get(turn.turn_id)
        length = known[1] if known and known[0] is content else _units(content)
        added = _units(delta)
        if offset + added <= length:
            return  # the messages list had it already
        content = (content if offset >= length else _cut(content, offset)) + delta
        self._lengths[turn.turn_id] = (content, min(offset, length) + added)
        changed = cast(generated.Block, {**last, "content": content})
        self._change(turn, blocks=(*turn.blocks[:-1], changed), retry=None)

    def _add_call(self, turn: TurnView, data: generated.TurnPatchAddToolCall) -> None:
        call = data["tool_call"]
        progress = self._early.pop(call["id"], "")
        added = CallView(call["id"], call["tool_name"], call["display_name"], call["arguments"], call["status"], progress=progress)
        calls = (*(one for one in turn.tool_calls if one.id != call["id"]), added)
        self._change(turn, tool_calls=calls, retry=None)
        ref = call.get("pending_question_ref")
        if not ref:
            return
        where = {"tool_call_id": call["id"], "turn_id": turn.turn_id, "chat_id": data["chat_id"], "loop_id": turn.loop_id}
        question = cast(Question, {**ref, **where, **_asked(call["arguments"], call.get("display_name") == "Permission")})
        others = (one for one in self._state.questions if one["question_id"] != ref["question_id"])
        self._set(questions=(*others, question))

    def _change_call(self, turn: TurnView, call_id: str, **change: Any) -> None:
        self._change(turn, tool_calls=tuple(replace(one, **change) if one.id == call_id else one for one in turn.tool_calls))

    def _progress(self, turn: TurnView, call_id: str, delta: str) -> None:
        for call in turn.tool_calls:
            if call.id == call_id:
                return self._change_call(turn, call_id, progress=(call.progress + delta)[-_max_progress:])
        if call_id in self._early or len(self._early) < _max_early:
            self._early[call_id] = (self._early.get(call_id, "") + delta)[-_max_progress:]

    # Keeps an event for a turn that the messages list may bring.
    def _hold(self, event: SessionEvent) -> None:
        if not self._state.loaded and len(self._held) < _max_held:
            self._held.append(event)

    def _put(self, turn: Mapping[str, Any]) -> None:
        names = TurnView.__dataclass_fields__.keys() - {"blocks", "tool_calls", "stored", "retry"}
        known = {name: turn[name] for name in names if name in turn}
        for name in ("chat_id", "loop_id", "kind", "model", "started_at"):
            known.setdefault(name, "")
        self._turns[turn["turn_id"]] = TurnView(
            **known,
            blocks=tuple(turn.get("blocks") or ()),
            tool_calls=tuple(_call_of(one) for one in turn.get("tool_calls") or ()),
            stored=MappingProxyType(dict(turn)),
        )
        self._touch()

    def _change(self, turn: TurnView, **change: Any) -> None:
        self._turns[turn.turn_id] = replace(turn, **change)
        self._touch()

    def _set(self, **change: Any) -> None:
        self._state = replace(self._state, **change)
        self._touch()

    def _touch(self) -> None:
        self._cached = None
        if self._scheduled or not self._listeners:
            return
        self._scheduled = True
        self._schedule(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        for listener in list(self._listeners):
            listener()

    def _assemble(self) -> Snapshot:
        turns: list[TurnView] = []
        children: dict[str, list[TurnView]] = {}
        for turn in sorted(self._turns.values(), key=lambda one: one.sequence):
            parent = turn.parent_fork_tool_call_id
            (turns if parent is None else children.setdefault(parent, [])).append(turn)
        below = MappingProxyType({name: tuple(one) for name, one in children.items()})
        return replace(self._state, turns=tuple(turns), children=below)


def _soon(flush: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(flush)


def _call_of(call: Mapping[str, Any]) -> CallView:
    names = CallView.__dataclass_fields__.keys() - {"progress"}
    return CallView(**{name: call[name] for name in names if name in call})


def _units(text: str) -> int:
    """Counts UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _cut(text: str, units: int) -> str:
    return text.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "surrogatepass")


def _items(value: object) -> list[QuestionItem]:
    """Reads the questions of an acknowledgement, which has them as the tool got them."""
    found = value.get("questions") if isinstance(value, Mapping) else value
    return [cast(QuestionItem, one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _asked(text: str, permission: bool) -> dict[str, Any]:
    """Reads the arguments of a question. Only a question of the service is for permission."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return {"questions": []}
    more = {"permission_for": value["permission_for"]} if permission and "permission_for" in value else {}
    return {"questions": _items(value), **more}
