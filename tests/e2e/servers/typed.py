"""An MCP server made with the official SDK: types, structured results, an output schema."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

server = MCPServer("typed")


class Sum(BaseModel):
    """What ``add`` answers."""

    total: int
    parts: list[int]


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two whole numbers."""
    return Sum(total=a + b, parts=[a, b])


if __name__ == "__main__":
    server.run()
