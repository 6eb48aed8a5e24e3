"""Git worktrees for turns, and the patches they end in.

`worktree` says that a turn or a session is to run in a worktree of its own, where a directory
could be given too. Owns the worktrees of a run from their making to their removal, and how
patches come into the checkout. Below agents; it knows nothing of flows, ledgers or terminals.
"""

from __future__ import annotations

from hmz_mp.worktrees.marking import Worktree, worktree

__all__ = ["Worktree", "worktree"]
