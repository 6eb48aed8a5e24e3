"""The command ``hmz-mp``, also as ``python -m hmz_mp``. Owns what comes before the command line.

That is: refusing a system that cannot fork, and an output encoding that cannot say everything.
"""

from __future__ import annotations

import io
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line on ``sys.argv``; returns the exit status."""
    platform: str = sys.platform
    if platform == "win32":
        print("hmz-mp: error: Windows is not supported; run it under WSL", file=sys.stderr)  # noqa: T201
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # A name in another script must not end a listing on an ASCII terminal.
        sys.stdout.reconfigure(errors="backslashreplace")
    from hmz_mp.cli.main import run_command_line

    return run_command_line(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
