"""What references see of a task's outcome, and what the workflow reports of all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CapabilityRun, CodeRun, Failure, Outcome, Status, Task, ToolCall, Workflow

from .plan import Node, layers, type_of, values_of

if TYPE_CHECKING:
    from .scheduler import Scheduler

MOST_NAMED = 10
"""Failed tasks that the message of a failed workflow names."""
PENDING = "pending"
"""What a report says of a task that has not begun."""
REHEARSED = frozenset({"dry_run", "simulated", "arguments", "warnings", "_meta"})
"""Members that only the report of a rehearsal has: references do not find them, as they would not for real."""
OWN = "pml/"
"""Begins the names in a ``_meta`` that are the gateway's."""
SAID = frozenset({"tool", "task_id", "status"})
"""Members of a label that say what the report says of the task anyway."""


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
    structured = output.get("structuredContent")
    if structured is not None:
        return structured
    content = output.get("content")
    if not isinstance(content, list):
        return _unlabelled(output)
    texts = [text for block in content if (text := _text(block)) is not None]
    if len(texts) == 1 == len(content):
        return _json_or_text(texts[0])
    return "\n".join(texts) if texts else _unlabelled(output)


def _unlabelled(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """A result without the label that a rehearsal puts in."""
    if not _own_meta(output.get("_meta")):
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


def _text(block: Any) -> str | None:
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    return text if isinstance(text, str) else None


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(digits)
    return number


def report(
    workflow: Workflow, nodes: Mapping[str, Node], ran: Scheduler, status: str, *, dry_run: bool
) -> dict[str, Any]:
    """The output of a workflow that ran: every task in plan order, and the order in which they could run."""
    told: dict[str, Any] = {"status": status}
    if workflow.intent:
        told["intent"] = workflow.intent
    told["tasks"] = [_of_task(task, nodes[task.id], ran, dry_run=dry_run) for task in workflow.tasks]
    told["layers"] = layers(nodes)
    if dry_run:
        told["dry_run"] = True
    return told


def _of_task(task: Task, node: Node, ran: Scheduler, *, dry_run: bool) -> dict[str, Any]:
    outcome = ran.outcomes.get(task.id)
    told = {"id": task.id, **_target(task)}
    if outcome is None:
        return told | {"status": PENDING} | ({"depends_on": list(node.needs)} if node.needs else {})
    told |= {"status": outcome.status.value, "duration_ms": outcome.duration_ms}
    if attempts := ran.attempts.get(task.id):
        told["attempts"] = attempts
    if dry_run and not isinstance(task, Workflow):
        told["arguments"] = ran.arguments.get(task.id, values_of(task))
    told |= _end(task, outcome, ran)
    if dry_run and (labels := _labels(outcome, ran)):
        told["_meta"] = labels
    if warnings := ran.warnings.get(task.id):
        told["warnings"] = warnings
    if node.needs:
        told["depends_on"] = list(node.needs)
    return told


def _end(task: Task, outcome: Outcome, ran: Scheduler) -> dict[str, Any]:
    # What references see; of a workflow, also what only its rehearsal tells.
    result = outcome.output if isinstance(task, Workflow) else ran.values[task.id]
    if outcome.failure is None:
        return {"result": result} | ({"simulated": True} if outcome.status is Status.SIMULATED else {})
    told: dict[str, Any] = {"error": {"code": outcome.failure.code, "message": outcome.failure.message}}
    if outcome.output is not None and ran.values[task.id] != outcome.failure.message:
        told["result"] = result
    return told


def _labels(outcome: Outcome, ran: Scheduler) -> dict[str, Any]:
    """What a rehearsal says of a result, beside it; of a task with ``for_each``, an array with one for each item."""
    items = ran.items.get(outcome.task_id)
    if items is None:
        return _label(outcome)
    of_items = [{} if one is None else _label(one) for one in items.outcomes]
    return {name: [one.get(name) for one in of_items] for one in of_items for name in one}


def _label(outcome: Outcome) -> dict[str, Any]:
    in_result = outcome.output.get("_meta") if isinstance(outcome.output, Mapping) else None
    of_failure = None if outcome.failure is None else outcome.failure.details
    found = _own_meta(outcome.meta) or _own_meta(in_result) or _own_meta(of_failure)
    return {name: _unsaid(member) for name, member in found.items()}


def _unsaid(label: Any) -> Any:
    return {n: m for n, m in label.items() if n not in SAID} if isinstance(label, Mapping) else label


def _own_meta(meta: Any) -> dict[str, Any]:
    return {n: m for n, m in meta.items() if n.startswith(OWN)} if isinstance(meta, Mapping) else {}


def _target(task: Task) -> dict[str, Any]:
    if isinstance(task, ToolCall):
        return {"tool": task.tool}
    told = {"type": type_of(task)}
    if isinstance(task, CodeRun):
        told["language"] = task.language
    elif isinstance(task, CapabilityRun):
        told["capability_id"] = task.capability_id
    return told


def failure_of(tasks: Sequence[Task], outcomes: Mapping[str, Outcome]) -> Failure | None:
    """Why the workflow as a whole did not end well; None when it did, or has not failed so far."""
    failed = [outcome for task in tasks if (outcome := outcomes.get(task.id)) is not None and _fails(task, outcome)]
    if not failed:
        return None
    skipped = [o.task_id for task in tasks if (o := outcomes.get(task.id)) is not None and _held_up(o)]
    named = "; ".join(
        f"{o.task_id} ({o.failure.code}: {o.failure.message})" if o.failure else o.task_id for o in failed[:MOST_NAMED]
    )
    more = f"; and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
    unrun = f" Not run, because they need these: {len(skipped)}." if skipped else ""
    message = f"{len(failed)} of {len(tasks)} tasks failed: {named}{more}.{unrun}"
    details = {"failed": [o.task_id for o in failed], "skipped": skipped}
    return Failure(
        "workflow.failed",
        message,
        retryable=all(o.failure is not None and o.failure.retryable for o in failed),
        details=details,
    )


def _fails(task: Task, outcome: Outcome) -> bool:
    """Whether the workflow fails because this task ended so."""
    waits = outcome.status in (Status.SKIPPED, Status.INPUT_REQUIRED)
    return not outcome.status.good and not waits and task.step.on_error == "fail"


def _held_up(outcome: Outcome) -> bool:
    return outcome.status is Status.SKIPPED and outcome.failure is not None and outcome.failure.code == "task.skipped"
