"""The Python of the README and of the pages is run as scripts, as a reader would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers import run_script

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def scripts() -> list[tuple[str, str]]:
    """Return the blocks that are whole scripts: those that run something."""
    found = []
    for page in (ROOT / "README.md", ROOT / "docs" / "pool.md"):
        for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            if "@flow" not in block:
                found.append((f"{page.name}-{number}", block))
    return found


@pytest.mark.parametrize("block", [pytest.param(text, id=name) for name, text in scripts()])
def test_a_script_runs_as_it_is_shown(tmp_path: Path, block: str) -> None:
    for name in ("README.md", "LICENSE"):
        (tmp_path / name).write_text("a line\n" * 20)
    ran = run_script(tmp_path, block)
    assert ran.returncode == 0, ran.stderr


def test_the_flow_of_the_readme_runs_by_its_command(tmp_path: Path) -> None:
    (block,) = [one for one in BLOCK.findall((ROOT / "README.md").read_text()) if "@flow" in one]
    flow = tmp_path / ".humanize" / "flows" / "lint.py"
    flow.parent.mkdir(parents=True)
    flow.write_text(block)
    (tmp_path / "src").mkdir()
    for name in ("a.py", "b.py"):
        (tmp_path / "src" / name).touch()
    ran = run_script(
        tmp_path,
        "import sys; from hmz_mp.__main__ import main; sys.exit(main())",
        *["exec", "-f", "lint", "-a", "sh/tr a-z A-Z", "look at"],
    )
    assert (ran.returncode, ran.stdout) == (0, "2 of 2 answered\n"), ran.stderr
