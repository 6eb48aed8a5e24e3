from __future__ import annotations

from hmz_mp_worker.backends.acp.choices import Choice, choices_of, described


def select(id: str, category: object, options: object, current: object = "a") -> object:  # noqa: A002
    said = {"id": id, "category": category, "type": "select", "options": options}
    return {**said, "currentValue": current}


def test_options() -> None:
    flat = [{"value": "a", "name": "A"}, {"value": "b"}]
    grouped = [{"group": "g", "options": flat}, {"group": "h", "options": [{"value": "c"}]}]
    said = {"configOptions": [select("m", "model", grouped), select("x", "mode", flat)]}
    assert choices_of(said) == {
        "model": Choice("model", "m", "a", ("a", "b", "c")),
        "mode": Choice("mode", "x", "a", ("a", "b")),
    }
    assert choices_of(said)["mode"].request("s", "b") == (
        "session/set_config_option",
        {"sessionId": "s", "configId": "x", "value": "b"},
    )


def test_models_and_modes_of_older_programs() -> None:
    said = {
        "models": {"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]},
        "modes": {"currentModeId": "x", "availableModes": [{"id": "x"}, {"id": "y"}]},
    }
    found = choices_of(said)
    assert found["model"] == Choice("model", "", "a", ("a", "b"))
    assert found["mode"] == Choice("mode", "", "x", ("x", "y"))
    assert found["model"].request("s", "b") == (
        "session/set_model",
        {"sessionId": "s", "modelId": "b"},
    )
    assert found["mode"].request("s", "y") == (
        "session/set_mode",
        {"sessionId": "s", "modeId": "y"},
    )
    newer = choices_of({**said, "configOptions": [select("m", "model", [{"value": "c"}])]})
    assert newer["model"] == Choice("model", "m", "a", ("c",))
    assert newer["mode"].id == ""


def test_nonsense() -> None:
    assert choices_of({}) == {}
    assert choices_of({"models": [], "modes": 3, "configOptions": {"id": "m"}}) == {}
    odd = [None, 3, {"type": "boolean", "id": "b", "category": "model"}, select("m", {}, None)]
    assert choices_of({"configOptions": [*odd, select("m", "model", "x", None)]}) == {
        "model": Choice("model", "m", "", ())
    }


def test_how_they_are_described() -> None:
    assert described(("a", "b")) == "a, b"
    assert described(tuple(str(n) for n in range(14))).endswith("10, 11 and 2 more")
