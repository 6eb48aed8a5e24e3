"""The coordinator's policy with thousands of simulated workers: see `bench.scale.__main__`."""
