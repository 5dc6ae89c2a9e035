"""``pml demo``: the gateway on real MCP servers, shown in one screen."""
