from __future__ import annotations

from pathlib import Path

from tests.helpers import run_python


def test_a_module_with_tools_is_light_to_import(tmp_path: Path) -> None:
    source = (
        "import sys\nfrom hmz_mp import tool\n@tool\ndef f(x: int) -> int: return x\n"
        "print(*sorted(sys.modules))"
    )
    loaded = set(run_python(["-c", source], cwd=tmp_path).stdout.split())
    assert "hmz_mp.tools.decorator" in loaded
    assert loaded & {"msgspec", "anyio", "asyncio", "hmz_mp.tools.signature"} == set()
