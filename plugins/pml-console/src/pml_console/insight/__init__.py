"""What the history says in sums: tokens, times, errors, and tools that are used together."""
