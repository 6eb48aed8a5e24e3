"""What the run of the pictures is made of: that it can be run, and what the pictures are of."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tests.cli.processes import Project

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
TWINS = """
class A:
    def one(self, given):
        return [each.strip() for each in given if each is not None]

    def two(self, given):
        return [each.strip() for each in given if each is not True]

def other():
    raise RuntimeError("this is not at all like the others")
"""


def test_its_flow_and_its_check(tmp_path: Path) -> None:
    project = Project(tmp_path)
    shutil.copytree(PICTURES / "checks", project.root / "checks")
    project.write("lib/a.py", TWINS)
    project.write("lib/bad.py", "def (:\n")
    agents = ("-a", "tool/hmz_mp.toolbox.python:outline", "-a", "tool/checks/twins.py:twins")
    done = project.exec("-f", "checks/review.py", *agents, "--include", "lib", "--json")
    assert done.status == 1, done
    answers = [row["answer"] for row in done.rows if row["item_id"] == "lib/a.py"]
    (outline,) = (json.loads(one) for one in answers if one.startswith("{"))
    assert [one["name"] for one in outline["functions"]] == ["A.one", "A.two", "other"]
    assert "3 functions, pairs nearly the same: 1" in answers
    errors = [row["error"] for row in done.rows if row["item_id"] == "lib/bad.py"]
    assert len(errors) == 2
    assert all(one.startswith("SyntaxError") for one in errors)
    assert "A.one and A.two" in done.err


def test_the_pictures_of_the_screen_are_of_one_run() -> None:
    drawn = [(PICTURES / f"watch-{number}.svg").read_text() for number in (1, 2)]
    runs = {re.sub(r"&#160;", " ", one).partition("run 2")[2][:18] for one in drawn}
    assert len(runs) == 1
    assert not any("url(http" in one or "@font-face" in one for one in drawn)
