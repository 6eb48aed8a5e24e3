from __future__ import annotations

from hmz_mp.core.functions import FunctionTable
from hmz_mp.core.jobs import JobState, Lane
from hmz_mp.core.shipment import Settings, Shipment


def shipment(**settings: object) -> Shipment:
    function = FunctionTable().resolve(len)
    given = Settings(**settings)  # type: ignore[arg-type]  # each test gives its own
    job = Shipment(4, Lane(1, "call"), function.timing, function=function, payload=b"args")
    job.configure(given)
    return job


def test_settings_become_the_jobs() -> None:
    job = shipment(timeout=1.0, deadline=2.0, retries=3, memory=4, item_id="i", name="n")
    assert (job.timeout, job.deadline, job.retries, job.memory) == (1.0, 2.0, 3, 4)
    assert (job.id, job.settings.item_id, job.settings.name) == (4, "i", "n")
    assert job.state is JobState.QUEUED
    assert job.timing is job.function.timing


def test_what_it_does_in_words() -> None:
    assert shipment().describe() == "len"
    assert shipment(name="counting").describe() == "counting"
    assert shipment(item_id="a\nb").describe() == "len for item 'a\\nb'"
    assert shipment(item_id="").describe() == "len for item ''"
