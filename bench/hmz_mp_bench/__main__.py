"""``python -m hmz_mp_bench``: the same as ``hmz-mp bench``."""

from __future__ import annotations

import sys

from hmz_mp.cli.main import run_command_line

if __name__ == "__main__":
    sys.exit(run_command_line(["bench", *sys.argv[1:]]))
