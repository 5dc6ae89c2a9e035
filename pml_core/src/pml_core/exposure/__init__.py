"""Which tools each client is shown: the modes, and their lists."""
