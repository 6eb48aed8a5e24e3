"""Carrying out one run: its pool, its flow, the signals, what is shown, and its exit status.

Owns the order of these. Imported by ``cli.exec_``; what is shown is in ``progress``, ``output``
and ``summary``, what is counted in ``runs.run``.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from hmz_mp import portal
from hmz_mp.cli.output import AnswerWriter, HeldRows, give_up_stdout, own_stdout
from hmz_mp.cli.patching import apply_run, close_worktrees, make_worktrees, patch_lines
from hmz_mp.cli.progress import make_display
from hmz_mp.cli.resuming import as_given, resumed_lines, take_up
from hmz_mp.cli.summary import Ending, summary
from hmz_mp.cli.view import View
from hmz_mp.core.ambient import run_variable
from hmz_mp.core.pool import Pool
from hmz_mp.errors import BadInput, Stopped
from hmz_mp.flows.tracebacks import flow_traceback
from hmz_mp.runs import runs_directory
from hmz_mp.runs.database import Beginning
from hmz_mp.runs.ledger import Ledger
from hmz_mp.runs.replay import Replay
from hmz_mp.runs.run import Run
from hmz_mp.terminal import printable
from hmz_mp.worktrees.trees import worktrees_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import TaskStatus

    from hmz_mp.cli.checks import Checked
    from hmz_mp.cli.progress import Display
    from hmz_mp.core.ambient import Item, TurnRecord
    from hmz_mp.runs.reading import RecordedRun
    from hmz_mp.worktrees.applying import Application
    from hmz_mp.worktrees.trees import Worktrees

__all__ = ["conduct"]

STOPPING = (signal.SIGINT, signal.SIGTERM)
LOOK_SECONDS = 0.15  # between two looks of a display; a picture takes a few milliseconds
GRACE_SECONDS = 5.0  # for a flow to end by itself once its turns were ended

OK, SOME_FAILED, BAD_INPUT, FLOW_RAISED, INTERRUPTED = 0, 1, 2, 3, 130
READER_GONE = 141  # what a shell says of a program that SIGPIPE ended


def conduct(checked: Checked) -> int:
    """Carry out a run and return its exit status; raises `BadInput` if its flow did."""
    with ExitStack() as stack:
        writer = None
        if checked.options.style is not None:
            if sys.stdout is None:
                raise BadInput(f"--{checked.options.style}: standard output is closed")
            writer = AnswerWriter(stack.enter_context(own_stdout()), checked.options.style)
        ledger, recorded = _ledger(checked)
        stack.callback(ledger.close)
        if recorded is not None:
            stack.enter_context(recorded)
        trees = make_worktrees(checked, ledger)
        stack.callback(close_worktrees, trees)
        display = _display(checked, ledger)
        stack.callback(display.close)
        conductor = Conductor(checked, ledger, display, writer, trees, recorded)
        anyio.run(conductor.carry_out)
        status = conductor.settle()
    if conductor.reader_left or _stdout_is_broken():
        give_up_stdout()
    if conductor.bad_input is not None:
        raise conductor.bad_input
    if conductor.left_behind:  # a thread that nobody can end, and that Python would wait for
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        os._exit(status)
    return status


def _ledger(checked: Checked) -> tuple[Ledger, RecordedRun | None]:
    """Return a new ledger, or that of the run that goes on, and this run as it was left."""
    options = checked.options
    beginning = Beginning(
        command=["hmz-mp", *sys.argv[1:]],
        flow=options.flow,
        agents=options.agents,
        task=options.task,
        options=_recorded(checked),
    )
    if options.resume is not None:
        return take_up(checked, beginning, _say_unrecorded)
    runs_dir = runs_directory(checked.root)
    return Ledger.create(runs_dir, **beginning._asdict(), on_error=_say_unrecorded), None


def _say_unrecorded(reason: str) -> None:
    _say(f"hmz-mp: {printable(reason)}")


def _display(checked: Checked, ledger: Ledger) -> Display:
    def usual() -> Display:
        return make_display(time.monotonic, quiet=checked.options.quiet)

    # Without a ledger there is nothing to look at.
    if not checked.options.watch or ledger.error is not None:
        return usual()
    return View(ledger.directory, usual)


def _recorded(checked: Checked) -> dict[str, object]:
    options = checked.options
    return {
        "given": as_given(options),
        "include": options.include,
        "exclude": options.exclude,
        "changed_since": options.changed_since,
        "items": options.items,
        "at_once": checked.at_once,
        "workers": checked.workers,
        "engine": options.engine,
        "timeout": options.timeout,
        "retries": options.retries,
        "max_failures": options.max_failures,
        "max_cost": options.budget.max_cost or None,
        "max_tokens": options.budget.max_tokens or None,
        "worktree": options.worktree,
        "ship": options.ship,
        "ship_also": options.ship_also,
    }


def _say(line: str) -> None:
    # Not with click's echo, which would write past a bar that is drawn.
    if sys.stderr is not None:  # as it is when the caller closed it
        sys.stderr.write(line + "\n")


def _stdout_is_broken() -> bool:
    """Whether the reader of standard output has gone."""
    if sys.stdout is None:  # as it is when the caller closed it
        return False
    try:
        sys.stdout.flush()
        poll = select.poll()
        poll.register(sys.stdout, 0)
    except BrokenPipeError:
        return True
    except OSError:  # it is no file of the system's, but a buffer of who called
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


class Conductor:
    """One run from the start of its pool to its summary.

    Its whole state: how often it was interrupted; how the flow ended and how many
    turns were in flight at most, and what was found out of that; whether the reader of
    standard output, or a flow's thread, was left; what is known of earlier executions; what a
    resumable flow keeps; answers that neither the ledger nor standard output takes; and the two
    scopes that end the flow, and everything.
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
        self.bad_input: BadInput | None = None
        self.reader_left = False
        self.left_behind = False
        self._checked = checked
        self._ledger = ledger
        self._display = display
        self._writer = writer
        self._trees = trees
        self._rows = HeldRows(writer) if writer is not None else None
        self._replay: Replay | None = None
        self._state: dict[str, Any] | None = {} if checked.flow.resumable else None
        if recorded is not None:
            self._replay = Replay(recorded, ledger.execution, retry=checked.options.retry)
            self._state = recorded.state() if checked.flow.resumable else None
        self._unrecorded: list[str] = []
        self._state_is_lost = False
        self._interruptions = 0
        self._flow_error: BaseException | None = None
        self._flow_ended = False
        self._width = 0
        self._found: dict[str, int] = {}
        self._began = time.monotonic()

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
            on_record=self._note_record,
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
        at_once, self._width = self._checked.at_once, pool.statistics().widest
        if isinstance(at_once, int) and at_once:
            self._width = min(self._width, at_once)
        self._found = pool.widths()

    def _note_commit(self, soon: Callable[[Callable[[], object]], object], puts: int) -> None:
        with suppress(RuntimeError):  # the loop has ended, and `settle` asks for itself
            soon(partial(self._run.written, puts))

    def _items(self) -> Sequence[Item]:
        items = self._checked.items()
        if self._replay is None:
            return items
        chosen = self._replay.chosen([item.item_id for item in items])
        return [item for item, wanted in zip(items, chosen, strict=True) if wanted]

    def _note_record(self, record: TurnRecord) -> None:
        if self._rows is not None:
            self._rows.add(record)
        elif self._ledger.error is not None and record.state == "ok":
            answer = printable(record.answer or "", multiline=True)
            self._unrecorded.append(f"{printable(record.item_id)}: {answer}")

    async def _drive(self) -> None:
        checked = self._checked
        token = run_variable.set(self._run)
        trees_token = worktrees_variable.set(self._trees)
        try:
            await checked.flow.run(
                checked.agents, checked.options.task, checked.settings, self._state
            )
            self._flow_ended = True
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            self._flow_ended = True
            self._note_failure(error)
            self._run.halt("the flow raised", end_running=True)
        finally:
            worktrees_variable.reset(trees_token)
            run_variable.reset(token)

    def _note_failure(self, error: BaseException) -> None:
        if self._run.halted is not None and _is_only(error, Stopped):
            return  # the flow was told to stop, and it did
        if isinstance(error, BadInput):
            self.bad_input = error
        elif isinstance(error, BrokenPipeError) and _stdout_is_broken():
            self._reader_went()
        else:
            self._flow_error = error

    # Signals

    async def _listen(self, *, task_status: TaskStatus[None]) -> None:
        # A shell has a job in the background ignore Ctrl-C, which is meant for the one in front.
        meant = [one for one in STOPPING if signal.getsignal(one) != signal.SIG_IGN]
        with anyio.open_signal_receiver(*meant) as signals:
            task_status.started()
            async for _ in signals:
                self._interrupt()

    def _interrupt(self) -> None:
        self._interruptions += 1
        if self._interruptions == 1:
            self._beside.start_soon(self._stop)
        else:
            self._everything.cancel()

    async def _stop(self) -> None:
        _say("interrupted: ending the turns that run (once more: at once)")
        self._run.halt("interrupted", end_running=True)
        await anyio.sleep(GRACE_SECONDS)
        self._flow_scope.cancel()

    # What is shown

    async def _watch(self) -> None:
        while True:
            await anyio.sleep(LOOK_SECONDS)
            self._flush()
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
                _say(f"hmz-mp: the flow's state is not written down: {printable(str(error))}")

    def _flush(self) -> None:
        if self._unrecorded:
            with self._display.aside():
                for line in self._unrecorded:
                    _say(line)
            self._unrecorded.clear()
        writer = self._writer
        if writer is None or self.reader_left:
            return
        if writer.on_terminal and isinstance(self._display, View) and self._display.is_open:
            return  # the answers come when the screen is given back
        if writer.is_waiting and writer.on_terminal:
            with self._display.aside():
                writer.flush()
        elif writer.is_waiting:
            writer.flush()
        if writer.closed_by_reader:
            self._reader_went()

    def _reader_went(self) -> None:
        self.reader_left = True
        self._run.halt("standard output was closed", end_running=True)

    # The end

    def settle(self) -> int:
        """Account for every item, write down how the run ended, say so; return the status."""
        run = self._run
        run.finish()
        self._keep_state()
        if self._went_its_way():
            run.rows.drop_replaced()
        self._ledger.flush()
        run.written(sys.maxsize)
        self._display.close()
        self._flush()  # a reader may have gone since the last look
        status, word = self._status()
        patches = apply_run(self._trees, self._ledger, as_planned=status in (OK, SOME_FAILED))
        if patches.interrupted:
            status, word = INTERRUPTED, "interrupted"
        elif status == OK and not patches.complete:
            status, word = SOME_FAILED, "failed"
        if self._rows is not None:
            self._rows.release(patches)
        self._flush()
        if self.reader_left and status in (OK, SOME_FAILED):
            status, word = READER_GONE, "reader gone"
        self._ledger.finish(word, status, run.tally.counts())
        if self._flow_error is not None:
            _say(flow_traceback(self._flow_error).rstrip())
        if not self.reader_left and self.bad_input is None:
            self._say_summary(patches)
        self.left_behind = not self._flow_ended and not self._checked.flow.is_async
        return status

    def _went_its_way(self) -> bool:
        """Whether the flow has ended by itself, with all that it asked for."""
        return self._flow_ended and self._flow_error is None and self._run.halted is None

    def _status(self) -> tuple[int, str]:
        tally = self._run.tally
        if self._interruptions:
            return INTERRUPTED, "interrupted"
        if self.bad_input is not None:
            return BAD_INPUT, "bad input"
        if self._flow_error is not None:
            return FLOW_RAISED, "flow raised"
        if self.reader_left:
            return READER_GONE, "reader gone"
        if tally.ok == tally.total and not tally.to_review:
            return OK, "ok"
        spent = tally.not_run and self._run.overrun is not None
        return SOME_FAILED, "budget spent" if spent else "failed"

    def _say_summary(self, patches: Application) -> None:
        items = self._checked.items
        found = items.selection if items.was_searched else None
        ending = Ending(
            self._run.id,
            time.monotonic() - self._began,
            self._width,
            self._run.halted,
            self._run.excess(),
            found.skipped_binary if found is not None else 0,
            found.warnings if found is not None else (),
            self._found,
            is_recorded=self._ledger.error is None,
        )
        quiet = self._checked.options.quiet
        for line in summary(self._run.tally, ending, quiet=quiet):
            _say(line)
        if self._replay is not None:
            ended = self._went_its_way() and self._state is None and not self._checked.options.retry
            for line in resumed_lines(self._run.tally, self._replay, ended=ended, quiet=quiet):
                _say(line)
        for line in patch_lines(patches, self._run.id, quiet=quiet):
            _say(line)


def _is_only(error: BaseException, kind: type[Exception]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_only(one, kind) for one in error.exceptions)
    return isinstance(error, kind)
