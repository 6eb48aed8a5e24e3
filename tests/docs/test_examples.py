"""The commands in the documentation are run, in order, in a copy of ``docs/examples``."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.programs import fake_acp, fake_claude
from tests.model_servers.openai import OpenAI
from tests.model_servers.serving import serving

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    *("agents.md", "bench.md", "chat.md", "exec.md", "fan-in.md", "flows.md", "runs.md"),
    *("resume.md", "ship.md", "triage.md", "worktrees.md"),
]

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "---- status"

USAGE = {"input": 100, "output": 7}
CHAT = {
    "rules": [
        {
            "match": r'path="shop/cart.py"',
            "steps": [{"text": "Adds up what somebody is about to buy, less a discount."}],
        },
        {
            "match": r'path="shop/price.py"',
            "steps": [{"text": "Holds prices in cents, and reads them from text."}],
        },
        {
            "match": "way to sort",
            "steps": [{"text": "Merge sort: sort both halves, then merge them.", "usage": USAGE}],
        },
        {
            "match": "stable",
            "steps": [{"text": '{"name": "merge sort", "stable": true}', "usage": USAGE}],
        },
    ]
}


def commands(page: str) -> list[tuple[str, str]]:
    """Return the commands of a page and what each is said to print."""
    found: list[tuple[str, str]] = []
    for block in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


@pytest.fixture(scope="module")
def chat() -> Iterator[list[str]]:
    """Run a service in the place of OpenAI; gives the variables that lead there."""
    with serving(OpenAI, CHAT) as server:
        yield [f"OPENAI_BASE_URL={server.url}/v1", "OPENAI_API_KEY=none"]


@pytest.fixture
def bash(tmp_path: Path, chat: list[str]) -> list[str]:
    """Start a shell in a copy of the examples, where ``hmz-mp`` is ours."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, arguments in (("hmz-mp", "-m hmz_mp"), ("python3", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        program.chmod(0o755)
    fake_claude(programs)
    fake_acp(programs, "opencode")
    shutil.copytree(
        DOCS / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    variables = [f"PATH={programs}:/usr/bin:/bin", f"HOME={tmp_path}", *chat]
    return ["env", *variables, "bash", "--norc"]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_happens(bash: list[str], page: str, tmp_path: Path) -> None:
    pairs = commands(page)
    assert pairs
    # One shell for all, so that `$?` and files are as a reader's; a mark after each command.
    script = "".join(f"{command}\n(s=$?; echo {MARK}; exit $s)\n" for command, _ in pairs)
    done = subprocess.run(
        bash, input=script, cwd=tmp_path / "examples", capture_output=True, text=True, timeout=55
    )
    said = done.stdout.split(f"{MARK}\n")[:-1]
    assert len(said) == len(pairs), done
    checker = doctest.OutputChecker()
    for (command, wanted), got in zip(pairs, said, strict=True):
        right = checker.check_output(wanted, got, doctest.ELLIPSIS)
        assert right, f"{page}: {command}\nsaid to print:\n{wanted}\nprinted:\n{got}\n{done.stderr}"


def test_every_example_is_in_the_pages() -> None:
    text = "".join((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
    for flow in (DOCS / "examples" / "flows").glob("*.py"):
        assert f"flows/{flow.name}" in text
