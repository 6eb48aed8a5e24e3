"""Who may import whom, held as a table, and what processes really import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hmz_mp import Pool
from tests.helpers import run_python

ROOT = Path(__file__).parent.parent
WORKER = "hmz_mp_worker"
FLOOR = {"hmz_mp.errors", "hmz_mp.core.ambient"}
ENGINE_ROOM = FLOOR | {"hmz_mp.core", "hmz_mp.engines", WORKER}
TOOLS = {"hmz_mp.portal", "hmz_mp.tools", "hmz_mp.toolbox", "hmz_mp.futures"}
LEAVES = {"hmz_mp.items", "hmz_mp.shipping", "hmz_mp.terminal", "hmz_mp.worktrees"}
DRIVEN = {"hmz_mp.agents", "hmz_mp.fanin", "hmz_mp.dispatch"}
ANYTHING = {"hmz_mp"}

# For each part of the house (the longest name that fits a module is its part), what of the house
# its modules may import beside their own part. What is under TYPE_CHECKING does not count.
MAY_IMPORT = {
    "hmz_mp": {"hmz_mp.core.pool", "hmz_mp.core.ambient", "hmz_mp.tools", WORKER},
    "hmz_mp.__main__": {"hmz_mp.cli"},
    "hmz_mp.errors": set[str](),
    "hmz_mp.core.ambient": set[str](),
    "hmz_mp.core": {*FLOOR, WORKER},
    "hmz_mp.core.policy": {"hmz_mp.errors", "hmz_mp.core"},
    # These two put a pool together, so they name the engine.
    "hmz_mp.core.pool": ENGINE_ROOM,
    "hmz_mp.core.coordinator": ENGINE_ROOM,
    "hmz_mp.engines": {*FLOOR, "hmz_mp.core", WORKER},
    "hmz_mp.terminal": FLOOR,
    "hmz_mp.items": {*FLOOR, "hmz_mp.terminal"},
    "hmz_mp.worktrees": {*FLOOR, WORKER},
    "hmz_mp.shipping": {*FLOOR, "hmz_mp.items", WORKER},
    "hmz_mp.portal": ENGINE_ROOM,
    "hmz_mp.tools": ENGINE_ROOM | TOOLS,
    "hmz_mp.toolbox": ENGINE_ROOM | TOOLS,
    "hmz_mp.futures": ENGINE_ROOM | TOOLS,
    "hmz_mp.joblib": {"hmz_mp.core.cpus", "hmz_mp.futures"},
    "hmz_mp.agents": ENGINE_ROOM | TOOLS | LEAVES,
    "hmz_mp.fanin": ENGINE_ROOM | TOOLS | LEAVES | DRIVEN,
    "hmz_mp.dispatch": ENGINE_ROOM | TOOLS | LEAVES | DRIVEN,
    "hmz_mp.flows": ENGINE_ROOM | TOOLS | LEAVES | DRIVEN,
    "hmz_mp.runs": ENGINE_ROOM | TOOLS | LEAVES | DRIVEN | {"hmz_mp.flows"},
    "hmz_mp.report": LEAVES | {"hmz_mp.errors", "hmz_mp.core.ambient", "hmz_mp.runs"},
    "hmz_mp.watching": LEAVES | {"hmz_mp.errors", "hmz_mp.core.ambient", "hmz_mp.runs"},
    "hmz_mp.doctor": ENGINE_ROOM | TOOLS | {"hmz_mp.worktrees"},
    "hmz_mp.cli": ANYTHING,
    WORKER: set[str](),
    f"{WORKER}.wire": set[str](),
    f"{WORKER}.memory": set[str](),
    f"{WORKER}.framing": {f"{WORKER}.wire", f"{WORKER}.memory"},
    f"{WORKER}.structs": set[str](),
    f"{WORKER}.payload": {
        f"{WORKER}.wire",
        f"{WORKER}.framing",
        f"{WORKER}.memory",
        f"{WORKER}.structs",
    },
    f"{WORKER}.kernel": set[str](),
    f"{WORKER}.page": set[str](),
    f"{WORKER}.stdio": {f"{WORKER}.wire", f"{WORKER}.framing", f"{WORKER}.kernel"},
    f"{WORKER}.zygote": {WORKER},
}

# Packages of others that only some parts may name.
ONLY_IN = {
    "click": {"hmz_mp.cli"},
    "rich": {"hmz_mp.cli", "hmz_mp.terminal", "hmz_mp.runs", "hmz_mp.fanin", "hmz_mp.watching"},
    "yaml": {"hmz_mp.flows", "hmz_mp.cli"},
    "psutil": {"hmz_mp.core", "hmz_mp.runs", "hmz_mp.cli"},
    "pathspec": {"hmz_mp.items"},
    "jinja2": {"hmz_mp.report"},
    "textual": {"hmz_mp.watching"},
    "distributed": {"hmz_mp.engines.dask"},
}
WORKER_AT_IMPORT = {"msgspec"}
PURE = tuple(
    f"hmz_mp.core.{one}"
    for one in (
        *("policy", "dispatcher", "endings", "stopping", "roster", "timers", "gates", "lanes"),
        *("breaker", "backoff", "width"),
    )
)
RECORDS = tuple(f"hmz_mp.core.{one}" for one in ("jobs", "dispatch_queue", "commands"))
NOT_IN_PURE = {"anyio", "asyncio", "trio", "time", "datetime", "socket", "threading", "subprocess"}


class Import(NamedTuple):
    importer: str
    imported: str
    at_import_time: bool

    def __str__(self) -> str:
        return f"{self.importer} imports {self.imported}"


def _modules() -> dict[str, ast.Module]:
    files = [(ROOT, path) for path in (ROOT / "hmz_mp").rglob("*.py")]
    files += [(ROOT / "workers", path) for path in (ROOT / "workers").rglob("*.py")]
    found = {}
    for base, path in files:
        parts = path.relative_to(base).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_bytes(), str(path))
    return found


MODULES = _modules()


def _statements(node: ast.AST, at_import: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """Yield every node but those under TYPE_CHECKING, and whether importing runs it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield child, at_import
        yield from _statements(child, at_import and not inside)


def _imports() -> Iterator[Import]:
    for importer, tree in MODULES.items():
        for node, at_import in _statements(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(importer, alias.name, at_import)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{importer} imports relatively"
                assert node.module is not None
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield Import(importer, inner if inner in MODULES else node.module, at_import)


IMPORTS = list(_imports())


def _is_below(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _part(module: str) -> str:
    return max((part for part in MAY_IMPORT if _is_below(module, part)), key=len)


def _is_ours(name: str) -> bool:
    return _is_below(name, "hmz_mp") or _is_below(name, WORKER)


def test_every_module_has_a_row_of_its_own_part() -> None:
    lost = [name for name in MODULES if _part(name) == "hmz_mp" and name != "hmz_mp"]
    assert lost == []


def test_every_row_is_about_something() -> None:
    coming = {"hmz_mp.futures", "hmz_mp.fanin", "hmz_mp.dispatch", "hmz_mp.portal"}
    coming |= {"hmz_mp.tools", "hmz_mp.agents", "hmz_mp.flows", "hmz_mp.cli", "hmz_mp.__main__"}
    assert [part for part in MAY_IMPORT if part not in MODULES and part not in coming] == []


def test_parts_import_only_what_the_table_says() -> None:
    wrong = [
        str(one)
        for one in IMPORTS
        if _is_ours(one.imported)
        and one.imported != "hmz_mp"  # the package's own names, which load on first use
        and not _is_below(one.imported, _part(one.importer))
        and not any(_is_below(one.imported, part) for part in MAY_IMPORT[_part(one.importer)])
    ]
    assert wrong == []


def test_the_worker_never_imports_the_coordinator() -> None:
    wrong = [str(one) for one in IMPORTS if one.importer.startswith(WORKER)]
    assert [line for line in wrong if "imports hmz_mp." in line or line.endswith("hmz_mp")] == []


def test_the_worker_needs_only_msgspec_at_import() -> None:
    wrong = [
        str(one)
        for one in IMPORTS
        if one.importer.startswith(WORKER)
        and one.at_import_time
        and not _is_ours(one.imported)
        and one.imported.partition(".")[0] not in sys.stdlib_module_names
        and one.imported.partition(".")[0] not in WORKER_AT_IMPORT
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ONLY_IN)
def test_packages_stay_in_their_parts(package: str) -> None:
    wrong = [
        str(one)
        for one in IMPORTS
        if _is_below(one.imported, package)
        and not any(_is_below(one.importer, part) for part in ONLY_IN[package])
    ]
    assert wrong == []


@pytest.mark.parametrize("module", PURE)
def test_the_policy_is_pure(module: str) -> None:
    imported = {one.imported.partition(".")[0] for one in IMPORTS if one.importer == module}
    assert imported & NOT_IN_PURE == set()
    ours = {one.imported for one in IMPORTS if one.importer == module and _is_ours(one.imported)}
    assert ours <= {"hmz_mp.errors", *PURE, *RECORDS}


def _calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_only_the_command_line_and_flows_print_and_exit() -> None:
    wrong = [
        f"{name} calls {call}"
        for name, tree in MODULES.items()
        if not name.startswith(("hmz_mp.cli", "hmz_mp.__main__", "hmz_mp.flows.builtin"))
        for call in _calls(tree)
        if call in {"print", "sys.exit", "sys.stdout.write", "sys.stderr.write", "exit", "input"}
    ]
    assert wrong == []


def test_importing_hmz_mp_is_light(tmp_path: Path) -> None:
    source = "import sys, hmz_mp; print(*sorted(sys.modules))"
    loaded = set(run_python(["-c", source], cwd=tmp_path).stdout.split())
    assert "hmz_mp" in loaded
    heavy = {"anyio", "asyncio", "click", "cloudpickle", "msgspec", "rich", "trio", "psutil"}
    assert loaded & heavy == set()
    assert not any(name.startswith("hmz_mp.") for name in loaded)


def test_a_pool_does_not_load_what_it_may_not_need(tmp_path: Path) -> None:
    source = "import sys; from hmz_mp import Pool; print(*sorted(sys.modules))"
    loaded = set(run_python(["-c", source], cwd=tmp_path).stdout.split())
    assert loaded & {"click", "rich", "trio", "psutil", "yaml", "sqlite3", "pathspec"} == set()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_fresh_worker_has_the_standard_library_and_msgspec() -> None:
    async with Pool(1) as pool:
        loaded = await pool.run(eval, "sorted(__import__('sys').modules)")
    started = _started_with()
    others = {
        name.partition(".")[0]
        for name in loaded
        if name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert others - started <= {"__main__", "__mp_main__", "msgspec", WORKER}
    assert WORKER in others
    slow = {"asyncio", "ssl", "typing_extensions", "cloudpickle", "subprocess"}
    assert slow.isdisjoint(set(loaded) - started)


def _started_with() -> set[str]:
    """Return what this machine's Python loads by itself, through .pth files and the like."""
    source = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    return set(run_python(["-c", source], cwd=ROOT).stdout.split())
