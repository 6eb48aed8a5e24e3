from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.workers.raw import RawWorker, RawZygote, raw_zygote


@pytest.fixture
def zygote() -> Iterator[RawZygote]:
    with raw_zygote() as zygote:
        yield zygote


@pytest.fixture
def worker(zygote: RawZygote) -> RawWorker:
    """A call worker that waits for calls."""
    return zygote.ready()


@pytest.fixture
def host(zygote: RawZygote) -> RawWorker:
    """A host worker that waits for calls."""
    return zygote.ready(host=True)
