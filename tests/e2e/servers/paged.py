"""An MCP server made with the SDK whose lists come in pages, and are fresh for an hour."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

Params: TypeAlias = types.PaginatedRequestParams | None
FRESH_MS = 3_600_000
PAGES = {
    None: (["gamma", "beta", "alpha"], "YQ=="),
    "YQ==": ([], "b"),
    "b": (["delta"], "c/+"),
    "c/+": (["zeta"], None),
}
"""By cursor: names, and the next page's cursor. The names are in no order, and one page is empty."""


def page(params: Params) -> tuple[list[str], dict[str, Any]]:
    """The names on a page, and what else the answer says."""
    names, following = PAGES[None if params is None else params.cursor]
    return names, {"next_cursor": following, "ttl_ms": FRESH_MS, "cache_scope": "public"}


async def tools(_context: ServerRequestContext, params: Params) -> types.ListToolsResult:
    """``tools/list``."""
    names, more = page(params)
    return types.ListToolsResult(tools=[types.Tool(name=n, input_schema={"type": "object"}) for n in names], **more)


async def resources(_context: ServerRequestContext, params: Params) -> types.ListResourcesResult:
    """``resources/list``."""
    names, more = page(params)
    return types.ListResourcesResult(resources=[types.Resource(uri=f"memo://{n}", name=n) for n in names], **more)


async def templates(_context: ServerRequestContext, params: Params) -> types.ListResourceTemplatesResult:
    """``resources/templates/list``."""
    names, more = page(params)
    made = [types.ResourceTemplate(uri_template=f"memo://{n}/{{id}}", name=n) for n in names]
    return types.ListResourceTemplatesResult(resource_templates=made, **more)


async def prompts(_context: ServerRequestContext, params: Params) -> types.ListPromptsResult:
    """``prompts/list``."""
    names, more = page(params)
    return types.ListPromptsResult(prompts=[types.Prompt(name=n) for n in names], **more)


async def main() -> None:
    """Serve on stdio."""
    server = Server(
        "paged",
        on_list_tools=tools,
        on_list_resources=resources,
        on_list_resource_templates=templates,
        on_list_prompts=prompts,
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
