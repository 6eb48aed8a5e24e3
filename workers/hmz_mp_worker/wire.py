"""The messages between a coordinator, its zygote and its workers.

Frozen, tagged Structs in four closed unions, one for each direction of each kind of connection,
with their encoder and decoders. User values are opaque bytes here (`payload`), so nothing a user
passes meets msgpack's own types. Imports msgspec only.
"""

from __future__ import annotations

import msgspec

__all__ = [
    "VERSION",
    "Answer",
    "Answers",
    "Boot",
    "BootFailed",
    "Booted",
    "Call",
    "Calls",
    "Cancel",
    "Exited",
    "Failure",
    "Forget",
    "Fork",
    "Forked",
    "FromWorker",
    "FromZygote",
    "Function",
    "GaveBack",
    "Kill",
    "Missed",
    "Paths",
    "Preload",
    "Ready",
    "Retire",
    "Run",
    "Said",
    "StartFailed",
    "Tell",
    "ToWorker",
    "ToZygote",
    "Welcome",
    "decode_from_worker",
    "decode_from_zygote",
    "decode_to_worker",
    "decode_to_zygote",
    "encode",
    "encode_answer",
]

VERSION = 2


class Message(msgspec.Struct, frozen=True, array_like=True, tag_field="t"):
    """The base of every message."""


# Coordinator to zygote.


class Boot(Message, frozen=True, tag=1):
    """The zygote's first message: what to set up before the first fork."""

    version: int
    sys_path: list[str]
    preload: list[str]
    niceness: int


class Fork(Message, frozen=True, tag=2):
    """Start a worker; three descriptors come with it: its socket, its output, its page."""

    worker: int
    host: bool


class Kill(Message, frozen=True, tag=3):
    """End a worker and what it started: TERM, ``grace`` seconds, KILL.

    With ``only`` not 0, only if the call of that ticket is what it is running.
    """

    worker: int
    only: int
    grace: float


class Preload(Message, frozen=True, tag=4):
    """Import modules that later workers will need."""

    modules: list[str]


# Zygote to coordinator.


class Booted(Message, frozen=True, tag=1):
    """The zygote is ready to fork."""

    version: int
    pid: int


class BootFailed(Message, frozen=True, tag=2):
    """The zygote cannot work; ``text`` says why."""

    text: str


class Forked(Message, frozen=True, tag=3):
    """A worker was started."""

    worker: int
    pid: int


class Exited(Message, frozen=True, tag=4):
    """A worker has ended and was reaped; ``status`` is the one of ``os.waitpid``."""

    worker: int
    status: int


class Missed(Message, frozen=True, tag=5):
    """A conditional `Kill` found the worker running something else; nothing was done."""

    worker: int
    only: int


# Coordinator to worker.


class Function(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A function's pickle under the id by which calls name it."""

    id: int
    data: bytes


class Call(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One call. ``data`` is the pickle of its arguments.

    Empty ``data`` with ``buffers`` means that the frame's next buffer is the pickle; the rest of
    its ``buffers`` are the pickle's out-of-band buffers. ``shared`` says where the same lie when
    they are in the shared `arena` instead. A ``plain`` one's pickle holds the positional
    arguments alone.
    ``function`` 0 means that the pickle holds the function too. With ``keep`` what
    the call changes of its process (`between`) is there again in the session's next one.
    """

    ticket: int
    function: int
    data: bytes
    session: int = 0
    buffers: int = 0
    shared: list[int] | None = None
    keep: bool = False
    plain: bool = False


class Welcome(Message, frozen=True, tag=1):
    """A worker's first message."""

    version: int
    worker: int
    sys_path: list[str]
    cwd: str
    log_level: int
    initializer: bytes
    authkey: bytes = b""  # of multiprocessing, by which its managers know their callers


class Calls(Message, frozen=True, tag=2):
    """Calls to run, in this order, after the functions they name for the first time."""

    functions: list[Function]
    calls: list[Call]


class Run(Message, frozen=True, tag=8):
    """Plain calls of one function, of tickets that follow each other, in this order.

    What most calls are, in a form that costs least; each has the pickle of its arguments.
    """

    functions: list[Function]
    function: int
    first_ticket: int
    arguments: list[bytes]


class Forget(Message, frozen=True, tag=3):
    """Functions and sessions that will not be named again."""

    functions: list[int]
    sessions: list[int]


class Cancel(Message, frozen=True, tag=4):
    """Cancel one running call of a host worker."""

    ticket: int


class Paths(Message, frozen=True, tag=5):
    """The coordinator's ``sys.path`` and working directory have changed."""

    sys_path: list[str]
    cwd: str


class Retire(Message, frozen=True, tag=6):
    """Finish what was sent before this, then exit."""


class Tell(Message, frozen=True, tag=7):
    """Tell one running call of a host worker something; what, is between it and its caller."""

    ticket: int
    data: bytes


# Worker to coordinator.


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The end of one call: ``data`` is its value's pickle, or an encoded `Failure`.

    ``began`` is the monotonic clock's, ``seconds`` the run time, ``output`` what it printed.
    ``buffers`` and ``shared`` are as in `Call`.
    """

    ticket: int
    ok: bool
    data: bytes
    began: float
    seconds: float
    output: bytes = b""
    buffers: int = 0
    shared: list[int] | None = None


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An exception: its pickle, or ``b""`` when it has none, and what it says as text.

    ``unpicklable`` names what could not be pickled when that is the failure.
    """

    pickle: bytes
    type_name: str
    text: str
    traceback: str
    unpicklable: str = ""


class Ready(Message, frozen=True, tag=1):
    """The worker is set up and waits for calls."""

    version: int
    pid: int


class Answers(Message, frozen=True, tag=2):
    """The ends of calls, in the order in which they ended."""

    answers: list[Answer]


class GaveBack(Message, frozen=True, tag=3):
    """Calls that were sent ahead and have not begun, since ``running`` takes long."""

    tickets: list[int]
    running: int


class Said(Message, frozen=True, tag=4):
    """Something a running call says: its progress, a log record, streamed text."""

    ticket: int
    kind: str
    data: bytes


class StartFailed(Message, frozen=True, tag=5):
    """The worker cannot work: its initializer failed, or the versions differ."""

    failure: Failure
    initializer: bool


ToZygote = Boot | Fork | Kill | Preload
FromZygote = Booted | BootFailed | Forked | Exited | Missed
ToWorker = Welcome | Calls | Run | Forget | Cancel | Paths | Retire | Tell
FromWorker = Ready | Answers | GaveBack | Said | StartFailed

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
encode_answer = _encoder.encode
decode_to_zygote = msgspec.msgpack.Decoder(ToZygote).decode
decode_from_zygote = msgspec.msgpack.Decoder(FromZygote).decode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode
decode_failure = msgspec.msgpack.Decoder(Failure).decode

# An `Answers` whose list is put together from answers that are encoded already.
ANSWERS_PREFIX = b"\x92\x02\xdd"
ANSWERS_PREFIX_LENGTH = len(ANSWERS_PREFIX) + 4


def answers_prefix(count: int) -> bytes:
    """Return what stands before ``count`` encoded answers in an encoded `Answers`."""
    return ANSWERS_PREFIX + count.to_bytes(4, "big")
