"""Faults shown to executors, ours and others: what each of them does."""
