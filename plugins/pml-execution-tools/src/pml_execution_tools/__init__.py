"""The history for agents, programs and people: tools, routes, a client, and ``pml executions``."""
