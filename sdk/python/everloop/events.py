"""Events, and what the service says beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, cast

from .generated import events as generated
from .generated.events import EVENT_NAMES, EVENTS, SessionEvent, UnknownEvent

__all__ = [
    "EVENT_NAMES", "SessionEvent", "UnknownEvent", "LastEnd", "Question", "QuestionItem", "QuestionOption", "QueuedMessage", "Subscribed",
]


class QuestionOption(TypedDict):
    """An answer that the agent offers."""

    label: str
    description: NotRequired[str]


class QuestionItem(TypedDict):
    """One of the questions that are asked together."""

    question: str
    header: NotRequired[str]
    options: NotRequired[list[QuestionOption]]
    multiSelect: NotRequired[bool]


class Question(TypedDict):
    """An open question of the agent."""

    question_id: str
    tool_call_id: str
    turn_id: str
    chat_id: str
    loop_id: str
    questions: list[QuestionItem]
    asked_at: str
    expires_at: NotRequired[str]
    default_policy: NotRequired[str]
    source_loop: NotRequired[generated.SourceLoop]
    permission_for: NotRequired[Any]


class QueuedMessage(TypedDict):
    """A message that waits for its chat."""

    chat_id: str
    turn_id: str
    position: int
    preview: str


class LastEnd(TypedDict):
    """The last chat:end of a session without its place in the stream."""

    chat_id: str
    status: str
    finish_reason: str
    usage: generated.Usage
    steps: int
    duration_ms: int
    result: NotRequired[generated.ChatResult]
    error: NotRequired[generated.ChatError]


class Subscribed(TypedDict):
    """The acknowledgement of session:subscribe."""

    session_id: str
    status: str
    waiting_reason: str
    seq: int
    chat_id: NotRequired[str]
    replayed: int
    truncated: bool
    open_turns: list[generated.Turn]
    pending_questions: list[dict[str, Any]]
    queue: list[QueuedMessage]
    last_end: LastEnd | None


def event_of(name: str, data: Mapping[str, Any]) -> SessionEvent:
    """Makes an event of what was received. One that this version does not know is an UnknownEvent."""
    return cast(SessionEvent, EVENTS.get(name, UnknownEvent)(name, data))
