"""Calls as they travel to a worker: one message for what is shipped together.

Most of what is shipped are plain calls of one function, and those go as a `wire.Run`, which costs
least. Used by engines; it knows nothing of sockets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hmz_mp.core.jobs import Kind
from hmz_mp.core.late import LatePayload
from hmz_mp.core.shipment import Shipment
from hmz_mp_worker import wire
from hmz_mp_worker.framing import Buffer
from hmz_mp_worker.payload import split

__all__ = ["Inbox", "pack"]


_Frame = tuple[bytes, list[Buffer]]
_ALONE_FROM = 1 << 20  # bytes of a function's pickle that goes in a message of its own


class Inbox(Protocol):
    """Where a worker looks for large values, if it shares memory with this process."""

    def put(self, parts: Sequence[Buffer]) -> list[int] | None:
        """Copy a value's parts in; return where they lie, or ``None`` if they do not go there."""


def pack(jobs: Sequence[Shipment], kind: Kind, known: set[int], inbox: Inbox) -> list[_Frame]:
    """Return the messages that take jobs to a worker, each with the buffers that go beside it.

    ``known`` has the ids of the functions that the worker was sent; those sent now are added.
    ``inbox`` is where large values may be put instead.
    """
    fresh = [one for one in {job.function for job in jobs} if one.id not in known]
    if not fresh:
        return [_pack_calls(jobs, kind, [], inbox)]
    known.update(one.id for one in fresh)
    functions = [wire.Function(one.id, one.data) for one in fresh]
    large = [one for one in functions if len(one.data) > _ALONE_FROM]
    frames: list[_Frame] = [(wire.encode(wire.Calls([one], [])), []) for one in large]
    small = [one for one in functions if len(one.data) <= _ALONE_FROM]
    return [*frames, _pack_calls(jobs, kind, small, inbox)]


def _pack_calls(
    jobs: Sequence[Shipment], kind: Kind, functions: list[wire.Function], inbox: Inbox
) -> _Frame:
    arguments = _plain_arguments(jobs) if kind == "call" else []
    if arguments:
        first = jobs[0]
        return wire.encode(wire.Run(functions, first.function.id, first.ticket, arguments)), []
    buffers: list[Buffer] = []
    calls = [_packed(job, inbox, buffers) for job in jobs]
    return wire.encode(wire.Calls(functions, calls)), buffers


def _plain_arguments(jobs: Sequence[Shipment]) -> list[bytes]:
    """Return the arguments of plain calls of one function, outside sessions, shipped in one go.

    Nothing, if the jobs are something else.
    """
    first = jobs[0]
    if jobs[-1].ticket - first.ticket != len(jobs) - 1:
        return []
    function, lane, arguments = first.function, None, []
    for job in jobs:
        payload = job.payload
        if job.lane is not lane:
            lane = job.lane
            if lane.serial:
                return []
        if job.function is not function or not isinstance(payload, bytes):
            return []
        arguments.append(payload)
    return arguments


def _packed(job: Shipment, inbox: Inbox, buffers: list[Buffer]) -> wire.Call:
    """Return a call as it travels; what goes beside the message is added to ``buffers``."""
    lane, payload = job.lane, job.payload
    session = lane.id if lane.serial else 0
    if isinstance(payload, bytes):
        return wire.Call(job.ticket, job.function.id, payload, session, keep=lane.keep, plain=True)
    data, extra = split(payload.payload() if isinstance(payload, LatePayload) else payload)
    shared = None
    if extra and (shared := inbox.put(extra)) is not None:
        extra = ()
    buffers += extra
    function, count = job.function.id, len(extra)
    return wire.Call(job.ticket, function, data, session, count, shared, lane.keep)
