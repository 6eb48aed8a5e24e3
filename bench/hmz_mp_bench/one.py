"""``python -m hmz_mp_bench.one CONTENDER PROCEDURE COUNT WORKERS OUT``: measure once, here.

Contender and procedure are named as ``module:attribute``. Writes one JSON object to OUT: the
figures, or what was wrong with an answer, or what was raised.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from hmz_mp_bench.contenders.base import Contender
from hmz_mp_bench.procedures import Figures, WrongAnswer

__all__ = ["measure"]

Procedure = Callable[[Contender, int], Awaitable[Figures]]


def measure(contender: str, procedure: str, count: int, workers: int) -> dict[str, Any]:
    """Open a contender, run a procedure on it, return the result as it is written down."""
    made: Contender = _attribute(contender)(workers)
    run: Procedure = _attribute(procedure)

    async def main() -> Figures:
        async with made:
            return await run(made, count)

    try:
        figures = _on_loop(made.loop, main)
    except BaseException as error:
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, WrongAnswer):
            return {"wrong": str(error)}
        traceback.print_exception(error)
        return {"raised": f"{type(error).__name__}: {error}".strip(": ")}
    return {"figures": figures, "wrong": None}


def _on_loop(loop: str, main: Callable[[], Awaitable[Figures]]) -> Figures:
    run = import_module(loop).run
    figures: Figures = run(main) if loop == "trio" else run(main())
    return figures


def _attribute(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


if __name__ == "__main__":
    measured = measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    Path(sys.argv[5]).write_text(json.dumps(measured))
