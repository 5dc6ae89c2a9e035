"""What references see of a task's outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_hookspecs import Outcome, Status, Task, ToolCall, Workflow
from pml_kit.mcp.result_values import value_of

REHEARSED = frozenset({"dry_run", "simulated", "arguments", "warnings", "_meta"})
"""Members that only the report of a rehearsal has: references do not find them, as they would not for real."""
OWN = "pml/"
"""Begins the names in a ``_meta`` that are the gateway's."""


def result_value(task: Task, outcome: Outcome) -> Any:
    """The value that references to ``task`` walk.

    Of a tool's result: its structured content; without one, the JSON value that its only text block spells; without
    that, its text blocks, joined by line feeds; without any, the result itself. Of other tasks: the output; of a
    workflow that was rehearsed, what the report of a real run has.

    Raises:
        ValueError: The output came as bytes that are not a JSON object.
    """
    output = outcome.output
    if isinstance(task, Workflow):
        return [_as_real(item) for item in output] if isinstance(output, list) else _as_real(output)
    if not isinstance(task, ToolCall) or not isinstance(output, Mapping):
        return output
    value = value_of(output)
    return _unlabelled(output) if value is output else value


def _unlabelled(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """A result without the label that a rehearsal puts in."""
    if not own_meta(output.get("_meta")):
        return output
    others = {name: member for name, member in output["_meta"].items() if not name.startswith(OWN)}
    rest = {name: member for name, member in output.items() if name != "_meta"}
    return {"_meta": others, **rest} if others else rest


def _as_real(output: Any) -> Any:
    """The report of a workflow without what only rehearsals have; anything else as it is."""
    if not isinstance(output, Mapping) or output.get("dry_run") is not True:
        return output
    tasks: Any = output.get("tasks")
    told = _members_as_real(output, "completed")
    return told | {"tasks": [_task_as_real(task) for task in tasks]} if isinstance(tasks, list) else told


def _task_as_real(task: Mapping[str, Any]) -> dict[str, Any]:
    told = _members_as_real(task, Status.OK.value)
    result = task.get("result")
    if task.get("type") == "workflow":
        told["result"] = [_as_real(item) for item in result] if isinstance(result, list) else _as_real(result)
    return told


def _members_as_real(told: Mapping[str, Any], well: str) -> dict[str, Any]:
    real = {name: member for name, member in told.items() if name not in REHEARSED}
    return real | {"status": well} if real.get("status") == Status.SIMULATED else real


def own_meta(meta: Any) -> dict[str, Any]:
    """Members of a ``_meta`` that are the gateway's; none of what is no ``_meta``."""
    return {n: m for n, m in meta.items() if n.startswith(OWN)} if isinstance(meta, Mapping) else {}
