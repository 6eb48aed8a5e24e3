"""What this machine has that runs need: CPUs, memory, what the kernel does, agent programs.

Looks and tells; prints nothing and goes to no network. Imported by ``hmz-mp doctor``.
"""
