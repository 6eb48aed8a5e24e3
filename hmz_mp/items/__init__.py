"""What a run is about: the files of a directory, or the items of a list, in a fixed order.

Owns how items are found, filtered and told apart; `select` is the one way in. Imports only
``errors`` and ``core.ambient``; it knows nothing of flows, runs or terminals. File names are
bytes that may hold anything but NUL; they travel as ``os.fsdecode`` strings and never through a
shell.
"""

from hmz_mp.items.selection import Selection, select

__all__ = ["Selection", "select"]
