"""The `concurrent.futures` face of the executor, for code without an event loop.

`ProcessExecutor` runs a `Pool` on a loop in a thread of its own. One core: what holds for the
pool holds here, so one call that ends its worker fails alone.
"""

from hmz_mp.futures.executor import ProcessExecutor

__all__ = ["ProcessExecutor"]
