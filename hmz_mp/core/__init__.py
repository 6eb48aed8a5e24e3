"""The executor: policy, limits, sessions, turns and the pool. See ``docs/architecture.md``."""
