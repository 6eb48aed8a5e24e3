"""Flows: functions that drive agents and tools, found by name and run by ``hmz-mp exec``.

``from hmz_mp.flows import flow, Agent, calls`` is what a flow's file needs. Finding is in
``finding``, loading in ``loading``, the rules of a flow's signature in ``checking``.
"""

from __future__ import annotations

from hmz_mp.agents import Agent, AgentBase
from hmz_mp.flows.calling import calls
from hmz_mp.flows.definition import Flow
from hmz_mp.flows.loading import load_flow
from hmz_mp.flows.marking import flow

__all__ = ["Agent", "AgentBase", "Flow", "calls", "flow", "load_flow"]
