"""The benchmark: contenders in fresh processes, over the same workloads, answers verified."""
