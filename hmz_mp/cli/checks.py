"""Everything of a run that can be wrong before its first turn, looked at before its first turn.

Owns what is made of the options of ``hmz-mp exec``. Imported by ``cli.exec_`` and
``cli.conduct``; it prints nothing, and starts nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from hmz_mp.agents import agent_from_spec
from hmz_mp.core.cpus import usable_cpus
from hmz_mp.core.limits import AUTO
from hmz_mp.core.pool import Pool
from hmz_mp.engines.choice import LOCAL, check_engine
from hmz_mp.errors import BadInput
from hmz_mp.flows.finding import BUILT_IN
from hmz_mp.flows.loading import load_flow
from hmz_mp.flows.settings import read_settings
from hmz_mp.items import Selection, select
from hmz_mp.runs.costs import NO_BUDGET, Budget
from hmz_mp.terminal import printable
from hmz_mp.worktrees.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hmz_mp.agents import Agent
    from hmz_mp.cli.output import Style
    from hmz_mp.core.ambient import Item
    from hmz_mp.core.limits import AtOnce
    from hmz_mp.flows import Flow

__all__ = ["SHIP_NEEDS", "Checked", "Options", "SelectedItems", "check", "set_widths"]

SHIP_NEEDS = "--ship needs"  # begins what is said where there is no checkout for it


@dataclass(frozen=True, slots=True)
class Options:
    """The options of ``hmz-mp exec``, as parsed. 0 and empty mean that one was not given."""

    flow: str = "fanout"
    agents: tuple[str, ...] = ()
    settings: str | None = None
    task: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    changed_since: str | None = None
    items: str | None = None
    nul: bool = False
    at_once: AtOnce | None = None  # 0 is no cap
    workers: int | None = None
    engine: str = LOCAL
    timeout: float | None = None
    retries: int = 0
    max_failures: int = 0
    budget: Budget = NO_BUDGET
    dry_run: bool = False
    worktree: bool = False
    ship: bool = False
    ship_also: tuple[str, ...] = ()
    style: Style | None = None
    quiet: bool = False
    resume: str | None = None  # the run that goes on; with `retry`, only what failed in it
    retry: bool = False
    watch: bool = False

    @property
    def workers_cwd(self) -> str | None:
        """Where workers are to be: somewhere that every machine has, if files go with turns."""
        return "/" if self.ship and self.engine != LOCAL else None

    @property
    def selects(self) -> bool:
        """Whether any option says which items are meant."""
        return bool(
            self.include
            or self.exclude
            or self.changed_since is not None
            or self.items is not None
            or self.dry_run
        )


class SelectedItems:
    """The items that the options select, searched for once, when first asked for."""

    def __init__(self, root: Path, options: Options) -> None:
        self._root = root
        self._options = options

    @cached_property
    def selection(self) -> Selection:
        """What was selected; raises `BadInput` when that is nothing."""
        options = self._options
        return select(
            self._root,
            include=options.include,
            exclude=options.exclude,
            changed_since=options.changed_since,
            items_file=options.items,
            nul=options.nul,
        )

    @property
    def was_searched(self) -> bool:
        """Whether anybody has asked yet."""
        return "selection" in vars(self)

    def __call__(self) -> Sequence[Item]:
        """Return the items."""
        return self.selection.items


@dataclass(frozen=True, slots=True)
class Checked:
    """A run that can start: ``at_once`` and ``workers`` are for its pool.

    ``at_once`` is ``"auto"`` where its agents find out how many of their turns go at once.
    """

    options: Options
    flow: Flow
    agents: list[Agent]
    items: SelectedItems
    at_once: AtOnce
    workers: int | None
    settings: Any = None
    root: Path = field(default_factory=Path.cwd)

    @property
    def cap(self) -> int:
        """The width that the pool has to keep to by counting turns, or 0.

        Turns that compute take a worker each, so its workers keep to it, unless the user wants it
        kept to the turn; then short turns can wait in their worker instead of here.
        """
        if isinstance(self.at_once, str):
            return 0
        wanted = isinstance(self.options.at_once, int)
        return self.at_once if wanted or any(one.waits for one in self.agents) else 0


def check(options: Options) -> Checked:
    """Return the run that the options ask for; raises `BadInput` for the first thing wrong.

    Items are searched for if the flow is built in, or an option selects some; a flow of the
    user's may do without them.
    """
    root = Path.cwd()
    flow = load_flow(options.flow)
    flow.check_agents(len(options.agents))
    agents = [agent_from_spec(spec) for spec in options.agents]
    _check_prices(agents, options)
    settings = _settings(flow, options)
    _check_engine(options)
    if options.worktree:
        Checkout.find(root)
    if options.ship:
        Checkout.find(root, SHIP_NEEDS)
    items = SelectedItems(root, options)
    if options.selects or flow.path.parent == BUILT_IN:
        items()
    at_once, workers = set_widths(options, agents)
    return Checked(options, flow, agents, items, at_once, workers, settings, root)


def _check_prices(agents: list[Agent], options: Options) -> None:
    """Refuse a bound that could never be reached."""
    if options.budget.max_cost:
        for agent in agents:
            if not agent.prices:
                raise BadInput(
                    f"agent {agent.spec!r} does not say what its turns cost, so --max-cost cannot "
                    "bound them: use --max-tokens"
                )


def _check_engine(options: Options) -> None:
    try:
        check_engine(options.engine)
    except ValueError as error:
        raise BadInput(f"--engine: {error}") from error
    if options.worktree and options.ship:
        raise BadInput("--worktree and --ship cannot be used together: each gives a turn its files")
    if options.worktree and options.engine != LOCAL:
        raise BadInput(
            "--worktree makes worktrees on this machine: it takes --engine local; on others, "
            "--ship gives each turn a directory of its own"
        )
    if options.ship_also and not options.ship:
        raise BadInput("--ship-also says what goes with each turn's file, and there is no --ship")


def _usable(options: Options) -> int:
    """Return how many turns that compute the engine bears at once now.

    A cluster is connected to for that. Raises `BadInput` where it cannot be used.
    """
    if options.engine == LOCAL:
        return usable_cpus()

    async def ask() -> int:
        async with Pool(engine=options.engine, cwd=options.workers_cwd) as pool:
            return pool.width

    return anyio.run(ask)


def _settings(flow: Flow, options: Options) -> Any:
    if options.settings is None:
        return flow.fit_settings(None)
    path = Path(options.settings)
    return flow.fit_settings(read_settings(path), f"settings file {printable(options.settings)}")


def set_widths(options: Options, agents: Sequence[Agent]) -> tuple[AtOnce, int | None]:
    """Return how many turns at once and how many workers the pool gets.

    A turn of an agent that computes takes a worker of its own, so asking for a width asks for as
    many workers. Where no number is given, agents with a service of their own find out how many of
    their turns go at once, and so do others that wait if that is asked for.
    """
    usable = _usable(options)
    if isinstance(options.at_once, int):
        return options.at_once, options.workers or options.at_once or None
    cpus = options.workers or usable
    waiting = [one for one in agents if one.waits]
    finding = [one for one in waiting if one.converses or options.at_once == AUTO]
    if not finding:
        return cpus, options.workers
    for agent in waiting:
        agent.bound(AUTO if agent in finding else cpus)
    return AUTO, options.workers
