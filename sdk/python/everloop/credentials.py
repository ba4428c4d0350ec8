"""How a client proves who it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Union

TokenProvider = Callable[[bool], Union[str, Awaitable[str]]]
"""Gives the token of a request. Its argument is true when the service refused the last one: then a cached token is of no use."""

Credential = Union[str, TokenProvider, None]
"""An API key, or a function, also a coroutine function, that gives a token."""


async def token_of(credential: Credential, refresh: bool) -> str | None:
    """Resolves a credential."""
    if credential is None or isinstance(credential, str):
        return credential
    token = credential(refresh)
    return token if isinstance(token, str) else await token
