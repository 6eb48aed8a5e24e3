from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from hmz_mp.cli.doctor import Examination, print_examination
from hmz_mp.core.cpus import CpuBounds
from hmz_mp.core.machine import MachineMemory
from hmz_mp.doctor.abilities import Ability
from hmz_mp.doctor.programs import Found, Known

from .support import hmz_mp

GB = 1 << 30
CLAUDE = Known("claude", "claude/", 200 << 20)
ODD = Known("odd", "no_such_backend/")


def examination(works: bool = True) -> Examination:
    return Examination(
        CpuBounds(64, 16, 2.5, None),
        MachineMemory(8 * GB, 3 * GB),
        [
            Found(CLAUDE, "/usr/local/lib/somewhere/deep/bin/claude", "2.1.332"),
            Found(Known("codex", "codex/"), "/bin/codex", problem="it \x1b[31m failed [red]"),
            Found(Known("qwen", "acp/qwen")),
            Found(ODD, "/bin/odd", "1.0"),
        ],
        [Found(Known("a-package-of-a-long-name", "openai/"), version="2.0"), Found(ODD)],
        [
            Ability("workers", works, "one was started", needed=True),
            Ability("pidfd", False, "not here"),
        ],
    )


def printed(found: Examination, width: int | None) -> list[str]:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=width is not None,
        color_system=None,
        markup=False,
        highlight=False,
    )
    print_examination(found, console)
    return stream.getvalue().splitlines()


def test_for_people() -> None:
    lines = printed(examination(), None)
    assert "  CPUs     3 used by a pool: 64 here, affinity leaves 16, " in lines[2]
    assert lines[2].endswith("the cgroup's quota is 2.5")
    assert "  memory   3.0 GB of 8.0 GB available" in lines
    assert "  pidfd    no: not here" in lines
    text = "\n".join(lines)
    assert "2.1.332, /usr/local/lib/somewhere/deep/bin/claude" in text
    assert "; 13 would fit in memory, at 200 MB each" in text
    assert "/bin/codex: it \\x1b[31m failed [red]" in text
    assert "not found (acp/qwen)" in text
    assert "1.0, /bin/odd; this version has no no_such_backend/" in text
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_services_key_is_looked_for_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Found(Known("openai", "openai/", key="HMZ_MP_TEST_KEY"), version="3.0")
    found = dataclasses.replace(examination(), packages=[package])
    monkeypatch.setenv("HMZ_MP_TEST_KEY", "sk-secret")
    assert "3.0; HMZ_MP_TEST_KEY is set" in "\n".join(printed(found, None))
    monkeypatch.delenv("HMZ_MP_TEST_KEY")
    assert "3.0; HMZ_MP_TEST_KEY is not set" in "\n".join(printed(found, None))


@pytest.mark.parametrize("width", [40, 25, 10])
def test_it_fits_narrow_terminals(width: int) -> None:
    lines = printed(examination(), width)
    assert max(map(len, lines)) <= max(width, 28)
    assert "claude" in "".join(lines)


def test_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = hmz_mp("doctor", "--json")
    assert done.exit_code == 0
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert found["works"] is True
    assert found["cpus"]["used"] >= 1
    assert {one["name"] for one in found["programs"]} >= {"claude", "codex"}
    keys = {one["name"]: one["key"] for one in found["packages"]}
    assert keys["openai"]["name"] == "OPENAI_API_KEY"
    assert keys["agent-client-protocol"] is None
    assert {one["name"] for one in found["abilities"]} >= {"git", "pidfd", "shared memory"}


def test_the_status_is_that_of_what_is_needed() -> None:
    assert examination().status == 0
    assert examination(works=False).status == 1
