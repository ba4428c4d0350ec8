"""A service made of a real Socket.IO server: it keeps the events of one session and lets a test break their delivery."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import socketio
from aiohttp import web

Event = tuple[str, dict[str, Any]]
_no_log = logging.Logger("fake", logging.CRITICAL + 1)


class Fake:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.subscriptions: list[int | None] = []  # what session:subscribe was sent
        self.sent: list[dict[str, Any]] = []  # what chat:send was sent
        self.tokens: list[str | None] = []
        self.messages: list[dict[str, Any]] = []
        self.version = {"version": "2611.0.0", "min_sdk": "2611.0.0"}
        self.refused: str | None = None  # a token that is refused
        self.last_end: dict[str, Any] | None = None
        self.kept_from = 0  # events before this seq are gone
        self.spoil: Callable[[list[Event]], list[Event]] = lambda events: events  # what a subscriber gets of the events
        self.on_send: Callable[[dict[str, Any], str], Awaitable[dict[str, Any] | None]] = _sent
        self.rest: Callable[[web.Request], Awaitable[web.StreamResponse]] = _not_found
        self.requests: list[web.Request] = []
        self.sockets: dict[str, web.Request] = {}

    async def start(self) -> None:
        self.io = socketio.AsyncServer(async_mode="aiohttp", logger=_no_log, engineio_logger=_no_log, cors_allowed_origins="*")
        self.io.on("connect", self._connect)
        self.io.on("session:subscribe", self._subscribe)
        self.io.on("session:unsubscribe", self._unsubscribe)
        self.io.on("chat:send", self._send)
        app = web.Application()
        self.io.attach(app)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, shutdown_timeout=0.1)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        await self.cut()
        await self._runner.cleanup()

    async def _connect(self, sid: str, environ: dict[str, Any], auth: dict[str, Any] | None = None) -> None:
        token = (auth or {}).get("token")
        self.tokens.append(token)
        if token is not None and token == self.refused:
            raise socketio.exceptions.ConnectionRefusedError("unauthorized", {"code": "unauthorized"})
        self.sockets[sid] = environ["aiohttp.request"]

    async def _subscribe(self, sid: str, request: dict[str, Any]) -> dict[str, Any]:
        self.subscriptions.append(request.get("after_seq"))
        after = request.get("after_seq")
        if after is None:
            after = self.events[-1][1]["seq"] if self.events else 0
        kept = [event for event in self.events if event[1]["seq"] > after]
        missing = [event for event in kept if event[1]["seq"] < self.kept_from]
        following = kept[len(missing) :]
        asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(self._replay(sid, following)))
        return {
            "ok": True,
            "session_id": "s",
            "status": "running",
            "waiting_reason": "none",
            "seq": missing[-1][1]["seq"] if missing else after,
            "replayed": len(following),
            "truncated": bool(missing),
            "open_turns": [],
            "pending_questions": [],
            "queue": [],
            "last_end": self.last_end,
        }

    async def _replay(self, sid: str, events: list[Event]) -> None:
        for name, data in self.spoil(events):
            await self.io.emit(name, data, to=sid)
        self.io.enter_room(sid, "s")

    async def _unsubscribe(self, sid: str, request: dict[str, Any]) -> dict[str, Any]:
        return {"ok": True, "session_id": "s"}

    async def _send(self, sid: str, message: dict[str, Any]) -> dict[str, Any] | None:
        self.sent.append(message)
        answer = await self.on_send(message, sid)
        if answer is None:
            await asyncio.Event().wait()  # no acknowledgement
        return answer

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/api/version":
            return web.json_response(self.version)
        if request.path.endswith("/messages"):
            return web.json_response(self.messages)
        self.requests.append(request)
        if self.refused is not None and request.headers.get("authorization") == f"Bearer {self.refused}":
            return web.json_response({"code": "unauthorized", "detail": "no", "retryable": False}, status=401)
        return await self.rest(request)

    def add(self, name: str, **data: Any) -> Event:
        """Keeps a further event."""
        prev = self.events[-1][1]["seq"] if self.events else 0
        fields = {"session_id": "s", "seq": prev + 3, "prev_seq": prev, "ts": "2026-11-22T00:00:00Z", "chat_id": "c1"}
        event = (name, {**fields, **data})
        self.events.append(event)
        return event

    async def publish(self, name: str, **data: Any) -> Event:
        """Keeps a further event and sends it."""
        event = self.add(name, **data)
        await self.push(event)
        return event

    async def push(self, event: Event) -> None:
        await self.io.emit(event[0], event[1], room="s")

    async def cut(self) -> None:
        """Ends every connection as a lost network does."""
        for request in list(self.sockets.values()):
            if request.transport:
                request.transport.abort()
        self.sockets.clear()
        await asyncio.sleep(0)


async def _sent(_: dict[str, Any], __: str) -> dict[str, Any] | None:
    return {"ok": True, "chat_id": "c1", "turn_id": "t1", "delivery_applied": "run", "position": 0, "duplicate": False}


async def _not_found(_: web.Request) -> web.StreamResponse:
    return web.Response(status=404, text="no")


def problem(status: int, **fields: Any) -> web.Response:
    return web.Response(status=status, text=json.dumps(fields), content_type="application/problem+json", headers={"x-request-id": "r-1"})


async def until(what: str, probe: Callable[[], Any]) -> Any:
    """Waits for a condition."""
    async with asyncio.timeout(30):
        while not (found := probe()):
            await asyncio.sleep(0.005)
    assert found, what
    return found
