"""The pre-flight of a whole plan: what is wrong with it, and what it would do, without touching a server."""
