"""The server: the fixtures, behind the SDK's low-level server, which checks and adds nothing that nobody asked for."""

from __future__ import annotations

from typing import Any

import asking_tools
import documents
import plain_tools
import telling_tools
from fixture import Context, is_modern, prompt, says, text, tool
from mcp import MCPError, types
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from tasks import Tasks

STATIC = CacheHint(ttl_ms=1000, scope="public")
"""What never changes."""


@tool("Is there every other time.")
async def test_dynamic_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    return text("I am here")


@prompt("Is there every other time.")
async def test_dynamic_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    return says(types.TextContent(text="I am here"))


class Reference:
    """What the handlers share."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.tasks = Tasks()
        changing = [
            tool("Adds a tool, or removes it again.")(self.test_trigger_tool_change),
            tool("Adds a prompt, or removes it again.")(self.test_trigger_prompt_change),
        ]
        tools = [*plain_tools.TOOLS, *telling_tools.TOOLS, *asking_tools.TOOLS, *self.tasks.tools(), *changing]
        self.tools = {each.definition.name: each for each in tools}
        self.prompts = {each.definition.name: each for each in [*documents.PROMPTS, *asking_tools.PROMPTS]}

    @staticmethod
    def _toggle(known: dict[str, Any], fixture: Any) -> None:
        name = fixture.definition.name
        if known.pop(name, None) is None:
            known[name] = fixture

    async def test_trigger_tool_change(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self._toggle(self.tools, test_dynamic_tool)
        await ctx.session.send_tool_list_changed()
        await self.bus.publish(ToolsListChanged())
        return text("The tools have changed")

    async def test_trigger_prompt_change(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        self._toggle(self.prompts, test_dynamic_prompt)
        await ctx.session.send_prompt_list_changed()
        await self.bus.publish(PromptsListChanged())
        return text("The prompts have changed")

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[each.definition for each in self.tools.values()])

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        called = self.tools.get(params.name)
        if called is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        result = await called.call(ctx, params)
        if isinstance(result, types.InputRequiredResult) and not is_modern(ctx):
            return text(f"{params.name} asks as only clients of 2026-07-28 understand", is_error=True)
        return result

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=documents.RESOURCES)

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=documents.TEMPLATES)

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return documents.read(params.uri)

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Accept; as no resource ever changes, there is nothing to remember."""
        documents.read(params.uri)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        documents.read(params.uri)
        return types.EmptyResult()

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[each.definition for each in self.prompts.values()])

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        wanted = self.prompts.get(params.name)
        if wanted is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        return await wanted.get(ctx, params)

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return documents.complete(params)


def make_server() -> Server[Any]:
    """A server with all fixtures."""
    reference = Reference()
    server = Server(
        "conformance-reference",
        version="1.0.0",
        cache_hints={"resources/list": STATIC, "resources/templates/list": STATIC, "resources/read": STATIC},
        on_list_tools=reference.list_tools,
        on_call_tool=reference.call_tool,
        on_list_resources=reference.list_resources,
        on_list_resource_templates=reference.list_templates,
        on_read_resource=reference.read,
        on_subscribe_resource=reference.subscribe,
        on_unsubscribe_resource=reference.unsubscribe,
        on_subscriptions_listen=ListenHandler(reference.bus),
        on_list_prompts=reference.list_prompts,
        on_get_prompt=reference.get_prompt,
        on_completion=reference.complete,
        on_set_logging_level=telling_tools.set_level,
    )
    reference.tasks.serve(server)
    return server
