import contextlib
import json
import sys
from pathlib import Path

import pytest

from hmz_mp.agents import sources
from hmz_mp.agents.identity import digest_of_files
from hmz_mp.agents.kinds import engine_for
from hmz_mp.agents.sources import files_of_command
from hmz_mp.agents.spec import parse

NOTHING = digest_of_files()


def test_a_tool_has_its_file(tmp_path: Path) -> None:
    file = tmp_path / "tools_with_source.py"
    file.write_text("def one(prompt):\n    return prompt\n")
    engine = engine_for(parse(f"tool/{file}:one"))
    assert engine.source not in ("", NOTHING)
    assert engine.source == digest_of_files(file)


def test_a_tool_of_a_module_has_the_module_s() -> None:
    engine = engine_for(parse("tool/hmz_mp.toolbox.python:outline"))
    assert engine.source == digest_of_files(sys.modules["hmz_mp.toolbox.python"].__file__ or "")


def test_a_built_in_function_has_none() -> None:
    assert sources.files_of_function("builtins", len) == ()
    assert sources.files_of_function("json", sys.modules["json"].dumps) == (json.__file__,)


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("./check.sh {path} out.txt", "check.sh"),
        ("python3 check.sh {path} out.txt", "check.sh"),
        ("python3.11 check.sh", "check.sh"),
        ("python3 -m check.sh", None),
        ("cat out.txt", None),
        ("python3 no-such.py", None),
        ("{path}", None),
    ],
)
def test_a_command_has_its_script(tmp_path: Path, command: str, script: str | None) -> None:
    for name in ("check.sh", "out.txt"):
        (tmp_path / name).write_text(name)
    with contextlib.chdir(tmp_path):
        found = [str(Path(one)) for one in files_of_command(command.split())]
        assert found == ([script] if script else [])
        if command.split()[0] != "{path}":
            source = digest_of_files(*([script] if script else []))
            assert engine_for(parse(f"sh/{command}")).source == source
