"""Files that go with turns to where the checkout cannot be seen, and the patches that come back.

`exec --ship` has each turn run in a copy: a directory with the turn's own file and those that go
with every turn, as they were when the run began. Owns which files those are. Below agents; it
knows nothing of flows, ledgers or terminals.
"""

from __future__ import annotations
