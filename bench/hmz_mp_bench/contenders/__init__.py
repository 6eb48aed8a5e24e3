"""The contenders: for each executor, how a user would have it run calls. One module per family.

A module is imported in the one process that measures it, so a contender costs the others nothing.
"""
