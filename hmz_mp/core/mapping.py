"""`map`: answers for the items of iterables, through a bounded window.

Reads items from a `sources` source, begins them in a `window`, and yields what comes. Imported by
`caller` only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio.lowlevel

from hmz_mp.core.sources import Source, source_of
from hmz_mp.core.window import Failed, Window

if TYPE_CHECKING:
    from hmz_mp.core.caller import Caller

__all__ = ["mapped"]

_TURN_SECONDS = 0.001  # after which the loop has its turn, where no answer is waited for


async def mapped(
    caller: Caller,
    fn: Callable[..., Any],
    iterables: tuple[Any, ...],
    *,
    ordered: bool,
    suppress: bool,
) -> AsyncIterator[Any]:
    """Yield answers; see `Caller.map`."""
    driver = caller._pool._driver
    assert driver is not None
    source = source_of(iterables, driver)
    several = len(iterables) > 1
    window = Window(caller, fn, several=several, ordered=ordered, watched=source.waits)
    source.on_news = window.note
    until = monotonic() + _TURN_SECONDS
    try:
        while True:
            if monotonic() > until:
                await anyio.lowlevel.checkpoint()
                until = monotonic() + _TURN_SECONDS
            # From here to `news` nothing is awaited, so that none is missed.
            _fill(window, source)
            if not window.begun and source.over:
                source.check()
                return
            if not window.has_next() and not source.over and window.room():
                # There is more to read: later, or after the loop has had its turn.
                await (window.news() if source.waits else anyio.lowlevel.checkpoint())
                continue
            answers, failed = await window.answers()
            if failed:
                for answer in answers:
                    if not isinstance(answer, Failed):
                        yield answer
                    elif suppress:
                        yield None
                    else:
                        raise answer.error
            else:
                for answer in answers:
                    yield answer
    finally:
        window.cancel()
        await source.close()


def _fill(window: Window, source: Source) -> None:
    """Read and begin what there is room for, until reading takes long."""
    if source.slow and window.has_next():  # answers that are here go first
        return
    while (count := window.room()) and (items := source.take(count)):
        window.submit(items)
        if source.slow:
            return
