"""The one class of errors of this SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class FieldError(TypedDict):
    """Says which field of a request is wrong."""

    location: str
    message: str


class EverloopError(Exception):
    """An error with a stable code.

    `code` is a code of the service (docs/errors.md), or one of the SDK's own: `network_error`,
    `timeout`, `closed`, `sdk_too_old`, `truncated`, `consumer_too_slow`, `invalid_argument`,
    `invalid_response`, and `http_STATUS` for the answer of a proxy.
    """

    code: str
    message: str
    status: int | None
    retryable: bool
    request_id: str | None
    errors: list[FieldError]
    retry_after: float | None
    """Seconds after which the service would answer again."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        request_id: str | None = None,
        errors: Sequence[FieldError] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.status = status
        self.retryable = retryable
        self.request_id = request_id
        self.errors = list(errors)
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def failure(error: object, fallback: str) -> EverloopError:
    """Makes an error of what an acknowledgement or an event reports."""
    fields: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    code = fields.get("code")
    if not isinstance(code, str):
        code = fallback
    message = fields.get("message")
    return EverloopError(code, message if isinstance(message, str) else code, retryable=fields.get("retryable") is True)
