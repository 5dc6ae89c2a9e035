"""JSON Schemas of what tools return, inferred from recorded results where a tool declares none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Form = Literal["structured", "json", "text"]


@dataclass(frozen=True, slots=True)
class ResultValue:
    """The value that one result carries, and how it carries it."""

    form: Form
    """``structured``: in ``structuredContent``. ``json``: spelled by the only text block. ``text``: the text itself."""
    value: Any


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a tool's results."""

    schema: Mapping[str, Any]
    """JSON Schema of the value that references between steps walk."""
    form: Form
    source: Literal["declared", "inferred"]
    samples: int = 0
    """Recorded results behind an inferred one."""


def value_of(result: Mapping[str, Any]) -> ResultValue | None:
    """The value of a ``CallToolResult``, as references between the steps of a workflow find it; None without one."""
    structured = result.get("structuredContent")
    if structured is not None:
        return ResultValue("structured", structured)
    content = result.get("content")
    if not isinstance(content, list) or len(content) != 1:
        return None
    block = content[0]
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    if not isinstance(text, str):
        return None
    try:
        return ResultValue("json", json.loads(text))
    except (ValueError, RecursionError):
        return ResultValue("text", text)


def infer(results: Iterable[Mapping[str, Any]]) -> Shape | None:
    """A schema that all values of the most usual form fit; None when there is no value.

    Args:
        results: ``CallToolResult`` objects.
    """
    from genson import SchemaBuilder  # type: ignore[import-untyped]

    by_form: dict[Form, list[Any]] = {}
    for result in results:
        if (seen := value_of(result)) is not None:
            by_form.setdefault(seen.form, []).append(seen.value)
    if not by_form:
        return None
    form, values = max(by_form.items(), key=lambda pair: len(pair[1]))
    builder = SchemaBuilder(schema_uri=None)
    for value in values:
        builder.add_object(value)
    return Shape(builder.to_schema(), form, "inferred", len(values))
