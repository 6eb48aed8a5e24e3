"""The ``hmz-mp`` group, and the one place where errors become words and an exit status.

Owns the table of commands. A command's module is imported when that command is run, so that
``hmz-mp --help`` costs nothing of what the others need. A command returns its exit status
(``None`` is 0) or raises.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

import click

from hmz_mp import __version__
from hmz_mp.errors import BadInput, HmzMpError
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

__all__ = ["COMMANDS", "LazyGroup", "group", "run_command_line"]

_BAD_INPUT = 2
_INTERRUPTED = 130
_READER_GONE = 141  # what a shell says of a program that SIGPIPE ended

# Where each command is, and its line in `hmz-mp --help`.
COMMANDS = {
    "exec": ("hmz_mp.cli.exec_:exec_command", "Run a flow: by default, one agent turn per file."),
    "runs": ("hmz_mp.cli.runs:runs_command", "List the runs of this directory."),
    "show": ("hmz_mp.cli.show:show_command", "Show a run, or one of its items."),
    "watch": ("hmz_mp.cli.watch:watch_command", "Watch a run on a full screen, or as JSON."),
    "report": ("hmz_mp.cli.report:report_command", "Write a run as one HTML page."),
    "trace": (
        "hmz_mp.cli.trace:trace_command",
        "Write when each turn waited and ran, for Perfetto.",
    ),
    "export": (
        "hmz_mp.cli.export:export_command",
        "Write every turn of a run as JSON lines or CSV.",
    ),
    "apply": ("hmz_mp.cli.apply:apply_command", "Apply what is left of a run's patches."),
    "rm": ("hmz_mp.cli.rm:rm_command", "Remove a run and all that was written down of it."),
    "gc": ("hmz_mp.cli.gc:gc_command", "Remove what killed runs have left."),
    "flows": ("hmz_mp.cli.flows:flows_command", "List the flows that are found by name."),
    "doctor": ("hmz_mp.cli.doctor:doctor_command", "Say what works on this machine."),
    "bench": ("hmz_mp.cli.bench:bench_command", "Compare with other executors; tune widths."),
}


class LazyGroup(click.Group):
    """A group that lists its commands without importing them, and reports every error."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002  (click's signature)
        cmd_name: str,
    ) -> click.Command | None:
        """Import and return the command of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that ``args`` begin with; an unknown one lists those there are."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}; there are {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; without any argument, say how the program is used, and end as for bad input."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(_BAD_INPUT)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the commands of the table, without importing them, or options."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        offered = ((name, line) for name, (_, line) in COMMANDS.items())
        return [
            CompletionItem(name, help=line) for name, line in offered if name.startswith(incomplete)
        ]

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002  (click's signature)
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the table of commands into the help text."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line and exit; without ``standalone_mode`` as click has it."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        name = prog_name or "hmz-mp"
        self._main_shell_completion(extra, name, complete_var)  # exits, if a shell asks
        arguments = list(sys.argv[1:] if args is None else args)
        sys.exit(self._status(arguments, name, extra))

    def _status(self, arguments: list[str], name: str, extra: dict[str, Any]) -> int:
        try:
            status = self._run(arguments, name, extra)
            output: TextIO | None = sys.stdout
            if output is not None:  # as it is when the caller closed it
                output.flush()
            return status
        except (Exception, KeyboardInterrupt) as error:
            return _report(error)

    def _run(self, arguments: list[str], name: str, extra: dict[str, Any]) -> int:
        try:
            with self.make_context(name, arguments, **extra) as context:
                result = self.invoke(context)
        except click.exceptions.Exit as ending:
            return ending.exit_code
        return result if isinstance(result, int) else 0


def _report(error: BaseException) -> int:
    """Say on standard error what ended the command; returns the exit status.

    What is none of the expected endings is raised again, and shows its traceback.
    """
    from hmz_mp.cli.output import give_up_stdout

    match error:
        case KeyboardInterrupt() | click.Abort():
            return _say("interrupted", _INTERRUPTED)
        case BrokenPipeError():
            give_up_stdout()
            return _READER_GONE
        case BadInput():
            return _say(f"error: {error}", _BAD_INPUT)
        case click.UsageError():
            path = error.ctx.command_path if error.ctx is not None else "hmz-mp"
            return _say(f"error: {error.format_message()}\nsee: {path} --help", _BAD_INPUT)
        case click.ClickException():
            return _say(f"error: {error.format_message()}", _BAD_INPUT)
        case HmzMpError():
            return _say(f"error: {error}", 1)
        case _:
            raise error


def _say(words: str, status: int) -> int:
    with suppress(BrokenPipeError):
        click.echo(f"hmz-mp: {printable(words, multiline=True)}", err=True)
    return status


@click.group(
    cls=LazyGroup,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", prog_name="hmz-mp")
def group() -> None:
    """Fan work out over worker processes: agents and CPU-heavy tools, one turn per item.

    \b
    Examples:
      hmz-mp exec -a tool/hmz_mp.toolbox.python:outline --include '*.py' outline
      hmz-mp exec -a 'sh/python3 -m py_compile {path}' --changed-since main
      hmz-mp runs
      hmz-mp show last
    """


def run_command_line(arguments: Sequence[str]) -> int:
    """Run ``hmz-mp`` with ``arguments``; returns the exit status."""
    try:
        group.main(arguments, prog_name="hmz-mp")
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1
    return 0
