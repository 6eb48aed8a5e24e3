"""A run on a full screen, or change by change, while it goes on and after.

``snapshot``, ``conversations`` and ``changes`` read the ledger, which has what happened a tenth of
a second ago, so it does not matter whose process carries the run out; ``screen`` draws what the
first two give, with textual, which is an extra. May import ``hmz_mp.runs`` and what is below it.
"""
