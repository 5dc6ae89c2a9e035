"""The PML gateway: one MCP server in front of all of the user's MCP servers, built of plugins."""
