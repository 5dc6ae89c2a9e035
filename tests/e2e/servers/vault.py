"""An MCP server made with the SDK whose list depends on who asks, over stdio, or over HTTP at ``--port``.

``unlock`` adds ``inner`` for the session that calls it, and says so unless ``--silent``; ``form`` is listed for clients
that can elicit.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from mcp import MCPError
from mcp import types as t
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.stdio import stdio_server

OBJECT: dict[str, Any] = {"type": "object"}
unlocked: set[str] = set()
"""Sessions that called ``unlock``."""
given = argparse.Namespace(port=None, silent=False)


def session_of(ctx: ServerRequestContext) -> str:
    """The session of a request; over stdio there is one."""
    request = ctx.request
    return "" if request is None else request.headers.get("mcp-session-id", "none")


def tools_of(ctx: ServerRequestContext) -> list[str]:
    """What a request may call."""
    able = ctx.session.client_capabilities
    names = ["unlock"]
    if session_of(ctx) in unlocked:
        names.append("inner")
    if able is not None and able.elicitation is not None:
        names.append("form")
    return names


async def list_tools(ctx: ServerRequestContext, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    return t.ListToolsResult(tools=[t.Tool(name=name, input_schema=OBJECT) for name in tools_of(ctx)])


async def call_tool(ctx: ServerRequestContext, params: t.CallToolRequestParams) -> t.CallToolResult:
    if params.name not in tools_of(ctx):
        raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")
    if params.name == "unlock":
        unlocked.add(session_of(ctx))
        if not given.silent:
            await ctx.session.send_notification(t.ToolListChangedNotification())
    return t.CallToolResult(content=[t.TextContent(text=f"did {params.name}")])


server = Server("vault", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    """Serve until the standard input ends, or until ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--silent", action="store_true")
    parser.parse_args(namespace=given)
    if given.port is None:
        async with stdio_server() as (reader, writer):
            options = server.create_initialization_options(NotificationOptions(tools_changed=True))
            await server.run(reader, writer, options)
        return
    import uvicorn

    await uvicorn.Server(uvicorn.Config(server.streamable_http_app(), port=given.port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main())
