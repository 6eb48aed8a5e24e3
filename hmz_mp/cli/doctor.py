"""``hmz-mp doctor``: what works on this machine, for agents and for the pool.

Owns the words and their layout; what is looked at is in ``hmz_mp.doctor``.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hmz_mp import __version__
from hmz_mp.agents.kinds import KINDS
from hmz_mp.core.cpus import CpuBounds, cpu_bounds
from hmz_mp.core.machine import MachineMemory, machine_memory
from hmz_mp.doctor.abilities import Ability, look
from hmz_mp.doctor.programs import Found, find_packages, find_programs
from hmz_mp.doctor.room import cpu_reasons, processes_that_fit
from hmz_mp.terminal import make_console, safe_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

__all__ = ["Examination", "doctor_command", "print_examination"]

_NO_LIMIT = 1_000_000
_INDENT = 2
_GAP = 2
_WIDEST_NAME = 14


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that was found."""

    cpus: CpuBounds
    memory: MachineMemory
    programs: list[Found]
    packages: list[Found]
    abilities: list[Ability]

    @property
    def status(self) -> int:
        """The exit status: 1 if a run could not work here."""
        return int(any(one.needed and not one.works for one in self.abilities))


@click.command("doctor", short_help="Say what works on this machine.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def doctor_command(as_json: bool) -> int:
    """Say which agent programs are on PATH and of which version, how many of them would fit in
    the memory that is available, how many CPUs the pool would use and why, and what works on this
    machine. Nothing is sent over the network.

    Exit status: 0 if runs work here, else 1.

    \b
    Examples:
      hmz-mp doctor
      hmz-mp doctor --json | jq '.cpus.used'
    """
    found = Examination(
        cpu_bounds(), machine_memory(), find_programs(), find_packages(), look(Path.cwd())
    )
    if as_json:
        click.echo(json.dumps(_object(found)))
    else:
        print_examination(found, make_console(stderr=False))
    return found.status


def _object(found: Examination) -> dict[str, Any]:
    cpus, memory = found.cpus, found.memory
    return {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "works": found.status == 0,
        "cpus": {"used": cpus.usable, "why": cpu_reasons(cpus), **cpus._asdict()},
        "memory": {"total": memory.total, "available": memory.available},
        "programs": [_program_object(one, memory) for one in found.programs],
        "packages": [_package_object(one) for one in found.packages],
        "abilities": [one._asdict() for one in found.abilities],
    }


def _program_object(one: Found, memory: MachineMemory) -> dict[str, Any]:
    each = one.known.memory
    return {
        "name": one.known.name,
        "agents": one.known.agents,
        "path": one.path,
        "version": one.version,
        "problem": one.problem,
        "memory_each": each,
        "fit": processes_that_fit(memory, each) if each is not None and one.works else None,
    }


def _package_object(one: Found) -> dict[str, Any]:
    return {
        "name": one.known.name,
        "agents": one.known.agents,
        "version": one.version,
        "key": {"name": one.known.key, "is_set": one.known.has_key} if one.known.key else None,
    }


# Text: lines of a name and what there is to say of it, the style being the name's.

_Line = tuple[str, str, str]
_GOOD, _BAD, _ABSENT = "green", "red", "yellow"


def print_examination(found: Examination, console: Console) -> None:
    """Print it for people, folded to the width of a terminal."""
    width = console.width if console.is_terminal else _NO_LIMIT
    title = f"hmz-mp {__version__}, Python {platform.python_version()}, {platform.platform()}"
    for line in _folded(title, console, width):
        console.print(safe_text(line, "bold"), soft_wrap=True)
    _print_lines(console, width, "this machine", _machine(found))
    _print_lines(console, width, "agents", _agents(found))


def _machine(found: Examination) -> Iterator[_Line]:
    cpus, memory = found.cpus, found.memory
    yield "CPUs", f"{cpus.usable} used by a pool: {cpu_reasons(cpus)}", _GOOD
    words = f"{_size(memory.available)} of {_size(memory.total)} available"
    yield "memory", words, _BAD if memory.is_short() else _GOOD
    for one in found.abilities:
        style = _GOOD if one.works else _BAD if one.needed else _ABSENT
        yield one.name, one.words if one.works else f"no: {one.words}", style


def _agents(found: Examination) -> Iterator[_Line]:
    yield "backends", ", ".join(f"{name}/" for name in KINDS), _GOOD
    for one in found.programs:
        yield one.known.name, *_program_words(one, found.memory)
    for one in found.packages:
        yield one.known.name, *_package_words(one)


def _package_words(one: Found) -> tuple[str, str]:
    if one.version is None:
        return f"not installed ({one.known.agents})", _ABSENT
    if not one.known.key:
        return one.version, _GOOD
    return f"{one.version}; {one.known.key} is {'' if one.known.has_key else 'not '}set", _GOOD


def _program_words(one: Found, memory: MachineMemory) -> tuple[str, str]:
    if one.path is None:
        return f"not found ({one.known.agents})", _ABSENT
    if one.version is None:
        return f"{one.path}: {one.problem}", _BAD
    words = f"{one.version}, {one.path}"
    backend, _, _ = one.known.agents.partition("/")
    if backend not in KINDS:
        words += f"; this version has no {backend}/"
    if one.known.memory is not None:
        fit = processes_that_fit(memory, one.known.memory)
        words += f"; {fit:,} would fit in memory, at {_size(one.known.memory)} each"
    return words, _GOOD


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GB" if count >= 1 << 30 else f"{count >> 20} MB"


def _print_lines(console: Console, width: int, heading: str, lines: Iterator[_Line]) -> None:
    told = list(lines)
    names = min(_WIDEST_NAME, max(len(name) for name, _, _ in told))
    console.print(safe_text(heading, "bold"), soft_wrap=True)
    for name, words, style in told:
        label = safe_text(" " * _INDENT).append(name, style)
        if len(name) > names:
            console.print(label, soft_wrap=True)
            label = safe_text("")
        for line in _folded(words, console, max(10, width - _INDENT - names - _GAP)):
            label.append(" " * (_INDENT + names + _GAP - len(label.plain)))
            console.print(label.append_text(safe_text(line)), soft_wrap=True)
            label = safe_text("")


def _folded(words: str, console: Console, width: int) -> list[str]:
    lines = safe_text(words).wrap(console, width, overflow="fold")
    return [line.plain.strip() for line in lines]
