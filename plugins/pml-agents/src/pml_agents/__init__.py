"""Agents that PML runs: command lines, HTTP endpoints, MCP tools."""
