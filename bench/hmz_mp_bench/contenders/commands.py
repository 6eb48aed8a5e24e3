"""Whole commands over the files of a directory: ``hmz-mp exec``, and the bare map of its tool."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import open_run
from hmz_mp_bench.contenders.base import Contender
from hmz_mp_bench.procedures import verify

__all__ = ["BareMap", "Exec"]

TOOL = "tool/hmz_mp_bench.calls:count_lines"
TASK = "count the lines"


class Exec(Contender):
    """``hmz-mp exec`` with its built-in flow; every turn goes to the ledger."""

    def command(self, lines: int) -> list[str]:  # noqa: ARG002  (the ledger has the answers)
        return ["-m", "hmz_mp", "exec", "-a", TOOL, "--workers", str(self.workers),
                "--include", "*.txt", "--quiet", TASK]  # fmt: skip

    def check(self, directory: str, count: int, answer: str) -> None:
        with open_run(runs_directory(Path(directory)), "last") as run:
            kept = Counter((turn.state, turn.answer) for turn in run.turns())
        verify(kept == {("ok", answer): count}, f"the ledger has {dict(kept)}")


class BareMap(Contender):
    """The same start, listing and calls, and nothing written down."""

    def command(self, lines: int) -> list[str]:
        return ["-m", "hmz_mp_bench.bare_map", str(self.workers), str(lines)]
