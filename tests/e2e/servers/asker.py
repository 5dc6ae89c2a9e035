"""An MCP server made with the SDK that asks its client what that may not be able to, and tells the answer."""

from __future__ import annotations

from collections.abc import Awaitable

from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import SamplingMessage, TextContent

server = MCPServer("asker")


async def answer(question: Awaitable[object]) -> str:
    """What the client says, or the error that it answers with."""
    try:
        return str(await question)
    except MCPError as exc:
        return f"{exc.error.code} {exc.error.message}"


@server.tool()
async def elicit(context: Context) -> str:
    """Ask a human."""
    return await answer(context.session.elicit_form("Sure?", {"type": "object", "properties": {}}))


@server.tool()
async def sample(context: Context) -> str:
    """Ask a model."""
    said = SamplingMessage(role="user", content=TextContent(type="text", text="Hello"))
    return await answer(context.session.create_message(messages=[said], max_tokens=9))


@server.tool()
async def roots(context: Context) -> str:
    """Ask for the roots."""
    return await answer(context.session.list_roots())


@server.tool()
async def touch(context: Context) -> str:
    """Say that the tools have changed, which they have not."""
    await context.session.send_tool_list_changed()
    return "said"


server.run("stdio")
