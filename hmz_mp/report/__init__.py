"""Runs as files for others: every turn as a row, a trace for Perfetto, a page for people.

Each module reads a `RecordedRun` and yields text; none knows of commands, terminals or where the
text goes. May import ``hmz_mp.runs`` and what is below it.
"""
