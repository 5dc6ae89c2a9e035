"""How fixtures are declared, and what they are made of."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp import types
from mcp.server import ServerRequestContext
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]
Call = Callable[[Context, types.CallToolRequestParams], Awaitable[types.CallToolResult | types.InputRequiredResult]]
Get = Callable[[Context, types.GetPromptRequestParams], Awaitable[types.GetPromptResult | types.InputRequiredResult]]


@dataclass(frozen=True)
class Tool:
    """A tool, and what answers a call of it."""

    definition: types.Tool
    call: Call


@dataclass(frozen=True)
class Prompt:
    """A prompt, and what answers a request for it."""

    definition: types.Prompt
    get: Get


def tool(description: str, schema: Mapping[str, Any] | None = None) -> Callable[[Call], Tool]:
    """Make a tool of a function; it has the name of the function. Without a schema it takes no arguments."""

    def make(call: Call) -> Tool:
        definition = types.Tool(
            name=call.__name__, description=description, input_schema=dict(schema or {"type": "object"})
        )
        return Tool(definition, call)

    return make


def prompt(description: str, **arguments: str) -> Callable[[Get], Prompt]:
    """Make a prompt of a function; it has the name of the function, and its arguments are all required."""

    def make(get: Get) -> Prompt:
        listed = [types.PromptArgument(name=name, description=text, required=True) for name, text in arguments.items()]
        return Prompt(types.Prompt(name=get.__name__, description=description, arguments=listed), get)

    return make


def text(words: str, *, is_error: bool = False) -> types.CallToolResult:
    """A result of one text."""
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=is_error)


def says(*blocks: types.ContentBlock) -> types.GetPromptResult:
    """A prompt of one message per block."""
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])


def embedded(uri: str, mime_type: str, content: str) -> types.EmbeddedResource:
    """A resource of text inside a message."""
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=content))


def is_modern(ctx: Context) -> bool:
    """Whether the client speaks 2026-07-28, in which servers send no requests."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def compact(value: Any) -> str:
    """A value as JSON on one line."""
    return json.dumps(value, separators=(",", ":"))


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def _wav() -> bytes:
    """One millisecond of silence: eight samples of one byte at 8 kHz."""
    samples = b"\x80" * 8
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    data = struct.pack("<4sI", b"data", len(samples)) + samples
    return struct.pack("<4sI4s", b"RIFF", 4 + len(form) + len(data), b"WAVE") + form + data


PNG = base64.b64encode(_png()).decode()
WAV = base64.b64encode(_wav()).decode()
