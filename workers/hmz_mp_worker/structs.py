"""Classes of msgspec by value: what cloudpickle cannot do for a ``Struct`` of a caller's script.

Owns their reduction. Imported by ``payload`` only. cloudpickle makes a class empty and sets its
attributes afterwards; a ``Struct`` made empty has no fields for good, so it is made with its
annotations, defaults and options, and only its methods are set afterwards (they may refer to the
class itself). As with cloudpickle, a class that comes back is the one that went out.
"""

from __future__ import annotations

import types
from typing import Any

import msgspec

__all__ = ["is_struct_class", "reduce_struct_class"]

_Meta = type(msgspec.Struct)
_Factory: Any = type(msgspec.defstruct("_", [("a", list, [])]).__struct_defaults__[0])
_OPTIONS = (
    "frozen",
    "eq",
    "order",
    "array_like",
    "gc",
    "repr_omit_defaults",
    "omit_defaults",
    "forbid_unknown_fields",
    "weakref",
    "dict",
    "cache_hash",
)
_MADE_WITH = ("__module__", "__qualname__", "__doc__", "__annotations__", "__orig_bases__")
_MADE_ANEW = (
    *_MADE_WITH,
    "__slots__",
    "__dict__",
    "__weakref__",
    "__post_init__",
    "__firstlineno__",
    "__static_attributes__",
)


def is_struct_class(value: object) -> bool:
    """Tell whether ``value`` is a class that `reduce_struct_class` is for."""
    return isinstance(value, _Meta) and value is not msgspec.Struct


def reduce_struct_class(cls: Any) -> tuple[Any, ...]:
    """Return what ``reducer_override`` of a pickler returns for a ``Struct`` class."""
    from cloudpickle import cloudpickle

    own = [name for name in cls.__slots__ if name in cls.__struct_fields__]
    namespace = {name: vars(cls)[name] for name in _MADE_WITH if name in vars(cls)}
    namespace["__qualname__"] = cls.__qualname__
    rest = {name: value for name, value in vars(cls).items() if name not in (*_MADE_ANEW, *own)}
    making = (
        cloudpickle._get_or_create_tracker_id(cls),
        cls.__name__,
        cls.__bases__,
        namespace,
        _defaults(cls, own),
        _options(cls, own),
        "__post_init__" in vars(cls),
    )
    return _make, making, (rest, vars(cls).get("__post_init__")), None, None, _complete


def _defaults(cls: Any, own: list[str]) -> dict[str, tuple[str, Any]]:
    """Return own fields that have a default, each as an argument of ``msgspec.field``."""
    fields = cls.__struct_fields__
    paired = zip(reversed(fields), reversed(cls.__struct_defaults__), strict=False)
    found: dict[str, tuple[str, Any]] = {}
    for name, default in paired:
        if name not in own or default is msgspec.NODEFAULT:
            continue
        if isinstance(default, _Factory):
            found[name] = ("default_factory", default.factory)
        else:
            found[name] = ("default", default)
    return found


def _options(cls: Any, own: list[str]) -> dict[str, Any]:
    config = cls.__struct_config__
    options: dict[str, Any] = {name: getattr(config, name) for name in _OPTIONS}
    if config.tag is not None:
        options |= {"tag": config.tag, "tag_field": config.tag_field}
    encoded = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
    options["rename"] = {name: encoded[name] for name in own}
    options["kw_only"] = bool(own) and not set(own) & set(cls.__match_args__)
    return options


def _make(
    tracker_id: str,
    name: str,
    bases: tuple[type, ...],
    namespace: dict[str, Any],
    defaults: dict[str, tuple[str, Any]],
    options: dict[str, Any],
    has_post_init: bool,
) -> type:
    from cloudpickle import cloudpickle

    known: type | None = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.get(tracker_id)
    if known is not None:
        return known
    fields = {field: msgspec.field(**{kind: value}) for field, (kind, value) in defaults.items()}
    body = namespace | fields
    if has_post_init:
        body["__post_init__"] = _post_init()
    made = types.new_class(name, bases, {"metaclass": _Meta, **options}, lambda ns: ns.update(body))
    tracked: type = cloudpickle._lookup_class_or_track(tracker_id, made)
    return tracked


def _post_init() -> Any:
    """Return a ``__post_init__`` that calls the one it is given later.

    A ``Struct`` looks for its own once, when it is made.
    """

    def post_init(self: Any) -> None:
        vars(post_init)["real"](self)

    return post_init


def _complete(cls: Any, state: tuple[dict[str, Any], Any]) -> Any:
    rest, post_init = state
    for name, value in rest.items():
        setattr(cls, name, value)
    hook = vars(cls).get("__post_init__")
    if post_init is not None and hook is not post_init:
        vars(hook)["real"] = post_init
    return cls
