import os
from pathlib import Path

from click.testing import CliRunner, Result

from hmz_mp.cli.main import group
from hmz_mp.runs import runs_directory

from ..runs.support import new_ledger, turn

ODD_ITEM = os.fsdecode(b"od\x1bd [b]\n\xff.py")


def hmz_mp(*arguments: str) -> Result:
    """Run the command line in this process, in its current directory."""
    return CliRunner().invoke(group, list(arguments), prog_name="hmz-mp")


def write_run(start: Path, status: str = "failed") -> str:
    """Write a finished run of five turns; returns its id."""
    ledger = new_ledger(runs_directory(start))
    times = {"submitted_at": 1e9, "began_at": 1e9 + 2, "ended_at": 1e9 + 3.5}
    ran = {"attempts": 1, "worker": 4242, **times}
    answer = "first line\n\x1b[31msecond [red]\n"
    ledger.put(turn(0, "a.py", state="ok", answer=answer, seconds=1.5, output="printed\n", **ran))
    ledger.put(turn(1, "b.py", state="ok", answer="fine", seconds=70.0, **ran))
    failed = {
        "error": "ValueError: no [red]\x1b",
        "error_type": "ValueError",
        "detail": "Traceback",
    }
    ledger.put(turn(2, ODD_ITEM, state="failed", seconds=0.25, **failed, **ran))
    ledger.put(turn(3, "c.py", state="not_run", error="stopped after 1 failed"))
    ledger.put(turn(4, "a.py", state="ok", answer="again", place=1, cwd="/tmp", seconds=0.5, **ran))
    ledger.finish(status, 1, {})
    ledger.close()
    return ledger.run_id
