"""A client of one service."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Sequence
from typing import Literal

from .connection import Connection, ConnectionConfig
from .credentials import Credential
from .errors import EverloopError
from .generated import models
from .generated.operations import Api
from .generated.version import VERSION
from .session import Session
from .transport import Transport, TransportConfig
from .versions import compare_versions

_time_limit = 60.0


class Everloop:
    """A client of one service, to be used in one event loop and closed, or used with `async with`.

    Its sessions share one connection, which is made when the first is opened. `base_url` is the origin of the service,
    as http://127.0.0.1:8020; `token` an API key, or a function that gives a token; `timeout` the seconds until a call
    fails with `timeout`.
    """

    def __init__(
        self,
        base_url: str,
        token: Credential = None,
        *,
        timeout: float = _time_limit,
        transports: Sequence[Literal["websocket", "polling"]] = ("websocket", "polling"),
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        base_url = base_url.rstrip("/")
        self._transport = Transport(TransportConfig(base_url, token, timeout, ssl_context))
        self.api = Api(self._transport)
        """Every operation of the REST interface."""
        self._connection = Connection(ConnectionConfig(base_url, token, timeout, transports, self.check_version, ssl_context))

    async def check_version(self) -> models.Version:
        """Fails with `sdk_too_old` when the service needs a newer SDK. Opening a session does it, too."""
        found = await self.api.get_version()
        if compare_versions(VERSION, found["min_sdk"]) < 0:
            raise EverloopError(
                "sdk_too_old",
                f"this SDK is {VERSION} and the service {found['version']} needs at least {found['min_sdk']}: "
                f"install everloop-sdk=={found['version']}",
            )
        return found

    async def session(
        self,
        session_id: str,
        *,
        after: int | None = None,
        history: bool = True,
        schedule: Callable[[Callable[[], None]], None] | None = None,
        on_joined: Callable[[Session], None] | None = None,
    ) -> Session:
        """Follows an existing session; returns when its stream is joined.

        `after` is the seq of the last event that an earlier stream has seen, 0 for all that is kept, None for from now on.
        `history` says whether the view reads the messages that were there before; `schedule` batches its notifications.
        `on_joined` is called when the stream is joined, before its first event, and again when it is joined at a later position
        because events are no longer kept. What was read of the session before then may be out of date. Listeners that are
        attached in the first call miss no event.
        """
        session = Session(
            session_id,
            self.api,
            self._transport,
            self._connection,
            after=after,
            history=history,
            schedule=schedule,
            on_joined=on_joined,
        )
        await session._open()  # noqa: SLF001 - not for callers
        return session

    async def create_session(
        self,
        settings: models.NewSessionBody | None = None,
        *,
        history: bool = True,
        schedule: Callable[[Callable[[], None]], None] | None = None,
        on_joined: Callable[[Session], None] | None = None,
    ) -> Session:
        """Makes a session and follows it. A lost answer makes no second session."""
        made = await self.api.create_session(settings if settings is not None else {}, idempotency_key=secrets.token_hex(16))
        return await self.session(made["session_id"], history=history, schedule=schedule, on_joined=on_joined)

    async def close(self) -> None:
        """Ends the connection and all sessions on it; what runs in the service goes on."""
        await asyncio.gather(self._connection.close(), self._transport.close())

    async def __aenter__(self) -> Everloop:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
