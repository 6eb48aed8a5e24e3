from __future__ import annotations

import pytest

from hmz_mp_worker.scratch import SCRATCH, here


def test_folders_of_ours_are_the_engine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SCRATCH, raising=False)
    assert here("/tmp/hmz-mp-chat-1") == "/tmp/hmz-mp-chat-1"
    monkeypatch.setenv(SCRATCH, "/engine's")
    assert here("/tmp/hmz-mp-chat-1") == "/engine's/hmz-mp-chat-1"
    assert here("/home/somebody") == "/home/somebody"  # who said so means it
