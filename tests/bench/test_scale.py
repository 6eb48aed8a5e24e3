"""The simulation of many workers: a small one, which checks what the policy promises."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import pytest

from bench.scale import room, scenes
from bench.scale.__main__ import main
from bench.scale.world import World
from hmz_mp.core.jobs import Job


def test_every_turn_ends_once_whatever_becomes_of_workers() -> None:
    worlds = [World(30, 3000, window=300, at_once=45, seed=seed) for seed in range(4)]
    for world in worlds:
        world.run()
        assert sum(world.endings.values()) == 3000
        assert world.endings["done"] > 2500
        assert world.policy.widest <= 45
        assert world.policy.counts["retried"]
        for how in ("failed", "cancelled", "TurnTimeout"):
            assert world.endings[how]
    faults = sum((world.faults for world in worlds), Counter[str]())
    assert faults.keys() == {
        "calls given back",
        "turns of host workers stopped",
        "workers killed for a call",
        "workers retired",
        "workers that died in a call",
    }


def test_the_simulation_sees_a_turn_that_ends_twice() -> None:
    world = World(2, 10, window=10, seed=1)
    world.run()
    (job,) = World(2, 1, window=1, seed=1).load.make(1)
    with pytest.raises(AssertionError, match="ended twice"):
        world._end(job, "done")


def test_the_simulation_sees_a_gate_that_is_too_wide() -> None:
    world = World(2, 10, window=10, at_once=2, seed=1)
    jobs: list[Job] = [job for job in world.load.make(10) if not job.lane.serial][:3]
    world._take(jobs[0])
    world._take(jobs[1])
    with pytest.raises(AssertionError, match="Gate pool"):
        world._take(jobs[2])


@pytest.mark.parametrize("scene", scenes.SCENES)
def test_scenes_can_be_repeated(scene: Callable[[int], Callable[[], None]]) -> None:
    assert 0 < scenes.measure(scene, 20, 50) < 1


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["simulation", "scenes", "--workers", "20", "--turns", "500", "--steps", "20"])
    shown = capsys.readouterr().out
    assert "20 workers, 500 turns, each ended once; no gate was ever too wide" in shown
    assert "| busy workers | " in shown


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_what_turns_and_workers_take() -> None:
    assert 100 < room.of_a_queued_job(50_000) < 2000
    assert 300 < room.of_a_queued_turn(20_000) < 5000
    worker = room.of_a_worker(1, 2)
    assert worker.descriptors >= 1
    assert worker.threads == 0


def test_a_part_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["rooms"])
    assert "there is no rooms; there are simulation, scenes, room" in capsys.readouterr().err
