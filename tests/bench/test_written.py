"""Tables, Markdown, JSON and the plot, of results that nobody measured."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from hmz_mp_bench import words
from hmz_mp_bench.results import Results
from hmz_mp_bench.svg import draw
from hmz_mp_bench.tables import machine_line, markdown, target_table, workload_table

from .support import ODD, some_results


@pytest.mark.parametrize(
    ("value", "name", "unit", "shown"),
    [
        (1.234e-5, "call", "seconds", "12.3 µs"),
        (0.0, "call", "seconds", "0.00 ns"),
        (61.5, "all", "seconds", "61.5 s"),
        (2_900_000, "worker", "bytes", "2.90 MB"),
        (120, "each", "seconds", "120 B"),
        (-1e-3, "call", "seconds", "-1.00 ms"),
        (1.05, "over", "seconds", "1.05 ×"),
    ],
)
def test_figures_have_three_digits_and_a_unit(
    value: float, name: str, unit: str, shown: str
) -> None:
    assert words.figure(value, name, unit) == shown


def test_spreads_rates_and_ratios() -> None:
    assert words.spread([2e-3, 1.5e-3], "all", "seconds") == "1.50 to 2.00 ms"
    assert words.spread([2e-3], "all", "seconds") == "2.00 ms"
    assert words.rate(1e-6) == "1,000,000"
    assert words.rate(2.0) == "0.5"
    assert words.rate(0.0) == "0"
    assert words.times(1234.5) == "1,234 ×"
    assert words.times(0.00149) == "0.0015 ×"
    assert words.round_figure(1e-5, "call", "seconds") == "10 µs"


def test_a_workloads_table_names_everybody() -> None:
    table = workload_table(some_results(), "gathered")
    assert [row[0] for row in table.rows] == ["hmz_mp.Pool", "loky", "ProcessPoolExecutor"]
    assert table.rows[0] == ["hmz_mp.Pool", "10.0 µs", "9.00 to 12.0 µs", "3", "100,000", "1.00 ×"]
    assert table.rows[-1][-1] == "30.0 ×"
    assert f"mpire: wrong answer: {ODD}" in table.below
    assert "ray: ray is not installed" in table.below
    results = some_results()
    results.cell("gathered", "dask").left_out = "ray is not installed"
    assert (
        "ray, dask.distributed: ray is not installed" in workload_table(results, "gathered").below
    )
    assert any(line.startswith("fewer calls") and "loky 5,000" in line for line in table.below)


def test_the_targets_of_what_was_measured() -> None:
    rows = target_table(some_results()).rows
    assert rows == [
        ["gathered", "at least 25 × ProcessPoolExecutor", "30.0 ×", "reached"],
        ["gathered", "at least 15 × every peer", "25.0 × loky", "reached"],
        ["memory", "at most 3 MB", "2.90 MB", "reached"],
    ]
    results = some_results()
    results.cell("gathered", "process-pool").problem = "it broke"
    results.cell("gathered", "loky").samples[:] = [{"call": 1e-4}]
    assert target_table(results).rows[:2] == [
        ["gathered", "at least 25 × ProcessPoolExecutor", "not measured", ""],
        ["gathered", "at least 15 × every peer", "10.0 × loky", "not reached"],
    ]


def test_markdown_has_all_tables_and_takes_foreign_text_as_it_is() -> None:
    text = markdown(some_results(partial=True))
    assert "| gathered | at least 25 × ProcessPoolExecutor | 30.0 × | reached |" in text
    assert "| mpire | failed |  |" in text
    assert "\\<b>" in text
    assert "\\`marks\\` and a second line" in text
    assert "**Interrupted: partial.**" in text
    for line in text.splitlines():
        assert line.startswith("|") == line.endswith("|")


def test_a_busy_machine_is_told() -> None:
    results = some_results()
    assert machine_line(results).endswith("2 workers, load 0.0 at the beginning")
    results.about["load"] = 3.0
    assert "small differences mean nothing" in machine_line(results)


def test_json_has_every_sample_and_every_reason() -> None:
    written = json.loads(json.dumps(some_results(partial=True).as_json()))
    contenders = written["workloads"]["gathered"]["contenders"]
    assert contenders["hmz-mp"]["median"] == 1e-5
    assert len(contenders["hmz-mp"]["samples"]) == 3
    assert contenders["mpire"] == {"problem": f"wrong answer: {ODD}"}
    assert contenders["ray"] == {"left_out": "ray is not installed"}
    assert written["about"]["versions"] == {"hmz-mp": "0.1.0", "ray": None}
    assert written["partial"] is True
    assert Results.from_json(written) == some_results(partial=True)


def test_the_plot_is_a_document_with_a_bar_for_each_that_was_measured() -> None:
    results = some_results()
    results.cell("gathered", "<odd> & co").samples.append({"call": 5e-5})
    root = ElementTree.fromstring(draw(results))
    namespace = "{http://www.w3.org/2000/svg}"
    bars = [one for one in root.iter(f"{namespace}rect") if "bar" in (one.get("class") or "")]
    assert len(bars) == 5  # a median of nought has none
    assert all(float(bar.get("width", 0)) > 0 for bar in bars)
    assert len([bar for bar in bars if bar.get("class") == "bar ours"]) == 2
    texts = [one.text for one in root.iter(f"{namespace}text")]
    assert "<odd> & co" in texts
    assert "prefers-color-scheme: dark" in draw(results)


def test_nothing_measured_is_nothing_drawn() -> None:
    ElementTree.fromstring(draw(Results({})))
    assert target_table(Results({})).rows == []
