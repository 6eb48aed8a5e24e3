"""``exec --engine``: what is wrong with it is said before any turn; a cluster's answers."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import Project
from tests.contract.cluster import LoopbackCluster

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="the extra dask is not installed"
)

WRONG = {
    "no engine": (["--engine", "ray"], "there is no engine 'ray'"),
    "no port": (["--engine", "dask://host"], "write dask://HOST:PORT"),
    "worktrees": (["--engine", "dask://host:1", "--worktree"], "it takes --engine local"),
    "nobody there": (["--engine", "dask://127.0.0.1:1"], "no Dask scheduler can be used at 127"),
}


@needs_dask
@pytest.mark.parametrize("case", WRONG)
def test_a_line_to_correct(project: Project, case: str) -> None:
    arguments, said = WRONG[case]
    project.files("a")
    done = project.exec_here("-a", "sh/cat", *arguments)
    assert (done.status, done.out) == (2, b""), done
    assert said in done.err
    assert "Traceback" not in done.err
    assert not (project.root / ".hmz-mp").exists()


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    made = LoopbackCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add_worker(2)
        made.add_worker(2)
        made.wait_for_workers(2)
        yield made
    finally:
        made.close()


@needs_dask
@pytest.mark.slow
def test_answers_about_the_standard_library_are_those_of_this_machine(
    project: Project, cluster: LoopbackCluster
) -> None:
    library = Path(sysconfig.get_paths()["stdlib"])
    for file in library.glob("*.py"):
        shutil.copy(file, project.root)
    line = ["-a", "tool/hmz_mp.toolbox.python:outline", "--include", "*.py", "--print"]
    here = project.exec_here(*line)
    there = project.exec_here(*line, "--engine", f"dask://{cluster.address}")
    assert (here.status, there.status) == (0, 0), there.err
    assert len(here.out) > 100_000
    assert there.out == here.out


@needs_dask
@pytest.mark.slow
def test_a_run_that_lost_its_scheduler_goes_on(project: Project, cluster: LoopbackCluster) -> None:
    project.files("a", "b", "c")
    engine = f"dask://{cluster.address}"
    done = project.exec_here("-a", "sh/cat {path}", "--json", "--engine", engine)
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["status"] for row in rows] == ["ok"] * 3, done.err
    cluster.scheduler.kill()
    cluster.scheduler.wait()
    done = project.exec_here("--resume", "last")
    assert done.status == 2
    assert cluster.address in done.err  # the engine was the run's
    done = project.exec_here("--resume", "last", "--engine", "local", "--json")
    assert done.status == 0, done.err
