"""Turns in copies of their files, where the checkout cannot be seen. Standard library and msgspec.

The coordinator imports it for what it ships; git is run only for a turn that changed something.
"""
