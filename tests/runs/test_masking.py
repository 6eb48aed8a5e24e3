import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.runs.finding import open_run
from hmz_mp.runs.masking import LEAST, MASK, Masks

from .support import new_ledger, turn

NAMES = ["SOME_API_KEY", "GITHUB_TOKEN", "MY_SECRET_THING", "DB_PASSWORD", "some_token"]


@pytest.mark.parametrize("name", NAMES)
def test_values_of_secret_variables_are_masked(name: str) -> None:
    masks = Masks({name: "sesame-opens"})
    assert masks
    assert masks.text("say sesame-opens, twice: sesame-opens") == f"say {MASK}, twice: {MASK}"
    assert masks.data(b"\xffsesame-opens") == b"\xff" + MASK.encode()
    assert masks.value(7) == 7
    assert masks.value(None) is None


@pytest.mark.parametrize("name", ["KEYBOARD", "MONKEY", "TOKENS", "HOME", "KEY_FILE"])
def test_other_variables_are_not(name: str) -> None:
    assert not Masks({name: "sesame-opens"})


def test_short_values_are_not_and_the_longest_goes_first() -> None:
    assert not Masks({"A_KEY": "x" * (LEAST - 1), "B_KEY": ""})
    masks = Masks({"A_KEY": "12345", "B_KEY": "1234567890"})
    assert masks.text("1234567890") == MASK
    assert masks.longest == 10
    assert repr(masks) == "<Masks of 2 texts>"


def test_lines_of_a_secret_and_its_form_in_json_are_masked() -> None:
    secret = '--BEGIN--\nab"cd\\ef\n--END--\n'
    masks = Masks({"A_KEY": secret})
    for text in (secret, json.dumps(secret), 'ab"cd\\ef', 'only ab"cd\\ef here'):
        assert "cd" not in masks.text(text)


@given(st.text(min_size=LEAST), st.text(), st.text())
def test_nothing_of_it_is_left(secret: str, before: str, after: str) -> None:
    masks = Masks({"A_TOKEN": secret})
    if secret not in MASK:
        assert secret not in masks.text(before + secret + after).replace(MASK, "")


def test_nothing_of_it_is_in_the_files_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sesame-opens"
    for name in NAMES[:4]:
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("PYTHONPATH", f"/x/{secret}")
    ledger = new_ledger(tmp_path)
    fields = {
        name: f"{name} {secret} end"
        for name in ("answer", "error", "detail", "output", "prompt", "usage", "conversation")
    }
    patch = f"+KEY={secret}\n".encode()
    for piece in ("it is ses", "ame-op", "ens, you\nsee ", "sesame", "-opens"):
        ledger.say(0, 1.0, "text", piece)
        ledger.flush()
    ledger.say(0, 2.0, "tool", f"Bash {secret}")
    for _ in range(300):
        ledger.say(0, 3.0, "log", f"again {secret} " + "x" * 300)
    ledger.put(turn(0, f"a-{secret}", state="ok", patch=patch, **fields))
    ledger.note("UPDATE runs SET state = ?", json.dumps({"key": secret}))
    ledger.finish("ok", 0, {})
    ledger.close()
    files = [file for file in ledger.directory.rglob("*") if file.is_file()]
    assert len(files) == 2
    for file in files:
        data = file.read_bytes()
        assert secret.encode() not in data
        assert b"ame-op" not in data
    with open_run(tmp_path, "last") as run:
        record = run.turn(0)
        assert record.answer == f"answer {MASK} end"
        assert record.patch == b"+KEY=" + MASK.encode() + b"\n"
        said = [event.text for event in run.events(0) if event.kind == "text"]
        assert "".join(said) == f"it is {MASK}, you\nsee {MASK}"
