"""``Flow``: a checked flow, and how it is called.

Owns turning agents, task, settings and state into the arguments of the flow's function, and where
the function runs. ``checking`` makes flows; ``loading``, ``calls`` and the command line use them.
It does not know how flows are found, nor what a run or an agent is.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from hmz_mp.errors import BadInput
from hmz_mp.flows.settings import fit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["Flow", "SettingsParameter"]


@dataclass(frozen=True, slots=True)
class SettingsParameter:
    """The argument of a flow that takes its settings: its type, and whether it has a default."""

    name: str
    type: Any
    optional: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow that was loaded and whose signature was checked.

    ``places`` has one entry for each agent it drives: the field's name when ``agents`` is a
    NamedTuple, else an empty string.
    """

    name: str
    path: Path
    function: Callable[..., Any]
    places: tuple[str, ...]
    make_agents: Callable[[Sequence[Any]], tuple[Any, ...]]
    settings: SettingsParameter | None = None
    resumable: bool = False

    @property
    def is_async(self) -> bool:
        """Whether the flow is a coroutine function."""
        return inspect.iscoroutinefunction(self.function)

    def check_agents(self, given: int) -> None:
        """Raise `BadInput` unless the flow drives as many agents as are given."""
        if given == len(self.places):
            return
        drives = f"{len(self.places)} agent" + ("" if len(self.places) == 1 else "s")
        named = f" ({', '.join(self.places)})" if any(self.places) else ""
        raise BadInput(f"{self.function.__name__}() drives {drives}{named}, {given} given")

    def fit_settings(self, raw: Mapping[str, Any] | None, source: str = "the settings") -> Any:
        """Return settings as the type the flow takes them in; ``None`` when it takes the default.

        ``raw`` is what a settings file holds, ``None`` when none was given. Raises `BadInput`,
        the field named, when they do not fit, or when the flow takes no settings.
        """
        if self.settings is None:
            if raw is not None:
                raise BadInput(f"the flow {self.name} takes no settings, {source} given")
            return None
        if raw is None and self.settings.optional:
            return None
        if raw is None:
            source = f"the flow {self.name} needs settings, none given"
        return fit(raw or {}, self.settings.type, source)

    def call(
        self,
        agents: Sequence[Any],
        task: str,
        settings: Any = None,
        state: dict[str, Any] | None = None,
    ) -> Any:
        """Call the function here: a coroutine for an ``async def`` flow, else what it returns."""
        self.check_agents(len(agents))
        named: dict[str, Any] = {}
        if self.settings is not None and (settings is not None or not self.settings.optional):
            named[self.settings.name] = settings
        if self.resumable:
            named["state"] = {} if state is None else state
        return self.function(self.make_agents(agents), task, **named)

    async def run(
        self,
        agents: Sequence[Any],
        task: str,
        settings: Any = None,
        state: dict[str, Any] | None = None,
    ) -> Any:
        """Run the flow: ``async def`` on this loop, ``def`` in a thread with this context.

        Cancelled, a ``def`` flow is left to end by itself: a thread cannot be stopped.
        """
        call = partial(self.call, agents, task, settings, state)
        if self.is_async:
            return await call()
        # In a list, since trio refuses a thread's function that returns a coroutine.
        (answer,) = await anyio.to_thread.run_sync(lambda: [call()], abandon_on_cancel=True)
        return await answer if inspect.isawaitable(answer) else answer
