from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hmz_mp_worker.scratch import SCRATCH, here


def test_folders_of_ours_are_the_engine_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    monkeypatch.delenv(SCRATCH, raising=False)
    assert here("/tmp/hmz-mp-chat-1") == "/tmp/hmz-mp-chat-1"
    monkeypatch.setenv(SCRATCH, str(scratch))
    assert here("/home/somebody") == "/home/somebody"
    assert not scratch.exists()
    assert here("/tmp/hmz-mp-chat-1") == f"{scratch}/hmz-mp-chat-1"
    assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
    assert here("/home/somebody") == "/home/somebody"  # who said so means it
