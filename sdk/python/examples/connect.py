"""What the examples share: the service that EVERLOOP_URL and EVERLOOP_KEY name."""

import os
import sys

from everloop import Everloop


def connect() -> Everloop:
    return Everloop(os.environ.get("EVERLOOP_URL", "http://127.0.0.1:8020"), os.environ.get("EVERLOOP_KEY"))


def argument(number: int, text: str) -> str:
    """Gives the message of an example, unless the command line has another one."""
    return sys.argv[1 + number] if len(sys.argv) > 1 + number else text
