"""Streams of server-sent events."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from .errors import EverloopError

MAX_EVENT = 32 << 20
"""Characters of one event; the service sends at most 16 MB."""

_line_end = re.compile(r"\r\n|\n|\r(?!\Z)")


@dataclass(frozen=True)
class ServerSentEvent:
    """One event of a stream over HTTP; `data` is parsed JSON."""

    id: str | None
    event: str
    data: Any


async def parse_events(body: AsyncIterator[bytes]) -> AsyncIterator[ServerSentEvent]:
    """Reads server-sent events until the body ends. An event that the end cuts off is dropped."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces: list[str] = []  # of a line whose end has not come
    lines: list[str] = []
    size = 0
    async for chunk in body:
        text = decoder.decode(chunk)
        size += len(text)
        if size > MAX_EVENT:
            raise EverloopError("invalid_response", "an event of the stream is too large")
        pieces.append(text)
        if "\n" not in text and "\r" not in text and not pieces[0].endswith("\r"):
            continue
        parts = _line_end.split("".join(pieces))
        rest = parts.pop()
        pieces = [rest]
        for line in parts:
            if line:
                lines.append(line)
                continue
            event = _parse(lines)
            lines = []
            if event:
                yield event
        size = len(rest) + sum(map(len, lines))


def _parse(lines: list[str]) -> ServerSentEvent | None:
    event_id: str | None = None
    event = "message"
    data: list[str] = []
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "id":
            event_id = value
        elif field == "event":
            event = value
        elif field == "data":
            data.append(value)
    if not data:
        return None
    try:
        return ServerSentEvent(event_id, event, json.loads("\n".join(data)))
    except ValueError as cause:
        raise EverloopError("invalid_response", "an event of the stream is no JSON") from cause
