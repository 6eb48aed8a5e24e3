"""The tables agree with each other and with what there is."""

from __future__ import annotations

from importlib import import_module

import pytest

from hmz_mp_bench.contenders.base import Contender
from hmz_mp_bench.machine import about
from hmz_mp_bench.registry import CONTENDERS, Entry, missing, version
from hmz_mp_bench.starts import STARTS
from hmz_mp_bench.targets import TARGETS
from hmz_mp_bench.workloads import WORKLOADS


def test_workloads_name_contenders_that_exist() -> None:
    for workload in WORKLOADS.values():
        named = {*workload.contenders, *workload.cannot, *workload.fewer}
        assert named <= set(CONTENDERS)
        assert len(workload.contenders) == len(set(workload.contenders))
    assert set(WORKLOADS["start"].contenders) == set(STARTS)
    assert {one.workload for one in TARGETS} == set(WORKLOADS)


@pytest.mark.parametrize("name", CONTENDERS)
def test_each_contender_is_a_class(name: str) -> None:
    module, _, attribute = CONTENDERS[name].contender.partition(":")
    assert issubclass(getattr(import_module(module), attribute), Contender)


@pytest.mark.parametrize("name", [name for name, one in WORKLOADS.items() if one.procedure])
def test_each_procedure_is_there(name: str) -> None:
    module, _, attribute = WORKLOADS[name].procedure.partition(":")
    assert callable(getattr(import_module(module), attribute))


def test_fewer_calls_are_never_more_than_the_size_has() -> None:
    workload = WORKLOADS["gathered"]
    assert workload.count("hmz-mp", "full") == 20_000
    assert workload.count("dask", "full") == 500
    assert workload.count("dask", "smoke") <= workload.counts["smoke"]


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTENDERS, "hmz", Entry("hmz", "nowhere:Nothing", "no-such-distribution"))
    assert missing("hmz") == "no-such-distribution is not installed"
    assert missing("process-pool") is None
    assert missing("hmz-mp") is None
    assert version("no-such-distribution") is None


def test_the_machine_is_told_without_its_name() -> None:
    found = about()
    assert found["cpus"] >= 1
    assert found["memory"] > 0
    assert found["processor"]
    assert found["versions"]["msgspec"]
    assert "node" not in found
