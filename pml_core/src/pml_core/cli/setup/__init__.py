"""Commands that write configurations: the gateway's own, and those of clients."""
