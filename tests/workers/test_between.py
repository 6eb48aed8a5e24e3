from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from hmz_mp_worker.between import Changes
from tests.workers.raw import HOME


def test_nothing_changed() -> None:
    changes = Changes()
    assert not changes.any()
    assert changes.put_back() == {}


def _append() -> None:
    sys.path.append("/nowhere")


def _replace() -> None:
    sys.path = ["/nowhere"]


@pytest.mark.parametrize("change", [_append, _replace])
def test_the_path(change: Callable[[], None]) -> None:
    changes, same, entries = Changes(), sys.path, list(sys.path)
    change()
    assert changes.any()
    assert changes.put_back()["path", None][-1] == "/nowhere"
    assert sys.path is same
    assert sys.path == entries


def in_a_process(source: str) -> str:
    """Run ``source`` where functions were replaced; return what it prints."""
    code = (
        "import locale, os, signal, sys\n"
        "from hmz_mp_worker.between import changes\n"
        "changes.watch(); changes.accept()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code + source],
        env={**os.environ, "PYTHONPATH": HOME, "BETWEEN": "before"},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout


def test_the_recursion_limit() -> None:
    source = """
before = sys.getrecursionlimit()
sys.setrecursionlimit(before + 7)
assert changes.any()
assert changes.put_back() == {("recursion", None): before + 7}
assert sys.getrecursionlimit() == before
sys.setrecursionlimit(before + 7)
changes.accept()
assert not changes.any()
assert changes.put_back() == {}
print(sys.getrecursionlimit() - before)
"""
    assert in_a_process(source) == "7\n"


@pytest.mark.parametrize(
    "change",
    ["os.close(2)", "os.dup2(os.open(os.devnull, os.O_RDWR), 0)", "os.closerange(1, 3)"],
)
def test_a_standard_descriptor_is_noted_and_left_to_others(change: str) -> None:
    source = f"""
to = os.dup(1)
{change}
os.write(to, repr((changes.any(), changes.put_back(), changes.any())).encode())
"""
    assert in_a_process(source) == repr((True, {("descriptors", None): None}, False))


def test_other_descriptors_are_not_noted() -> None:
    source = "os.close(os.dup(0)); os.closerange(3, 9); print(changes.any())"
    assert in_a_process(source) == "False\n"


@pytest.mark.parametrize(
    ("change", "look"),
    [
        ("os.chdir('/')", "os.getcwd()"),
        ("os.umask(0o077)", "[os.umask(0), os.umask(0o022)][0]"),
        ("os.environ['BETWEEN'] = 'after'", "os.environ['BETWEEN']"),
        ("del os.environ['BETWEEN']", "os.environ.get('BETWEEN')"),
        ("os.environ['BETWEEN_NEW'] = 'x'", "os.environ.get('BETWEEN_NEW')"),
        ("os.putenv('BETWEEN_NEW', 'x')", "os.popen('echo $BETWEEN_NEW').read()"),
        ("signal.signal(signal.SIGTERM, print)", "signal.getsignal(signal.SIGTERM)"),
        ("signal.alarm(60)", "signal.getitimer(signal.ITIMER_REAL)[0] > 0"),
        ("signal.setitimer(signal.ITIMER_REAL, 60)", "signal.getitimer(0)[0] > 0"),
        (
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])",
            "signal.pthread_sigmask(signal.SIG_BLOCK, [])",
        ),
        ("locale.setlocale(locale.LC_CTYPE, 'C')", "locale.setlocale(locale.LC_CTYPE)"),
    ],
)
def test_what_was_changed_is_put_back_and_can_be_brought_again(change: str, look: str) -> None:
    source = (
        f"look = lambda: {look}\n"
        f"seen = [look()]; changes.accept(); {change}\n"
        "assert changes.any(); changed = changes.put_back() or sys.exit('nothing')\n"
        "assert not changes.any()\n"
        "seen.append(look()); changes.put_back()\n"
        "changes.bring(changed); assert changes.any(); seen.append(look())\n"
        "changes.put_back(); seen.append(look())\n"
        "assert seen[0] == seen[1] == seen[3], seen\n"
        "print(seen[0] != seen[2] or 'putenv')\n"
    )
    assert in_a_process(source).strip() == ("putenv" if "putenv" in change else "True")


@pytest.mark.parametrize(
    "source",
    [
        "os.chdir(3.5)",
        "os.umask('x')",
        "os.putenv(1, 2)",
        "signal.signal('x', 'y')",
        "signal.alarm()",
        "locale.setlocale(locale.LC_ALL, 'nowhere')",
    ],
)
def test_bad_arguments_are_the_real_functions_to_refuse(source: str) -> None:
    code = f"try: {source}\nexcept (TypeError, ValueError, locale.Error): print('refused')\n"
    assert in_a_process(code + "changes.put_back()\n") == "refused\n"


def test_the_functions_look_like_themselves() -> None:
    source = (
        "import pickle, posix\n"
        "assert pickle.loads(pickle.dumps(os.chdir)) is os.chdir is posix.chdir\n"
        "print(os.umask.__name__, os.umask.__doc__[:3], signal.alarm.__name__)\n"
    )
    assert in_a_process(source) == "umask Set alarm\n"


def test_asking_changes_nothing() -> None:
    source = (
        "locale.setlocale(locale.LC_ALL); signal.getsignal(2); os.getcwd()\nprint(changes.any())"
    )
    assert in_a_process(source) == "False\n"
