"""A tool measures every item, and the agent is asked about those that stand out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hmz_mp.core.ambient import current_run
from hmz_mp.errors import BadInput
from hmz_mp.fanin import ask, fan_out
from hmz_mp.flows import Agent, flow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hmz_mp.core.ambient import Item
    from hmz_mp.fanin import Report

LOOK = "Say why it stands out, and whether that is wrong."
HOW = (
    "Answer with one finding. item_id: {item_id}. status: ok once you have looked at it, whatever "
    "you found; failed if you could not; needs_review if somebody has to decide. finding: one or "
    "two sentences. evidence_ref: where the evidence is, as a path and a line. confidence: high "
    "or low."
)


class Agents(NamedTuple):
    """Who measures, a tool of Python's or a command, and who is asked."""

    measure: Agent
    look: Agent


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """Which numbers count, by default all; what is far; and how many items are asked about.

    ``threshold`` is how many times the usual distance to the median is far; ``most`` bounds the
    items that the agent is asked about, those farthest out.
    """

    metrics: list[str] = []
    threshold: float = 3.5
    most: int = 20


@flow(name="triage")
async def run(agents: Agents, task: str, settings: Settings | None = None) -> None:
    """Measure every item of the run, then ask the agent about the outliers only."""
    settings = settings or Settings()
    this_run = current_run()
    if this_run is None:
        raise BadInput("triage works on the items of a run: start it with hmz-mp exec")
    items = {item.item_id: item for item in this_run.items()}
    measured = await fan_out(
        items.values(), ask(agents.measure, partial(about, task), schema=dict[str, Any]),
        on_failure="partial",
    )  # fmt: skip
    print(measured.brief(findings=False))
    reasons = standing_out(measured, settings)
    chosen = [items[item_id] for item_id in list(reasons)[: settings.most]]
    looked = await fan_out(
        chosen, ask(agents.look, partial(prompt_for, task, reasons)), on_failure="partial"
    )
    print(f"\nasked about {len(chosen):,} of {len(items):,}, which stand out:")
    if len(chosen) < len(reasons):
        print(f"(the farthest of {len(reasons):,})")
    print(looked)


def about(task: str, item: Item) -> str:
    """Return what who measures is given: the record, or the task for a file."""
    return task if item.text is None else item.text


def standing_out(measured: Report, settings: Settings) -> dict[str, list[str]]:
    """Return the items whose numbers are far from the others', with those, the farthest first."""
    names: Sequence[str] = settings.metrics or measured.metrics()
    farthest: dict[str, float] = {}
    reasons: dict[str, list[str]] = {}
    for name in names:
        numbers = measured.numbers(name)
        for item_id, score in measured.scores(name, threshold=settings.threshold).items():
            reasons.setdefault(item_id, []).append(f"{name} is {numbers[item_id]:g}")
            farthest[item_id] = max(score, farthest.get(item_id, 0.0))
    return {one: reasons[one] for one in sorted(reasons, key=lambda one: -farthest[one])}


def prompt_for(task: str, reasons: dict[str, list[str]], item: Item) -> str:
    """Return what the agent is asked about one item that stands out."""
    what = f"The file is {item.item_id}." if item.text is None else item.text
    why = f"It stands out among many: {', '.join(reasons[item.item_id])}."
    return "\n\n".join([task or LOOK, what, why, HOW.replace("{item_id}", item.item_id)])
