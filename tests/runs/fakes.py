"""Small stand-ins for what a run stands on, and records as agents make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from hmz_mp.core.ambient import Item, TurnRecord, TurnState
from hmz_mp.runs.costs import NO_BUDGET, Budget
from hmz_mp.runs.run import Run
from hmz_mp_worker.backends.protocol import Spent, Usage

if TYPE_CHECKING:
    from hmz_mp.core.pool import Pool

NO_POOL = cast("Pool", None)


class ListLedger:
    """Remembers what was put: number, item and state at that moment."""

    run_id = "r1"
    directory = None

    def __init__(self) -> None:
        self.rows: list[tuple[int, str, str]] = []
        self.said: list[tuple[int, str, str]] = []
        self.noted: list[tuple[object, ...]] = []

    def masked(self, text: str) -> str:
        return text.replace("secret", "***")

    def put(self, record: TurnRecord, *, alone: bool = False) -> int:
        self.rows.append((record.number, record.item_id, record.state))
        return 0

    def say(self, number: int, at: float, kind: str, text: str) -> None:
        self.said.append((number, kind, text))

    def note(self, statement: str, *values: Any) -> None:
        self.noted.append((statement, *values))

    def final(self) -> dict[str, str]:
        return {item_id: state for _, item_id, state in self.rows}


def record_of(item_id: str, **fields: Any) -> TurnRecord:
    return TurnRecord(
        item_id=item_id,
        agent="tool/x:y",
        agent_id="agent",
        session="s",
        place=0,
        prompt="",
        **fields,
    )


class Watched:
    """A run with a list ledger, that keeps what it was told of in order."""

    def __init__(
        self, items: Sequence[str] = (), *, max_failures: int = 0, budget: Budget = NO_BUDGET
    ) -> None:
        self.ledger = ListLedger()
        self.told: list[tuple[str, TurnState]] = []
        self.run = Run(
            pool=NO_POOL,
            ledger=self.ledger,
            task="task",
            select=lambda: [Item(item_id) for item_id in items],
            max_failures=max_failures,
            budget=budget,
            on_record=lambda record: self.told.append((record.item_id, record.state)),
            now=lambda: 7.0,
        )

    def submit(self, *item_ids: str) -> list[TurnRecord]:
        """Submit turns that, cancelled, end as an agent's do."""
        records = [record_of(item_id) for item_id in item_ids]
        for record in records:
            record.cancel = lambda error, record=record: self.end(
                record, "cancelled" if record.state == "running" else "not_run"
            )
            self.run.submitted(record)
        return records

    def begin(self, *records: TurnRecord) -> None:
        for record in records:
            record.state = "running"
            self.run.began(record)

    def spend(self, record: TurnRecord, usage: Usage) -> None:
        self.run.said(record, Spent((usage,)))

    def end(self, record: TurnRecord, state: TurnState = "ok", **fields: Any) -> None:
        record.state = state
        for name, value in fields.items():
            setattr(record, name, value)
        self.run.ended(record, lambda: None)
