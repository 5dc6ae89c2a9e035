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


def result_value(task: Task, outcome: Outcome) -> Any:
    """The value that references to ``task`` walk.

    Of a tool's result: its structured content; without one, the JSON value that its only text block spells; without
    that, its text blocks, joined by line feeds; without any, the result itself. Of other tasks: the output.

    Raises:
        ValueError: The output came as bytes that are not a JSON object.
    """
    output = outcome.output
    if not isinstance(task, ToolCall) or not isinstance(output, Mapping):
        return output
    structured = output.get("structuredContent")
    if structured is not None:
        return structured
    content = output.get("content")
    if not isinstance(content, list):
        return output
    texts = [text for block in content if (text := _text(block)) is not None]
    if len(texts) == 1 == len(content):
        return _json_or_text(texts[0])
    return "\n".join(texts) if texts else output


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
    if warnings := ran.warnings.get(task.id):
        told["warnings"] = warnings
    if node.needs:
        told["depends_on"] = list(node.needs)
    return told


def _end(task: Task, outcome: Outcome, ran: Scheduler) -> dict[str, Any]:
    if outcome.status is Status.SIMULATED:
        return {"simulated": True, "result": outcome.output}
    if outcome.failure is None:
        return {"result": ran.values[task.id]}
    told: dict[str, Any] = {"error": {"code": outcome.failure.code, "message": outcome.failure.message}}
    if outcome.output is not None and ran.values[task.id] != outcome.failure.message:
        told["result"] = ran.values[task.id]
    return told


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
