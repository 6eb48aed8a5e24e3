"""Runs with real agents that are ended while a tool of theirs runs: nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.helpers import is_alive, wait_until
from tests.model_servers.anthropic import Anthropic
from tests.model_servers.openai import OpenAI
from tests.model_servers.serving import serving
from tests.real_agents.programs import real_program

pytestmark = pytest.mark.agents

COMMAND = "tail -f /dev/null -s 979"
CLAUDE = {"tool": "Bash", "input": {"command": COMMAND, "description": "wait"}}
CODEX = {"tool": "exec_command", "input": {"cmd": COMMAND, "yield_time_ms": 30000}}
CONFIG = """
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
[analytics]
enabled = false
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def waiting() -> list[int]:
    """Return the tools that run."""
    return [
        one.pid
        for one in psutil.process_iter(["cmdline"])
        if one.info["cmdline"] == COMMAND.split() and is_alive(one.pid)
    ]


@pytest.mark.parametrize("kind", ["claude", "codex"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ending_a_run(folder: Path, kind: str, how: signal.Signals) -> None:
    program = real_program(kind)
    step = CLAUDE if kind == "claude" else CODEX
    script = {"rules": [{"match": "^wait", "steps": [step, {"text": "waited"}]}]}
    with serving(Anthropic if kind == "claude" else OpenAI, script) as server:
        (folder / ".codex").mkdir()
        (folder / ".codex" / "config.toml").write_text(CONFIG.format(url=server.url))
        environment = {
            **os.environ,
            "HOME": str(folder),
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "none",
            "SCRIPTED_KEY": "none",
        }
        agent = f"cli={kind},model=gpt-5,permission=bypass,env=IS_SANDBOX=1,program={program}"
        process = subprocess.Popen(
            [sys.executable, "-m", "hmz_mp", "exec", "-a", agent, "--items", "-", "--quiet"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None
        try:
            with process.stdin as stdin:
                stdin.write(b"wait for it\n")
            wait_until(waiting, 40)  # a program of 400 MB may have to be read first
            process.send_signal(how)
            process.wait(timeout=15)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL)
        wait_until(lambda: not waiting())
        wait_until(lambda: not _programs(program))


def _programs(program: Path) -> list[int]:
    """Return the agents that run."""
    return [
        one.pid
        for one in psutil.process_iter(["cmdline"])
        if (one.info["cmdline"] or [""])[0] == str(program) and is_alive(one.pid)
    ]
