"""The words on the screen, in as many columns as there are. Pure; imported by ``screen``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hmz_mp.runs.words import duration
from hmz_mp.terminal import shorten

if TYPE_CHECKING:
    from hmz_mp.watching.conversations import Conversation
    from hmz_mp.watching.snapshot import AgentCount, Snapshot

__all__ = ["agent_line", "figure_lines", "heading", "title"]

_BAR = 12
_LEAST_NAME = 8


def heading(snapshot: Snapshot, width: int) -> str:
    """Return the run, how it is, and for how long."""
    status = "goes on" if snapshot.status == "running" else snapshot.status
    long = f"run {snapshot.run_id}  {status}  {duration(snapshot.seconds)}"
    if len(long) <= width:
        return long
    return shorten(f"{status}  {duration(snapshot.seconds)}  {snapshot.run_id}", width)


def figure_lines(snapshot: Snapshot, rate: float | None, total: int, width: int) -> list[str]:
    """Return the figures, in as few lines as they fit into."""
    parts = [f"{snapshot.ended:,} of {total:,} done"]
    if snapshot.failed_count:
        parts.append(f"{snapshot.failed_count:,} failed")
    if not snapshot.is_over:
        running, most = snapshot.count("running"), snapshot.at_once
        # The next turn is told of a moment before the end of the one whose place it has.
        some = f"{min(running, most):,} of {most:,}" if most else f"{running:,}"
        parts.append(f"{some} at once")
    for state, word in (("waiting", "waiting"), ("queued", "queued"), ("not_run", "not run")):
        if snapshot.count(state):
            parts.append(f"{snapshot.count(state):,} {word}")
    if rate:
        parts.append(f"{rate:,.1f}/s" if rate >= 0.1 else f"{rate * 60:,.1f}/min")
    if snapshot.seconds_left is not None and snapshot.ended < total:
        parts.append(f"{duration(snapshot.seconds_left)} left")
    if snapshot.tokens:
        parts.append(f"{_short(snapshot.tokens)} tokens")
    if snapshot.cost_usd:
        parts.append(f"${snapshot.cost_usd:,.2f}")
    return _wrapped(parts, width)


def agent_line(agent: AgentCount, total: int, width: int) -> str:
    """Return one agent: its name, a bar, and ``k of n``."""
    total = max(total, agent.total)
    count = f"{agent.ended:,} of {total:,}"
    failed = agent.counts.get("failed", 0) + agent.counts.get("cancelled", 0)
    if failed:
        count += f", {failed:,} failed"
    name = agent.agent or "no agent"
    if width >= _BAR + len(count) + 24:
        full = _BAR * agent.ended // max(total, 1)
        count = f"{'█' * full}{'░' * (_BAR - full)}  {count}"
    room = max(width - len(count) - 2, _LEAST_NAME)
    return f"{shorten(name, room)}  {count}"


def title(conversation: Conversation, place: tuple[int, int] | None, width: int) -> str:
    """Return what a conversation is about; ``place`` is which of how many that work now."""
    which = f"‹{place[0]} of {place[1]}› " if place is not None else ""
    more = f"  turn {conversation.place + 1}" if conversation.place else ""
    room = width - len(which) - len(more)
    if room < _LEAST_NAME:
        which, room = "", width - len(more)
    return f"{which}{shorten(conversation.item_id, room, keep='end')}{more}"


def _short(number: int) -> str:
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if number >= size:
            return f"{number / (1000 if unit == 'k' else size):,.1f} {unit}"
    return f"{number:,}"


def _wrapped(parts: list[str], width: int) -> list[str]:
    lines = [shorten(part, width) for part in parts[:1]]
    for part in parts[1:]:
        if len(lines[-1]) + 2 + len(part) <= width:
            lines[-1] += f"  {part}"
        else:
            lines.append(shorten(part, width))
    return lines
