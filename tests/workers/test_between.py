from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from hmz_mp_worker.between import Changes
from tests.workers.raw import HOME


@pytest.fixture
def limit() -> Any:
    before = sys.getrecursionlimit()
    yield before
    sys.setrecursionlimit(before)


def test_nothing_changed() -> None:
    changes = Changes()
    assert not changes.any()
    assert changes.put_back() == {}


def test_the_recursion_limit(limit: int) -> None:
    changes = Changes()
    sys.setrecursionlimit(limit + 7)
    assert changes.any()
    assert changes.put_back() == {("recursion", None): limit + 7}
    assert sys.getrecursionlimit() == limit
    sys.setrecursionlimit(limit + 7)
    changes.accept()
    assert not changes.any()
    assert changes.put_back() == {}
    assert sys.getrecursionlimit() == limit + 7


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
