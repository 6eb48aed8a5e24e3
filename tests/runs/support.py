from collections.abc import Callable
from pathlib import Path
from typing import Any

from hmz_mp.core.ambient import TurnRecord
from hmz_mp.runs.ledger import Ledger


def new_ledger(
    runs_dir: Path,
    *,
    on_error: Callable[[str], object] | None = None,
    on_commit: Callable[[int], object] | None = None,
) -> Ledger:
    return Ledger.create(
        runs_dir,
        command=["hmz-mp", "exec", "-a", "tool/x:y"],
        flow="fanout",
        agents=["tool/x:y"],
        task="outline",
        options={"at_once": 4},
        on_error=on_error,
        on_commit=on_commit,
    )


def turn(number: int, item_id: str | None = None, **fields: Any) -> TurnRecord:
    given: dict[str, Any] = {
        "item_id": item_id if item_id is not None else f"file{number}.py",
        "agent": "tool/x:y",
        "agent_id": "a1",
        "session": f"s{number}",
        "place": 0,
        "prompt": "outline",
        "number": number,
        "submitted_at": 100.0 + number,
    }
    return TurnRecord(**(given | fields))
