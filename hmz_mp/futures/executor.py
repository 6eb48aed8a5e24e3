"""`ProcessExecutor`: the executor that users of `concurrent.futures` see."""

from __future__ import annotations

import inspect
import multiprocessing.process  # noqa: F401  # so that workers know the key of its managers
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from hmz_mp.core.functions import name_of
from hmz_mp.core.importable import is_importable
from hmz_mp.core.outcomes import load_packed
from hmz_mp.core.pool import Pool
from hmz_mp.futures.calls import Call
from hmz_mp.futures.line import Line
from hmz_mp_worker.packs import Pack

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

__all__ = ["ProcessExecutor"]

P = ParamSpec("P")
T = TypeVar("T")


class ProcessExecutor(Executor):
    """An executor of worker processes: `submit`, `map`, `shutdown`, usable in a ``with``.

    ``max_workers``: how many processes, by default the CPUs this process may use.
    ``initializer(*initargs)`` runs first in each. ``options`` are those of `hmz_mp.Pool`.
    ``echo``: what a call prints is written to this process's ``sys.stdout`` once it has ended.
    Functions may be lambdas, closures and those of ``__main__``; no guard is needed.

    ``mp_context`` and ``max_tasks_per_child`` are taken as `ProcessPoolExecutor` takes them: the
    first changes nothing, since workers start from a clean process as by ``"spawn"``, and raises
    `ValueError` for ``"fork"``, whose calls rely on what they inherit; the second is the pool's
    ``turns_per_worker``.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        mp_context: BaseContext | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        max_tasks_per_child: int | None = None,
        echo: bool = True,
        **options: Any,
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        _check_context(mp_context)
        if max_tasks_per_child is not None:
            options["turns_per_worker"] = _check_tasks(max_tasks_per_child)
        pool = Pool(max_workers, initializer=initializer, initargs=initargs, **options)
        self._line = Line(pool, echo=echo)
        # An executor that is dropped without a shutdown ends when its calls have.
        weakref.finalize(self, self._line.close).atexit = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Ship ``fn(*args, **kwargs)`` to a worker; return its future.

        The arguments are pickled soon after, in another thread: what changes them meanwhile may
        be seen. Raises `RuntimeError` after `shutdown` and in the child of a fork, and
        `hmz_mp.errors.WorkerStartFailed`, a `BrokenExecutor`, once no worker can be started.
        """
        call = Call(self._line, (fn, args, kwargs))
        self._line.submit(call)
        return call

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Any,
        timeout: float | None = None,
        chunksize: int = 1,
        **more: Any,
    ) -> Iterator[T]:
        """Return an iterator over ``fn``'s answers, in order.

        Raises `TimeoutError` when an answer is not there ``timeout`` seconds after this call.
        ``chunksize`` items are one call where it is more than 1, as with `ProcessPoolExecutor`:
        it costs less where items are short, and an item that ends its worker fails them all.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1 or inspect.iscoroutinefunction(fn):
            return super().map(fn, *iterables, timeout=timeout, **more)
        is_importable(getattr(fn, "__module__", None) or "builtins")  # else it goes by value
        chunks = _chunks(zip(*iterables, strict=False), chunksize)
        answers = super().map(Pack(fn), chunks, timeout=timeout, **more)
        return _unpacked(answers, name_of(fn))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; ``cancel_futures`` that have not begun; ``wait`` for the others."""
        self._line.close(cancel=cancel_futures)
        if wait:
            self._line.join()

    def kill_workers(self) -> None:
        """Take no more calls and end those that run, as the library's executor of Python 3.14.

        Their futures fail with `hmz_mp.errors.PoolClosed`; those that had not begun are cancelled.
        """
        self._line.close(kill=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        """Shut down; after a `KeyboardInterrupt` what runs is ended, not waited for."""
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.kill_workers()
        self.shutdown(wait=True)
        return False


def _chunks(items: Iterator[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    while chunk := list(islice(items, size)):
        yield chunk


def _unpacked(answers: Iterator[Any], name: str) -> Iterator[Any]:
    """Yield the items' answers, of which none is kept alive here."""
    for values, each in answers:
        if each is None:
            values.reverse()
            while values:
                yield values.pop()
        else:
            for ok, data in each:
                yield load_packed(ok, data, name)


def _check_context(context: Any) -> None:
    if context is not None and context.get_start_method() == "fork":
        raise ValueError(
            "ProcessExecutor does not fork this process, so calls inherit nothing from it: pass "
            "them what they need, and leave mp_context out"
        )


def _check_tasks(count: int) -> int:
    if not isinstance(count, int):
        raise TypeError("max_tasks_per_child must be an integer")
    if count <= 0:
        raise ValueError("max_tasks_per_child must be >= 1")
    return count
