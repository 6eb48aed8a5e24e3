"""``python -m hmz_mp_bench.bare_map WORKERS LINES``: map a tool over the files of a directory.

The process that ``hmz-mp exec`` over the same files is compared with: the same start, listing and
calls, and nothing written down.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import repeat

from hmz_mp import Pool
from hmz_mp_bench.calls import count_lines


async def main(workers: int) -> int:
    """Return how many lines the files have in all."""
    paths = sorted(entry.path for entry in os.scandir(".") if entry.name.endswith(".txt"))
    total = 0
    async with Pool(workers) as pool:
        async for lines in pool.map(count_lines, repeat("count the lines"), paths):
            total += int(lines)
    return total


if __name__ == "__main__":
    found = asyncio.run(main(int(sys.argv[1])))
    if found != int(sys.argv[2]):
        sys.exit(f"there are {found} lines, not {sys.argv[2]}")
