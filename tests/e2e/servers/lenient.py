"""An MCP server made with FastMCP, which takes more than its schemas say: numbers as text, for one."""

from __future__ import annotations

from fastmcp import FastMCP
from fastmcp.tools import Tool

server = FastMCP("lenient")


@server.tool
def add(a: int, b: int = 1) -> dict[str, int]:
    """Add two whole numbers."""
    return {"total": a + b}


@server.tool
def tag(names: list[str], deep: bool = False, times: float = 1.0) -> str:  # noqa: FBT001, FBT002 - of JSON
    """Say what came."""
    return f"{names} {deep} {times}"


def shoot(full: bool = False) -> str:  # noqa: FBT001, FBT002 - of JSON
    """Take a screenshot."""
    return f"full: {full}"


shot = Tool.from_function(shoot)
# As zod describes an argument with a default.
shot.parameters = {**shot.parameters, "required": ["full"]}
server.add_tool(shot)

if __name__ == "__main__":
    server.run(show_banner=False)
