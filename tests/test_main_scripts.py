"""Real scripts, run as people run them: their ``__main__`` runs once, and needs no guard."""

from __future__ import annotations

from pathlib import Path

from tests.helpers import Ran, run_python, run_script

RUN = """
import anyio
anyio.run(main)
"""


def ok(ran: Ran) -> list[str]:
    """Return the lines a script printed; it has to have ended well, in silence."""
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    return ran.stdout.splitlines()


def test_no_guard_and_side_effects_at_import(tmp_path: Path) -> None:
    source = """
import sys
from pathlib import Path
import anyio
from hmz_mp import Pool

with open("imported", "a") as file:
    file.write("once\\n")
BASE = int(sys.argv[1])

def scaled(value):
    return value * BASE

async def main():
    async with Pool(2) as pool:
        print([answer async for answer in pool.map(scaled, range(5))])
        print(await pool.run(lambda: __name__))

anyio.run(main)
"""
    assert ok(run_script(tmp_path, source, "7")) == ["[0, 7, 14, 21, 28]", "__main__"]
    assert (tmp_path / "imported").read_text() == "once\n"


def test_the_callers_main_is_not_in_the_worker(tmp_path: Path) -> None:
    source = """
from hmz_mp import Pool
SECRET = 1

async def main():
    async with Pool(1) as pool:
        print(await pool.run(eval, "hasattr(__import__('__main__'), 'SECRET')"))
"""
    assert ok(run_script(tmp_path, source + RUN)) == ["False"]


def test_lambdas_closures_partials_and_decorated_functions(tmp_path: Path) -> None:
    source = """
import functools
from hmz_mp import Pool

def adder(n):
    def add(x):
        return x + n
    return add

def twice(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) * 2
    return wrapper

@twice
def inc(x):
    "Add one."
    return x + 1

def fact(n):
    return 1 if n < 2 else n * fact(n - 1)

async def later(x):
    import asyncio
    await asyncio.sleep(0)
    return inc(x)

async def main():
    async with Pool(2) as pool:
        print(await pool.run(lambda x: x + 1, 1), await pool.run(adder(5), 1))
        print(await pool.run(functools.partial(adder(5), 2)), await pool.run(inc, 3))
        print(await pool.run(fact, 10), await pool.run(later, 4))
"""
    assert ok(run_script(tmp_path, source + RUN)) == ["2 6", "7 8", "3628800 10"]


def test_globals_that_change_are_seen(tmp_path: Path) -> None:
    source = """
from hmz_mp import Pool
RATE = 1

def rated(x):
    return x * RATE

async def main():
    global RATE
    async with Pool(1) as pool:
        print(await pool.run(rated, 5))
        RATE = 3
        print(await pool.run(rated, 5))
"""
    assert ok(run_script(tmp_path, source + RUN)) == ["5", "15"]


def test_classes_as_arguments_and_results(tmp_path: Path) -> None:
    source = """
import dataclasses, enum
from hmz_mp import Pool

class Color(enum.Enum):
    RED = 1

@dataclasses.dataclass
class Box:
    size: int
    color: Color = Color.RED

    def grown(self):
        return Box(self.size + 1, self.color)

    @classmethod
    def make(cls, size):
        return cls(size)

def grow(box):
    assert isinstance(box, Box)
    return box.grown()

async def main():
    before = dict(vars(Box))
    async with Pool(2) as pool:
        for at in range(3):
            box = await pool.run(grow, Box(at))
            assert isinstance(box, Box) and type(box) is Box
            assert box == Box(at + 1) and box.color is Color.RED
        assert type(await pool.run(Box, 9)) is Box
        assert type(await pool.run(Box.make, 9)) is Box
        assert await pool.run(Box(4).grown) == Box(5)
        boxes = [one async for one in pool.map(grow, map(Box, range(50)))]
        assert boxes == [Box(at + 1) for at in range(50)]
        assert (await pool.run(lambda: Box)) is Box
        assert (await pool.run(lambda: {"k": [Box(1), Color.RED]})) == {"k": [Box(1), Color.RED]}
    before["__slotnames__"] = vars(Box).get("__slotnames__")  # pickle's own, in any process
    changed = [name for name, value in vars(Box).items() if before.get(name) is not value]
    print("changed:", changed)
"""
    assert ok(run_script(tmp_path, source + RUN)) == ["changed: []"]


def test_a_class_patched_by_the_caller_stays_patched(tmp_path: Path) -> None:
    source = """
from hmz_mp import Pool

class Counter:
    total = 0

    def __init__(self, n):
        self.n = n

def make(n):
    return Counter(n)

async def main():
    async with Pool(1) as pool:
        turns = [pool.submit(make, n) for n in range(10)]
        Counter.total = 5
        for turn in turns:
            await turn
        assert Counter.total == 5
        await pool.run(make, 11)
        print(Counter.total)
"""
    assert ok(run_script(tmp_path, source + RUN)) == ["5"]


def test_exceptions_are_caught_by_except(tmp_path: Path) -> None:
    source = """
from hmz_mp import Pool

class Broken(Exception):
    def __init__(self, part, *, code):
        super().__init__(f"{part} is broken")
        self.part, self.code = part, code

class Worse(Broken):
    pass

def check(part):
    raise Worse(part, code=4)

async def fetch(part):
    raise Broken(part, code=5)

async def main():
    async with Pool(1) as pool:
        for function in (check, fetch):
            try:
                await pool.run(function, "wheel")
            except Broken as error:
                print(type(error).__name__, error, error.part, error.code)
                print(function.__name__ in str(error.__cause__))
"""
    assert ok(run_script(tmp_path, source + RUN)) == [
        "Worse wheel is broken wheel 4",
        "True",
        "Broken wheel is broken wheel 5",
        "True",
    ]


def test_a_session_and_an_initializer_of_main(tmp_path: Path) -> None:
    source = """
import hmz_mp
from hmz_mp import Pool

READY = []

def set_up(word):
    print("in", word)

def count():
    state = hmz_mp.session_state()
    state["n"] = state.get("n", 0) + 1
    return state["n"]

async def main():
    async with Pool(2, initializer=set_up, initargs=("order",)) as pool:
        session = pool.session()
        print([await session.run(count) for _ in range(3)])
"""
    assert ok(run_script(tmp_path, source + RUN)) == ["[1, 2, 3]"]


def test_a_module_beside_the_script(tmp_path: Path) -> None:
    (tmp_path / "beside_the_script.py").write_text("def double(x):\n    return 2 * x\n")
    source = """
from hmz_mp import Pool
import beside_the_script

def quadruple(x):
    return beside_the_script.double(beside_the_script.double(x))

async def main():
    async with Pool(1) as pool:
        print(await pool.run(beside_the_script.double, 4), await pool.run(quadruple, 4))
"""
    (tmp_path / "elsewhere").mkdir()
    ran = run_script(tmp_path, source + RUN, cwd=tmp_path / "elsewhere")
    assert ok(ran) == ["8 16"]


SHORT = """
import sys, anyio
from hmz_mp import Pool
class Box:
    pass
def make(word):
    box = Box()
    box.word = word
    return box
async def main():
    async with Pool(1) as pool:
        box = await pool.run(make, "word")
        print(isinstance(box, Box), box.word, await pool.run(lambda: 7))
anyio.run(main)
"""


def test_a_command(tmp_path: Path) -> None:
    assert ok(run_python(["-c", SHORT], cwd=tmp_path)) == ["True word 7"]


def test_a_script_on_standard_input(tmp_path: Path) -> None:
    assert ok(run_python([], cwd=tmp_path, stdin=SHORT)) == ["True word 7"]
    assert ok(run_python(["-"], cwd=tmp_path, stdin=SHORT)) == ["True word 7"]


def test_a_script_named_like_a_module_and_one_with_a_strange_name(tmp_path: Path) -> None:
    assert ok(run_script(tmp_path, SHORT, name="script with spaces.py")) == ["True word 7"]
    assert ok(run_script(tmp_path, SHORT, name="workers.py")) == ["True word 7"]


def test_a_module_run_by_name(tmp_path: Path) -> None:
    package = tmp_path / "packaged"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SHORT)
    assert ok(run_python(["-m", "packaged"], cwd=tmp_path)) == ["True word 7"]


def test_under_trio(tmp_path: Path) -> None:
    source = SHORT.replace("anyio.run(main)", "import trio; trio.run(main)")
    assert ok(run_script(tmp_path, source)) == ["True word 7"]


def test_a_script_that_fails_says_its_own_reason(tmp_path: Path) -> None:
    source = """
from hmz_mp import Pool

def bad(x):
    return 1 / x

async def main():
    async with Pool(1) as pool:
        await pool.run(bad, 0)
"""
    ran = run_script(tmp_path, source + RUN)
    assert ran.returncode == 1
    assert "in bad" in ran.stderr
    assert "return 1 / x" in ran.stderr
    assert ran.stderr.rstrip().endswith("ZeroDivisionError: division by zero")
