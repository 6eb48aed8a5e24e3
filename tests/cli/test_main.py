import importlib
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

import hmz_mp
from hmz_mp.__main__ import main
from hmz_mp.cli.main import COMMANDS, group, run_command_line

from .support import hmz_mp as run
from .support import write_run

ROOT = Path(__file__).parents[2]
WITH_EXAMPLES = [one for one in COMMANDS if one not in ("exec", "bench")]


@pytest.fixture(autouse=True)
def _a_command_for_every_ending(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(COMMANDS, "endings", ("tests.cli.commands_for_tests:endings", "End."))
    monkeypatch.chdir(tmp_path)


def program(*arguments: str, cwd: Path, stdout: int = subprocess.PIPE) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "hmz_mp", *arguments]
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True
    )


def test_help_lists_every_command() -> None:
    done = run("--help")
    assert done.exit_code == 0
    for name, (_, line) in COMMANDS.items():
        assert f"{name} " in done.stdout
        assert line in done.stdout
    assert "Examples:\n    hmz-mp exec" in done.stdout


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from hmz_mp.cli.main import run_command_line; run_command_line(['--help']);"
        "names = [n for n in sys.modules if n.startswith('hmz_mp.')];"
        "print(sorted(names), 'rich' in sys.modules, 'anyio' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    expected = ["hmz_mp.cli", "hmz_mp.cli.main", "hmz_mp.errors", "hmz_mp.terminal"]
    assert done.stderr == f"{expected} False False\n"


@pytest.mark.parametrize(
    "name", ["exec", "runs", "show", "report", "trace", "export", "apply", "rm", "gc", "doctor"]
)
def test_each_command_is_what_the_table_says(name: str) -> None:
    module, attribute = COMMANDS[name][0].split(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.get_short_help_str(200) == COMMANDS[name][1]


@pytest.mark.parametrize(
    "name", ["runs", "show", "report", "trace", "export", "apply", "rm", "gc", "doctor"]
)
def test_the_help_of_a_command_has_examples(name: str) -> None:
    shown = run(name, "--help")
    assert shown.exit_code == 0
    assert f"Examples:\n    hmz-mp {name}" in shown.stdout


def test_without_arguments_the_help_is_said_as_an_error() -> None:
    done = run()
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: hmz-mp [OPTIONS] COMMAND")


def test_version() -> None:
    done = run("--version")
    assert (done.exit_code, done.stdout) == (0, f"hmz-mp, version {hmz_mp.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sho\x1bw"], "there is no command 'sho\\x1bw'; there are exec, runs, show, "),
        (["--nosuch\x1b"], "--nosuch\\x1b"),
        (["show"], "Missing argument 'RUN'.\n"),
        (["runs", "extra"], "Got unexpected extra argument (extra)\n"),
        (["endings", "x", "--number", "\udcff"], "is not a valid integer"),
    ],
)
def test_a_line_to_correct_is_said_and_ends_with_2(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("hmz-mp: error: ")
    assert said in done.stderr
    assert done.stderr.splitlines()[-1].startswith("see: hmz-mp ")


@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        ("bad", 2, "hmz-mp: error: a \\x1b[31mname\nand a second line\n"),
        ("usage", 2, "hmz-mp: error: use it \\x1b well\nsee: hmz-mp endings --help\n"),
        ("click", 2, "hmz-mp: error: not so\n"),
        ("ours", 1, "hmz-mp: error: the pool is closed\n"),
        ("interrupt", 130, "hmz-mp: interrupted\n"),
        ("abort", 130, "hmz-mp: interrupted\n"),
        ("nothing", 0, ""),
    ],
)
def test_every_ending_has_its_words_and_status(how: str, status: int, said: str) -> None:
    done = run("endings", how)
    assert (done.exit_code, done.stdout, done.stderr) == (status, "", said)


@pytest.mark.parametrize("how", ["status", "exit"])
@pytest.mark.parametrize("number", [0, 3, 130])
def test_a_command_chooses_its_status(how: str, number: int) -> None:
    assert run("endings", how, "--number", str(number)).exit_code == number
    assert run_command_line(["endings", how, "--number", str(number)]) == number


def test_the_group_lists_and_finds_commands_as_click_asks() -> None:
    context = click.Context(group)
    assert group.list_commands(context) == [*COMMANDS]
    assert group.get_command(context, "nosuch") is None


def test_a_bug_shows_its_traceback() -> None:
    assert isinstance(run("endings", "bug").exception, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        run_command_line(["endings", "bug"])


def test_the_group_can_be_called_as_click_has_it() -> None:
    assert group.main(["endings", "status", "--number", "7"], standalone_mode=False) == 7


def test_a_broken_pipe_on_standard_error_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("hmz_mp.cli.main.click.echo", broken)
    assert run("endings", "bad").exit_code == 2


def test_the_program_runs_as_a_module(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    with program("runs", cwd=tmp_path) as process:
        output, errors = process.communicate(timeout=50)
    assert (process.returncode, errors) == (0, "")
    assert run_id in output
    with program("show", "nosuch", cwd=tmp_path) as process:
        output, errors = process.communicate(timeout=50)
    assert (process.returncode, output) == (2, "")
    assert errors == f"hmz-mp: error: there is no run 'nosuch'; there are: {run_id}\n"


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["runs"], ["runs", "--json"], ["show", "last"], ["show", "last", "--json"]],
)
def test_a_reader_that_has_gone_ends_it_quietly(tmp_path: Path, arguments: list[str]) -> None:
    write_run(tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    with program(*arguments, cwd=tmp_path, stdout=writing) as process:
        os.close(writing)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_names_of_any_script_can_be_shown_on_an_ascii_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, "fin 文")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    with program("show", "last", cwd=tmp_path) as process:
        output, errors = process.communicate(timeout=50)
    assert (process.returncode, errors) == (0, "")
    assert "fin \\u6587" in output


def test_standard_output_may_be_closed(tmp_path: Path) -> None:
    write_run(tmp_path)
    command = f'"{sys.executable}" -m hmz_mp runs --json >&-'
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_windows_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main() == 2
    assert capsys.readouterr() == (
        "",
        "hmz-mp: error: Windows is not supported; run it under WSL\n",
    )


def test_main_reads_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hmz-mp", "runs"])
    assert main() == 0
    assert capsys.readouterr() == ("", "no runs here yet: hmz-mp exec starts one\n")
