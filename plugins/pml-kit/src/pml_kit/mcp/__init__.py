"""What is about MCP: its words, and the tools that servers have."""
