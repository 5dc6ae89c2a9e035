"""``CallToolResult`` objects: made of what a tool of the gateway's own gives, and what one says (MCP, tools)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from pml_hookspecs import Json, RawObject, encode


def text_of(result: Mapping[str, Any]) -> str:
    """The text blocks of a ``CallToolResult``, joined by line feeds."""
    blocks = result.get("content")
    texts = [b.get("text") for b in blocks if isinstance(b, Mapping)] if isinstance(blocks, list) else []
    return "\n".join(t for t in texts if isinstance(t, str))


def tool_result(value: Json, *, is_error: bool = False, indented: bool = True) -> RawObject:
    """A ``CallToolResult`` with ``value`` as structured content, and as text: JSON indented by two spaces, or compact.

    Raises:
        TypeError: ``value`` is not JSON.
    """
    # Encoded once and put together as bytes: with indentation, Python's own encoder takes ten times as long.
    raw = encode(value)
    parts = [b'{"content":[{"type":"text","text":', encode(_indented(raw, value) if indented else raw.decode()), b"}]"]
    if isinstance(value, Mapping):
        parts += [b',"structuredContent":', raw]
    if is_error:
        parts.append(b',"isError":true')
    return RawObject(b"".join([*parts, b"}"]))


def text_result(text: str, *, is_error: bool = False) -> RawObject:
    """A ``CallToolResult`` that is ``text``, without structured content."""
    end = b'}],"isError":true}' if is_error else b"}]}"
    return RawObject(b'{"content":[{"type":"text","text":' + encode(text) + end)


def _indented(raw: bytes, value: Json) -> str:
    try:
        return msgspec.json.format(raw, indent=2).decode()
    except msgspec.DecodeError:  # numbers and characters that only Python takes for JSON
        return json.dumps(value, indent=2, ensure_ascii=False, default=dict)
