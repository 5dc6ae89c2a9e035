"""The lock: what people took of servers' tools, in a file beside the configuration, and what is otherwise since.

Nothing here is imported by a gateway that has no such file.
"""
