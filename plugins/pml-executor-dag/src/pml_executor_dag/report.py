"""What a workflow reports of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CapabilityRun, CodeRun, Failure, Outcome, Status, Task, ToolCall, Workflow
from pml_kit.references import values_of

from .plan import Node, layers, type_of
from .results import own_meta

if TYPE_CHECKING:
    from .scheduler import Scheduler


MOST_NAMED = 10
"""Failed tasks that the message of a failed workflow names."""
PENDING = "pending"
"""What a report says of a task that has not begun."""
SAID = frozenset({"tool", "task_id", "status"})
"""Members of a label that say what the report says of the task anyway."""
GIVEN = frozenset({"of", "arguments"})
"""Members of a label, at any depth, that quote arguments."""


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
        return told | {"status": PENDING} | ({"depends_on": list(node.depends_on)} if node.depends_on else {})
    told |= {"status": outcome.status.value, "duration_ms": outcome.duration_ms}
    if attempts := ran.attempts.get(task.id):
        told["attempts"] = attempts
    if dry_run and not isinstance(task, Workflow):
        told["arguments"] = ran.arguments.get(task.id, values_of(task))
    told |= _end(task, outcome, ran)
    if dry_run and (labels := _labels(outcome, ran)):
        has_stored = any(reference.stored for reference in node.references())
        told["_meta"] = _without_arguments(labels) if has_stored else labels
    if warnings := ran.warnings.get(task.id):
        told["warnings"] = warnings
    if node.depends_on:
        told["depends_on"] = list(node.depends_on)
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
    found = own_meta(outcome.meta) or own_meta(in_result) or own_meta(of_failure)
    return {name: _unsaid(member) for name, member in found.items()}


def _without_arguments(label: Any) -> Any:
    """``label`` without what the call would be given: of stored results nothing is told to whoever puts them in."""
    if isinstance(label, list):
        return [_without_arguments(one) for one in label]
    if not isinstance(label, Mapping):
        return label
    return {name: _without_arguments(member) for name, member in label.items() if name not in GIVEN}


def _unsaid(label: Any) -> Any:
    return {n: m for n, m in label.items() if n not in SAID} if isinstance(label, Mapping) else label


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
