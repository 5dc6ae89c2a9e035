"""``pml lock``: what servers say of their tools, in a file to commit."""
