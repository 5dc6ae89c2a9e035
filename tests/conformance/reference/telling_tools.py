"""Tools that tell the client something while they run, or ask it something as servers did before 2026-07-28."""

from __future__ import annotations

from typing import Any

import anyio
from fixture import Context, compact, is_modern, text, tool
from mcp import MCPError, types
from mcp.shared.message import ServerMessageMetadata
from mcp.types import CallToolRequestParams, CallToolResult

PAUSE_S = 0.05
LEVELS: tuple[types.LoggingLevel, ...] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)

levels: dict[str, types.LoggingLevel] = {}
"""What each session asked to be told at least; without having asked, it is told everything."""


def session_of(ctx: Context) -> str:
    """Which session of the 2025 revisions a request belongs to: empty on stdio, where there is only one."""
    return "" if ctx.request is None else ctx.request.headers.get("mcp-session-id", "")


async def set_level(ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """``logging/setLevel``."""
    levels[session_of(ctx)] = params.level
    return types.EmptyResult()


async def log(ctx: Context, words: str) -> None:
    """Log at info level for the client, if it wants to know."""
    wanted = levels.get(session_of(ctx), "debug")
    # In 2026-07-28 the request itself says what it wants to know, which the SDK sees to.
    if is_modern(ctx) or LEVELS.index(wanted) <= LEVELS.index("info"):
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)


@tool("Logs three times.")
async def test_tool_with_logging(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    await log(ctx, "Tool execution started")
    await anyio.sleep(PAUSE_S)
    await log(ctx, "Tool processing data")
    await anyio.sleep(PAUSE_S)
    await log(ctx, "Tool execution completed")
    return text("Tool with logging executed successfully")


@tool("Logs once.")
async def test_logging_tool(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    await log(ctx, "A message only for those who asked")
    return text("Logged")


@tool("Reports progress three times.")
async def test_tool_with_progress(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    await ctx.session.report_progress(0, 100)
    await anyio.sleep(PAUSE_S)
    await ctx.session.report_progress(50, 100)
    await anyio.sleep(PAUSE_S)
    await ctx.session.report_progress(100, 100)
    return text("Tool with progress executed successfully")


@tool("Closes the stream of its call before it answers.")
async def test_reconnection(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    # A gateway need not make a stream of an answer that nothing goes before.
    await log(ctx, "The stream will be closed")
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await anyio.sleep(PAUSE_S)
    return text("Answered after the stream was closed")


def needs(ctx: Context, **capability: Any) -> None:
    """Refuse a call whose client lacks a capability."""
    wanted = types.ClientCapabilities(**capability)
    if not ctx.session.check_client_capability(wanted):
        data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=wanted)
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"The client did not declare: {', '.join(capability)}",
            data.model_dump(by_alias=True, mode="json", exclude_none=True),
        )


@tool("Runs only for clients that can sample.")
async def test_missing_capability(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    needs(ctx, sampling=types.SamplingCapability())
    return text("The client can sample")


def argument(params: CallToolRequestParams, name: str) -> str:
    """A required argument that is a string."""
    value = (params.arguments or {}).get(name)
    if not isinstance(value, str):
        raise MCPError(types.INVALID_PARAMS, f"{params.name}: the argument {name} must be a string")
    return value


@tool(
    "Has the client's model answer a prompt.",
    {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]},
)
async def test_sampling(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    needs(ctx, sampling=types.SamplingCapability())
    question = types.SamplingMessage(role="user", content=types.TextContent(text=argument(params, "prompt")))
    answer = await ctx.session.send_request(
        types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[question], max_tokens=100)),
        types.CreateMessageResult,
        metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
    )
    words = answer.content.text if isinstance(answer.content, types.TextContent) else answer.content.type
    return text(f"LLM response: {words}")


async def ask(ctx: Context, message: str, **properties: dict[str, Any]) -> types.ElicitResult:
    """Have the user fill in a form."""
    needs(ctx, elicitation=types.ElicitationCapability())
    schema = {"type": "object", "properties": properties, "required": []}
    return await ctx.session.elicit_form(message, schema, ctx.request_id)


@tool(
    "Asks the user for a name and an address.",
    {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
)
async def test_elicitation(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    answer = await ask(
        ctx,
        argument(params, "message"),
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return text(f"User response: action={answer.action}, content={compact(answer.content)}")


@tool("Asks the user with a default for every type.")
async def test_elicitation_sep1034_defaults(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    answer = await ask(
        ctx,
        "Check what is filled in",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return text(f"Elicitation completed: action={answer.action}, content={compact(answer.content)}")


def titled(*titles: str) -> list[dict[str, str]]:
    """Choices with titles."""
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]


@tool("Asks the user to choose, in all five ways.")
async def test_elicitation_sep1330_enums(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    options = ["option1", "option2", "option3"]
    answer = await ask(
        ctx,
        "Choose",
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": titled("First Option", "Second Option", "Third Option")},
        legacyEnum={
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti={"type": "array", "items": {"type": "string", "enum": options}},
        titledMulti={"type": "array", "items": {"anyOf": titled("First Choice", "Second Choice", "Third Choice")}},
    )
    return text(f"Elicitation completed: action={answer.action}, content={compact(answer.content)}")


TOOLS = [
    test_tool_with_logging,
    test_logging_tool,
    test_tool_with_progress,
    test_reconnection,
    test_missing_capability,
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
]
