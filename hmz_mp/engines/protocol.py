"""What an engine is: what a coordinator asks of it, and what it tells the coordinator.

Every engine has the methods of `Engine` and reports to `EngineEvents`; nothing else passes between
the two, and an engine decides nothing about turns. What both promise is held by
``tests/contract/``, which every engine passes. Imported by the coordinator and by engines.

- **start**: `Engine.start_worker` is followed by one `worker_ready` or `worker_refused`, and in
  any case, sooner or later, by exactly one `worker_died`, after which the worker's number says
  nothing any more.
- **ship**: `Engine.ship` hands calls to a worker, in the order in which it is to begin them; a
  call worker runs one at a time. Whatever function a call names is there before it.
- **take back**: a worker whose running call takes long gives back what it has not begun
  (`worker_gave_back`); it will not run those.
- **answered**: `worker_answered`, once for each call that ended, in the order in which they did.
- **kill**: `Engine.kill` ends a worker with all that it started. With ``only``, that is done if
  the call of this ticket is what runs there, and otherwise nothing is but `worker_missed`.
- **died**: `worker_died` comes after all that the worker had answered and said, and names the call
  that ran. One that was behind it is neither answered nor run.
- **said**: `worker_said`, while a call runs, in order; what it prints comes with its answer.
- **capacity**: `capacity_changed`, whenever another number of workers can be had; an engine that
  never says so bears as many as it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hmz_mp.core.jobs import Kind
from hmz_mp.core.shipment import Shipment
from hmz_mp.errors import WorkerDied
from hmz_mp_worker import wire
from hmz_mp_worker.framing import Buffer

__all__ = ["OLDEST", "Engine", "EngineEvents"]

OLDEST = -1  # for the ticket of a call that is not known, but is the oldest of its worker


class EngineEvents(Protocol):
    """Who hears what happens to workers: the coordinator. All of it on the loop's thread."""

    def worker_ready(self, worker: int) -> None:
        """Hear that a worker is set up."""

    def worker_refused(self, failure: wire.StartFailed) -> None:
        """Hear that a worker cannot be set up; its end follows."""

    def worker_answered(
        self, worker: int, answers: Sequence[wire.Answer], buffers: list[Buffer]
    ) -> None:
        """Hear how calls ended. ``buffers`` are those of all answers, one after the other.

        Times are of this process's monotonic clock. The first buffer may be a view that is only
        good during this call.
        """

    def worker_gave_back(self, worker: int, tickets: list[int], running: int) -> None:
        """Hear that calls did not begin."""

    def worker_said(self, worker: int, said: wire.Said) -> None:
        """Hear something of a running call."""

    def settle(self) -> None:
        """Act on what was heard of workers' ``ready``, ``answered`` and ``gave_back``."""

    def worker_missed(self, worker: int) -> None:
        """Hear that a conditional kill was not carried out."""

    def worker_died(self, worker: int, running: int, error: WorkerDied) -> None:
        """Hear a worker's end, and the ticket of what it ran (0: nothing; or `OLDEST`)."""

    def capacity_changed(self, workers: int) -> None:
        """Hear how many workers of each kind there can be from now on."""

    def has_turns(self) -> bool:
        """Return whether there are turns that have not ended."""

    def engine_failed(self, reason: str, said: str) -> None:
        """Hear that no workers can be started any more, and what was printed about it."""


class Engine(Protocol):
    """Carries out what a coordinator decides. All of it is called on the loop's thread."""

    async def open(self) -> None:
        """Begin, before anything else is asked. Raises `BadInput` where it cannot."""

    def start_worker(self, worker: int, kind: Kind) -> None:
        """Start a worker under a number that was never used. Raises `OSError` if it cannot."""

    def ship(self, worker: int, jobs: Sequence[Shipment]) -> None:
        """Send calls to a worker, with the functions it does not have yet."""

    def forget(self, functions: Sequence[int], sessions: Sequence[int]) -> None:
        """Let workers forget functions and sessions that will not be named again."""

    def cancel_turn(self, worker: int, ticket: int) -> None:
        """Cancel one turn of a host worker."""

    def tell_turn(self, worker: int, ticket: int, data: bytes) -> None:
        """Tell one running turn of a host worker something."""

    def retire(self, worker: int) -> None:
        """Let a worker finish what it has and exit."""

    def kill(self, worker: int, only: int) -> None:
        """End a worker, if the call of ticket ``only`` is what it runs (0: whatever it runs)."""

    def follow_paths(self) -> None:
        """Tell workers when ``sys.path`` or the working directory has changed."""

    def prepare_by_value(self) -> None:
        """Have later workers start with cloudpickle imported, since they will need it."""

    def bound_outputs(self) -> None:
        """Keep what workers print, and what they left running prints, from filling memory."""

    def pid(self, worker: int) -> int | None:
        """Return a worker's process id, where it runs, once it is known."""

    def resident_memory(self, worker: int, *, tree: bool = False) -> int:
        """Return the bytes that a worker holds (with its descendants), as far as is known now."""

    def programs(self, worker: int) -> Mapping[int, int]:
        """Return the bytes that each agent program of a host worker takes here, by its pid."""

    async def close(self) -> None:
        """Let idle workers exit, end the others, and return when nothing is left."""

    async def kill_all(self) -> None:
        """End every worker and what it started; return when nothing is left."""
