"""The messages between a coordinator's Dask engine and its sites, one in each Dask worker.

Frames of workers travel in them as they are (`wire`); what belongs to workers' processes has a
message of its own. Many go together, in one encoded list. Imports msgspec only.
"""

from __future__ import annotations

import msgspec

__all__ = [
    "Bound",
    "ByValue",
    "Close",
    "Closed",
    "Died",
    "Discard",
    "Failed",
    "Frame",
    "FromSite",
    "Held",
    "Introduction",
    "Kill",
    "Measure",
    "Missed",
    "Opening",
    "Paths",
    "Piece",
    "Pieces",
    "Start",
    "ToSite",
    "decode_from_site",
    "decode_introduction",
    "decode_opening",
    "decode_to_site",
    "encode",
]


class Introduction(msgspec.Struct, frozen=True):
    """What a Dask worker is, asked before it is used."""

    python: str
    hmz_mp: str
    cloudpickle: str
    wire: int
    sees: bool  # whether it has the working directory


class Opening(msgspec.Struct, frozen=True):
    """What a site is opened with. Paths are bytes, as any may be in a file's name."""

    sys_path: list[bytes]
    prefixes: list[bytes]  # of the coordinator's Python
    cwd: bytes
    preload: list[str]
    env: dict[str, str]
    niceness: int
    initializer: bytes
    log_level: int
    workers: int  # as many of each kind as may run there


class Message(msgspec.Struct, frozen=True, array_like=True, tag_field="t", gc=False):
    """The base of every message."""


class Frame(Message, frozen=True, tag=1):
    """A frame to or from a worker; as many of the batch's next buffers belong to it."""

    worker: int
    body: bytes
    buffers: int = 0


# To a site.


class Start(Message, frozen=True, tag=2):
    """Start a worker."""

    worker: int
    host: bool


class Kill(Message, frozen=True, tag=3):
    """End a worker, if the call of ticket ``only`` is what it runs (0: whatever it runs)."""

    worker: int
    only: int


class Paths(Message, frozen=True, tag=4):
    """The coordinator's ``sys.path`` and working directory have changed."""

    sys_path: list[bytes]
    cwd: bytes


class ByValue(Message, frozen=True, tag=5):
    """Have later workers start with cloudpickle imported."""


class Bound(Message, frozen=True, tag=6):
    """Keep what workers print from filling memory."""


class Measure(Message, frozen=True, tag=7):
    """Say how much memory a worker holds (with its descendants)."""

    worker: int
    tree: bool


class Close(Message, frozen=True, tag=8):
    """End all workers, idle ones by themselves if that is to be ``orderly``."""

    orderly: bool


class Piece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One buffer of `Pieces`: the batch's next one if it ``comes``, else what is kept there.

    What comes with a digest is kept under it, until a `Discard` names that.
    """

    digest: bytes
    comes: bool
    writable: bool  # where it arrives, of what is kept


class Pieces(Message, frozen=True, tag=9):
    """A frame to a worker with large buffers. Of one without a ``body`` that is the first."""

    worker: int
    body: bytes
    pieces: list[Piece]
    buffers: int


class Discard(Message, frozen=True, tag=10):
    """Keep some pieces no longer."""

    digests: list[bytes]


# From a site.


class Died(Message, frozen=True, tag=2):
    """A worker has ended, and its last frames came before this."""

    worker: int
    running: int
    pid: int | None
    exitcode: int | None
    signal: int | None
    tail: str


class Missed(Message, frozen=True, tag=3):
    """A conditional `Kill` was not carried out."""

    worker: int


class Failed(Message, frozen=True, tag=4):
    """No workers can be started there."""

    reason: str
    said: str


class Held(Message, frozen=True, tag=5):
    """How many bytes a worker holds."""

    worker: int
    tree: bool
    held: int


class Closed(Message, frozen=True, tag=6):
    """Nothing is left there."""


ToSite = Frame | Start | Kill | Paths | ByValue | Bound | Measure | Close | Pieces | Discard
FromSite = Frame | Died | Missed | Failed | Held | Closed

encode = msgspec.msgpack.Encoder().encode
decode_to_site = msgspec.msgpack.Decoder(list[ToSite]).decode
decode_from_site = msgspec.msgpack.Decoder(list[FromSite]).decode
decode_opening = msgspec.msgpack.Decoder(Opening).decode
decode_introduction = msgspec.msgpack.Decoder(Introduction).decode
