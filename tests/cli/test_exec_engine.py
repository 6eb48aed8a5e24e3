"""``exec --engine``: what is wrong with it is said before any turn; a cluster's answers."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import Project
from tests.contract.cluster import LoopbackCluster
from tests.worktrees.support import Repository

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


# TLS.


@pytest.fixture
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return Dask's settings for encrypted connections, with a certificate made for them."""
    if shutil.which("openssl") is None:
        pytest.skip("takes openssl")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    comm = "DASK_DISTRIBUTED__COMM__"
    return {
        f"{comm}REQUIRE_ENCRYPTION": "True",
        f"{comm}DEFAULT_SCHEME": "tls",
        f"{comm}TLS__CA_FILE": str(folder / "cert.pem"),
        **{
            f"{comm}TLS__{role}__{what}": str(folder / f"{what.lower()}.pem")
            for role in ("SCHEDULER", "WORKER", "CLIENT")
            for what in ("CERT", "KEY")
        },
    }


@needs_dask
@pytest.mark.slow
def test_connections_are_encrypted_as_dask_is_told(
    project: Project, tls: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    project.files("a", "b")
    cluster = LoopbackCluster(tmp_path_factory.mktemp("cluster"), tls)
    try:
        cluster.add_worker(2)
        cluster.wait_for_workers(1)
        line = ["-a", "sh/cat {path}", "--json", "--engine", f"dask://{cluster.address}"]
        done = project.exec(*line)
        assert (done.status, done.out) == (2, b"")
        assert "no Dask scheduler can be used" in done.err
        assert "does it want TLS" in done.err
        project.environment |= tls
        done = project.exec(*line)
        assert done.states == {"a": "ok", "b": "ok"}, done
    finally:
        cluster.close()


# Files that go with turns.

TOOL = """
import os
from pathlib import Path

import helper

def edit(path: Path):
    path.write_text(helper.better(path.read_text()))
    return [helper.better("two"), sorted(one.name for one in Path(".").iterdir())]

def where(path):
    return os.getcwd()
"""


@pytest.fixture
def repository(project: Project) -> Repository:
    made = Repository(project.root)
    for name in ("f0", "f1", "f2", "f3"):
        made.write(name, "two\n")
    made.write("lib/tool.py", TOOL)
    made.write("lib/helper.py", "def better(text):\n    return text.replace('two', '2')\n")
    made.write(".gitignore", ".hmz-mp/\n__pycache__/\n")
    made.commit()
    return made


@pytest.fixture
def elsewhere(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LoopbackCluster]:
    """Return a cluster whose workers do not see the project."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("takes unshare and the right to mount")
    made = LoopbackCluster(tmp_path_factory.mktemp("elsewhere"))
    try:
        for _ in range(2):
            made.add_worker(2, hidden=project.root.parent)
        made.wait_for_workers(2)
        yield made
    finally:
        made.close()


@needs_dask
@pytest.mark.slow
def test_files_go_to_machines_that_do_not_share_them(
    project: Project, repository: Repository, elsewhere: LoopbackCluster
) -> None:
    there = ["--engine", f"dask://{elsewhere.address}"]
    given = ["--include", "f?", "--json"]
    edit = ["-a", "tool/lib/tool.py:edit", *given]
    done = project.exec(*edit, *there)
    assert done.status == 2
    assert f"cannot see the working directory {project.root}" in done.err
    assert "or send files with exec --ship" in done.err

    done = project.exec("--ship", *edit, *there)
    assert set(done.states.values()) == {"failed"}
    assert "No module named 'helper'" in done.rows[0]["error"]

    ship = ["--ship", "--ship-also", "lib/helper.py"]
    done = project.exec(*ship, *edit, *there)
    assert done.status == 0, done
    answers = [row["answer"] for row in done.rows]
    assert answers == [f'["2",[".git",".gitignore","f{n}","lib"]]' for n in range(4)]
    assert repository.status() == {f" M f{n}".encode() for n in range(4)}
    assert [repository.read(f"f{n}") for n in range(4)] == [b"2\n"] * 4

    repository.git("checkout", "--quiet", ".")
    here = project.exec(*ship, *edit)
    assert [row["answer"] for row in here.rows] == answers

    done = project.exec(*ship, "-a", "tool/lib/tool.py:where", *given, *there)
    folders = {row["answer"] for row in done.rows}
    local = project.root.parent.parent  # of pytest's, as the cluster's directory is
    assert all(folder.startswith(str(local)) for folder in folders)
    assert not any(Path(folder).parent.parent.exists() for folder in folders)
    assert not repository.exists(".hmz-mp/worktrees")
    assert "tool/elsewhere.py is not sent" in project.exec(
        *ship, "-a", f"tool/{project.tools}:echo", *given, *there
    ).err.replace(str(project.tools), "tool/elsewhere.py")


@needs_dask
@pytest.mark.slow
def test_deaths_and_going_on_where_files_are_sent(
    project: Project, repository: Repository, elsewhere: LoopbackCluster
) -> None:
    given = ["--ship", "--engine", f"dask://{elsewhere.address}", "--json"]
    killing = "sh/sh -c 'echo half > {path}; kill -9 $PPID'"
    done = project.exec(*given, "-a", killing, "--include", "f0")
    assert done.states == {"f0": "failed"}
    assert repository.status() == set()

    partly = "sh/sh -c 'test {path} != f1 && sed -i s/two/2/ {path}'"
    done = project.exec(*given, "-a", partly, "--include", "f?")
    assert done.states == {"f0": "ok", "f1": "failed", "f2": "ok", "f3": "ok"}
    elsewhere.workers[0].kill()
    elsewhere.workers[0].wait()
    again = ["--retry-failed", "last", "-a", "sh/sed -i s/two/2/ {path}", "--json"]
    done = project.exec(*again)  # files are sent again, and there, as in the run
    assert done.states == dict.fromkeys(["f0", "f1", "f2", "f3"], "ok"), done
    assert "3 of them answered before" in done.err
    assert repository.status() == {f" M f{n}".encode() for n in range(4)}
