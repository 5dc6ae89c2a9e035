"""What somebody decides about a run, from the command line or through a tool, and how runs are shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from pml_hookspecs import Failure, InvalidArguments, Json, Outcome, Status, ToolCall, ToolId

if TYPE_CHECKING:
    from .ledger import Ledger, RunRow
    from .steps import TaskRow

DECISIONS = ("repeat", "done", "fail")
Decision = Literal["repeat", "done", "fail"]
DECIDED = Failure(
    "durable.decided_failed", "The gateway went down while it ran, and somebody decided that it counts as failed."
)


async def found(ledger: Ledger, run: str, *, principal: str | None = None) -> RunRow:
    """The run that ``run`` names, by its whole id or the beginning of it.

    Args:
        ledger: Where to look.
        run: What somebody typed.
        principal: Whose it must be; None for anybody's.

    Raises:
        InvalidArguments: There is none, or more than one.
    """
    rows = await ledger.named(run) if run else []
    if len(rows) > 1:
        raise InvalidArguments(f"more than one durable run begins with {run!r}; give more of its id (pml runs list)")
    if not rows or principal not in (None, rows[0].principal):
        raise InvalidArguments(f"there is no durable run {run!r}; pml runs list shows those there are")
    return rows[0]


async def decide(ledger: Ledger, run: RunRow, path: str, decision: Decision, result: Json = None) -> list[TaskRow]:
    """Say what happened to a task that was under way when the gateway went down.

    Args:
        ledger: Where it is kept.
        run: Of which run.
        path: Of the task in doubt.
        decision: ``repeat``: it had no effect, or none that matters; run it again. ``done``: it took effect, with
            ``result``. ``fail``: it is to count as failed.
        result: What tasks that need it find; of a tool its structured content, or text.

    Returns:
        Tasks still in doubt. With none left, a run that was paused for them goes on.

    Raises:
        InvalidArguments: The task is not in doubt, or the run is running.
    """
    if run.state == "running":
        raise InvalidArguments(f"run {run.id} is running; there is nothing to decide")
    doubts = [task for task in await ledger.tasks(run.id) if task.in_doubt]
    task = next((task for task in doubts if task.path == path), None)
    if task is None:
        known = ", ".join(task.path for task in doubts) or "none"
        raise InvalidArguments(f"no task {path!r} of run {run.id} is in doubt; in doubt: {known}")
    id_ = path.rpartition("/")[2]
    await ledger.decide(run.id, task, ToolCall(id=id_, tool=ToolId(task.target)), _outcome(id_, task, decision, result))
    left = [other for other in doubts if other is not task]
    if not left and run.state == "paused":
        await ledger.ready(run.id)
    return left


def _outcome(id_: str, task: TaskRow, decision: Decision, result: Json) -> Outcome | None:
    if decision == "repeat":
        return None
    now = datetime.now(UTC)
    if decision == "fail":
        return Outcome(task_id=id_, status=Status.ERROR, started_at=now, duration_ms=0, failure=DECIDED)
    output = _tool_result(result) if task.kind == "tool" else result
    return Outcome(task_id=id_, status=Status.OK, started_at=now, duration_ms=0, output=output)


def _tool_result(result: Json) -> Json:
    if result is None:
        return {"content": []}
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    told: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    return {**told, "structuredContent": result} if isinstance(result, dict) else told


def shown(run: RunRow, tasks: list[TaskRow]) -> dict[str, Any]:
    """A run as JSON, for machines."""
    told = summary(run)
    if run.outcome is not None and run.outcome.failure is not None:
        told["failure"] = {"code": run.outcome.failure.code, "message": run.outcome.failure.message}
    told["task_states"] = [
        {
            "path": task.path,
            "turn": task.turn,
            "state": _state(run, task),
            "target": task.target or task.kind,
            "attempts": task.attempt,
            "started_at": moment(task.started_at),
            "ended_at": None if task.ended_at is None else moment(task.ended_at),
        }
        for task in tasks
    ]
    return told


def summary(run: RunRow) -> dict[str, Any]:
    """The run without its tasks and its failure."""
    return {
        "id": run.id,
        "state": run.state,
        "status": None if run.outcome is None else str(run.outcome.status),
        "intent": run.intent,
        "principal": run.principal,
        "tasks": len(run.request["task"].get("tasks", ())),
        "worker": run.worker,
        "created_at": moment(run.created_at),
        "changed_at": moment(run.changed_at),
    }


def _state(run: RunRow, task: TaskRow) -> str:
    if task.outcome is not None:
        return str(task.outcome.status)
    return "waiting" if not task.in_doubt else "running" if run.state == "running" else "in doubt"


def moment(at_ms: int) -> str:
    """ISO 8601, UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
