"""REST calls. This module must know no operation."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Union
from urllib.parse import quote, urlencode

import httpx

from .credentials import Credential, token_of
from .errors import EverloopError
from .generated.version import VERSION
from .sse import ServerSentEvent, parse_events

Content = Union[bytes, str, BinaryIO]
"""Content of a file: bytes, text, or an open binary file."""

_retries = 4
_slowest_retry = 10.0
# A stream sends comments while nothing happens; one that is silent for so many seconds is lost.
_silent_stream = 90.0


@dataclass(frozen=True)
class Form:
    """A form with files: for each its field, its file name and its content."""

    fields: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[tuple[str, str, Content]] = ()


@dataclass(frozen=True)
class TransportConfig:
    """What REST calls are made with."""

    base_url: str
    credential: Credential
    timeout: float
    ssl_context: ssl.SSLContext | None = None


class Download:
    """The answer of an operation that gives a file. It has to be read or closed; `async with` closes it."""

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer
        self.status: int = answer.status_code
        self.headers: Mapping[str, str] = answer.headers

    @property
    def etag(self) -> str | None:
        """Names this version of the file."""
        return self.headers.get("etag")

    async def read(self) -> bytes:
        """Gives the whole content."""
        try:
            return await self._answer.aread()
        except httpx.HTTPError as cause:
            raise _unreachable() from cause
        finally:
            await self.close()

    async def text(self) -> str:
        """Gives the whole content as text."""
        return (await self.read()).decode("utf-8", "replace")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Gives the content as it comes."""
        try:
            async for chunk in self._answer.aiter_bytes():
                yield chunk
        except httpx.HTTPError as cause:
            raise _unreachable() from cause
        finally:
            await self.close()

    async def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the content to a file."""
        with open(path, "wb") as file:
            async for chunk in self.chunks():
                await asyncio.to_thread(file.write, chunk)

    async def close(self) -> None:
        """Releases the connection."""
        await self._answer.aclose()

    async def __aenter__(self) -> Download:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Transport:
    """Makes REST calls."""

    def __init__(self, config: TransportConfig) -> None:
        self._config = config
        self._client: httpx.AsyncClient | None = None
        self._closed = False

    async def json(
        self,
        method: str,
        path: str,
        values: Mapping[str, str],
        body: object,
        query: Mapping[str, object],
        timeout: float | None,
        headers: Mapping[str, str] | None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Gives the parsed answer."""
        answer = await self._request(method, path, values, body, query, timeout, headers, idempotency_key, read=True)
        if not answer.content:
            return None
        try:
            return json.loads(answer.content)
        except ValueError as cause:
            raise EverloopError("invalid_response", "the answer is no JSON", status=answer.status_code) from cause

    async def none(
        self,
        method: str,
        path: str,
        values: Mapping[str, str],
        body: object,
        query: Mapping[str, object],
        timeout: float | None,
        headers: Mapping[str, str] | None,
        idempotency_key: str | None = None,
    ) -> None:
        """Makes a call whose answer has no body."""
        await self._request(method, path, values, body, query, timeout, headers, idempotency_key, read=True)

    async def headers(
        self,
        method: str,
        path: str,
        values: Mapping[str, str],
        body: object,
        query: Mapping[str, object],
        timeout: float | None,
        headers: Mapping[str, str] | None,
    ) -> Mapping[str, str]:
        """Gives the headers of an answer, for what its body does not say."""
        return (await self._request(method, path, values, body, query, timeout, headers, None, read=True)).headers

    async def response(
        self,
        method: str,
        path: str,
        values: Mapping[str, str],
        body: object,
        query: Mapping[str, object],
        timeout: float | None,
        headers: Mapping[str, str] | None,
        idempotency_key: str | None = None,
    ) -> Download:
        """Gives the answer itself, whose body the caller reads; the time limit ends with its headers."""
        return Download(await self._request(method, path, values, body, query, timeout, headers, idempotency_key, read=False))

    async def stream(
        self,
        method: str,
        path: str,
        values: Mapping[str, str],
        body: object,
        query: Mapping[str, object],
        timeout: float | None,
        headers: Mapping[str, str] | None,
        idempotency_key: str | None = None,
    ) -> AsyncIterator[ServerSentEvent]:
        """Gives the events of a stream as they come; it has no time limit once it is open."""
        sent = {"accept": "text/event-stream", **(headers or {})}
        answer = await self._request(method, path, values, body, query, timeout, sent, idempotency_key, read=False, silent=_silent_stream)
        try:
            async for event in parse_events(answer.aiter_bytes()):
                yield event
        except httpx.HTTPError as cause:
            raise _unreachable() from cause
        finally:
            await answer.aclose()

    async def close(self) -> None:
        """Closes the connections. Calls that are made later fail with `closed`."""
        self._closed = True
        if self._client:
            await self._client.aclose()

    async def _request(
        self,
        method: str,
        path: str,
        values: Mapping[str, str],
        body: object,
        query: Mapping[str, object],
        timeout: float | None,
        headers: Mapping[str, str] | None,
        idempotency_key: str | None,
        *,
        read: bool,
        silent: float | None = None,
    ) -> httpx.Response:
        url = self._config.base_url + fill_path(path, values) + _query_of(query)
        limit = self._config.timeout if timeout is None else timeout
        sent = dict(headers or {})
        if idempotency_key is not None:
            sent["idempotency-key"] = idempotency_key
        repeatable = method in ("GET", "HEAD") or idempotency_key is not None
        try:
            async with asyncio.timeout(limit):
                for tries in range(_retries + 1):
                    try:
                        return await self._authorised(method, url, body, sent, read, silent or limit)
                    except EverloopError as error:
                        if tries == _retries or not repeatable or not _worth_repeating(error):
                            raise
                        await asyncio.sleep(_wait_of(error, tries))
        except TimeoutError as cause:
            raise EverloopError("timeout", f"{method} {path} took longer than {limit:g} s", retryable=True) from cause
        raise AssertionError("not reached")

    async def _authorised(
        self, method: str, url: str, body: object, headers: Mapping[str, str], read: bool, silent: float
    ) -> httpx.Response:
        # The provider is asked once more when the service refuses its token.
        for refresh in (False, True):
            token = await token_of(self._config.credential, refresh)
            answer = await self._once(method, url, body, headers, token, silent)
            try:
                if read or not answer.is_success:
                    await answer.aread()
            except httpx.HTTPError as cause:
                raise _unreachable() from cause
            except BaseException:
                await answer.aclose()
                raise
            if answer.is_success:
                return answer
            if answer.status_code != 401 or refresh or not callable(self._config.credential):
                break
        raise _problem_of(answer)

    async def _once(
        self, method: str, url: str, body: object, headers: Mapping[str, str], token: str | None, silent: float
    ) -> httpx.Response:
        if self._closed:
            raise EverloopError("closed", "the client was closed")
        if self._client is None:
            self._client = httpx.AsyncClient(
                verify=self._config.ssl_context or True,
                headers={"user-agent": f"everloop-sdk-python/{VERSION}"},
                limits=httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=30),
            )
        sent = dict(headers)
        if body is not None and not isinstance(body, Form):
            sent["content-type"] = "application/json"
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        content = _content_of(body)
        try:
            request = self._client.build_request(method, url, headers=sent, timeout=httpx.Timeout(silent, pool=None), **content)
            return await self._client.send(request, stream=True)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as cause:
            raise EverloopError("invalid_argument", "base_url is no address as http://127.0.0.1:8020") from cause
        except httpx.TransportError as cause:
            raise _unreachable() from cause


def _content_of(body: object) -> dict[str, Any]:
    if body is None:
        return {}
    if not isinstance(body, Form):
        try:
            return {"content": json.dumps(body, allow_nan=False, separators=(",", ":")).encode()}
        except (TypeError, ValueError) as cause:
            raise EverloopError("invalid_argument", f"the body cannot be written as JSON: {cause}") from cause
    files = []
    for name, file_name, content in body.files:
        if not isinstance(content, (str, bytes)):
            content.seek(0)
        files.append((name, (file_name, content.encode() if isinstance(content, str) else content)))
    return {"data": dict(body.fields), "files": files}


def fill_path(path: str, values: Mapping[str, str]) -> str:
    """Puts values into a path. URLs resolve dot segments, escaped ones too, so they cannot be sent."""
    return re.sub(r"\{(\w+)\}", lambda found: _fill(found[1], values[found[1]]), path)


def _fill(name: str, value: str) -> str:
    # Parameters that are paths keep their slashes.
    is_path = name.endswith("_path")
    if not isinstance(value, str) or (value == "" and not is_path):
        raise EverloopError("invalid_argument", f"{name} is empty")
    if value == "." and is_path:
        return ""
    parts = value.lstrip("/").split("/") if is_path else [value]
    if any(part in (".", "..") for part in parts):
        raise EverloopError("invalid_argument", f"{name} has a segment . or ..")
    return "/".join(quote(part, safe="") for part in parts)


def _query_of(query: Mapping[str, object]) -> str:
    pairs = []
    for name, value in query.items():
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if one is not None:
                pairs.append((name, str(one).lower() if isinstance(one, bool) else str(one)))
    return "?" + urlencode(pairs) if pairs else ""


def _worth_repeating(error: EverloopError) -> bool:
    if error.code in ("network_error", "idempotency_key_in_use"):
        return True
    return error.retryable and error.status in (429, 502, 503, 504)


def _wait_of(error: EverloopError, tries: int) -> float:
    wait: float = min(_slowest_retry, 0.2 * 2**tries) * (0.5 + random.random() / 2)
    return max(wait, error.retry_after or 0)


def _problem_of(answer: httpx.Response) -> EverloopError:
    """Makes an error of a refusal: a problem document, or what a proxy in between sent."""
    problem: Mapping[str, Any] = {}
    try:
        parsed = json.loads(answer.content)
        if isinstance(parsed, dict):
            problem = parsed
    except ValueError:
        pass  # not a problem document
    code, detail, retryable, errors = (problem.get(name) for name in ("code", "detail", "retryable", "errors"))
    after = answer.headers.get("retry-after", "")
    return EverloopError(
        code if isinstance(code, str) else f"http_{answer.status_code}",
        detail if isinstance(detail, str) else f"the service answered {answer.status_code}",
        status=answer.status_code,
        retryable=retryable if isinstance(retryable, bool) else answer.status_code >= 502,
        request_id=answer.headers.get("x-request-id"),
        errors=errors if isinstance(errors, list) else [],
        retry_after=float(after) if after.isdecimal() and int(after) > 0 else None,
    )


def _unreachable() -> EverloopError:
    return EverloopError("network_error", "the service could not be reached", retryable=True)
