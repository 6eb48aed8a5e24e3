"""`batch_tool`: the tool that takes a list, made of one that takes an item.

It runs in the coordinator and has one turn for each item; one that fails is marked in its place.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hmz_mp.core.limits import check_width
from hmz_mp.tools.decorator import Tool, tool
from hmz_mp.tools.signature import BadArguments, Signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hmz_mp.core.caller import Caller

__all__ = ["Answered", "BatchTool", "batch_tool"]


class Answered(msgspec.Struct, omit_defaults=True):
    """What became of one item of a list: the item as it was given, and an answer or an error."""

    item: Any
    status: Literal["ok", "failed"]
    answer: Any = None
    error: str | None = None


class _Call(NamedTuple):
    """One item of a list, and what its tool is called with, unless that does not fit."""

    item: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    error: BadArguments | None = None


class BatchTool(Tool[..., list[Answered]]):
    """A tool that takes ``items`` and answers with an `Answered` for each, in their order.

    ``one`` is the tool that each item is given to. Made by `batch_tool`.
    """

    def __init__(self, one: Tool[..., Any], at_once: int, name: str, description: str) -> None:
        self.one = one
        self._width = check_width("at_once", at_once)
        super().__init__(_listing(one, name), batch=True, description=description)

    @functools.cached_property
    def signature(self) -> Signature:
        """What it takes: a list, of which each item is read as the one-item tool reads it."""
        return _ListSignature(self.function, self.name, self.one.signature)

    def __call__(self, items: Iterable[Any]) -> list[Answered]:
        """Call the one-item tool plainly, here, for one item after the other."""
        found = []
        for call in self._calls(items):
            try:
                found.append(Answered(call.item, "ok", self.one(*call.args, **call.kwargs)))
            except Exception as error:
                found.append(_failed(call.item, error))
        return found

    def caller_in(self, base: Caller) -> Caller:
        """Return what submits the turns of the items, at most ``at_once`` in flight."""
        return self.one.caller_in(base.options(at_once=self._width))

    async def answer_in(
        self, caller: Caller, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> list[Answered]:
        """Have all items answered, each by a turn of its own."""
        calls = self._calls(*args, **(kwargs or {}))
        function = self.one.shipped()
        turns = []
        try:
            for call in calls:
                fits = call.error is None
                turns.append(caller.submit(function, *call.args, **call.kwargs) if fits else None)
            return [await _answered(*pair) for pair in zip(calls, turns, strict=True)]
        finally:
            for turn in filter(None, turns):
                turn.cancel()

    async def _one_batch(self, items: Iterable[Any], suppress: bool) -> list[Any]:  # noqa: ARG002
        return await self.answer_in(self._view(), (items,))

    def _calls(self, items: Iterable[Any]) -> Sequence[_Call]:
        """Return what to call for each item: read already, if a model has given them."""
        several = len(self.one.signature.names) > 1
        calls = []
        for item in items:
            if isinstance(item, _Call):
                calls.append(item)
            elif several and isinstance(item, Mapping):
                calls.append(_Call(item, (), item))
            else:
                calls.append(_Call(item, item if several else (item,)))
        return calls

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._is_found_by_name():
            return self.__qualname__
        return BatchTool, (self.one, self._width, self.name, self.description)


async def _answered(call: _Call, turn: Any) -> Answered:
    if call.error is not None:
        return _failed(call.item, call.error)
    try:
        return Answered(call.item, "ok", await turn)
    except Exception as error:
        return _failed(call.item, error)


def _failed(item: Any, error: Exception) -> Answered:
    text = str(error)
    name = type(error).__name__
    return Answered(item, "failed", error=f"{name}: {text}" if text else name)


class _ListSignature(Signature):
    """A list of items, each described and read as another signature says."""

    def __init__(self, function: Callable[..., Any], name: str, one: Signature) -> None:
        super().__init__(function, name)
        self._one = one

    def schema(self) -> dict[str, Any]:
        item = self._one.schema()
        others = item.pop("$defs", None)
        if len(self._one.names) == 1:
            item = item["properties"][self._one.names[0]]
        items = {"type": "array", "items": item}
        found: dict[str, Any] = {
            "type": "object",
            "properties": {"items": items},
            "required": ["items"],
        }
        found["additionalProperties"] = False
        return {**found, "$defs": others} if others else found

    def read(self, arguments: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        _, read = super().read(arguments)
        return (), {"items": [self._call(item) for item in read["items"]]}

    def _call(self, item: Any) -> _Call:
        given = {self._one.names[0]: item} if len(self._one.names) == 1 else item
        try:
            args, kwargs = self._one.read(given)
        except BadArguments as error:
            return _Call(item, error=error)
        return _Call(item, args, kwargs)


def _listing(one: Tool[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that has the name and the parameter of the list-taking tool."""

    def listing(items: list[Any]) -> list[Answered]:
        raise NotImplementedError(f"{name} runs in the coordinator, for {len(items)} items")

    listing.__name__ = listing.__qualname__ = name
    listing.__module__ = one.__module__
    return listing


def batch_tool(
    one: Tool[..., Any] | Callable[..., Any],
    *,
    at_once: int = 8,
    name: str | None = None,
    description: str | None = None,
) -> BatchTool:
    """Make the tool that takes a list out of one that takes an item.

    It takes ``items``: for a tool of one parameter its values, for one of several objects that
    have them. At most ``at_once`` are in flight, beside what the one-item tool allows. It answers
    with an `Answered` for each item, in order; one whose call failed, or does not fit, is marked
    ``"failed"`` in its place, and the others are answered all the same.
    """
    single = one if isinstance(one, Tool) else tool(one)
    if single.takes_batch:
        raise TypeError(f"{single!r} takes a list already")
    text = description or f"{single.description}\n\nFor many items at once.".strip()
    return BatchTool(single, at_once, name or f"{single.name}_batch", text)
