"""One Socket.IO connection, over python-socketio. It must know nothing of sessions and does not reconnect."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import socketio
from engineio.payload import Payload

from .errors import EverloopError, failure

Received = Callable[[str, Any], None]
Answered = Callable[[Any], None]

_handshake = 20.0
_largest_message = 32 << 20
# Packets that one answer to a poll may have; python-engineio allows 16, fewer than a replay brings.
_packets_of_poll = 100_000

# The libraries log what they send, the token too; this logger belongs to no other and drops it.
_no_log = logging.Logger("everloop", logging.CRITICAL + 1)


class _Session:
    """The HTTP session of a connection: it takes messages as large as the service sends them."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), trust_env=True)
        self.cookie_jar = self._session.cookie_jar
        self.get = self._session.get
        self.post = self._session.post
        self.close = self._session.close

        # python-engineio makes a session of its own in place of one that is closed, and does not close it.
        self.closed = False

    async def ws_connect(self, url: str, **options: Any) -> aiohttp.ClientWebSocketResponse:
        return await self._session.ws_connect(url, max_msg_size=_largest_message, **options)


class Wire:
    """A connection from its handshake to its end."""

    def __init__(self, received: Received, context: ssl.SSLContext | None) -> None:
        self.answers = 0
        self._received = received
        self._over = asyncio.Event()
        self._joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sends: set[asyncio.Task[None]] = set()
        self._http = _Session(context)
        self._client = socketio.AsyncClient(
            reconnection=False,
            handle_sigint=False,
            logger=_no_log,
            engineio_logger=_no_log,
            http_session=self._http,
            request_timeout=_handshake,
        )
        self._client.on("connect", self._connected)
        self._client.on("connect_error", self._refused)
        self._client.on("disconnect", self._left)
        self._client.on("*", self._event)

    @property
    def live(self) -> bool:
        """Whether events can be sent."""
        return self._joined.done() and not self._joined.exception() and not self._over.is_set()

    async def open(self, url: str, token: str | None, transport: str) -> None:
        """Connects. A refusal has the code of the service; all else is a `network_error`."""
        Payload.max_decode_packets = max(Payload.max_decode_packets, _packets_of_poll)
        auth = {} if token is None else {"token": token}
        try:
            async with asyncio.timeout(_handshake):
                await self._client.connect(url, auth=auth, transports=[transport], namespaces=["/"], wait=False)
                for task in self._loops():
                    task.add_done_callback(lambda _: self._left())
                over = asyncio.ensure_future(self._over.wait())
                first: set[asyncio.Future[Any]] = {self._joined, over}
                try:
                    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    over.cancel()
            if self._joined.done():
                return self._joined.result()
        except EverloopError:
            raise
        except Exception as cause:
            # The error of a handshake that the service refused was given to the callback.
            if self._joined.done() and not self._joined.cancelled():
                self._joined.result()
            raise EverloopError("network_error", "the service could not be reached", retryable=True) from cause
        raise EverloopError("network_error", "the connection was lost in its handshake", retryable=True)

    def emit(self, name: str, data: Mapping[str, object], answered: Answered) -> None:
        """Sends an event; `answered` gets the acknowledgement, if one comes."""

        def count(*acks: Any) -> None:
            self.answers += 1
            answered(acks[0] if acks else None)

        task = asyncio.ensure_future(self._send(name, data, count))
        self._sends.add(task)
        task.add_done_callback(self._sends.discard)

    async def _send(self, name: str, data: Mapping[str, object], answered: Callable[..., None]) -> None:
        try:
            await self._client.emit(name, data, callback=answered)
        except socketio.exceptions.SocketIOError:
            self._left()  # the connection ended between the call and this moment

    async def wait(self) -> None:
        """Waits for the end of the connection."""
        await self._over.wait()

    async def close(self) -> None:
        """Ends the connection and all its tasks."""
        self._over.set()
        try:
            async with asyncio.timeout(1):
                await self._client.disconnect()
        except Exception:  # noqa: BLE001 - it is over in any case
            pass
        finally:
            tasks = [*self._loops(), *self._sends]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._http.close()
            if self._joined.done() and not self._joined.cancelled():
                self._joined.exception()  # it is known

    def _loops(self) -> list[asyncio.Task[None]]:
        engine = self._client.eio
        return [task for task in (engine.read_loop_task, engine.write_loop_task) if task]

    def _connected(self) -> None:
        if not self._joined.done():
            self._joined.set_result(None)

    def _refused(self, data: Any = None) -> None:
        if self._joined.done():
            return
        details = data.get("data") if isinstance(data, Mapping) else None
        if isinstance(details, Mapping) and isinstance(details.get("code"), str):
            self._joined.set_exception(failure({"message": data.get("message"), **details}, ""))
        else:  # of a proxy, or of the transport
            self._joined.set_exception(EverloopError("network_error", "the handshake was refused", retryable=True))

    def _left(self, *_: object) -> None:
        self._over.set()

    def _event(self, name: str, data: Any = None, *_: object) -> None:
        if not self._over.is_set():
            self._received(name, data)
