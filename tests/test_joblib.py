"""The backend for joblib, through joblib's own registration."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

joblib = pytest.importorskip("joblib", reason="joblib is not installed")

from hmz_mp.errors import WorkerDied  # noqa: E402  # after the look for joblib
from hmz_mp.joblib import HmzMpBackend, register  # noqa: E402
from tests.helpers import run_script  # noqa: E402

pytestmark = pytest.mark.slow


def fail(text: str) -> None:
    raise LookupError(text)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    known = dict(joblib.parallel.BACKENDS)
    register()
    yield
    joblib.parallel.BACKENDS.clear()
    joblib.parallel.BACKENDS.update(known)


def parallel(n_jobs: int | None = 2, **options: Any) -> Any:
    return joblib.Parallel(n_jobs=n_jobs, backend="hmz_mp", **options)


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    return joblib.delayed(function)(*args, **kwargs)


def test_answers_come_in_order() -> None:
    assert parallel()(call(pow, n, 2) for n in range(1000)) == [n * n for n in range(1000)]


def test_lambdas_and_keywords() -> None:
    assert parallel()(call(lambda n, k=0: n + k, n, k=1) for n in range(5)) == [1, 2, 3, 4, 5]


def test_calls_run_in_other_processes_as_many_as_asked() -> None:
    pids = set(parallel(2)(call(os.getpid) for _ in range(50)))
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2
    assert len(set(parallel(None)(call(os.getpid) for _ in range(20)))) == 1


def test_a_failure_is_raised_and_the_backend_goes_on() -> None:
    with parallel() as running:
        with pytest.raises(LookupError, match="not found"):
            running(call(fail, "not found") for _ in range(20))
        assert running(call(abs, -n) for n in range(5)) == [0, 1, 2, 3, 4]


def test_a_call_that_ends_its_worker_says_so() -> None:
    with pytest.raises(WorkerDied):
        parallel()([call(os._exit, 3)])
    assert parallel()([call(abs, -1)]) == [1]


def test_an_executor_is_kept_for_the_next_call() -> None:
    with joblib.parallel_config(backend="hmz_mp", n_jobs=1):
        first = joblib.Parallel()([call(os.getpid)])
        assert joblib.Parallel()([call(os.getpid)]) == first
        assert joblib.Parallel(n_jobs=2)([call(os.getpid)]) != first


def test_generators_and_timeouts() -> None:
    answers = parallel(return_as="generator")(call(abs, -n) for n in range(20))
    assert list(answers) == list(range(20))
    with pytest.raises(multiprocessing.TimeoutError):  # as every backend of joblib
        parallel(timeout=0.1)([call(time.sleep, 60)])


def test_options_reach_the_executor_and_threads_of_libraries_are_bounded() -> None:
    with joblib.parallel_config(
        backend="hmz_mp", n_jobs=2, inner_max_num_threads=3, max_tasks_per_child=1
    ):
        pids = joblib.Parallel(batch_size=1)(call(os.getpid) for _ in range(6))
        assert len(set(pids)) == 6
        assert joblib.Parallel()([call(os.getenv, "OMP_NUM_THREADS")]) == ["3"]


def test_widths() -> None:
    backend = HmzMpBackend()
    assert (backend.effective_n_jobs(3), backend.effective_n_jobs(None)) == (3, 1)
    assert backend.effective_n_jobs(-1) >= 1
    assert backend.effective_n_jobs(-1000) == 1
    with pytest.raises(ValueError, match="no meaning"):
        backend.effective_n_jobs(0)


def test_in_a_script_as_the_default(tmp_path: Path) -> None:
    source = """
import joblib
from hmz_mp.joblib import register

def nested(n):
    return sum(joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(-n) for _ in range(3)))

register(make_default=True)
print(joblib.Parallel(n_jobs=2)(joblib.delayed(nested)(n) for n in range(4)))
"""
    ran = run_script(tmp_path, source)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("[0, 3, 6, 9]\n", "", 0)
