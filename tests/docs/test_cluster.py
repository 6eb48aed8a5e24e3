"""The Python of docs/cluster.md is run as it is shown, against the cluster that it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_python import BLOCK, ROOT
from tests.helpers import run_script

pytest.importorskip("distributed", reason="the extra dask is not installed")


def test_the_script_of_the_page_runs_as_it_is_shown(tmp_path: Path) -> None:
    (block,) = BLOCK.findall((ROOT / "docs" / "cluster.md").read_text(encoding="utf-8"))
    ran = run_script(tmp_path, block)
    assert ran.returncode == 0, ran.stderr
