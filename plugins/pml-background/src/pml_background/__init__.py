"""Executions that nobody waits for, and what is kept to go on with them."""
