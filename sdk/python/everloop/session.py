"""One session: its events in order, an assembled view, and what can be done in it."""

from __future__ import annotations

import asyncio
import inspect
import json
import secrets
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Union, cast

from .connection import Connection
from .errors import EverloopError
from .events import Question, QueuedMessage, SessionEvent, Subscribed
from .generated import events as generated
from .generated import models
from .generated.operations import Api
from .stream import SessionStream
from .transport import Content, Form, Transport
from .view import ChatView

Message = Union[str, list[Union[models.TextPart, models.ImagePart]]]
"""A text, or texts and pictures."""


class Chosen(TypedDict):
    """Options of a question, by their numbers, and a text besides them."""

    options: Sequence[int]
    text: str


Answer = Sequence[Union[int, Sequence[int], str, Chosen]]
"""For each question of a call the number of the chosen option, several numbers, a text, or options and a text."""

Mode = Literal["planning", "executing"]
Delivery = Literal["enqueue", "steer", "interrupt", "reject"]
"""While a chat runs: next chat, into the running chat, instead of it, or an error."""

OnQuestion = Callable[[Question], Union[Answer, Awaitable[Answer]]]

_max_ends = 200
_max_pending = 10_000
_closing = 5.0


@dataclass(frozen=True)
class Sent:
    """The acknowledgement of a message: from then on it survives the loss of any process."""

    chat_id: str
    turn_id: str
    delivery_applied: str
    """`run`, `enqueue`, `steer` or `interrupt`."""
    position: int
    duplicate: bool


@dataclass(frozen=True)
class Ran:
    """A chat that is over."""

    sent: Sent
    end: generated.ChatEnd
    text: str
    """Text of the agent's last turn."""
    output: Any
    """Result of a headless chat; None without one."""

    @property
    def chat_id(self) -> str:
        """The chat."""
        return self.sent.chat_id


class Answered(TypedDict):
    """`resolved` is false when the question was answered or cancelled before."""

    resolved: bool
    question_id: str
    chat_id: str


class Session:
    """Follows one session. `Everloop.session` and `Everloop.create_session` make it."""

    def __init__(
        self,
        session_id: str,
        api: Api,
        transport: Transport,
        connection: Connection,
        *,
        after: int | None,
        history: bool,
        schedule: Callable[[Callable[[], None]], None] | None,
        on_joined: Callable[[Session], None] | None,
    ) -> None:
        self.id = session_id
        self.view = ChatView(schedule)
        """Assembles turns, calls and questions."""
        self._api = api
        self._transport = transport
        self._connection = connection
        self._from_start = after == 0
        self._history = history
        self._stream = SessionStream(connection, session_id, after, _Handler(self))
        self._on_joined = [on_joined] if on_joined else []
        self._listeners: list[Callable[[SessionEvent], None]] = []
        self._closers: list[Callable[[EverloopError], None]] = []
        self._ends: dict[str, generated.ChatEnd] = {}  # the newest ones
        self._waiters: dict[asyncio.Future[generated.ChatEnd], str] = {}
        self._over: EverloopError | None = None
        # With `after`: what came before the first listener.
        self._backlog: list[SessionEvent] | None = None if after is None else []
        self._load: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def _open(self) -> None:
        try:
            self._stream.open()
            await self._ready
        except asyncio.CancelledError:
            self._stream.close(_session_closed())
            raise

    @property
    def seq(self) -> int:
        """seq of the last event that was delivered: a later stream goes on behind it."""
        return self._stream.last or 0

    def on(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        """Calls back with each event, in order. It gives a function that ends it.

        In a session that was opened with `after`, the first listener gets what came before it, too, at most 10,000 events:
        attach it at once.
        """
        backlog, self._backlog = self._backlog, None
        for event in backlog or []:
            listener(event)
        return _attach(self._listeners, listener)

    def on_close(self, listener: Callable[[EverloopError], None]) -> Callable[[], None]:
        """Calls back when the stream ends for good: the session was deleted, access was lost, or it was closed."""
        if self._over:
            listener(self._over)
            return lambda: None
        return _attach(self._closers, listener)

    def events(self) -> Events:
        """Gives the events from the call on. A consumer that is 10,000 events behind gets `consumer_too_slow`."""
        return Events(self)

    async def send(
        self,
        message: Message,
        *,
        mode: Mode | None = None,
        delivery: Delivery | None = None,
        headless: bool | None = None,
        output_schema: Mapping[str, Any] | None = None,
        whatif: models.ChatWhatif | None = None,
        client_message_id: str | None = None,
        timeout: float | None = None,
    ) -> Sent:
        """Sends a message and gives its acknowledgement.

        The same `client_message_id` is the same message; the SDK makes one when it is absent, and repeats the message with
        it when the connection is lost before the acknowledgement.
        """
        body = _given(
            session_id=self.id,
            message=message,
            client_message_id=client_message_id or secrets.token_hex(16),
            mode=mode,
            delivery=delivery,
            headless=headless,
            output_schema=output_schema,
            whatif=whatif,
        )
        ack = await self._connection.request("chat:send", body, True, timeout)
        sent = Sent(ack["chat_id"], ack["turn_id"], ack["delivery_applied"], ack["position"], ack["duplicate"])
        preview = message[:200] if isinstance(message, str) else ""
        noted = QueuedMessage(chat_id=sent.chat_id, turn_id=sent.turn_id, position=sent.position, preview=preview)
        if sent.position > 0:
            self.view.queued(noted)
        elif sent.delivery_applied == "steer":
            self.view.joins(noted)
        return sent

    async def run(
        self,
        message: Message,
        *,
        on_question: OnQuestion | None = None,
        mode: Mode | None = None,
        delivery: Delivery | None = None,
        headless: bool | None = None,
        output_schema: Mapping[str, Any] | None = None,
        whatif: models.ChatWhatif | None = None,
        client_message_id: str | None = None,
        timeout: float | None = None,
    ) -> Ran:
        """Sends a message and waits until its chat is over; a chat that failed is an EverloopError with its code.

        `on_question` answers the agent's questions; without it a chat that asks ends with `awaiting_answer`. `timeout` is
        that of the message, not of the chat, which `asyncio.timeout` bounds.
        """
        sent = await self.send(
            message,
            mode=mode,
            delivery=delivery,
            headless=headless,
            output_schema=output_schema,
            whatif=whatif,
            client_message_id=client_message_id,
            timeout=timeout,
        )
        while True:
            end = await self.ended(sent.chat_id)
            if end["finish_reason"] == "awaiting_answer" and on_question:
                await self._answer_all(sent.chat_id, on_question, timeout)
                continue
            if end["status"] == "failed":
                raise _failed(end)
            result = end.get("result")
            return Ran(sent, end, self._last_text(sent.chat_id), result["output"] if result else None)

    async def _answer_all(self, chat: str, ask: OnQuestion, timeout: float | None) -> None:
        self._ends.pop(chat, None)  # it starts again, and ends again
        for question in [one for one in self.view.snapshot().questions if one["chat_id"] == chat]:
            found = ask(question)
            answer = cast(Answer, await found if inspect.isawaitable(found) else found)
            await self.answer(question["tool_call_id"], answer, timeout=timeout)

    def _last_text(self, chat: str) -> str:
        said = [turn for turn in self.view.snapshot().turns if turn.chat_id == chat and turn.role == "assistant"]
        return said[-1].text if said else ""

    async def ended(self, chat: str) -> generated.ChatEnd:
        """Waits for the end of a chat; that of one that ended while the session was open comes at once."""
        known = self._ends.get(chat)
        if known:
            return known
        if self._over:
            raise self._over
        waiter: asyncio.Future[generated.ChatEnd] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = chat
        try:
            return await waiter
        finally:
            self._waiters.pop(waiter, None)

    async def answer(self, tool_call_id: str, answer: Answer, *, timeout: float | None = None) -> Answered:
        """Answers a question: for each of its parts the number of an option, several, a text, or `Chosen`.

        `resolved` is false when it was answered or cancelled before; after a lost connection that may have been this call.
        """
        given = {"tool_call_id": tool_call_id, **_answer_fields(answer)}
        body = {"session_id": self.id, "message": "", "askuser_answer": given}
        return cast(Answered, await self._connection.request("chat:send", body, True, timeout))

    async def stop(self, scope: Literal["chat", "chat_and_queue"] | None = None, *, timeout: float | None = None) -> bool:
        """Stops the running chat, or also what is queued."""
        ack = await self._connection.request("chat:stop", _given(session_id=self.id, scope=scope), True, timeout)
        return bool(ack["stopped"])

    async def compact(self, *, timeout: float | None = None) -> str:
        """Summarises the history; session:compacted or session:compaction_skipped reports its end.

        It is not repeated when the connection is lost.
        """
        ack = await self._connection.request("chat:compact", {"session_id": self.id}, False, timeout)
        return str(ack["compaction_id"])

    async def read_file(self, path: str, *, timeout: float | None = None) -> str:
        """Gives a file of the workspace as text."""
        return await (await self._api.read_file(self.id, path, timeout=timeout)).text()

    async def write_file(self, path: str, content: str, *, etag: str | None = None, timeout: float | None = None) -> str:
        """Writes a text file and gives its ETag.

        `etag`, of an earlier read or write, makes it fail when the file has changed since.
        """
        url, values = "/api/sessions/{session_id}/files/{file_path}", {"session_id": self.id, "file_path": path}
        headers = None if etag is None else {"if-match": etag}
        answer = await self._transport.headers("PUT", url, values, {"content": content}, {}, timeout, headers)
        return answer.get("etag", "")

    async def upload(
        self, directory: str, files: Mapping[str, Content], *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> models.UploadBody:
        """Stores files below a directory ('' is the workspace); their names may have directories."""
        parts = [("files", path.rsplit("/", 1)[-1], content) for path, content in files.items()]
        form = Form({"paths": json.dumps(list(files))}, parts)
        return await self._api.upload_files(self.id, directory, form, idempotency_key=idempotency_key, timeout=timeout)

    async def close(self) -> None:
        """Ends the stream; the session itself goes on."""
        if self._over:
            return
        self._stream.close(_session_closed())
        if not self._connection.connected:
            return
        try:
            await self._connection.request("session:unsubscribe", {"session_id": self.id}, False, _closing)
        except EverloopError:
            pass  # the service ends the subscription with the connection

    def _joined(self, ack: Subscribed, fresh: bool) -> None:
        self.view.joined(ack, fresh)
        if ack["truncated"]:
            self._lose_waiters(ack)
        if fresh:
            _call_all(self._on_joined, self)
        if not self._ready.done():
            self._ready.set_result(None)
        if not fresh:
            return
        # A stream from the very beginning brings all turns itself.
        if not self._history or (self._from_start and not ack["truncated"]):
            self.view.loaded([])
        else:
            self._start_load()
        self._from_start = False

    # The end of a chat that is over may be among the events that are gone.
    def _lose_waiters(self, ack: Subscribed) -> None:
        going_on = {ack.get("chat_id"), *(one["chat_id"] for one in ack["queue"])}
        for waiter, chat in list(self._waiters.items()):
            if chat not in going_on and not waiter.done():
                waiter.set_exception(EverloopError("truncated", "the end of the chat is no longer kept; the messages list has its turns"))

    def _start_load(self) -> None:
        if self._load:
            self._load.cancel()
        self._load = asyncio.ensure_future(self._load_messages())

    async def _load_messages(self) -> None:
        tries = 0
        while True:
            try:
                self.view.loaded(cast(Sequence[Mapping[str, Any]], await self._api.list_messages(self.id)))
                return
            except EverloopError as error:
                if not error.retryable:
                    return self._stream.close(error)
            await asyncio.sleep(min(10.0, 0.2 * 2 ** min(tries, 10)))
            tries += 1

    def _take(self, event: SessionEvent) -> None:
        self.view.take(event)
        if event.name == "session:updated" and event.data.get("history"):
            self.view.reload()
            if self._history:
                self._start_load()
        elif event.name == "chat:start":
            self._ends.pop(event.data["chat_id"], None)
        elif event.name == "chat:end":
            self._chat_ended(event.data)
        if self._backlog is not None:
            self._backlog.append(event)
            if len(self._backlog) > _max_pending:
                return self._stream.close(EverloopError("consumer_too_slow", f"no listener for more than {_max_pending} events"))
        _call_all(self._listeners, event)

    def _chat_ended(self, end: generated.ChatEnd) -> None:
        self._ends[end["chat_id"]] = end
        if len(self._ends) > _max_ends:
            del self._ends[next(iter(self._ends))]
        for waiter, chat in list(self._waiters.items()):
            if chat == end["chat_id"] and not waiter.done():
                waiter.set_result(end)

    def _closed(self, error: EverloopError) -> None:
        self._over = error
        if self._load and self._load is not asyncio.current_task():
            self._load.cancel()
        self.view.disconnected()
        if not self._ready.done():
            self._ready.set_exception(error)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)
        _call_all(self._closers, error)
        self._closers.clear()
        self._listeners.clear()


class _Handler:
    """Takes what the stream of a session delivers."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def joined(self, ack: Subscribed, fresh: bool) -> None:
        self._session._joined(ack, fresh)

    def took(self, event: SessionEvent) -> None:
        self._session._take(event)

    def disconnected(self) -> None:
        self._session.view.disconnected()

    def closed(self, error: EverloopError) -> None:
        self._session._closed(error)


class Events:
    """An iterator over the events of a session. It ends with `close`, at the end of `async with`, and with the session."""

    def __init__(self, session: Session) -> None:
        self._queue: deque[SessionEvent] = deque()
        self._error: EverloopError | None = None
        self._done = False
        self._wake = asyncio.Event()
        # The session does not keep an iterator that its consumer has dropped.
        this = weakref.ref(self)

        def put(event: SessionEvent) -> None:
            events = this()
            if events:
                events._put(event)
            else:
                ends[0]()

        def closed(why: EverloopError) -> None:
            events = this()
            if events:
                events._finish(None if why.code == "closed" else why)

        ends = [session.on(put)]
        self._ends = ends
        ends.append(session.on_close(closed))

    def _put(self, event: SessionEvent) -> None:
        self._queue.append(event)
        if len(self._queue) > _max_pending:
            self._finish(EverloopError("consumer_too_slow", f"more than {_max_pending} events wait to be read"))
        self._wake.set()

    def _finish(self, error: EverloopError | None) -> None:
        if not self._done:
            self._error = error
        self._done = True
        for end in self._ends:
            end()
        self._wake.set()

    def close(self) -> None:
        """Ends the iterator."""
        self._queue.clear()
        self._finish(None)

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> SessionEvent:
        while True:
            if self._queue:
                return self._queue.popleft()
            if self._error:
                error, self._error = self._error, None
                raise error
            if self._done:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()

    async def __aenter__(self) -> Events:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _attach(listeners: list[Callable[[Any], None]], listener: Callable[[Any], None]) -> Callable[[], None]:
    def entry(value: Any) -> None:
        listener(value)

    listeners.append(entry)
    return lambda: listeners.remove(entry) if entry in listeners else None


# A listener must not keep the others from an event; what it raised goes where such errors go.
def _call_all(listeners: Sequence[Callable[[Any], None]], value: object) -> None:
    for listener in list(listeners):
        try:
            listener(value)
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler({"message": "a listener of a session failed", "exception": error})


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _answer_fields(answer: Answer) -> dict[str, dict[str, object]]:
    selections: dict[str, object] = {}
    custom: dict[str, object] = {}
    for number, one in enumerate(answer):
        if isinstance(one, str):
            custom[str(number)] = one
        elif isinstance(one, int):
            selections[str(number)] = [one]
        elif isinstance(one, Mapping):
            selections[str(number)], custom[str(number)] = list(one["options"]), one["text"]
        else:
            selections[str(number)] = list(one)
    return {"selections": selections, "custom": custom}


def _failed(end: generated.ChatEnd) -> EverloopError:
    error = end.get("error")
    if not error:
        return EverloopError(end["finish_reason"], "the chat failed")
    return EverloopError(error["code"], error["message"], retryable=error["retryable"])


def _session_closed() -> EverloopError:
    return EverloopError("closed", "the session was closed")
