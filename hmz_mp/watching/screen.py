"""The full screen: how the run stands, and one of its conversations.

Imported by ``cli.watch`` and ``cli.view``, on need, as textual is an extra. It only draws and takes
keys; what it is to do about them was given to it. Reading the ledger happens on a thread, so that a
large one never holds up a key.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, RichLog, Static

from hmz_mp.errors import BadInput
from hmz_mp.terminal import printable, shorten
from hmz_mp.watching.conversations import LINES, Conversation, Kept, Line, read_conversation
from hmz_mp.watching.figures import agent_line, figure_lines, heading, title
from hmz_mp.watching.snapshot import Snapshot, look

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from textual import events
    from textual.worker import Worker

__all__ = ["Abilities", "WatchApp"]

LOOK_SECONDS = 0.5
_AGAIN_SECONDS = 3.0  # within which ctrl+c is to come a second time
_NOTICE_SECONDS = 4.0
_RATE_LOOKS = 20  # over which the rate is taken
_MOST_AGENTS = 6  # lines
_STYLES = {
    "prompt": "dim",
    "tool": "cyan",
    "reasoning": "dim italic",
    "log": "dim",
    "progress": "dim",
    "told": "bold",
    "note": "yellow",
    "error": "red",
    "ok": "green",
    "failed": "red",
    "cancelled": "yellow",
    "not_run": "yellow",
}
_MARKS = {"prompt": "│ ", "tool": "▸ ", "told": "» ", "log": "· ", "progress": "· "}


class Abilities(NamedTuple):
    """What the screen may do with the run, and knows of it beyond the ledger.

    ``stop`` ends the run, ``interject`` says something to the turn of a number and returns whether
    it was heard, ``total`` is how many turns there are to be. ``None``: it cannot.
    """

    stop: Callable[[], None] | None = None
    interject: Callable[[int, str], bool] | None = None
    total: Callable[[], int] | None = None


class WatchApp(App[None]):
    """One run on the screen.

    Its whole state: the last snapshot; the conversation that is shown, or that the failed items
    are instead; the conversations kept; what is in the log, and for which width; the latest
    numbers for the rate; when it looked last, and how long that took; when ctrl+c came; and what
    was printed meanwhile, to be written afterwards.
    """

    CSS = """
    Screen { layout: vertical; }
    Screen, Static, RichLog, Input { background: ansi_default; color: ansi_default; }
    #heading { height: 1; text-style: bold; }
    #figures, #agents { height: auto; }
    #title { height: 1; text-style: reverse; }
    #log {
        height: 1fr;
        scrollbar-size-vertical: 1;
        scrollbar-background: ansi_default;
        scrollbar-color: ansi_bright_black;
    }
    #say { display: none; height: 3; }
    #keys { height: 1; text-style: dim; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "step(1)", "next", priority=True),
        Binding("shift+tab", "step(-1)", "previous", priority=True),
        Binding("f", "failed", "failed"),
        Binding("i", "say", "say"),
        Binding("escape", "unsay", "back"),
        Binding("q,ctrl+q", "leave", "leave"),
        Binding("ctrl+c", "interrupt", "stop", priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        directory: Path,
        abilities: Abilities,
        *,
        interval: float = LOOK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(ansi_color=True)  # the terminal's own, light or dark
        self.printed: list[tuple[str, bool]] = []
        self._directory = directory
        self._abilities = abilities
        self._interval = interval
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._session: str | None = None
        self._chosen = False  # by the user
        self._shows_failed = False
        self._kept = Kept()
        self._shown: tuple[str, int] = ("", 0)
        self._lines: tuple[Line, ...] = ()
        self._ended: deque[tuple[float, int]] = deque(maxlen=_RATE_LOOKS)
        self._interrupted = -_AGAIN_SECONDS
        self._notice: tuple[str, float] = ("", 0.0)
        self._is_looking = False
        self._looked = self._took = 0.0
        self._is_made = False

    def compose(self) -> ComposeResult:
        """Make the parts of the screen."""
        yield Static(id="heading", markup=False)
        yield Static(id="figures", markup=False)
        yield Static(id="agents", markup=False)
        yield Static(id="title", markup=False)
        yield RichLog(id="log", max_lines=LINES, min_width=1, wrap=True, markup=False)
        yield Input(id="say", placeholder="say something to this conversation")
        yield Static(id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin to look at the ledger, again and again."""
        self._is_made = True
        self.begin_capture_print(self)
        self.query_one(RichLog).focus()
        self.set_interval(self._interval, self._look_again)
        self._look_soon()

    def on_print(self, event: events.Print) -> None:
        """Keep what is printed until the screen is given back."""
        self.printed.append((event.text, event.stderr))

    def on_resize(self) -> None:
        """Draw everything anew, once its parts have their new widths."""
        self.call_after_refresh(self._draw)

    # Looking

    def _look_again(self) -> None:
        # A ledger of very many rows is looked at less often: looking is to cost a tenth at most.
        if self._clock() >= self._looked + 9 * self._took:
            self._look_soon()

    def _look_soon(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            # Not its coroutine, which would not be awaited if the screen ends just now.
            _: Worker[None] = self.run_worker(self._look, exit_on_error=False)

    async def _look(self) -> None:
        began = self._clock()
        try:
            found = await asyncio.to_thread(self._read)
        except BadInput as error:
            self._tell(printable(str(error)))
        else:
            self._take(*found)
        finally:
            self._is_looking = False
            self._looked = self._clock()
            self._took = self._looked - began
        self._draw()

    def _read(self) -> tuple[Snapshot, Conversation | None]:
        snapshot = look(self._directory)
        session = self._follow(snapshot)
        if session is None:
            return snapshot, None
        return snapshot, read_conversation(self._directory, session)

    def _follow(self, snapshot: Snapshot) -> str | None:
        """Return the session to be shown: the chosen one, or else one that works now."""
        working = [one.session for one in snapshot.working]
        if self._session is not None and (self._chosen or self._session in working):
            return self._session
        return working[0] if working else self._session or snapshot.last_session

    def _take(self, snapshot: Snapshot, conversation: Conversation | None) -> None:
        self._snapshot = snapshot
        self._ended.append((self._clock(), snapshot.ended))
        if conversation is None:
            return
        self._kept.put(conversation)
        if self._session is None or not self._chosen:
            self._session = conversation.session

    def _rate(self, snapshot: Snapshot) -> float | None:
        """Return how many turns end in a second: lately, or of a run that is over, in all."""
        if snapshot.is_over:
            return snapshot.ended / snapshot.seconds if snapshot.seconds else None
        (first, before), (last, now) = self._ended[0], self._ended[-1]
        return (now - before) / (last - first) if last > first else None

    # Drawing

    def _draw(self) -> None:
        snapshot = self._snapshot
        width = self.size.width
        if not self._is_made or width == 0:
            return
        if snapshot is None:
            self._set("heading", "reading the ledger …")
            self._set("keys", self._keys())
            return
        total = self._abilities.total() if self._abilities.total is not None else 0
        total = max(total, snapshot.total)
        self._set("heading", heading(snapshot, width))
        figures = figure_lines(snapshot, self._rate(snapshot), total, width)
        if snapshot.problem is not None:
            figures.append(shorten(snapshot.problem, width))
        self._set("figures", "\n".join(figures))
        self._set("agents", "\n".join(self._agents(snapshot, total, width)))
        self._set("keys", self._keys())
        self._draw_log(snapshot, width)

    def _set(self, name: str, words: str) -> None:
        self.query_one(f"#{name}", Static).update(Text(words, no_wrap=True, overflow="crop"))

    def _agents(self, snapshot: Snapshot, total: int, width: int) -> list[str]:
        # What has not been submitted yet is known of the run, not of its agents.
        alone = len(snapshot.agents) == 1
        shown = snapshot.agents[:_MOST_AGENTS]
        lines = [agent_line(one, total if alone else one.total, width) for one in shown]
        more = len(snapshot.agents) - len(shown)
        return [*lines, f"and {more} more agents"] if more else lines

    def _keys(self) -> str:
        words, until = self._notice
        if self._clock() < until:
            return words
        parts = ["tab next", "f failed"]
        if self._abilities.interject is not None:
            parts.append("i say")
        parts.append("q leave")
        over = self._snapshot is not None and self._snapshot.is_over
        if self._abilities.stop is not None and not over:
            parts.append("ctrl+c twice: stop")
        return "  ".join(parts)

    def _draw_log(self, snapshot: Snapshot, width: int) -> None:
        if self._shows_failed:
            failed = snapshot.failed
            more = "" if snapshot.failed_count == len(failed) else f", the last {len(failed)}"
            self._set("title", shorten(f"failed: {snapshot.failed_count:,}{more}", width))
            lines = [Line("failed", printable(f"{one.item_id}: {one.reason}")) for one in failed]
            self._fill("failed", tuple(lines) or (Line("note", "none so far"),))
            return
        conversation = self._kept.get(self._session or "")
        if conversation is None:
            self._set("title", "nothing runs yet")
            self._fill("", ())
            return
        working = [one.session for one in snapshot.working]
        place = None
        if conversation.session in working:
            place = working.index(conversation.session) + 1, len(working)
        self._set("title", title(conversation, place, width))
        self._fill(conversation.session, conversation.lines)

    def _fill(self, key: str, lines: tuple[Line, ...]) -> None:
        """Have the log show ``lines``: only the new ones are written if it has the others."""
        log = self.query_one(RichLog)
        width = log.scrollable_content_region.width
        before = self._lines
        if self._shown != (key, width) or lines[: len(before)] != before:
            log.clear()
            before = ()
        self._shown, self._lines = (key, width), lines
        for line in lines[len(before) :]:
            mark = _MARKS.get(line.kind, "")
            log.write(Text(mark + line.text, style=_STYLES.get(line.kind, "")), width=width)

    def _tell(self, words: str) -> None:
        self._notice = words, self._clock() + _NOTICE_SECONDS
        self._set("keys", self._keys())

    # Keys

    def action_step(self, by: int) -> None:
        """Go to the next conversation that works now, or to the one before."""
        if self._snapshot is None:
            return
        self._shows_failed = False
        working = [one.session for one in self._snapshot.working]
        if not working:
            self._tell("no conversation works now")
        elif self._session in working:
            self._session = working[(working.index(self._session) + by) % len(working)]
        else:
            self._session = working[0 if by > 0 else -1]
        self._chosen = bool(working)
        self._draw()
        self._look_soon()

    def action_failed(self) -> None:
        """Show the items that failed, or the conversation again."""
        self._shows_failed = not self._shows_failed
        self._draw()

    def action_say(self) -> None:
        """Let the user type a line for the conversation that is shown."""
        if self._abilities.interject is None:
            self._tell("only the process that runs it can say something")
            return
        self._chosen = True  # it must not change while somebody types
        say = self.query_one("#say", Input)
        say.display = True
        say.focus()

    def action_unsay(self) -> None:
        """Put the line away, or the failed items."""
        say = self.query_one("#say", Input)
        if not say.display:
            self._shows_failed = False
            self._draw()
        say.display = False
        self.query_one(RichLog).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Say the line to the turn that runs in this conversation."""
        self.action_unsay()
        text = event.value
        event.input.value = ""
        interject, snapshot = self._abilities.interject, self._snapshot
        if not text.strip() or interject is None or snapshot is None:
            return
        turns = [one.number for one in snapshot.working if one.session == self._session]
        heard = bool(turns) and interject(turns[0], text)
        self._tell("said" if heard else "nobody hears that: it does not run, or cannot be told")

    def action_leave(self) -> None:
        """Give the screen back; the run goes on."""
        self.exit()

    def action_interrupt(self) -> None:
        """Stop the run, the second time; one that is over is left."""
        stop, now = self._abilities.stop, self._clock()
        if stop is None or (self._snapshot is not None and self._snapshot.is_over):
            self.exit()
        elif now - self._interrupted < _AGAIN_SECONDS:
            self._interrupted = -_AGAIN_SECONDS
            self._tell("stopping …")
            stop()
        else:
            self._interrupted = now
            self._tell("ctrl+c again stops the run")
