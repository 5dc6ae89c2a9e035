"""Tools that only answer: every kind of content, an error, and schemas that have to arrive whole."""

from __future__ import annotations

from fixture import PNG, WAV, Context, compact, embedded, text, tool
from mcp import types
from mcp.types import CallToolRequestParams, CallToolResult


@tool("Answers with one text.")
async def test_simple_text(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    return text("This is a simple text response for testing.")


@tool("Answers with one image.")
async def test_image_content(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    return CallToolResult(content=[types.ImageContent(data=PNG, mime_type="image/png")])


@tool("Answers with one sound.")
async def test_audio_content(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    return CallToolResult(content=[types.AudioContent(data=WAV, mime_type="audio/wav")])


@tool("Answers with a resource.")
async def test_embedded_resource(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    resource = embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    return CallToolResult(content=[resource])


@tool("Answers with a text, an image and a resource.")
async def test_multiple_content_types(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    words = types.TextContent(text="Multiple content types test:")
    image = types.ImageContent(data=PNG, mime_type="image/png")
    data = compact({"test": "data", "value": 123})
    return CallToolResult(content=[words, image, embedded("test://mixed-content-resource", "application/json", data)])


@tool("Always fails.")
async def test_error_handling(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    return text("This tool intentionally returns an error for testing", is_error=True)


@tool(
    "Has a schema with what JSON Schema 2020-12 brought.",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema_2020_12_tool(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    return text(compact(params.arguments))


@tool(
    "Has an argument that clients repeat in the header Mcp-Param-Region.",
    {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
)
async def test_custom_header(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    return text(compact(params.arguments))


TOOLS = [
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    json_schema_2020_12_tool,
    test_custom_header,
]
