"""An answer cut to what the caller of ``call_tool`` asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_hookspecs import CapabilityRun, CodeRun, Json, RawObject, Task, ToolCall, encode
from pml_kit.expressions import Expression, ExpressionError
from pml_kit.mcp.result_values import value_of

MOST_WORK = 1_000_000_000
"""Of one expression, as :mod:`pml_kit.expressions` counts it: some seconds, beside the event loop."""


async def selected(output: Json, task: Task) -> Json:
    """``output`` with what the task's ``select`` finds in its place, as compact JSON text.

    Of a capability the output is the value itself. Errors of tools are left as they are; so is what holds no JSON or
    what the expression does not fit, with a note.
    """
    if isinstance(task, (CodeRun, CapabilityRun)):
        return await _of_value(output, task)
    if not isinstance(task, ToolCall) or not task.step.select or not isinstance(output, Mapping):
        return output
    if output.get("isError"):
        return output
    value = value_of(output)
    if value is output or isinstance(value, str):
        return _noted(output, "the result is no JSON")
    try:
        found = await Expression(task.step.select).find_apart(value, most_work=MOST_WORK)
    except ExpressionError as exc:
        return _noted(output, f"select {exc}")
    text = found if isinstance(found, str) else encode(found).decode()
    kept = {name: member for name, member in output.items() if name not in ("content", "structuredContent")}
    return {**kept, "content": [{"type": "text", "text": text}, *_others(output)]}


async def _of_value(output: Json, task: CodeRun | CapabilityRun) -> Json:
    value = output.value if isinstance(output, RawObject) else output
    try:
        found = await Expression(task.step.select).find_apart(value, most_work=MOST_WORK)
    except ExpressionError as exc:
        return f"{value if isinstance(value, str) else encode(value).decode()}\nNothing was selected: select {exc}."
    return found if isinstance(found, str) else encode(found).decode()


def _noted(output: Mapping[str, Any], why: str) -> dict[str, Any]:
    note = {"type": "text", "text": f"Nothing was selected: {why}."}
    content = output.get("content")
    return {**output, "content": [*(content if isinstance(content, list) else ()), note]}


def _others(output: Mapping[str, Any]) -> list[Any]:
    """Blocks that are no text: images, audio, resources and links."""
    content = output.get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if not (isinstance(block, Mapping) and block.get("type") == "text")]
