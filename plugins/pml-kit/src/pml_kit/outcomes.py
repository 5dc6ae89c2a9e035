"""Outcomes, made of what came of a task, or given in place of what was to run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Outcome, Status

if TYPE_CHECKING:
    from pml_hookspecs import Task


def denied(task: Task, message: str, *, code: str = "policy.denied", **details: Any) -> Outcome:
    """How a wrapper refuses a task, in one line that says why and what to do.

    Args:
        task: What does not run.
        message: For the caller: why, and what to do.
        code: For programs, as of :class:`pml_hookspecs.Failure`.
        **details: More for programs, as JSON.
    """
    failure = Failure(code, message, details=details) if details else Failure(code, message)
    return Outcome(task_id=task.id, status=Status.DENIED, started_at=datetime.now(UTC), duration_ms=0, failure=failure)


def ended(
    task: Task, started_at: datetime, status: Status, *, output: Any = None, failure: Failure | None = None
) -> Outcome:
    """An outcome that ends now. Whole milliseconds; a clock that is set back takes no time away."""
    duration_ms = max(round((datetime.now(UTC) - started_at).total_seconds() * 1000), 0)
    return Outcome(
        task_id=task.id, status=status, started_at=started_at, duration_ms=duration_ms, output=output, failure=failure
    )


def missing_guard(plugin: str, problem: str) -> Failure:
    """Why nothing runs where a plugin that says what is allowed has failed."""
    message = (
        f"Nothing is run: plugin {plugin!r}, which says what is allowed here, failed ({problem}). The operator has to "
        f'mend it, or to do without it: [gateway] block = ["{plugin}"].'
    )
    return Failure("policy.guard_missing", message, details={"plugin": plugin})
