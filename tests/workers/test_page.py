from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hmz_mp_worker.page import (
    SIZE,
    Page,
    PageContent,
    anonymous_file,
    read_page,
    running_ticket,
)


@pytest.fixture
def fd() -> Iterator[int]:
    fd = anonymous_file("page")
    yield fd
    os.close(fd)


def test_a_page_that_no_worker_has_opened(fd: int) -> None:
    assert read_page(fd) == PageContent(0, 0, b"")
    assert running_ticket(fd) == 0


def test_a_fresh_page(fd: int) -> None:
    Page(fd)
    assert read_page(fd) == PageContent(0, 0, b"")


def test_what_runs(fd: int) -> None:
    page = Page(fd)
    page.begin(2**63)
    assert running_ticket(fd) == 2**63
    page.begin(0)
    assert running_ticket(fd) == 0


def test_answers_are_kept_in_order(fd: int) -> None:
    page = Page(fd)
    page.begin(7)
    assert page.add(b"first")
    assert read_page(fd) == PageContent(0, 1, b"first")
    page.begin(8)
    assert read_page(fd) == PageContent(8, 1, b"first")
    assert page.add(b"second")
    assert read_page(fd) == PageContent(0, 2, b"firstsecond")
    assert (page.count, page.content()) == (2, b"firstsecond")


def test_clear_forgets_answers_and_keeps_what_runs(fd: int) -> None:
    page = Page(fd)
    page.add(b"answer")
    page.begin(9)
    page.clear()
    assert read_page(fd) == PageContent(9, 0, b"")
    page.add(b"new")
    assert read_page(fd).answers == b"new"


def test_a_full_page_takes_no_more_and_keeps_what_it_has(fd: int) -> None:
    page = Page(fd)
    page.begin(3)
    room = SIZE - 16
    assert page.add(b"a" * (room - 5))
    assert not page.add(b"b" * 6)
    assert read_page(fd).answer_count == 1
    assert page.add(b"c" * 5)
    assert not page.add(b"d")
    assert read_page(fd) == PageContent(0, 2, b"a" * (room - 5) + b"c" * 5)


def test_an_answer_larger_than_the_page(fd: int) -> None:
    assert not Page(fd).add(bytes(SIZE))


operations = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(0, 2**64 - 1)),
        st.tuples(st.just("add"), st.binary(max_size=9000)),
        st.tuples(st.just("clear"), st.just(0)),
    ),
    max_size=30,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations)
def test_a_reader_sees_what_was_done_last(fd: int, done: list[tuple[str, int | bytes]]) -> None:
    os.ftruncate(fd, 0)
    page = Page(fd)
    running, answers = 0, list[bytes]()
    for what, value in done:
        if isinstance(value, bytes):
            if page.add(value):
                running = 0
                answers.append(value)
        elif what == "begin":
            running = value
            page.begin(value)
        else:
            answers = []
            page.clear()
        assert read_page(fd) == PageContent(running, len(answers), b"".join(answers))
        assert running_ticket(fd) == running


def test_an_answer_cut_short_is_not_there(fd: int) -> None:
    """Killed between an answer's bytes and the header, a worker leaves the header of before."""
    page = Page(fd)
    page.add(b"whole")
    page.begin(5)
    os.pwrite(fd, b"half an ans", 16 + len(b"whole"))
    assert read_page(fd) == PageContent(5, 1, b"whole")


def test_it_outlives_its_process(fd: int) -> None:
    source = (
        "import os, signal, sys; from hmz_mp_worker.page import Page; page = Page(int(sys.argv[1]))"
        "; page.begin(1); page.add(b'done'); page.begin(2); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", source, str(fd)], pass_fds=[fd], check=False)
    assert ended.returncode == -9
    assert read_page(fd) == PageContent(2, 1, b"done")


def test_an_anonymous_file_is_not_inherited() -> None:
    fd = anonymous_file("name")
    try:
        assert not os.get_inheritable(fd)
        assert os.fstat(fd).st_size == 0
    finally:
        os.close(fd)
