"""The ordered stream of one session."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Protocol

from .connection import Ack, Done, Follower
from .errors import EverloopError, failure
from .events import SessionEvent, Subscribed, event_of

_subscribe_timeout = 30.0
_slowest_retry = 10.0
_max_repairs = 3


class Line(Protocol):
    """What a stream needs of the connection."""

    @property
    def connected(self) -> bool: ...
    def follow(self, session: str, follower: Follower) -> None: ...
    def unfollow(self, session: str, follower: Follower) -> None: ...
    def emit(self, name: str, data: Mapping[str, object], timeout: float, done: Done) -> None: ...


class StreamHandler(Protocol):
    """Takes what a stream delivers."""

    def joined(self, ack: Subscribed, fresh: bool) -> None:
        """The stream is (again) joined. `fresh`: what was held before does not count, because events are missing before `seq`."""

    def took(self, event: SessionEvent) -> None: ...
    def disconnected(self) -> None: ...
    def closed(self, error: EverloopError) -> None: ...


class SessionStream:
    """Each event of a session once, in order, none missing.

    It checks the chain of prev_seq, and takes what it missed from the service by subscribing behind its last event.
    """

    def __init__(self, line: Line, session: str, after: int | None, handler: StreamHandler) -> None:
        self.last = after
        """seq of the last event that was delivered, or of the position where the stream began."""
        self._line = line
        self._session = session
        self._handler = handler
        self._chain = 0  # seq that the next event must have as its prev_seq
        self._attempt = 0  # number of the subscription; an answer to an earlier one counts no more
        self._live = False
        self._seen = False  # the stream was joined once
        self._repairs = 0  # in a row without an event
        self._failures = 0
        self._over = False
        self._timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Begins to follow."""
        self._line.follow(self._session, self)

    def connected(self) -> None:
        self._join()

    def disconnected(self) -> None:
        self._live = False
        self._attempt += 1
        self._stop_timer()
        if not self._over:
            self._handler.disconnected()

    def failed(self, error: EverloopError) -> None:
        self.close(error)

    def close(self, error: EverloopError) -> None:
        """Ends the stream."""
        if self._over:
            return
        self._over = True
        self._live = False
        self._attempt += 1
        self._stop_timer()
        self._line.unfollow(self._session, self)
        self._handler.closed(error)

    def _join(self) -> None:
        if self._over:
            return
        self._live = False
        self._stop_timer()
        self._attempt += 1
        attempt = self._attempt

        def done(error: EverloopError | None, ack: Ack) -> None:
            if attempt != self._attempt or self._over:
                return
            if error:
                self._refused(error)
            else:
                self._begin(ack)

        request: dict[str, object] = {"session_id": self._session}
        if self.last is not None:
            request["after_seq"] = self.last
        self._line.emit("session:subscribe", request, _subscribe_timeout, done)

    def _refused(self, error: EverloopError) -> None:
        if error.code == "network_error" or error.retryable:
            self._again()
        else:
            self.close(error)

    def _again(self) -> None:
        self._stop_timer()
        wait = min(_slowest_retry, 0.1 * 2 ** min(self._failures, 10)) * (0.5 + random.random() / 2)
        self._failures += 1
        self._timer = asyncio.get_running_loop().call_later(wait, lambda: self._join() if self._line.connected else None)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _begin(self, ack: Ack) -> None:
        subscribed: Subscribed = ack  # type: ignore[assignment]
        seq = ack.get("seq")
        if not isinstance(seq, int):
            return self.close(EverloopError("invalid_response", "the subscription has no seq"))
        truncated = bool(ack.get("truncated"))
        fresh = not self._seen or truncated
        self._failures = 0
        self._seen = True
        self._live = True
        self._chain = seq
        self.last = seq if self.last is None or truncated else max(self.last, seq)
        self._handler.joined(subscribed, fresh)

    def received(self, name: str, data: Mapping[str, Any]) -> None:
        if self._over:
            return
        if name == "session:error":
            return self._refused_later(data)
        if not self._live:
            return  # of a subscription that is being replaced: it comes again
        if name == "session:resync":
            return self._join()
        seq, prev = data.get("seq"), data.get("prev_seq")
        if not isinstance(seq, int) or not isinstance(prev, int):
            return
        if seq <= (self.last or 0):
            self._chain = max(self._chain, seq)
            return  # a repeat
        if prev != self._chain:
            self._repairs += 1
            if self._repairs <= _max_repairs:
                return self._join()
            return self._restart()  # the service itself no longer has what is missing
        self._repairs = 0
        self._chain = seq
        self.last = seq
        self._handler.took(event_of(name, data))

    # Joins at the present and has the state read again.
    def _restart(self) -> None:
        self._repairs = 0
        self.last = None
        self._seen = False
        self._join()

    def _refused_later(self, data: Mapping[str, Any]) -> None:
        if data.get("event") != "session:subscribe":
            return
        error = failure(data.get("error"), "session_not_found")
        if error.retryable:
            self._again()
        else:
            self.close(error)
