"""What commands do about worktrees and patches: begin, apply, end, and say how it went.

Owns the words. Imported by ``cli.conduct``, ``cli.settling``, ``cli.apply`` and ``cli.gc``.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hmz_mp.cli.checks import SHIP_NEEDS
from hmz_mp.engines.choice import LOCAL
from hmz_mp.errors import BadInput
from hmz_mp.runs.patches import PatchJournal
from hmz_mp.shipping.sending import Shipping
from hmz_mp.terminal import printable
from hmz_mp.worktrees.applying import Application, NotApplied, apply_patches
from hmz_mp.worktrees.trees import Worktrees

if TYPE_CHECKING:
    from hmz_mp.cli.checks import Checked
    from hmz_mp.runs.ledger import Ledger
    from hmz_mp.worktrees.checkout import Checkout
    from hmz_mp.worktrees.trees import Opened

__all__ = ["apply_run", "close_worktrees", "make_worktrees", "patch_lines", "say_lines"]

_BAD_INPUT = 2
_NAMED = 20
_SUBMODULES = 5
_LISTED = 5


def make_worktrees(checked: Checked, ledger: Ledger) -> Worktrees:
    """Return a run's worktrees: opened, with ``--worktree`` and ``--ship``. Raises `BadInput`."""

    def note(checkout: Checkout, base: str) -> None:
        if ledger.error is not None:
            raise BadInput(f"worktrees need the run to be recorded, and {ledger.error}")
        with PatchJournal(ledger.directory) as journal:
            journal.note_checkout(checkout, base)

    options = checked.options
    trees = Worktrees(
        checked.root,
        ledger.run_id,
        every_turn=options.worktree,
        who=SHIP_NEEDS if options.ship else "worktrees need",
        on_open=note,
    )
    if options.worktree or options.ship:
        try:
            opened = trees.open()
            _check_items(checked, opened)
            if options.ship:
                trees.shipping = _make_shipping(checked, opened, ledger.run_id)
        except BadInput:
            trees.close()
            ledger.finish("bad input", _BAD_INPUT, {})
            raise
        say_lines(_about_submodules(opened.checkout.submodules(), ships=options.ship))
    return trees


def _make_shipping(checked: Checked, opened: Opened, run_id: str) -> Shipping:
    shipping = Shipping(
        opened,
        run_id,
        also=checked.options.ship_also,
        code=[file for agent in checked.agents for file in agent.files],
        elsewhere=checked.options.engine != LOCAL,
    )
    try:
        for agent in checked.agents:
            agent.check_shipping(shipping)
    except BaseException:
        shipping.close()
        raise
    return shipping


def _check_items(checked: Checked, opened: Opened) -> None:
    """Raise `BadInput` for items of a list that no worktree will have; git's own are all there."""
    if checked.options.items is None:
        return
    paths = [item.path for item in checked.items() if item.path is not None]
    missing = opened.checkout.left_out(opened.base, paths)
    if missing:
        names = ", ".join(repr(os.fsdecode(path)) for path in missing[:_LISTED])
        more = f" and {len(missing) - _LISTED:,} more" if len(missing) > _LISTED else ""
        ships = checked.options.ship
        option, where = ("--ship", "sent") if ships else ("--worktree", "in the worktrees")
        raise BadInput(
            f"{option}: {names}{more} will not be {where}: git ignores it, or it is in "
            "a submodule or a repository of its own"
        )


def _about_submodules(names: list[str], *, ships: bool = False) -> list[str]:
    if not names:
        return []
    named = ", ".join(printable(name) for name in names[:_SUBMODULES])
    more = f" and {len(names) - _SUBMODULES:,} more" if len(names) > _SUBMODULES else ""
    what = "not sent" if ships else "empty in worktrees"
    return [f"warning: submodules are {what}: {named}{more}"]


def apply_run(trees: Worktrees, ledger: Ledger, *, as_planned: bool) -> Application:
    """Apply the patches of a run that has ended, if it ended ``as_planned``."""
    opened = trees.opened
    if opened is None:
        return Application()
    if not ledger.flush():
        return Application(problem=ledger.error)
    scratch = opened.home.path / "scratch"
    scratch.mkdir(exist_ok=True)
    try:
        with PatchJournal(ledger.directory) as journal:
            if as_planned:
                return apply_patches(opened.checkout, opened.base, scratch, journal)
            problem = "the run did not end as planned"
            left = [NotApplied(one.number, one.item_id, problem) for one in journal.patches()]
            return Application(refused=left, problem=problem if left else None)
    except sqlite3.Error as error:
        return Application(problem=f"the ledger cannot be read: {error}")


def close_worktrees(trees: Worktrees) -> None:
    """Remove a run's worktrees, and say what could not be removed."""
    problems = trees.close()
    say_lines([f"warning: {printable(problem)}" for problem in problems])
    if problems:
        say_lines(["try again to remove them: hmz-mp gc"])


def patch_lines(patches: Application, run_id: str, *, quiet: bool = False) -> list[str]:
    """Return what is said of the patches in the summary of a run."""
    lines = []
    if patches.applied and not quiet:
        lines.append(f"{_counted(patches.applied)} applied to the checkout")
    if patches.problem is not None:
        lines.append(f"patches were not applied: {printable(patches.problem)}")
    tried = [refused for refused in patches.refused if refused.file is not None]
    untried = len(patches.refused) - len(tried)
    if tried:
        lines.append(f"{_counted(len(tried))} not applied, and left for you:")
        lines += [line for refused in tried[:_NAMED] for line in _refused_lines(refused)]
        if len(tried) > _NAMED:
            lines.append(f"  and {len(tried) - _NAMED:,} more, in the same directory")
        lines.append("  by hand: git apply --3way FILE")
    if untried:
        names = ", ".join(printable(one.item_id) for one in patches.refused if one.file is None)
        lines.append(f"{_counted(untried)} waiting in the ledger: {_cut(names)}")
    if patches.refused:
        lines.append(f"to try again: hmz-mp apply {run_id}")
    return lines


def _refused_lines(refused: NotApplied) -> list[str]:
    assert refused.file is not None
    file = Path(refused.file)
    here = Path.cwd()
    shown = file.relative_to(here) if here in file.parents else file
    return [
        f"  {printable(refused.item_id)}: {printable(refused.problem)}",
        f"    {printable(str(shown))}",
    ]


def _cut(text: str, most: int = 300) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _counted(number: int) -> str:
    return f"{number:,} patch{'' if number == 1 else 'es'}"


def say_lines(lines: list[str]) -> None:
    """Write lines on standard error, where people read them."""
    for line in lines:
        if sys.stderr is not None:  # as it is when the caller closed it
            sys.stderr.write(line + "\n")
