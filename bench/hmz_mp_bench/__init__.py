"""The benchmark: this project's pools and their peers over the same workloads, side by side.

``python -m hmz_mp_bench`` and ``hmz-mp bench`` run it. Each contender runs in a fresh process;
what it answers is verified there. It uses the public names of ``hmz_mp`` only, and nothing of
``hmz_mp`` but its command line imports it.
"""
