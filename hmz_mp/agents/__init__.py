"""Agents: what a flow drives. A prompt goes to an agent, an answer comes back, in a worker.

`agent_from_spec` makes an agent from its written form, ``BACKEND/MODEL`` or
``cli=BACKEND,model=MODEL,key=value``; a flow is given its agents. Everything awaited has a
blocking twin for plain functions: ``aturn`` and calling the agent, ``abatch`` and ``batch``,
``apursue`` and ``pursue``.
"""

from __future__ import annotations

from hmz_mp.agents.agent import Agent, agent_from_spec
from hmz_mp.agents.failures import Failed, Unrecoverable
from hmz_mp.agents.prompts import Goal, Prompt
from hmz_mp.agents.session import Session
from hmz_mp.agents.turns import TurnEvent
from hmz_mp.agents.usage import Spent
from hmz_mp.errors import Stopped

__all__ = [
    "Agent",
    "AgentBase",
    "Failed",
    "Goal",
    "Prompt",
    "Session",
    "Spent",
    "Stopped",
    "TurnEvent",
    "Unrecoverable",
    "agent_from_spec",
]

AgentBase = Agent
