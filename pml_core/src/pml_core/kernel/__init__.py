"""How a task runs: resolved, wrapped, executed, recorded, traced."""
