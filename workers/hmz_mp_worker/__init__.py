"""What runs inside worker processes.

At import time it needs the standard library and msgspec, nothing else, and it knows nothing of
``hmz_mp``, which imports it for the wire types. The folder is called ``workers``; the import name
is ``hmz_mp_worker``, so that a user's own ``workers`` package never collides with it.
"""
