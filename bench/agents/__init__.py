"""What agents that are programs cost, driven from here and started one by one."""
