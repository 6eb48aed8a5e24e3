from __future__ import annotations

import os
from pathlib import Path

import pytest

from hmz_mp.core.cpus import (
    BOUNDED,
    SHARE,
    THREADS,
    CpuBounds,
    cpu_bounds,
    usable_cpus,
    worker_environment,
)


@pytest.fixture(autouse=True)
def _eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process may run on eight CPUs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for name in (SHARE, BOUNDED, *THREADS):
        monkeypatch.delenv(name, raising=False)


class Machine:
    """A cgroup tree, and a process's folder in ``/proc``."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "cgroup"
        self.proc = folder / "proc"
        self.root.mkdir()
        self.proc.mkdir()

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def usable(self, cgroup: str) -> int:
        (self.proc / "cgroup").write_text(cgroup)
        return usable_cpus(self.root, self.proc)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_cgroups_it_is_the_affinity(machine: Machine) -> None:
    assert usable_cpus(machine.root, machine.proc) == 8
    assert machine.usable("") == 8
    assert machine.usable("0::/\n") == 8


@pytest.mark.parametrize(
    ("quota", "wanted"),
    [
        ("200000 100000", 2),
        ("max 100000", 8),
        ("50000 100000", 1),
        ("10000 100000", 1),
        ("150000 100000", 2),
        ("149000 100000", 1),
        ("9900000 100000", 8),
        ("", 8),
        ("max", 8),
    ],
)
def test_version_2(machine: Machine, quota: str, wanted: int) -> None:
    machine.write("a/b/cpu.max", quota + "\n")
    assert machine.usable("0::/a/b\n") == wanted


def test_the_narrowest_above_counts(machine: Machine) -> None:
    machine.write("a/cpu.max", "300000 100000")
    machine.write("a/b/cpu.max", "max 100000")
    machine.write("a/b/c/cpu.max", "600000 100000")
    assert machine.usable("0::/a/b/c\n") == 3


def test_in_a_container_its_cgroup_is_the_root(machine: Machine) -> None:
    machine.write("cpu.max", "400000 100000")
    assert machine.usable("0::/\n") == 4


def test_a_cgroup_that_is_not_mounted_here(machine: Machine) -> None:
    machine.write("cpu.max", "500000 100000")
    assert machine.usable("0::/system.slice/elsewhere\n") == 5


def test_version_1(machine: Machine) -> None:
    machine.write("cpu/docker/x/cpu.cfs_quota_us", "250000")
    machine.write("cpu/docker/x/cpu.cfs_period_us", "100000")
    lines = "12:pids:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n"
    assert machine.usable(lines) == 3


def test_version_1_without_a_quota(machine: Machine) -> None:
    machine.write("cpu/x/cpu.cfs_quota_us", "-1")
    machine.write("cpu/x/cpu.cfs_period_us", "100000")
    assert machine.usable("4:cpu,cpuacct:/x\n") == 8


def test_without_an_affinity_it_is_the_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert machine.usable("") == (os.cpu_count() or 1)


def test_never_less_than_one(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(), raising=False)
    assert machine.usable("") == 1


def test_of_this_machine() -> None:
    assert usable_cpus() >= 1


def test_the_bounds_say_why(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.delenv("HMZ_MP_CPUS", raising=False)
    machine.write("box/cpu.max", "250000 100000")
    (machine.proc / "cgroup").write_text("0::/box")
    bounds = cpu_bounds(machine.root, machine.proc)
    assert bounds == CpuBounds(16, 8, 2.5, None)
    assert bounds.usable == 3
    monkeypatch.setenv("HMZ_MP_CPUS", "2")
    assert cpu_bounds(machine.root, machine.proc).share == 2


@pytest.mark.parametrize(("workers", "share"), [(1, "8"), (2, "4"), (3, "2"), (8, "1"), (40, "1")])
def test_workers_are_told_their_share_of_the_cpus(workers: int, share: str) -> None:
    environment = worker_environment(workers, {})
    assert {environment[name] for name in (SHARE, *THREADS)} == {share}


def test_threads_that_the_user_has_set_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    environment = worker_environment(4, {"MKL_NUM_THREADS": "5", "OTHER": "x"})
    assert "OMP_NUM_THREADS" not in environment
    assert environment["MKL_NUM_THREADS"] == "5"
    assert environment["OTHER"] == "x"
    assert environment["OPENBLAS_NUM_THREADS"] == "2"


def test_a_pool_in_a_worker_divides_what_the_pool_around_it_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")  # the user's, though it is the share too
    for name, value in worker_environment(2, {}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")  # set by the call that makes the inner pool
    inner = worker_environment(4, {})
    assert inner[SHARE] == inner["OPENBLAS_NUM_THREADS"] == "1"
    assert not {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} & inner.keys()
