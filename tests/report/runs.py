"""A run with everything in it that a view could trip over."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from hmz_mp.core.ambient import TurnRecord

from ..runs.support import new_ledger, turn

NASTY = "[bold]x<img src=x onerror=alert(1)>\x1b[2J.py"
NASTY_SHOWN = "[bold]x<img src=x onerror=alert(1)>\\x1b[2J.py"
NASTY_ANSWER = (
    "</pre></details></script><script>alert(2)</script>\n\x1b]0;title\x07 [red]x[/red] {{ 7*7 }}\n"
    "<!-- data --> &lt; \u202eabc \udcff \ud800 <svg/onload=alert(3)>"
)
PATCH = (
    b":100644 100644 aaaaaaa bbbbbbb M\tx.py\n\ndiff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n"
    b"@@ -1 +1 @@\n-old <b>\n+<script>alert(4)</script>\n"
)
USAGE = '[{"model": "<i>m</i>", "input_tokens": 900, "output_tokens": 100, "cost_usd": 1.5}]'


def ran(number: int, item_id: str | None = None, **fields: Any) -> TurnRecord:
    begin = 2e9 + number
    given: dict[str, Any] = {"submitted_at": begin - 0.5, "began_at": begin, "ended_at": begin + 2}
    given |= {"state": "ok", "worker": 70 + number % 3, "attempts": 1, "seconds": 2.0}
    return turn(number, item_id, **(given | fields))


def write_run(runs_dir: Path, items: int = 5) -> str:
    """Write a run of ``items`` turns, five at least; returns its id."""
    failed = {"state": "failed", "error": f"ValueError: {NASTY}", "detail": f"Traceback\n{NASTY}"}
    used = {"usage": USAGE, "input_tokens": 900, "output_tokens": 100, "cost_usd": 1.5}
    with closing(new_ledger(runs_dir)) as ledger:
        ledger.put(ran(0, NASTY, answer=NASTY_ANSWER, output=NASTY, **used))
        ledger.put(ran(1, "b.py", seconds=70.0, **failed))
        ledger.put(ran(2, "c.py", answer="changed", patch=PATCH))
        ledger.put(turn(3, "d.py", state="not_run", error="stopped after 1 failed"))
        ledger.put(ran(4, "e.py", answer="again", session="s0", place=1))
        for number in range(5, items):
            ledger.put(ran(number, answer=f"answer {number}", seconds=number / 100))
        ledger.finish("failed", 1, {})
    return ledger.run_id
