"""A backend for joblib: `register`, then ``Parallel(n_jobs=4, backend="hmz_mp")``.

joblib is no dependency of ours; importing this module needs it. It knows of executors only.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from joblib import register_parallel_backend
from joblib.parallel import AutoBatchingMixin, ParallelBackendBase

from hmz_mp.core.cpus import usable_cpus
from hmz_mp.futures import ProcessExecutor

__all__ = ["HmzMpBackend", "register"]

# What joblib gives to every backend, for backends that map arrays into files.
_JOBLIBS_OWN = {"context", "max_nbytes", "mmap_mode", "temp_folder", "verbose"}


def register(name: str = "hmz_mp", *, make_default: bool = False) -> None:
    """Make the backend known to joblib under a name, also as the one that is used by default."""
    register_parallel_backend(name, HmzMpBackend, make_default=make_default)


class HmzMpBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # joblib has no types
    """Runs a `joblib.Parallel` on a `ProcessExecutor`, which it keeps for the next one.

    Options of the executor (``memory``, ``max_tasks_per_child``, ``preload`` and the like) are
    taken by ``Parallel`` and ``parallel_config`` and handed on.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True

    # The whole state beside joblib's: the executor, and what it was made with.
    _executor: ProcessExecutor | None = None
    _made_with: tuple[int, dict[str, Any]] | None = None

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many workers ``n_jobs`` means; -1 is as many as there are usable CPUs."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(usable_cpus() + 1 + n_jobs, 1)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: str | None = None,  # noqa: ARG002  # joblib's hints, which are for choosing one
        require: str | None = None,  # noqa: ARG002
        **options: Any,
    ) -> int:
        """Have an executor of so many workers; return how many."""
        self.parallel = parallel
        count = self.effective_n_jobs(n_jobs)
        options = {**self.backend_kwargs, **options}
        made_with = (count, {name: options[name] for name in options if name not in _JOBLIBS_OWN})
        if self._executor is None or self._made_with != made_with:
            self._drop()
            env = {**self._prepare_worker_env(n_jobs=count), **options.get("env", {})}
            self._executor = ProcessExecutor(count, **{**made_with[1], "env": env})
            self._made_with = made_with
        return count

    def submit(
        self, func: Callable[[], Any], callback: Callable[[Any], object] | None = None
    ) -> Future[Any]:
        """Begin a batch; ``callback(future)`` once it has ended."""
        assert self._executor is not None
        future = self._executor.submit(_run, func)  # a batch is an argument: functions are kept
        if callback is not None:
            future.add_done_callback(callback)
        return future

    apply_async = submit  # its name before joblib 1.5

    def retrieve_result_callback(self, future: Future[Any]) -> Any:
        """Return a batch's answers, or raise what it failed with."""
        return future.result()

    def terminate(self) -> None:
        """End a call of ``Parallel``: the executor stays, and ends with this backend."""
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """End what runs, since its answers are not wanted."""
        if self._executor is not None:
            self._executor.kill_workers()
            self._executor = None
        if ensure_ready:
            self.configure(self.parallel.n_jobs, self.parallel, **self.parallel._backend_kwargs)

    def _drop(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None


def _run(batch: Callable[[], Any]) -> Any:
    return batch()
