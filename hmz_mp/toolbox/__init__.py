"""Ready-made tools for ``tool/`` agents; they run in workers, so they import little.

Use one as ``-a tool/hmz_mp.toolbox.python:outline``.
"""
