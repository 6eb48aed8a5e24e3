from __future__ import annotations

import os
from pathlib import Path

import pytest

from hmz_mp.core.cpus import CpuBounds, cpu_bounds, usable_cpus


@pytest.fixture(autouse=True)
def _eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process may run on eight CPUs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


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
