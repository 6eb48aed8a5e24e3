"""Commands that end in every way a command can."""

import os
import signal

import click

from hmz_mp.errors import BadInput, PoolClosed

ERRORS: dict[str, Exception] = {
    "bad": BadInput("a \x1b[31mname\nand a second line"),
    "usage": click.UsageError("use it \x1b well"),
    "click": click.ClickException("not so"),
    "ours": PoolClosed("the pool is closed"),
    "abort": click.Abort(),
    "pipe": BrokenPipeError(),
    "bug": ZeroDivisionError("a bug"),
}


@click.command("endings")
@click.argument("how")
@click.option("--number", type=int)
@click.pass_context
def endings(ctx: click.Context, how: str, number: int | None) -> int | None:
    if how == "status":
        return number
    if how == "exit":
        ctx.exit(number or 0)
    if how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    if how in ERRORS:
        raise ERRORS[how]
    return None
