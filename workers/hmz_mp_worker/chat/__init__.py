"""Asking a chat model once: messages and tools in, a reply out, whatever service answers.

`stream` gives the reply in pieces, `ask` whole. Both go through the service's official SDK, which
is imported on first use; its own retries are off, since backing off is the coordinator's. What a
conversation is, and what is done with the calls of tools, is for others: ``backends/chat`` and the
coordinator's fan-in. Imports the standard library, msgspec and the failures of ``backends``.

``messages`` has what is said, and settings; ``openai`` and ``anthropic`` have a function that
makes a request of it and a reader of what comes back, both pure; ``clients`` has the connections,
``failures`` what went wrong.
"""

from __future__ import annotations

from hmz_mp_worker.chat.asking import AskFailed, ask, stream
from hmz_mp_worker.chat.clients import DEFAULT_KEYS, PACKAGES, Clients, needs_key
from hmz_mp_worker.chat.messages import (
    STALL,
    Call,
    CallResult,
    Message,
    Reply,
    Results,
    Service,
    Settings,
    Tool,
    User,
)

__all__ = [
    "DEFAULT_KEYS",
    "PACKAGES",
    "STALL",
    "AskFailed",
    "Call",
    "CallResult",
    "Clients",
    "Message",
    "Reply",
    "Results",
    "Service",
    "Settings",
    "Tool",
    "User",
    "ask",
    "needs_key",
    "stream",
]
