"""``python -m bench.faults [PEER ...]``: show every fault to every executor, and print a table.

Each fault runs in a fresh process, which is killed with all that it started when it does not end.
Peers that are not installed are left out. Other processes are waited for by looking again and
again, within a bound: executors of all kinds have nothing else in common that tells.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from bench.faults import calls as c
from bench.faults.peers import MODULES, NO_ANSWER, PEERS, Calls

SECONDS = 6.0
GOOD: Calls = [(c.good, (number,)) for number in range(20)]

# Each fault: the calls, of which the first is the guilty one.
FAULTS: dict[str, Calls] = {
    "a call is killed": [(c.kill_itself, ()), *GOOD],
    "a call segfaults": [(c.segfault, ()), *GOOD],
    "a call exits with 3": [(c.exit_status, ()), *GOOD],
    "a call raises SystemExit": [(c.raise_system_exit, ()), *GOOD],
    "an exception with two arguments": [(c.raise_two_arguments, ()), *GOOD],
    "loading the result raises": [(c.answer_raising, ()), *GOOD],
    "loading the result exits": [(c.answer_exiting, ()), *GOOD],
    "loading the argument raises": [(c.take, (c.RaisesWhenLoaded(),)), *GOOD],
    "loading the argument exits": [(c.take, (c.ExitsWhenLoaded(),)), *GOOD],
    "a result that cannot be pickled": [(c.answer_lock, ()), *GOOD],
    "a call closes 0 to 2": [(c.close_standard, ()), *GOOD],
    "a call forks and both return": [(c.fork_and_return, ()), *GOOD],
    "a call leaves a thread for 8 s": [(c.leave_thread, ()), *GOOD],
    "a call changes the directory": [(c.change_directory, ()), *[(c.where, ())] * 20],
}
KILLED = "the parent is killed"


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        _one(sys.argv[2], sys.argv[3], sys.argv[4])
        return
    wanted = _wanted(sys.argv[1:])
    table = {peer: {fault: _show(peer, fault) for fault in [*FAULTS, KILLED]} for peer in wanted}
    for fault in [*FAULTS, KILLED]:
        print(f"\n{fault}")
        for peer in wanted:
            print(f"  {peer:22} {table[peer][fault]}")
    print()
    for peer in wanted:
        print(f"{peer} {_version(peer)}")


def _wanted(named: list[str]) -> list[str]:
    """Return the peers to show faults to: those named, or all that are installed."""
    unknown = [peer for peer in named if peer not in PEERS]
    if unknown:
        raise SystemExit(f"there is no {', '.join(unknown)}; there are {', '.join(PEERS)}")
    missing = [peer for peer in PEERS if find_spec(MODULES.get(peer, "asyncio")) is None]
    needed = [peer for peer in named if peer in missing]
    if needed:
        raise SystemExit(f"not installed: {', '.join(needed)}")
    return named or [peer for peer in PEERS if peer not in missing]


def _version(peer: str) -> str:
    names = {"hmz_mp": "hmz-mp", "deadpool": "deadpool-executor"}
    try:
        return importlib.metadata.version(names.get(peer, peer))
    except importlib.metadata.PackageNotFoundError:
        return f"of Python {sys.version.split()[0]}"


def _show(peer: str, fault: str) -> str:
    """Return what one executor did with one fault, in words."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "endings.json"
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.faults", "--one", peer, fault, str(output)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "BENCH_FAULTS": folder},
        )
        if fault == KILLED:
            return _kill(process, Path(folder) / "pids")
        began = time.monotonic()
        try:
            status = process.wait(SECONDS + 6)
        except subprocess.TimeoutExpired:
            status = None
        seconds = time.monotonic() - began
        _end(process)
        if not output.exists():
            return "hangs" if status is None else f"the caller's process ends with {status}"
        endings = json.loads(output.read_text())
        words = _words(fault, endings)
        if status is None or seconds > SECONDS + 4:
            words += "; the interpreter does not exit"
        return words


def _words(fault: str, endings: list[str]) -> str:
    guilty, *others = endings
    wanted = [str(number) for number in range(20)]
    if fault == "a call changes the directory":
        moved = sum(one == repr("/") for one in others)
        return f"{moved} of 20 later calls are in the other directory"
    right = sum(one == want for one, want in zip(others, wanted, strict=True))
    words = f"the call: {guilty}; {right} of 20 others are answered"
    wrong = Counter(
        one for one, want in zip(others, wanted, strict=True) if one != want
    ).most_common(2)
    return words + "".join(f", {count}: {one}" for one, count in wrong)


def _kill(process: subprocess.Popen[bytes], pids: Path) -> str:
    """Kill the caller with two busy workers; return how many of them live on."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if pids.exists() and len(pids.read_text().split()) >= 2:
            break
        time.sleep(0.01)
    else:
        _end(process)
        return "did not start"
    workers = [int(word) for word in pids.read_text().split()]
    process.kill()
    process.wait()
    end = time.monotonic() + 2
    while (left := [pid for pid in workers if _lives(pid)]) and time.monotonic() < end:
        time.sleep(0.01)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return f"after two seconds {len(left)} of {len(workers)} workers live on"


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _one(peer: str, fault: str, output: str) -> None:
    if fault == KILLED:
        path = str(Path(os.environ["BENCH_FAULTS"]) / "pids")
        PEERS[peer]([(c.hang, (path,)), (c.hang, (path,))], 30)
        return
    endings = PEERS[peer](FAULTS[fault], SECONDS)
    assert len(endings) == len(FAULTS[fault])
    Path(output).write_text(json.dumps(endings))
    if all(one == NO_ANSWER for one in endings):
        os._exit(1)


if __name__ == "__main__":
    main()
