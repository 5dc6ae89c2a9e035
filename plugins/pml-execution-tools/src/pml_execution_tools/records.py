"""Records of the store in the shapes that the tools answer with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Status, encode

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord

PUBLIC = {
    "pending": frozenset({"pending"}),
    "running": frozenset({"running"}),
    "success": frozenset(status.value for status in Status if status.good),
    "failed": frozenset(status.value for status in Status if not status.good),
}
"""The four states that clients know, and the states of records that each stands for."""
LONGEST_MESSAGE = 200
"""Bound on a message made up from a request [characters]."""


def listed(record: ExecutionRecord) -> dict[str, Any]:
    """One line of a list of executions."""
    shown = {
        "id": record.id,
        "agent_name": record.agent,
        "status": _public(record),
        "triggered_by": record.trigger,
        "message": _message(record),
        **_times(record),
        "cost_usd": record.cost_usd,
        "has_error": record.failure is not None,
    }
    return {**shown, "dry_run": True} if record.dry_run else shown


def detailed(record: ExecutionRecord) -> dict[str, Any]:
    """Everything about one execution but what happened inside. Null is what is not known, or not yet."""
    shown = {
        "id": record.id,
        "agent_name": record.agent,
        "status": _public(record),
        "message": _message(record),
        "response": record.response,
        "error": _error(record),
        **_times(record),
        "cost_usd": record.cost_usd,
        "context_used": None,
        "context_max": None,
        "tool_calls": list(record.tool_calls),
    }
    return {**shown, "dry_run": True} if record.dry_run else shown


def asked(record: ExecutionRecord) -> dict[str, Any]:
    """The first line of a transcript: what was asked for."""
    return {"type": "request", "started_at": _zulu(record.started_at), "request": record.request}


def inside(record: ExecutionRecord) -> dict[str, Any]:
    """A line of a transcript: one execution within another."""
    return {
        "type": "execution",
        "id": record.id,
        "kind": record.kind,
        "target": record.target,
        "status": _public(record),
        "request": record.request,
        "response": record.response,
        "error": _error(record),
        **_times(record),
    }


def _public(record: ExecutionRecord) -> str:
    return next(public for public, statuses in PUBLIC.items() if record.status in statuses)


def _message(record: ExecutionRecord) -> str:
    """The intent; without one, what was called with what."""
    if record.intent:
        return record.intent
    text = f"{record.target or record.kind} {encode(record.request).decode()}"
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"


def _error(record: ExecutionRecord) -> str | None:
    return None if record.failure is None else record.failure.message


def _times(record: ExecutionRecord) -> dict[str, Any]:
    if record.duration_ms is None:
        return {"started_at": _zulu(record.started_at), "completed_at": None, "duration_seconds": None}
    seconds = record.duration_ms / 1000
    return {
        "started_at": _zulu(record.started_at),
        "completed_at": _zulu(record.started_at + timedelta(milliseconds=record.duration_ms)),
        "duration_seconds": int(seconds) if seconds.is_integer() else seconds,
    }


def _zulu(time: datetime) -> str:
    """ISO 8601 in UTC with ``Z``; fractions of a second only where there are some."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
