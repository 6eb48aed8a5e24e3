"""Measurements that are run from a checkout: `bench.faults`. The benchmark is `hmz_mp_bench`."""
