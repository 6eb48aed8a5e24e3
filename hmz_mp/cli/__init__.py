"""The command line: one module per command, loaded when it is asked for.

The only place that prints, exits or names click. Nothing imports it but ``hmz_mp.__main__``.
"""
