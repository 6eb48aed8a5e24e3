"""`Report`: the findings of all items that were asked about, and what can be asked of them.

Owns which items there are and what is known of them; how it is written is in ``brief`` and
``forms``. A view of some findings (`sort`, `filter`) still counts all items, so that nothing that
is made of an incomplete report reads as complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hmz_mp.agents.counting import Used
from hmz_mp.fanin.fields import field_of, fields_of, number_of
from hmz_mp.fanin.finding import STATUSES, Failure, Finding
from hmz_mp.fanin.outliers import THRESHOLD, outlying

if TYPE_CHECKING:
    from typing import TextIO

    from rich.table import Table

__all__ = ["Metric", "Outcome", "Report"]

Metric = str | Callable[[Finding], float | None]
Key = str | Callable[[Finding], Any]
OF_THE_WORK = ("seconds", "tries", "input_tokens", "output_tokens", "cost_usd")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one item: its finding, the answer that it was made of, and what it took."""

    finding: Finding
    value: Any = None
    cause: BaseException | None = None
    seconds: float = 0.0
    tries: int = 1
    used: Used = field(default_factory=Used)

    @property
    def input_tokens(self) -> int:
        """Tokens that models read for it."""
        return self.used.input_tokens

    @property
    def output_tokens(self) -> int:
        """Tokens that models wrote for it."""
        return self.used.output_tokens

    @property
    def cost_usd(self) -> float:
        """US dollars that it has cost, as far as anybody says."""
        return self.used.cost_usd


class Report:
    """What `fan_out` returns. Its findings are in the order of the items.

    ``findings`` are those of this view; ``failed``, ``complete`` and `counts` are always of all
    items that were asked about.
    """

    # The whole state: what became of each item, and which of the findings are in this view.
    def __init__(
        self, outcomes: Sequence[Outcome], findings: Sequence[Finding] | None = None
    ) -> None:
        self._outcomes = {one.finding.item_id: one for one in outcomes}
        whole = tuple(one.finding for one in outcomes)
        self.findings: tuple[Finding, ...] = whole if findings is None else tuple(findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, item_id: str) -> Finding:
        return self._outcomes[item_id].finding

    def __repr__(self) -> str:
        from hmz_mp.fanin.brief import headline

        return f"<Report {headline(self)}>"

    def __str__(self) -> str:
        from hmz_mp.fanin.brief import whole

        return whole(self)

    # All items.

    @property
    def failed(self) -> tuple[Failure, ...]:
        """The items that failed, in order; ``finding`` says why, ``cause`` is the exception."""
        return tuple(
            Failure(
                item_id=one.finding.item_id,
                status="failed",
                finding=one.finding.finding,
                evidence_ref=one.finding.evidence_ref,
                confidence=one.finding.confidence,
                cause=one.cause,
            )
            for one in self._outcomes.values()
            if one.finding.status == "failed"
        )

    @property
    def complete(self) -> bool:
        """Whether no item failed. One that needs review has been answered."""
        return not any(one.finding.status == "failed" for one in self._outcomes.values())

    @property
    def exit_status(self) -> int:
        """What a program should exit with: 0 if every item is ok, 1 if any is not."""
        return 0 if self.counts()["ok"] == self.asked else 1

    @property
    def asked(self) -> int:
        """How many items there are."""
        return len(self._outcomes)

    @property
    def answered(self) -> int:
        """How many of them have not failed."""
        return self.asked - self.counts()["failed"]

    @property
    def needs_review(self) -> tuple[Finding, ...]:
        """The items that somebody has to look at, in order."""
        found = [one.finding for one in self._outcomes.values()]
        return tuple(one for one in found if one.status == "needs_review")

    def counts(self) -> Counter[str]:
        """Return how many items have which status; each of the three is there."""
        counts: Counter[str] = Counter(dict.fromkeys(STATUSES, 0))
        counts.update(one.finding.status for one in self._outcomes.values())
        return counts

    def value(self, item_id: str) -> Any:
        """Return what the work answered about an item, whole; ``None`` if it failed."""
        return self._outcomes[item_id].value

    def outcome(self, item_id: str) -> Outcome:
        """Return the finding of an item with what it took: seconds, tries, tokens."""
        return self._outcomes[item_id]

    def total(self, name: str) -> float:
        """Return the sum of ``input_tokens``, ``output_tokens``, ``cost_usd`` or ``tries``."""
        return sum(float(getattr(one, name)) for one in self._outcomes.values())

    # Views.

    def sort(self, key: Key, *, reverse: bool = False) -> Report:
        """Return the report with its findings in another order: by a field, or a function.

        A field is one of the findings', or else of the answers'; those without it come last.
        """
        of = self._reader(key)
        having = [one for one in self.findings if of(one) is not None]
        others = [one for one in self.findings if of(one) is None]
        return self._view([*sorted(having, key=of, reverse=reverse), *others])

    def filter(
        self, predicate: Callable[[Finding], object] | None = None, **fields: object
    ) -> Report:
        """Return the report with only those findings that are as said: ``status="failed"``."""
        readers = {self._reader(name): value for name, value in fields.items()}
        return self._view(
            [
                one
                for one in self.findings
                if (predicate is None or predicate(one))
                and all(of(one) == value for of, value in readers.items())
            ]
        )

    def group_by(self, key: Key) -> dict[Any, list[Finding]]:
        """Return the findings by a field, as `sort` takes it, or by what a function says."""
        of = self._reader(key)
        groups: dict[Any, list[Finding]] = {}
        for one in self.findings:
            groups.setdefault(of(one), []).append(one)
        return groups

    def _view(self, findings: Sequence[Finding]) -> Report:
        return Report(tuple(self._outcomes.values()), findings)

    def _reader(self, key: Key) -> Callable[[Finding], Any]:
        """Return what reads a field of findings. Raises `KeyError` if none of them has it."""
        if callable(key):
            return key
        if self.findings and all(self._field(one, key) is None for one in self.findings):
            raise KeyError(f"no finding and no answer has a field {key!r}")
        return lambda finding: self._field(finding, key)

    def _field(self, finding: Finding, name: str) -> Any:
        outcome = self._outcomes[finding.item_id]
        for value in (finding, outcome.value):
            if (found := field_of(value, name)) is not None:
                return found
        return getattr(outcome, name) if name in OF_THE_WORK else None

    # Numbers.

    def numbers(self, metric: Metric) -> dict[str, float]:
        """Return a number of each item of this view that was answered and has it.

        ``metric`` is a field of the answer (``size``, ``largest.lines``), or of a subclass of
        `Finding`, or ``seconds``, ``tries``, ``input_tokens``, ``output_tokens`` or ``cost_usd``,
        or a function of the finding, which may return ``None``. Raises `KeyError` if no item has
        a field of that name.
        """
        found: dict[str, float] = {}
        for one in self.findings:
            if one.status == "failed":
                continue
            raw = metric(one) if callable(metric) else self._field(one, metric)
            number = number_of(raw)
            if number is not None:
                found[one.item_id] = number
        if not found and isinstance(metric, str) and any(o.status != "failed" for o in self):
            there = ", ".join([*self.metrics(), *OF_THE_WORK])
            raise KeyError(f"no answer has a number {metric!r}; there are {there}")
        return found

    def metrics(self) -> list[str]:
        """Return the names of the numbers that answers have."""
        names: dict[str, None] = {}
        for one in self.findings:
            if one.status != "failed":
                of_value = fields_of(self._outcomes[one.item_id].value)
                for name, value in {**of_value, **fields_of(one)}.items():
                    if number_of(value) is not None:
                        names[name] = None
        return list(names)

    def outliers(self, metric: Metric, *, threshold: float = THRESHOLD) -> list[Finding]:
        """Return the findings whose number is far from the others', the farthest first.

        ``metric`` is what `numbers` takes. Far is more than ``threshold`` times the usual
        distance to the median (`hmz_mp.fanin.outliers`); where all are the same none is.
        """
        return [self[item] for item in self.scores(metric, threshold=threshold)]

    def scores(self, metric: Metric, *, threshold: float = THRESHOLD) -> dict[str, float]:
        """Return how many times the usual distance the outliers are away, the farthest first."""
        return outlying(self.numbers(metric), threshold)

    # Forms.

    def brief(self, max_chars: int = 2000, *, findings: bool = True) -> str:
        """Return what a model needs of it: totals, failures, groups and outliers.

        After those come findings one by one, as many as fit, unless ``findings`` is false.

        How many items were asked about, answered and failed, and which failed, always stands,
        also where that alone is longer than ``max_chars``.
        """
        from hmz_mp.fanin.brief import brief

        return brief(self, max_chars, findings=findings)

    def to_json(self) -> str:
        """Return the report as a JSON object in ASCII, which holds ids of any bytes."""
        from hmz_mp.fanin.forms import to_json

        return to_json(self)

    def to_csv(self) -> str:
        """Return a row for each finding; the last column says how complete the report is."""
        from hmz_mp.fanin.forms import to_csv

        return to_csv(self)

    def table(self) -> Table:
        """Return the report as a table of rich's."""
        from hmz_mp.fanin.forms import table

        return table(self)

    def show(self, file: TextIO | None = None) -> None:
        """Write the table to a terminal or a file, by default standard output."""
        from hmz_mp.fanin.forms import show

        show(self, file)
