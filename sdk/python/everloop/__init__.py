"""Sessions, chats, questions, files, schedules and runs of an Everloop service, typed, for asyncio."""

from .client import Everloop
from .credentials import Credential, TokenProvider
from .errors import EverloopError, FieldError
from .events import EVENT_NAMES, LastEnd, Question, QuestionItem, QueuedMessage, SessionEvent, Subscribed, UnknownEvent
from .generated import events, models
from .generated.operations import Api
from .generated.version import VERSION
from .session import Answer, Answered, Chosen, Events, Message, Ran, Sent, Session
from .sse import ServerSentEvent
from .transport import Content, Download, Form
from .view import CallView, ChatState, ChatView, Retry, Snapshot, TurnView

__version__ = VERSION

__all__ = [
    "EVENT_NAMES",
    "VERSION",
    "Answer",
    "Answered",
    "Api",
    "CallView",
    "ChatState",
    "ChatView",
    "Chosen",
    "Content",
    "Credential",
    "Download",
    "Events",
    "Everloop",
    "EverloopError",
    "FieldError",
    "Form",
    "Message",
    "LastEnd",
    "Question",
    "QuestionItem",
    "QueuedMessage",
    "Ran",
    "Retry",
    "Sent",
    "ServerSentEvent",
    "Session",
    "SessionEvent",
    "Snapshot",
    "Subscribed",
    "TokenProvider",
    "TurnView",
    "UnknownEvent",
    "__version__",
    "events",
    "models",
]
