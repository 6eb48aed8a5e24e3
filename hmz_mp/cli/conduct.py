"""Carrying out one run: its pool, its flow, the signals, what is shown, and its exit status.

Owns the order of these. Imported by ``cli.exec_``; what it begins with is in ``beginning``, where
answers go in ``answering``, the end in ``settling``, what is counted in ``runs.run``.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from hmz_mp import portal
from hmz_mp.cli.answering import Answers, stdout_is_broken
from hmz_mp.cli.beginning import display_for, ledger_for, say
from hmz_mp.cli.output import AnswerWriter, give_up_stdout, own_stdout
from hmz_mp.cli.patching import close_worktrees, make_worktrees
from hmz_mp.cli.settling import Course, settle
from hmz_mp.cli.view import View
from hmz_mp.core.ambient import run_variable
from hmz_mp.core.pool import Pool
from hmz_mp.errors import BadInput, Stopped
from hmz_mp.runs.replay import Replay
from hmz_mp.runs.run import Run
from hmz_mp.terminal import printable
from hmz_mp.worktrees.trees import worktrees_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import TaskStatus

    from hmz_mp.cli.checks import Checked
    from hmz_mp.cli.progress import Display
    from hmz_mp.core.ambient import Item
    from hmz_mp.runs.ledger import Ledger
    from hmz_mp.runs.reading import RecordedRun
    from hmz_mp.worktrees.trees import Worktrees

__all__ = ["conduct"]

STOPPING = (signal.SIGINT, signal.SIGTERM)
LOOK_SECONDS = 0.15  # between two looks of a display; a picture takes a few milliseconds
GRACE_SECONDS = 5.0  # for a flow to end by itself once its turns were ended


def conduct(checked: Checked) -> int:
    """Carry out a run and return its exit status; raises `BadInput` if its flow did."""
    with ExitStack() as stack:
        writer = None
        if checked.options.style is not None:
            if sys.stdout is None:
                raise BadInput(f"--{checked.options.style}: standard output is closed")
            writer = AnswerWriter(stack.enter_context(own_stdout()), checked.options.style)
        ledger, recorded = ledger_for(checked)
        stack.callback(ledger.close)
        if recorded is not None:
            stack.enter_context(recorded)
        trees = make_worktrees(checked, ledger)
        stack.callback(close_worktrees, trees)
        display = display_for(checked, ledger)
        stack.callback(display.close)
        conductor = Conductor(checked, ledger, display, writer, trees, recorded)
        anyio.run(conductor.carry_out)
        status = conductor.settle()
    if conductor.answers.reader_left or stdout_is_broken():
        give_up_stdout()
    if conductor.course.bad_input is not None:
        raise conductor.course.bad_input
    if conductor.left_behind:  # a thread that nobody can end, and that Python would wait for
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        os._exit(status)
    return status


class Conductor:
    """One run from the start of its pool to its summary.

    Its whole state: how it went so far; where its answers go; what is known of earlier executions;
    what a resumable flow keeps, and whether that can be written down; whether the thread of a flow
    was left; and the two scopes that end the flow, and everything.
    """

    def __init__(
        self,
        checked: Checked,
        ledger: Ledger,
        display: Display,
        writer: AnswerWriter | None,
        trees: Worktrees,
        recorded: RecordedRun | None = None,
    ) -> None:
        self.course = Course()
        self.answers = Answers(writer, ledger, display, self._reader_left)
        self.left_behind = False
        self._checked = checked
        self._ledger = ledger
        self._display = display
        self._trees = trees
        self._replay: Replay | None = None
        self._state: dict[str, Any] | None = {} if checked.flow.resumable else None
        if recorded is not None:
            self._replay = Replay(recorded, ledger.execution, retry=checked.options.retry)
            self._state = recorded.state() if checked.flow.resumable else None
        self._state_is_lost = False

    async def carry_out(self) -> None:
        """Run the flow on a pool of its own, listening to signals and showing how it goes."""
        self._flow_scope = anyio.CancelScope()
        self._everything = anyio.CancelScope()
        options = self._checked.options
        self._pool = pool = Pool(
            self._checked.workers,
            at_once=self._checked.cap,
            timeout=options.timeout,
            retries=options.retries,
            engine=options.engine,
            cwd=options.workers_cwd,
        )
        self._run = Run(
            pool=pool,
            ledger=self._ledger,
            task=options.task,
            select=self._items,
            max_failures=options.max_failures,
            budget=options.budget,
            replay=self._replay,
            state=self._state,
            on_record=self.answers.add,
        )
        self._ledger.on_commit = partial(self._note_commit, portal.home().soon)
        async with anyio.create_task_group() as beside:
            self._beside = beside
            await beside.start(self._listen)
            beside.start_soon(self._watch)
            if isinstance(self._display, View):
                beside.start_soon(self._display.run, self._run, self._interrupt)
            with self._everything:
                async with pool:
                    try:
                        with self._flow_scope:
                            await self._drive()
                    finally:
                        self._note_widths(pool)
            if isinstance(self._display, View):
                await self._display.leave()
            beside.cancel_scope.cancel()

    def _note_widths(self, pool: Pool) -> None:
        at_once, width = self._checked.at_once, pool.statistics().widest
        self.course.width = min(width, at_once) if isinstance(at_once, int) and at_once else width
        self.course.found = pool.widths()

    def _note_commit(self, soon: Callable[[Callable[[], object]], object], puts: int) -> None:
        with suppress(RuntimeError):  # the loop has ended, and `settle` asks for itself
            soon(partial(self._run.written, puts))

    def _items(self) -> Sequence[Item]:
        items = self._checked.items()
        if self._replay is None:
            return items
        chosen = self._replay.chosen([item.item_id for item in items])
        return [item for item, wanted in zip(items, chosen, strict=True) if wanted]

    async def _drive(self) -> None:
        checked = self._checked
        token = run_variable.set(self._run)
        trees_token = worktrees_variable.set(self._trees)
        try:
            await checked.flow.run(
                checked.agents, checked.options.task, checked.settings, self._state
            )
            self.course.flow_ended = True
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            self.course.flow_ended = True
            self._note_failure(error)
            self._run.halt("the flow raised", end_running=True)
        finally:
            worktrees_variable.reset(trees_token)
            run_variable.reset(token)

    def _note_failure(self, error: BaseException) -> None:
        if self._run.halted is not None and _is_only(error, Stopped):
            return  # the flow was told to stop, and it did
        if isinstance(error, BadInput):
            self.course.bad_input = error
        elif isinstance(error, BrokenPipeError) and stdout_is_broken():
            self.answers.leave()
        else:
            self.course.flow_error = error

    # Signals

    async def _listen(self, *, task_status: TaskStatus[None]) -> None:
        # A shell has a job in the background ignore Ctrl-C, which is meant for the one in front.
        meant = [one for one in STOPPING if signal.getsignal(one) != signal.SIG_IGN]
        with anyio.open_signal_receiver(*meant) as signals:
            task_status.started()
            async for _ in signals:
                self._interrupt()

    def _interrupt(self) -> None:
        self.course.interruptions += 1
        if self.course.interruptions == 1:
            self._beside.start_soon(self._stop)
        else:
            self._everything.cancel()

    async def _stop(self) -> None:
        say("interrupted: ending the turns that run (once more: at once)")
        self._run.halt("interrupted", end_running=True)
        await anyio.sleep(GRACE_SECONDS)
        self._flow_scope.cancel()

    # What is shown

    async def _watch(self) -> None:
        while True:
            await anyio.sleep(LOOK_SECONDS)
            self.answers.flush()
            self._keep_state()
            self._display.look(self._run.tally, self._pool.widths())
            if self._ledger.error is not None and self._trees.opened is not None:
                self._run.halt("patches cannot be recorded", end_running=True)

    def _keep_state(self) -> None:
        try:
            self._run.rows.keep_state()
        except (TypeError, ValueError) as error:
            if not self._state_is_lost:
                self._state_is_lost = True
                say(f"hmz-mp: the flow's state is not written down: {printable(str(error))}")

    def _reader_left(self) -> None:
        self._run.halt("standard output was closed", end_running=True)

    # The end

    def settle(self) -> int:
        """Account for every item, write down how the run ended, say so; return the status."""
        self._run.finish()
        self._keep_state()
        status = settle(
            self.course,
            self._run,
            checked=self._checked,
            ledger=self._ledger,
            display=self._display,
            answers=self.answers,
            trees=self._trees,
            replay=self._replay,
        )
        self.left_behind = not self.course.flow_ended and not self._checked.flow.is_async
        return status


def _is_only(error: BaseException, kind: type[Exception]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_only(one, kind) for one in error.exceptions)
    return isinstance(error, kind)
