"""Engines carry what the policy decides to worker processes."""
