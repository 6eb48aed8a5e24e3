"""Claude Code over many one-turn prompts, on a scripted service: ``xargs -P4 claude -p`` and ours.

``python -m bench.agents [PROMPTS] [ROUNDS]``, after ``make agents``. The contenders take turns, a
run each in a fresh HOME; the service is a process of its own, of which nothing is counted. Every
answer is verified. CPU time is what the kernel says of each contender and all that it waited for.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".agents" / "node_modules"
PROGRAM = "@anthropic-ai/claude-code-*/claude"
SERVER = """
import sys
from tests.model_servers.anthropic import Anthropic
from tests.model_servers.serving import serving
script = {"rules": [{"match": "^prompt (?P<n>[0-9]+)", "steps": [{"text": "answer {n}"}]}],
          "default": {"steps": [{"text": "?"}]}}
with serving(Anthropic, script) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER")


@contextmanager
def service() -> Iterator[str]:
    """Run the scripted service and say where it is."""
    words = [sys.executable, "-c", SERVER]
    with subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        yield server.stdout.readline().strip()
        server.stdin.close()


def measure(words: list[str], prompts: list[str], url: str) -> tuple[float, float, list[str]]:
    """Return the seconds, the CPU seconds, and the lines of output of a command."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            **dict.fromkeys((*QUIET, "DISABLE_ERROR_REPORTING"), "1"),
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "HOME": folder,
        }
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            words,
            input="".join(f"{prompt}\n" for prompt in prompts),
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
            check=True,
        )
        seconds, after = (
            time.perf_counter() - began,
            resource.getrusage(resource.RUSAGE_CHILDREN),
        )
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, done.stdout.splitlines()


def contenders(program: str) -> dict[str, list[str]]:
    """Return the commands that are compared. Both read prompts from standard input."""
    one = [program, "-p", "{}", "--model", "claude-opus-4-8", "--permission-mode", "acceptEdits"]
    ours = [sys.executable, "-m", "hmz_mp", "exec", "--items", "-", "--print", "--quiet"]
    ours += ["-a", f"cli=claude,model=claude-opus-4-8,program={program}"]
    return {
        "xargs -P4 claude -p": ["xargs", "-P4", "-I{}", *one],
        "hmz-mp exec --at-once 2": [*ours, "--at-once", "2"],
        "hmz-mp exec": ours,
    }


def main() -> None:
    """Measure, and write a table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 96
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    found = sorted(INSTALLED.glob(PROGRAM))
    if not found:
        sys.exit("Claude Code is not installed in .agents/: make agents does that")
    prompts = [f"prompt {number}" for number in range(count)]
    wanted = sorted(f"answer {number}" for number in range(count))
    times: dict[str, list[tuple[float, float]]] = {}
    with service() as url:
        for _ in range(rounds):
            for name, words in contenders(str(found[0])).items():
                seconds, cpu, lines = measure(words, prompts, url)
                answers = sorted(line for line in lines if line.strip())
                if answers != wanted:
                    sys.exit(f"{name} answered {answers[:3]}..., {len(answers)} in all")
                times.setdefault(name, []).append((seconds, cpu))
                print(json.dumps({"name": name, "seconds": seconds, "cpu": cpu}), file=sys.stderr)
    print(f"{count} prompts, {rounds} rounds, {platform.machine()}, {os.cpu_count()} CPUs\n")
    print("| | seconds | CPU seconds | faster | CPU |\n|---|---|---|---|---|")
    base = [statistics.median(one) for one in zip(*next(iter(times.values())), strict=True)]
    for name, each in times.items():
        seconds, cpu = (statistics.median(one) for one in zip(*each, strict=True))
        print(f"| `{name}` | {seconds:.1f} | {cpu:.1f} | {base[0] / seconds:.1f} × | "
              f"1/{base[1] / cpu:.1f} |")  # fmt: skip


if __name__ == "__main__":
    main()
