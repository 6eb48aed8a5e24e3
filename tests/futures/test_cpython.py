"""CPython's own tests of executors, run on `ProcessExecutor`.

They come with some interpreters, as the package ``test.test_concurrent_futures``. What is left out
reaches into the private parts of `ProcessPoolExecutor`; `LEFT_OUT` says which and why.
"""

from __future__ import annotations

import concurrent.futures.process
import importlib.util
import multiprocessing
import unittest
from multiprocessing import resource_tracker
from typing import Any
from unittest import mock

import pytest

from hmz_mp.errors import RemoteTraceback
from hmz_mp.futures import ProcessExecutor

PACKAGE = "test.test_concurrent_futures"
if importlib.util.find_spec(PACKAGE) is None or not getattr(
    importlib.util.find_spec(PACKAGE), "submodule_search_locations", None
):
    pytest.skip(
        "this interpreter comes without CPython's tests, or with those of before 3.12",
        allow_module_level=True,
    )

pytestmark = pytest.mark.slow  # 40 seconds, most of them waited on purpose


def suite(module: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{module}")


LEFT_OUT = {
    # test_process_pool
    "test_killed_child": "terminates one of _processes",
    "test_saturation": "counts _processes against _max_workers",
    "test_idle_process_reuse_one": "counts _processes against _max_workers",
    "test_idle_process_reuse_multiple": "counts _processes against _max_workers",
    "test_max_tasks_per_child": "counts _processes",
    "test_max_tasks_per_child_defaults_to_spawn_context": "looks at _mp_context",
    "test_python_finalization_error": "breaks the start of the thread of _call_queue",
    # test_shutdown
    "test_processes_terminate": "counts and joins _processes",
    "test_context_manager_shutdown": "joins _processes of the library's own executor",
    "test_del_shutdown": "the same, and its _executor_manager_thread and _call_queue",
    "test_shutdown_no_wait": "the same",
}  # test_executor.py and test_faults.py hold what these are about, asked from outside


class Executor(ProcessExecutor):
    """With the one private name that the tests of initializers wait for."""

    @property
    def _broken(self) -> bool:
        return self._line._refusal is not None


Executor.__name__ = "ProcessExecutor"  # it is imported by its name in scripts


def run_ours(assert_python_ok: Any) -> Any:
    """Return the same with scripts that import our executor where they name the library's."""

    def run(*args: str, **env: str) -> Any:
        *flags, source = args
        for name in ("ProcessExecutor", "ThreadPoolExecutor"):
            source = source.replace(
                f"from concurrent.futures import {name}",
                f"from hmz_mp.futures import ProcessExecutor as {name}",
            )
        return assert_python_ok(*flags, source, **env)

    return run


class Mixin(suite("util").ExecutorMixin):  # type: ignore[misc]  # the suite has no types
    """Makes the executor of each test, as the mixins of the suite do for the library's."""

    executor_type = Executor

    def get_context(self) -> Any:
        return multiprocessing.get_context("spawn")

    def setUp(self) -> None:
        shutdown = suite("test_shutdown")
        ours = run_ours(shutdown.assert_python_ok)
        text = property(lambda trace: trace.text)
        for patch in (
            mock.patch.object(shutdown, "assert_python_ok", ours),
            # What test_traceback wants the cause to be, and its text to be called.
            mock.patch.object(concurrent.futures.process, "_RemoteTraceback", RemoteTraceback),
            mock.patch.object(RemoteTraceback, "tb", text, create=True),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(resource_tracker._resource_tracker._stop)  # type: ignore[attr-defined]  # it holds a pipe
        super().setUp()


def made(name: str, tests: type) -> type[unittest.TestCase]:
    """Return a test case of the suite's tests, without those that are left out."""
    left_out = {test: None for test in LEFT_OUT if hasattr(tests, test)}
    bases = (tests, Mixin, suite("util").BaseTestCase)
    return type(name, bases, {"__module__": __name__, **left_out})


ExecutorTests = made("ExecutorTests", suite("executor").ExecutorTest)
ProcessPoolTests = made("ProcessPoolTests", suite("test_process_pool").ProcessPoolExecutorTest)
WaitTests = made("WaitTests", suite("test_wait").WaitTests)
AsCompletedTests = made("AsCompletedTests", suite("test_as_completed").AsCompletedTests)
ShutdownTests = made("ShutdownTests", suite("test_shutdown").ProcessPoolShutdownTest)


class MoreShutdownTests(Mixin, suite("util").BaseTestCase):  # type: ignore[misc]  # the same
    """The one black-box test that the suite has for pools of threads only."""

    test_cancel_futures_wait_false = suite(
        "test_shutdown"
    ).ThreadPoolShutdownTest.test_cancel_futures_wait_false


InitializerTests = made("InitializerTests", suite("test_init").InitializerMixin)
FailingInitializerTests = made(
    "FailingInitializerTests", suite("test_init").FailingInitializerMixin
)
