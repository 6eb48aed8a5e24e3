"""The end of a run: every item accounted for, patches applied, the summary, the exit status.

Imported by ``cli.conduct``, whose run it ends; the words of the summary are in ``summary``.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hmz_mp.cli.beginning import say
from hmz_mp.cli.patching import apply_run, patch_lines
from hmz_mp.cli.resuming import resumed_lines
from hmz_mp.cli.summary import Ending, summary
from hmz_mp.flows.tracebacks import flow_traceback

if TYPE_CHECKING:
    from hmz_mp.cli.answering import Answers
    from hmz_mp.cli.checks import Checked
    from hmz_mp.cli.progress import Display
    from hmz_mp.errors import BadInput
    from hmz_mp.runs.ledger import Ledger
    from hmz_mp.runs.replay import Replay
    from hmz_mp.runs.run import Run
    from hmz_mp.worktrees.applying import Application
    from hmz_mp.worktrees.trees import Worktrees

__all__ = ["Course", "settle"]

OK, SOME_FAILED, BAD_INPUT, FLOW_RAISED, INTERRUPTED = 0, 1, 2, 3, 130
READER_GONE = 141  # what a shell says of a program that SIGPIPE ended


@dataclass(slots=True)
class Course:
    """How a run went.

    Whether its flow has ended, and how; how often it was interrupted; how many turns were in flight
    at most, and what was found out of that; and when it began, by the monotonic clock.
    """

    bad_input: BadInput | None = None
    flow_error: BaseException | None = None
    flow_ended: bool = False
    interruptions: int = 0
    width: int = 0
    found: dict[str, int] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)


def settle(
    course: Course,
    run: Run,
    *,
    checked: Checked,
    ledger: Ledger,
    display: Display,
    answers: Answers,
    trees: Worktrees,
    replay: Replay | None,
) -> int:
    """End a run whose state is written down, say how it went, and return its exit status."""
    if went_its_way(course, run):
        run.rows.drop_replaced()
    ledger.flush()
    run.written(sys.maxsize)
    display.close()
    answers.flush()  # a reader may have gone since the last look
    status, word = _status(course, run, reader_left=answers.reader_left)
    patches = apply_run(trees, ledger, as_planned=status in (OK, SOME_FAILED))
    if patches.interrupted:
        status, word = INTERRUPTED, "interrupted"
    elif status == OK and not patches.complete:
        status, word = SOME_FAILED, "failed"
    answers.release(patches)
    answers.flush()
    if answers.reader_left and status in (OK, SOME_FAILED):
        status, word = READER_GONE, "reader gone"
    ledger.finish(word, status, run.tally.counts())
    if course.flow_error is not None:
        say(flow_traceback(course.flow_error).rstrip())
    if not answers.reader_left and course.bad_input is None:
        is_recorded = ledger.error is None
        for line in _summary(course, run, checked, replay, patches, is_recorded=is_recorded):
            say(line)
    return status


def went_its_way(course: Course, run: Run) -> bool:
    """Whether the flow has ended by itself, with all that it asked for."""
    return course.flow_ended and course.flow_error is None and run.halted is None


def _status(course: Course, run: Run, *, reader_left: bool) -> tuple[int, str]:
    tally = run.tally
    if course.interruptions:
        return INTERRUPTED, "interrupted"
    if course.bad_input is not None:
        return BAD_INPUT, "bad input"
    if course.flow_error is not None:
        return FLOW_RAISED, "flow raised"
    if reader_left:
        return READER_GONE, "reader gone"
    if tally.ok == tally.total and not tally.to_review:
        return OK, "ok"
    spent = tally.not_run and run.overrun is not None
    return SOME_FAILED, "budget spent" if spent else "failed"


def _summary(
    course: Course,
    run: Run,
    checked: Checked,
    replay: Replay | None,
    patches: Application,
    *,
    is_recorded: bool,
) -> list[str]:
    found = checked.items.selection if checked.items.was_searched else None
    ending = Ending(
        run.id,
        time.monotonic() - course.began,
        course.width,
        run.halted,
        run.excess(),
        found.skipped_binary if found is not None else 0,
        found.warnings if found is not None else (),
        course.found,
        is_recorded=is_recorded,
    )
    quiet = checked.options.quiet
    lines = [*summary(run.tally, ending, quiet=quiet)]
    if replay is not None:
        resumable, retry = checked.flow.resumable, checked.options.retry
        ended = went_its_way(course, run) and not resumable and not retry
        lines += resumed_lines(run.tally, replay, ended=ended, quiet=quiet)
    return lines + patch_lines(patches, run.id, quiet=quiet)
