from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import cloudpickle
import msgspec
import pytest
from cloudpickle import cloudpickle as cloudpickle_module
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp_worker import payload, wire
from hmz_mp_worker.framing import Buffer
from hmz_mp_worker.memory import copy_of
from hmz_mp_worker.payload import Payload, dump, dump_back, dump_by_value, lighten, load, split
from tests.helpers import run_python, run_script

LARGE = 1 << 16


class Block:
    """Offers its bytes out of band, as arrays do."""

    def __init__(self, data: bytearray | memoryview) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Block, (pickle.PickleBuffer(self.data),)


class NeedsTwo(Exception):
    def __init__(self, name: str, size: int) -> None:
        super().__init__(f"{name} is {size}")
        self.name = name
        self.size = size


class KeywordOnly(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__()
        self.code = code


class HoldsLock(Exception):
    def __init__(self) -> None:
        super().__init__("it holds a lock")
        self.lock = threading.Lock()


class BadText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def there_and_back(value: Any) -> Any:
    data, buffers = split(dump(value))
    return load(data, [memoryview(bytearray(buffer)) for buffer in buffers])


@pytest.mark.parametrize(
    "value", [None, 1 << 200, "\udcff", {"a": (1, {2})}, float("inf"), ..., len, b"x" * 200_000]
)
def test_values_come_back(value: object) -> None:
    assert there_and_back(value) == value


def test_a_lambda_goes_by_value() -> None:
    offset = 3
    assert there_and_back(lambda x: x + offset)(4) == 7


def test_plain_pickle_is_tried_first() -> None:
    assert b"cloudpickle" not in dump(Block(bytearray(3))).data


def test_dump_by_value_is_cloudpickles() -> None:
    assert b"cloudpickle" in dump_by_value(lambda: 0).data


def test_small_buffers_stay_inside() -> None:
    dumped = dump(Block(bytearray(LARGE - 500)))
    assert dumped.buffers == ()
    assert split(dumped) == (dumped.data, ())


def test_large_buffers_stay_out() -> None:
    block = Block(bytearray(b"x" * LARGE))
    dumped = dump([block, block.data, 1])
    assert [memoryview(one).nbytes for one in dumped.buffers] == [LARGE]
    data, buffers = split(dumped)
    assert data == b""
    assert len(buffers) == 2
    back = load(data, [memoryview(bytearray(one)) for one in buffers])
    assert bytes(back[0].data) == bytes(block.data)


def test_large_buffers_are_not_copied() -> None:
    block = Block(bytearray(LARGE))
    (buffer,) = dump(block).buffers
    block.data[0] = 7
    assert memoryview(buffer)[0] == 7


def test_a_pickle_that_is_kept_does_not_change_with_its_value() -> None:
    data = bytearray(b"x" * LARGE)
    (kept,) = dump(Block(data), kept=True).buffers
    (also,) = dump_by_value(Block(data), kept=True).buffers
    data[0] = 7
    assert kept == also == b"x" * LARGE
    assert [memoryview(one).readonly for one in (kept, also)] == [False, False]


def test_a_pickle_that_is_kept_copies_nothing_that_cannot_change() -> None:
    data = b"x" * LARGE
    (kept,) = dump(Block(memoryview(data)), kept=True).buffers
    assert origin(kept) is data


# Bytes, byte arrays and views.

PLAIN_LARGE = [b"x" * LARGE, bytearray(b"x" * LARGE)]


def received(value: Any) -> Any:
    """Return a value as the other end of a frame loads it."""
    data, buffers = split(value)
    own: list[Buffer] = [copy_of(memoryview(one), writable=not memoryview(one).readonly)
                         for one in buffers]  # fmt: skip
    return own, load(data, own)


def origin(buffer: Buffer) -> object:
    """Return the object whose memory a view is of."""
    return origin(buffer.obj) if isinstance(buffer, memoryview) else buffer  # type: ignore[arg-type]  # any object


@pytest.mark.parametrize("value", PLAIN_LARGE, ids=["bytes", "bytearray"])
def test_large_bytes_are_never_copied(value: Any) -> None:
    dumped = dump_back(value)
    assert origin(dumped.buffers[0]) is value
    own, back = received(dumped)
    assert back is own[1]
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("size", [0, 1, 100, LARGE])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_bytes_of_any_size(size: int, kind: Any) -> None:
    value = kind(b"x" * size)
    for dumped in (dump_back(value), dump(lighten(value))):
        back = received(dumped)[1]
        assert (back, type(back)) == (value, kind)


VIEWS = [
    memoryview(b""),
    memoryview(b"abc"),
    memoryview(bytearray(b"abc")),
    memoryview(b"x" * LARGE),
    memoryview(bytearray(LARGE)),
    memoryview(b"x" * LARGE)[10:],
    memoryview(bytearray(range(240))).cast("d"),
    memoryview(bytearray(LARGE * 4)).cast("I", (LARGE // 16, 16)),
    memoryview(b"12345678").cast("q", ()),
    memoryview(bytes(range(200)))[::2],
]


@pytest.mark.parametrize("view", VIEWS, ids=range(len(VIEWS)))
@pytest.mark.parametrize("inside", [False, True])
def test_views(view: memoryview, inside: bool) -> None:
    """Each arrives as a view like it, alone and inside of something."""
    value = [view, 1] if inside else view
    for dumped in (dump_back(value), dump(lighten(value))):
        back = received(dumped)[1]
        back = back[0] if inside else back
        assert type(back) is memoryview
        assert (back, back.format, back.shape) == (view, view.format, view.shape)
        assert back.readonly == (view.readonly or not view.c_contiguous)


@given(st.binary(max_size=200), st.sampled_from("bBhHiIlLqQfd?"), st.booleans())
def test_any_view(data: bytes, form: str, writable: bool) -> None:
    data = data[: len(data) // 8 * 8]
    flat: Any = memoryview(bytearray(data) if writable else data)
    view = flat.cast(form)
    back = received(dump_back(view))[1]
    assert (back.tobytes(), back.format, back.shape) == (view.tobytes(), form, view.shape)


def test_a_large_view_is_not_copied() -> None:
    data = bytearray(LARGE)
    assert origin(dump_back(memoryview(data)).buffers[0]) is data


def test_a_buffer_that_is_not_contiguous_is_refused() -> None:
    strided = memoryview(bytearray(range(256)) * 1024)[::2]
    with pytest.raises(pickle.PicklingError, match="contiguous"):
        dump(Block(strided))


def test_a_large_pickle_travels_beside_the_message() -> None:
    data, buffers = split(Payload(b"x" * (payload.INLINE_CEILING + 1)))
    assert (data, len(buffers)) == (b"", 1)
    assert split(Payload(b"x" * payload.INLINE_CEILING))[1] == ()


def test_what_cannot_be_pickled_says_why() -> None:
    with pytest.raises(TypeError, match="lock"):
        dump(threading.Lock())


# Exceptions.


def failed(error: BaseException, **options: Any) -> wire.Failure:
    try:
        raise error
    except BaseException as raised:
        return wire.decode_failure(payload.pack_failure(raised, **options))


def test_an_exception_that_holds_too_much_goes_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "_FAILURE_MOST", 10_000)
    monkeypatch.setattr(payload, "_TEXT_MOST", 1000)
    failure = failed(ValueError("x" * 5000, b"y" * 5000))
    assert (failure.pickle, failure.type_name) == (b"", "ValueError")
    assert failure.text.startswith("('xxx")
    assert failure.text.endswith("yyy')")
    assert "characters left out" in failure.text
    assert max(len(failure.text), len(failure.traceback)) < 1100
    assert failed(ValueError("x" * 5000)).pickle


def rebuilt(error: BaseException) -> Any:
    return pickle.loads(failed(error).pickle)


def test_an_exception_and_what_it_says() -> None:
    failure = failed(ValueError("five"))
    assert (failure.type_name, failure.text) == ("ValueError", "five")
    assert failure.traceback.startswith("Traceback")
    assert failure.traceback.endswith("ValueError: five\n")
    assert repr(pickle.loads(failure.pickle)) == "ValueError('five')"


def test_an_exception_whose_init_takes_other_arguments() -> None:
    error = rebuilt(NeedsTwo("box", 3))
    assert type(error) is NeedsTwo
    assert (error.name, error.size, str(error)) == ("box", 3, "box is 3")


def test_an_exception_whose_init_is_keyword_only() -> None:
    error = rebuilt(KeywordOnly(code=4))
    assert type(error) is KeywordOnly
    assert error.code == 4


def test_an_exception_that_holds_a_lock_has_no_pickle() -> None:
    failure = failed(HoldsLock())
    assert failure.pickle == b""
    assert failure.type_name == f"{__name__}.HoldsLock"
    assert failure.text == "it holds a lock"


def test_notes_travel() -> None:
    error = KeyError("k")
    error.add_note("look here")
    assert rebuilt(error).__notes__ == ["look here"]
    assert "look here" in failed(error).traceback


def test_a_group_of_exceptions() -> None:
    group = rebuilt(ExceptionGroup("two", [ValueError("a"), OSError(2, "b")]))
    assert [type(one) for one in group.exceptions] == [ValueError, FileNotFoundError]


def test_an_os_error_keeps_its_fields() -> None:
    error = rebuilt(FileNotFoundError(2, "gone", "/a"))
    assert (error.errno, error.filename) == (2, "/a")


def test_an_exception_of_a_local_class() -> None:
    class Local(Exception):
        pass

    error = pickle.loads(failed(Local("x")).pickle)
    assert type(error).__name__ == "Local"


def test_an_exception_with_a_large_buffer_keeps_its_type() -> None:
    error = ValueError("large")
    error.block = Block(bytearray(b"y" * LARGE))  # type: ignore[attr-defined]  # as users do
    assert bytes(rebuilt(error).block.data) == b"y" * LARGE


def test_an_exception_whose_text_fails() -> None:
    failure = failed(BadText())
    assert failure.text == "<str() of it raised RuntimeError>"
    assert "BadText" in failure.traceback


def test_lone_surrogates_travel_escaped() -> None:
    failure = failed(ValueError("bad \udcff name"))
    assert failure.text == "bad \\udcff name"
    assert str(pickle.loads(failure.pickle)) == "bad \udcff name"


def test_unpicklable_results_are_said_as_such() -> None:
    failure = failed(TypeError("no"), unpicklable="the result")
    assert (failure.pickle, failure.unpicklable) == (b"", "the result")


def test_causes_are_in_the_text() -> None:
    try:
        raise KeyError("inner")
    except KeyError as inner:
        error = ValueError("outer")
        error.__cause__ = inner
        assert "KeyError: 'inner'" in failed(error).traceback


# What goes back.


def test_a_class_that_came_by_value_goes_back_as_a_reference() -> None:
    class Ours:
        value = 1

    known = cloudpickle.loads(cloudpickle.dumps(Ours))  # as when it was shipped: it has an id now
    assert known is Ours
    dumped = dump_back(Ours())
    Ours.value = 2
    back = load(dumped.data)
    assert type(back) is Ours
    assert Ours.value == 2, "loading an instance set the class's attributes anew"


def test_a_class_made_in_the_worker_goes_back_by_value(tmp_path: Any) -> None:
    source = """
import sys
from hmz_mp_worker.payload import dump_back

def make():
    class Made:
        def twice(self):
            return self.value * 2
    made = Made()
    made.value = 21
    return made

for _ in range(2):  # the second time it is known to cloudpickle, and still has to go by value
    sys.stdout.write(dump_back(make.__globals__.setdefault("one", make())).data.hex() + "\\n")
"""
    ran = run_script(tmp_path, source)
    assert ran.stderr == ""
    for line in ran.stdout.split():
        assert load(bytes.fromhex(line)).twice() == 42


def test_functions_of_the_worker_go_back_by_value() -> None:
    assert load(dump_back(lambda: 5).data)() == 5


def test_dump_back_keeps_buffers_out_of_band() -> None:
    assert len(dump_back((Block(bytearray(LARGE)), lambda: 0)).buffers) == 1


def test_importing_it_does_not_import_cloudpickle(tmp_path: Any) -> None:
    source = "import sys, hmz_mp_worker.payload; print('cloudpickle' in sys.modules)"
    assert run_python(["-c", source], cwd=tmp_path).stdout == "False\n"


def test_cloudpickle_still_has_what_dump_back_uses() -> None:
    assert hasattr(cloudpickle_module, "_DYNAMIC_CLASS_TRACKER_BY_CLASS")
    assert hasattr(cloudpickle_module, "_DYNAMIC_CLASS_TRACKER_BY_ID")


def test_classes_that_msgspec_has_looked_at() -> None:
    @dataclasses.dataclass
    class Data:
        n: int

    class Typed(TypedDict):
        n: int

    class Named(NamedTuple):
        n: int

    for kind, text in ((Data, b'{"n": 1}'), (Typed, b'{"n": 1}'), (Named, b"[1]")):
        before = msgspec.json.decode(text, type=kind)
        loaded = load(dump(kind).data)
        assert loaded is kind
        assert msgspec.json.decode(text, type=kind) == before
    script = "import pickle, sys; print(vars(pickle.load(sys.stdin.buffer)).keys())"
    data = dump(Data).data
    done = subprocess.run(
        [sys.executable, "-c", script], input=data, capture_output=True, check=True
    )
    assert b"__msgspec_cache__" not in done.stdout


def test_a_dataclass_by_value_has_the_defaults_that_it_had(tmp_path: Path) -> None:
    """What stands for no default is compared by identity."""
    source = (
        "import asyncio, dataclasses\n"
        "from hmz_mp import Pool\n"
        "@dataclasses.dataclass\n"
        "class Data:\n"
        "    one: int\n"
        "    two: int = 2\n"
        "def look(kind):\n"
        "    return [one.default is dataclasses.MISSING for one in dataclasses.fields(kind)]\n"
        "async def main():\n"
        "    async with Pool(1) as pool:\n"
        "        print(await pool.run(look, Data))\n"
        "asyncio.run(main())\n"
    )
    assert run_script(tmp_path, source).stdout == "[True, False]\n"
