from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hmz_mp_worker.page import anonymous_file
from hmz_mp_worker.stdio import OUTPUT_CEILING, Output, output_file, tail


@pytest.fixture
def fd() -> Iterator[int]:
    fd = output_file(anonymous_file("output"))
    yield fd
    os.close(fd)


def redirected(fd: int, source: str) -> str:
    """Run code in a process whose descriptors were redirected to ``fd``; return its result."""
    lines = f"""
import os, subprocess, sys
from hmz_mp_worker import stdio
result = os.dup(1)
stdio.redirect({fd})
output = stdio.Output({fd})
def say(value):
    os.write(result, repr(value).encode())
{source}
"""
    ended = subprocess.run(
        [sys.executable, "-c", lines], stdout=subprocess.PIPE, pass_fds=[fd], check=True, text=True
    )
    return ended.stdout


def test_print_of_both_streams(fd: int) -> None:
    source = "print('out'); print('err', file=sys.stderr); say(output.take())"
    assert redirected(fd, source) == repr(b"out\nerr\n")


def test_text_without_a_newline_is_taken_too(fd: int) -> None:
    assert redirected(fd, "print('half', end=''); say(output.take())") == repr(b"half")


def test_the_original_streams_are_redirected_too(fd: int) -> None:
    assert redirected(fd, "sys.__stdout__.write('a\\n'); say(output.take())") == repr(b"a\n")


def test_what_is_written_to_the_descriptors(fd: int) -> None:
    source = "os.write(1, b'one '); os.write(2, b'two'); say(output.take())"
    assert redirected(fd, source) == repr(b"one two")


def test_what_a_child_process_writes(fd: int) -> None:
    source = "subprocess.run(['sh', '-c', 'echo out; echo err >&2']); say(output.take())"
    assert redirected(fd, source) == repr(b"out\nerr\n")


def test_a_child_that_still_writes_after_a_take(fd: int) -> None:
    """Truncation leaves no hole: all writers append."""
    source = """
child = subprocess.Popen(['sh', '-c', 'echo first; read line; echo second'], stdin=subprocess.PIPE)
while not stdio.tail(1, 100):
    pass
first = output.take()
child.communicate(b'\\n')
say((first, output.take()))
"""
    assert redirected(fd, source) == repr((b"first\n", b"second\n"))


def test_there_is_nothing_to_read(fd: int) -> None:
    assert redirected(fd, "say((sys.stdin.read(), os.read(0, 5)))") == repr(("", b""))


def test_lone_surrogates_are_printed_escaped(fd: int) -> None:
    assert redirected(fd, "print('\\udcff'); say(output.take())") == repr(b"\\udcff\n")


@pytest.mark.parametrize("breaking", ["sys.stdout.close()", "sys.stdout = None", "del sys.stdout"])
def test_a_stream_that_was_closed_or_taken_away(fd: int, breaking: str) -> None:
    source = f"print('before', flush=True); {breaking}; os.write(1, b'after'); say(output.take())"
    assert redirected(fd, source) == repr(b"before\nafter")


def test_take_starts_anew(fd: int) -> None:
    output = Output(fd)
    os.write(fd, b"one")
    assert (output.take(), output.take()) == (b"one", b"")
    os.write(fd, b"two")
    assert output.take() == b"two"


def test_only_the_end_of_much_output_is_kept(fd: int) -> None:
    os.write(fd, b"start" + b"x" * OUTPUT_CEILING)
    taken = Output(fd).take()
    assert taken == b"[5 bytes before this were cut]\n" + b"x" * OUTPUT_CEILING


def test_exactly_as_much_as_is_kept(fd: int) -> None:
    os.write(fd, b"y" * OUTPUT_CEILING)
    assert Output(fd).take() == b"y" * OUTPUT_CEILING


def test_tail_leaves_the_file_as_it_is(fd: int) -> None:
    os.write(fd, b"abcdef")
    assert tail(fd, 6) == tail(fd, 100) == b"abcdef"
    assert tail(fd, 2) == b"[4 bytes before this were cut]\nef"


def test_trim_drops_only_much(fd: int) -> None:
    output = Output(fd)
    os.write(fd, b"z" * OUTPUT_CEILING)
    output.trim()
    assert len(tail(fd, 1 << 20)) == OUTPUT_CEILING
    os.write(fd, b"z")
    output.trim()
    assert tail(fd, 1 << 20) == b""
