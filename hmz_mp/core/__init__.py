"""The executor itself: policy, limits, sessions, turns and the pool. See ``docs/architecture.md``."""
