"""Which steps are known to fail, because they failed in the rehearsal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pml_hookspecs import Outcome, Status, Workflow

from .findings import Finding, error, warning

MOST_CHARACTERS = 300
NOT_KNOWN = "dry_run.miss"
"""Code of steps that were only not rehearsed, as nothing tells what they would return."""


def failed(task: Workflow, outcome: Outcome, told: Collection[str]) -> list[Finding]:
    """Errors for steps with which the plan fails, warnings for those whose failure it allows.

    Args:
        task: The plan.
        outcome: Of its rehearsal.
        told: Paths of steps of which it is said already what is wrong with them.
    """
    report: Any = outcome.output
    if isinstance(report, Mapping) and "tasks" in report:
        return list(_failed(task, report, "", told, allowed=False))
    if outcome.failure is None or outcome.status is Status.INPUT_REQUIRED or told:
        return []
    return [error(outcome.failure.code, "", _short(outcome.failure.message))]


def _failed(
    workflow: Workflow, report: Mapping[str, Any], at: str, told: Collection[str], *, allowed: bool
) -> Iterator[Finding]:
    tasks = {task.id: task for task in workflow.tasks}
    for entry in report["tasks"]:
        failure, task = entry.get("error"), tasks.get(entry["id"])
        if failure is None or task is None or entry["status"] == Status.SKIPPED or failure["code"] == NOT_KNOWN:
            continue
        path, may_fail = f"{at}{task.id}", allowed or task.step.on_error != "fail"
        inner = entry.get("result")
        if isinstance(task, Workflow) and isinstance(inner, Mapping) and "tasks" in inner:
            yield from _failed(task, inner, f"{path}/", told, allowed=may_fail)
        elif path not in told:
            yield (warning if may_fail else error)(failure["code"], path, _short(failure["message"]))


def _short(message: str) -> str:
    """One line of it: errors of servers may be long, and are told in full with the step."""
    line = " ".join(message.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}…"
