"""What clients are shown of servers' tools: other names, other words, fixed arguments, and sets of them by name."""
