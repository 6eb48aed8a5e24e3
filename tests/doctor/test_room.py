from hmz_mp.core.cpus import CpuBounds
from hmz_mp.core.machine import MachineMemory
from hmz_mp.doctor.room import cpu_reasons, processes_that_fit

GB = 1 << 30


def test_why_so_many_cpus() -> None:
    assert cpu_reasons(CpuBounds(8, 8, None, None)) == "8 here"
    assert cpu_reasons(CpuBounds(8, None, None, None)) == "8 here"
    assert cpu_reasons(CpuBounds(64, 16, 2.5, 1)) == (
        "64 here, affinity leaves 16, the cgroup's quota is 2.5, this worker's share is 1"
    )


def test_how_many_fit() -> None:
    assert processes_that_fit(MachineMemory(4 * GB, 2 * GB), GB // 4) == 7  # 0.2 GB are kept free
    assert processes_that_fit(MachineMemory(100 * GB, 9 * GB), GB) == 8  # at most 1 GB is
    assert processes_that_fit(MachineMemory(4 * GB, 0), GB) == 0
