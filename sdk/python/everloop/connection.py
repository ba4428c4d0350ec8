"""The connection that all sessions of a client share."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .credentials import Credential, token_of
from .errors import EverloopError, failure
from .wire import Wire

Ack = Mapping[str, Any]
Done = Callable[[EverloopError | None, Ack], None]

_slowest_retry = 10.0


class Follower(Protocol):
    """What the connection serves: one session's stream."""

    def connected(self) -> None: ...
    def disconnected(self) -> None: ...
    def received(self, name: str, data: Mapping[str, Any]) -> None: ...
    def failed(self, error: EverloopError) -> None: ...


@dataclass(frozen=True)
class ConnectionConfig:
    """What the connection is opened with. `check` fails when this SDK does not fit the service."""

    base_url: str
    credential: Credential
    timeout: float
    transports: Sequence[str]
    check: Callable[[], Awaitable[object]]
    ssl_context: ssl.SSLContext | None = None


class Connection:
    """One Socket.IO connection; it reconnects until it is closed."""

    def __init__(self, config: ConnectionConfig) -> None:
        self._config = config
        self._followers: dict[str, Follower] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._pending: set[_Call] = set()
        self._wire: Wire | None = None
        self._task: asyncio.Task[None] | None = None
        self._failed: EverloopError | None = None
        self._checked = False
        self._retired: set[asyncio.Task[None]] = set()

    @property
    def connected(self) -> bool:
        """Whether events can be sent now."""
        return self._wire is not None and self._wire.live

    def follow(self, session: str, follower: Follower) -> None:
        """Passes on the events of a session."""
        if session in self._followers:
            raise EverloopError("invalid_argument", "this client has the session open already")
        self._open()
        self._followers[session] = follower
        if self.connected:
            follower.connected()

    def unfollow(self, session: str, follower: Follower) -> None:
        """Ends `follow`."""
        if self._followers.get(session) is follower:
            del self._followers[session]

    def emit(self, name: str, data: Mapping[str, object], timeout: float, done: Done) -> None:
        """Sends an event now; `done` is called in the order of what the service sends, so that no event overtakes it."""
        wire = self._wire
        if wire is None or not wire.live:
            return done(_lost(), {})
        call = _Call(done, self._pending)
        call.timer = asyncio.get_running_loop().call_later(timeout, call.settle, _lost(), {})
        self._pending.add(call)
        wire.emit(name, data, call.answer)

    async def request(self, name: str, data: Mapping[str, object], repeatable: bool, timeout: float | None = None) -> Any:
        """Sends an event and gives its acknowledgement. A repeatable one is sent again when the connection is lost."""
        limit = self._config.timeout if timeout is None else timeout
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        self._open()
        while True:
            await self._until_connected(deadline, name)
            answer: asyncio.Future[Ack] = loop.create_future()
            self.emit(name, data, max(0.001, deadline - loop.time()), _into(answer))
            try:
                return await answer
            except EverloopError as error:
                if error.code != "network_error" or not repeatable:
                    raise
            if loop.time() >= deadline:
                raise _timed_out(name)

    async def _until_connected(self, deadline: float, name: str) -> None:
        loop = asyncio.get_running_loop()
        while not self.connected:
            if self._failed:
                raise self._failed
            change: asyncio.Future[None] = loop.create_future()
            self._waiting.add(change)
            try:
                async with asyncio.timeout_at(deadline):
                    await change
            except TimeoutError:
                raise _timed_out(name) from None
            finally:
                self._waiting.discard(change)

    # A connection that failed for good starts again with the next call.
    def _open(self) -> None:
        if self._failed and self._failed.code == "closed":
            raise self._failed
        if self._task and not self._task.done() and not self._failed:
            return
        self._failed = None
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error and task is self._task:
            found = EverloopError("internal_error", "the connection ended with an error of the SDK")
            found.__cause__ = error
            self._fail(found)

    async def _run(self) -> None:
        refresh = False
        failures = 0
        while True:
            try:
                if not self._checked:
                    await self._config.check()
                    self._checked = True
                wire = await self._dial(refresh)
            except EverloopError as error:
                renew = error.code == "unauthorized" and callable(self._config.credential) and not refresh
                if not renew and not error.retryable:
                    return self._fail(error)
                refresh = renew
                await asyncio.sleep(_pause(failures))
                failures += 1
                continue
            refresh = False
            check = asyncio.ensure_future(self._check_again())
            try:
                self._joined(wire)
                await wire.wait()
            finally:
                check.cancel()
                self._left()
                self._retire(wire)
            failures = 0 if wire.answers else failures + 1
            await asyncio.sleep(_pause(failures))

    # The service may be another version than before.
    async def _check_again(self) -> None:
        try:
            await self._config.check()
        except EverloopError as error:
            if not error.retryable:
                self._fail(error)

    async def _dial(self, refresh: bool) -> Wire:
        try:
            token = await token_of(self._config.credential, refresh)
        except Exception as cause:
            raise EverloopError("unauthorized", "the token provider failed") from cause
        for number, transport in enumerate(self._config.transports, 1):
            wire = Wire(self._received, self._config.ssl_context)
            try:
                await wire.open(self._config.base_url, token, transport)
                return wire
            except BaseException as error:
                self._retire(wire)
                last = number == len(self._config.transports)
                if last or not isinstance(error, EverloopError) or error.code != "network_error":
                    raise
        raise EverloopError("invalid_argument", "transports is empty")

    # Closes a connection in a task of its own, so that nothing cancels that.
    def _retire(self, wire: Wire) -> None:
        task = asyncio.ensure_future(wire.close())
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)

    def _joined(self, wire: Wire) -> None:
        self._wire = wire
        self._wake()
        for follower in list(self._followers.values()):
            follower.connected()

    def _left(self) -> None:
        self._wire = None
        for call in list(self._pending):
            call.settle(_lost(), {})
        for follower in list(self._followers.values()):
            follower.disconnected()

    def _received(self, name: str, data: Any) -> None:
        session = data.get("session_id") if isinstance(data, dict) else None
        follower = self._followers.get(session) if isinstance(session, str) else None
        if follower:
            follower.received(name, data)

    def _fail(self, error: EverloopError) -> None:
        self._failed = error
        if self._task and self._task is not asyncio.current_task():
            self._task.cancel()
        self._wake()
        for follower in list(self._followers.values()):
            follower.failed(error)

    def _wake(self) -> None:
        for change in self._waiting:
            if not change.done():
                change.set_result(None)

    async def close(self) -> None:
        """Ends the connection and every stream on it."""
        self._fail(EverloopError("closed", "the client was closed"))
        if self._task:
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*self._retired, return_exceptions=True)


class _Call:
    """An event whose acknowledgement has not come."""

    def __init__(self, done: Done, pending: set[_Call]) -> None:
        self._done = done
        self._pending = pending
        self.timer: asyncio.TimerHandle | None = None

    def answer(self, ack: Any) -> None:
        if isinstance(ack, dict) and ack.get("ok") is True:
            self.settle(None, ack)
        else:
            self.settle(failure(ack.get("error") if isinstance(ack, dict) else None, "invalid_response"), {})

    def settle(self, error: EverloopError | None, ack: Ack) -> None:
        if self not in self._pending:
            return
        self._pending.discard(self)
        if self.timer:
            self.timer.cancel()
        self._done(error, ack)


def _into(answer: asyncio.Future[Ack]) -> Done:
    def done(error: EverloopError | None, ack: Ack) -> None:
        if answer.done():
            return
        if error:
            answer.set_exception(error)
        else:
            answer.set_result(ack)

    return done


def _pause(failures: int) -> float:
    return float(min(_slowest_retry, 0.1 * 2 ** min(failures, 10)) * (0.5 + random.random() / 2))


def _lost() -> EverloopError:
    return EverloopError("network_error", "the connection was lost before the answer came", retryable=True)


def _timed_out(name: str) -> EverloopError:
    return EverloopError("timeout", f"{name} was not answered in time", retryable=True)
