"""Dispatch: the tool calls of one model turn, run together under caps and answered in order.

``await Dispatcher(tools).run(reply.tool_calls)`` returns the results in the shape that the
service wants back; ``Dispatcher(tools).schemas("openai")`` is what it is told of the tools.
"""

from __future__ import annotations

from hmz_mp.dispatch.busy import busy_of
from hmz_mp.dispatch.describing import schemas
from hmz_mp.dispatch.dispatcher import Dispatcher
from hmz_mp.tools.batching import Answered, batch_tool
from hmz_mp.tools.signature import BadArguments

__all__ = ["Answered", "BadArguments", "Dispatcher", "batch_tool", "busy_of", "schemas"]
