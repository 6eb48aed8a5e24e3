"""Large pieces of frames, sent to a Dask worker once and named by their digests afterwards.

`Account` is the coordinator's side: what a site keeps, by last use, and what it is to forget.
`Kept` is the site's: the bytes. The account alone decides, and what it decides travels between the
frames that it is about, in their order: no frame names what was forgotten before it. Knows nothing
of what pieces hold. Imported by ``engine`` and ``site``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from hmz_mp.engines.dask import relay
from hmz_mp_worker.framing import Buffer

__all__ = ["LARGE", "ROOM", "Account", "Kept", "Worth"]

LARGE = 1 << 20  # bytes of a piece that may be kept; smaller ones go in packs, at little cost each
# Bytes that a site keeps. They lie in the Dask worker's process, which Dask ends when it is over
# its limit: commonly 2 GiB and more for each thread, so this is an eighth of the smallest.
ROOM = 1 << 28
# Digesting takes some 1 ms for 1 MiB, on loopback twice as long as sending. So it has to have
# saved as many bytes as it was for, but for these.
_CREDIT = 1 << 26
_SAMPLES = 1 << 12  # how many are remembered
_SAMPLED = 512  # bytes, of each of eight places


class Worth:
    """Tells which pieces are to be digested: those that seem to have been there before.

    Of others as many bytes as were saved lately, or not yet lost: where no piece comes twice, they
    are soon sent as they are, at the price of a sample.
    """

    __slots__ = ("_credit", "_samples")

    def __init__(self) -> None:
        self._credit = _CREDIT
        self._samples: dict[bytes, None] = {}

    def pays(self, piece: Buffer) -> bool:
        """Return whether a piece is to be digested, and remember it."""
        sample = _sample(piece)
        if sample in self._samples:
            return True
        self._samples[sample] = None
        if len(self._samples) > _SAMPLES:
            del self._samples[next(iter(self._samples))]
        return self._credit > 0

    def note(self, size: int, *, saved: bool) -> None:
        """Take note that a piece was digested, and did not have to be sent or had to."""
        self._credit = max(0, min(_CREDIT, self._credit + (size if saved else -size)))


def _sample(piece: Buffer) -> bytes:
    view, step = memoryview(piece), len(piece) // 8
    hashed = hashlib.blake2b(len(piece).to_bytes(8, "big"), digest_size=16)
    for at in range(0, 8 * step, step):
        hashed.update(view[at : at + _SAMPLED])
    return hashed.digest()


def _digest(piece: Buffer) -> bytes:
    return hashlib.blake2b(piece, digest_size=32).digest()


class Account:
    """What one site keeps: digests and sizes alone, the longest unused first."""

    __slots__ = ("_held", "_room", "_sizes", "_worth")

    def __init__(self, worth: Worth) -> None:
        self._room = ROOM
        self._worth = worth
        self._sizes: dict[bytes, int] = {}
        self._held = 0

    def concerns(self, buffers: Sequence[Buffer]) -> bool:
        """Return whether any of these may be kept."""
        return any(LARGE <= len(one) <= self._room for one in buffers)

    def take(self, buffers: Iterable[Buffer]) -> tuple[list[relay.Piece], list[Buffer]]:
        """Return what to say of a frame's buffers, and those of them that have to be sent.

        The buffers are flat.
        """
        pieces: list[relay.Piece] = []
        sent: list[Buffer] = []
        for buffer in buffers:
            writable = not memoryview(buffer).readonly
            digest, given = self._digested(buffer, writable=writable)
            comes = digest not in self._sizes
            if comes:
                sent.append(given)
            if digest:
                self._keep(digest, len(given), comes=comes)
            pieces.append(relay.Piece(digest, comes, writable))
        return pieces, sent

    def _digested(self, buffer: Buffer, *, writable: bool) -> tuple[bytes, Buffer]:
        """Return the digest of a buffer, if it is to be kept, and what to send of it."""
        if not LARGE <= len(buffer) <= self._room or not self._worth.pays(buffer):
            return b"", buffer
        digest = _digest(buffer)
        if digest in self._sizes or _is_settled(buffer):
            return digest, buffer
        # Somebody may write to it: what is kept has to be what the digest is of.
        copied = bytearray(buffer) if writable else bytes(buffer)
        return _digest(copied), copied

    def _keep(self, digest: bytes, size: int, *, comes: bool) -> None:
        self._sizes.pop(digest, None)
        self._sizes[digest] = size  # as the last used
        self._worth.note(size, saved=not comes)
        if comes:
            self._held += size

    def surplus(self) -> list[bytes]:
        """Take off the account what is over its bound; return what the site is to forget.

        Called after each `take`, whose frame has to be sent before: it may name what goes.
        """
        forgotten = []
        while self._held > self._room:
            digest = next(iter(self._sizes))
            self._held -= self._sizes.pop(digest)
            forgotten.append(digest)
        return forgotten


def _is_settled(buffer: Buffer) -> bool:
    """Return whether a buffer cannot change: bytes, or a copy that was made for its call."""
    return not isinstance(buffer, memoryview) or isinstance(buffer.obj, bytes)


class Kept:
    """What a site keeps of frames that came, until it is told to forget it."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: dict[bytes, bytes | bytearray] = {}

    def put_together(self, pieces: Iterable[relay.Piece], came: Iterable[Buffer]) -> list[Buffer]:
        """Return a frame's buffers, to be sent to a worker and not to be written to.

        ``came`` are those that came with it. What waits to be sent lives on when it is forgotten.
        """
        rest = iter(came)
        buffers: list[Buffer] = []
        for piece in pieces:
            if not piece.comes:
                buffers.append(self._get(piece.digest, writable=piece.writable))
                continue
            buffer = next(rest)
            if piece.digest:
                assert not isinstance(buffer, memoryview)
                self._pieces[piece.digest] = buffer
            buffers.append(buffer)
        return buffers

    def _get(self, digest: bytes, *, writable: bool) -> Buffer:
        """Return what is kept, as an object that is writable if it is to be where it arrives."""
        kept = self._pieces[digest]
        if writable and isinstance(kept, bytes):
            kept = self._pieces[digest] = bytearray(kept)
        elif not writable and isinstance(kept, bytearray):
            return memoryview(kept).toreadonly()
        return kept

    def forget(self, digests: Iterable[bytes]) -> None:
        """Let go of pieces that will not be named again before they come again."""
        for digest in digests:
            del self._pieces[digest]
