"""What a tool's result says as a value (MCP, tools): the same for references, conditions and selections."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def value_of(result: Mapping[str, Any]) -> Any:
    """The structured content; without one, the JSON value that the only block, a text, spells.

    Without that, the text blocks, joined by line feeds; without any, ``result`` itself.
    """
    structured = result.get("structuredContent")
    if structured is not None:
        return structured
    content = result.get("content")
    if not isinstance(content, (list, tuple)):
        return result
    texts = [text for block in content if (text := _text(block)) is not None]
    if len(texts) == 1 == len(content):
        return _json_or_text(texts[0])
    return "\n".join(texts) if texts else result


def _text(block: Any) -> str | None:
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    return text if isinstance(text, str) else None


def _json_or_text(text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(digits)
    return number


read_json = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite).decode
"""Strict: refuses ``NaN`` and numbers that are infinite."""
