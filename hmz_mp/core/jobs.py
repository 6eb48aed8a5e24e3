"""What the policy decides about: jobs, the lanes they queue in, and workers.

Plain slotted records without behaviour of their own; `policy` and `roster` alone change them. The
pool's jobs (`shipment`) are these with what it takes to ship them.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any, Literal, Protocol

import msgspec

from hmz_mp.core.breaker import Busy
from hmz_mp.core.gates import Gate

__all__ = [
    "HOST_TURNS",
    "Ending",
    "Job",
    "JobState",
    "Kind",
    "Lane",
    "Timing",
    "Worker",
    "WorkerState",
]

Kind = Literal["call", "host"]

HOST_TURNS = 256  # turns of one host worker before another is started


class JobState(Enum):
    """Where a job is. It is answered, failed or cancelled once, on leaving for ``DONE``."""

    QUEUED = "queued"
    SHIPPED = "shipped"
    ABANDONED = "abandoned"  # ended for its caller, while a worker still has it
    DONE = "done"


class Ending(Protocol):
    """The end of one call, as its worker says."""

    @property
    def ticket(self) -> int:
        """Which shipment it was."""

    @property
    def ok(self) -> bool:
        """Whether it has an answer."""

    @property
    def seconds(self) -> float:
        """How long it ran."""

    @property
    def data(self) -> bytes:
        """The answer or the failure, packed."""


class Timing:
    """What calls of one function have taken: a moving average, in seconds, or ``None``."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds: float | None = None

    def note(self, seconds: float, calls: int = 1) -> None:
        """Take in what some calls took together; the more they are, the more they weigh."""
        if calls:
            before, mean = self.seconds, seconds / calls
            self.seconds = mean if before is None else mean + 0.8**calls * (before - mean)


class Job(msgspec.Struct, eq=False, gc=False):
    """One turn, as the policy sees it.

    One is made for every turn, and what it costs most is what the garbage collector does with it:
    so this is a Struct that the collector does not look at. It must not refer to anything that
    refers to its pool.
    """

    id: int
    lane: Lane
    timing: Timing
    retries: int = 0
    timeout: float | None = None
    deadline: float | None = None
    memory: int | None = None
    state: JobState = JobState.QUEUED
    attempts: int = 0  # times it began to run, as far as is known
    setbacks: int = 0  # times that it was put back, as its service was too busy
    losses: int = 0  # times its worker died before it began
    expected: float = 0.0  # seconds it is expected to take, counted in its worker's backlog
    ticket: int = 0  # names this shipment; a retried job gets a new one
    shipped_at: float = 0.0  # by the monotonic clock, the last time
    worker: Worker | None = None
    stopping: BaseException | None = None  # how it ends once its worker lets go of it

    @property
    def unwanted(self) -> bool:
        """Whether it is to be stopped, if its worker has not let go of it yet."""
        return self.state is JobState.ABANDONED or self.stopping is not None

    def busy(self, _ending: Ending) -> Busy | None:
        """Return what a failure says of its service's being too busy, if it does."""
        return None

    def may_retry(self, _ending: Ending) -> bool:
        """Whether a failure is one that another try may not have."""
        return True

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.state.value}>"


class Lane:
    """A queue of jobs that need the same gates and the same kind of worker.

    ``serial`` lanes are sessions: one job in flight, all of them in the worker ``pinned``.
    """

    __slots__ = (
        "busy",
        "gates",
        "id",
        "jobs",
        "keep",
        "kind",
        "pinned",
        "place",
        "priority",
        "restarts",
        "serial",
        "woken_by",
    )

    def __init__(
        self,
        id: int,  # noqa: A002  # a name
        kind: Kind,
        gates: tuple[Gate, ...] = (),
        *,
        priority: int = 0,
        serial: bool = False,
    ) -> None:
        self.id = id
        self.kind: Kind = kind
        self.gates = gates
        self.priority = priority
        self.serial = serial
        self.keep = False  # what a turn changes of its process is there in the next
        self.jobs: deque[Job] = deque()
        self.busy = False
        self.pinned: Worker | None = None
        self.restarts = 0
        self.place: Any = None  # what it stands in: the ready queue, a gate, a worker, or nothing
        self.woken_by: Gate | None = None

    def __repr__(self) -> str:
        return f"<Lane {self.id} {self.kind} {len(self.jobs)} queued>"

    def count_restarts(self) -> int:
        """Return how often the worker that held this session was lost."""
        lost = self.pinned is not None and self.pinned.state is WorkerState.GONE
        return self.restarts + lost


class WorkerState(Enum):
    """Where a worker is in its life."""

    STARTING = "starting"
    READY = "ready"
    RETIRING = "retiring"
    DYING = "dying"
    GONE = "gone"


class Worker:
    """A worker process, as the policy sees it."""

    __slots__ = (
        "expected",
        "id",
        "idle_since",
        "inflight",
        "killing",
        "kind",
        "served",
        "sessions",
        "stalled",
        "state",
        "timed",
        "waiting",
    )

    def __init__(self, id: int, kind: Kind) -> None:  # noqa: A002  # a name
        self.id = id
        self.kind: Kind = kind
        self.state = WorkerState.STARTING
        self.inflight: dict[int, Job] = {}  # by ticket, in the order in which they were shipped
        self.expected = 0.0  # seconds of work shipped and not answered
        self.served = 0
        self.sessions = 0  # lanes pinned here
        self.stalled = False  # it gave work back: nothing is shipped ahead until it answers
        self.idle_since: float | None = None
        self.timed = False  # whether a call with a timeout was ever shipped here
        self.waiting: deque[Lane] = deque()  # pinned lanes that wait for room here
        self.killing: int | None = None  # the ticket it is killed for (0: whatever it runs)

    def __repr__(self) -> str:
        return f"<Worker {self.id} {self.kind} {self.state.value} {len(self.inflight)} in flight>"
