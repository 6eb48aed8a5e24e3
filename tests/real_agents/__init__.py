"""Real agent programs, from their npm packages, against scripted model services on loopback.

``make agents`` installs the programs into ``.agents/`` and runs these; without them they are
skipped.
"""
