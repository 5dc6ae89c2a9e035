"""Records of the store in the shapes that the tools answer with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, RawObject, Scope, Status, encode

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Json

EVERYTHING = Scope(principals=None)
"""What whoever sits at the terminal sees."""
WAITS = frozenset({Status.INPUT_REQUIRED.value})
"""Statuses of executions that wait for somebody, such as for an approval: they have not ended."""
EXCUSED = frozenset({Status.CANCELLED.value, Status.DENIED.value})
"""Statuses of executions that did not end well through no fault of the agent."""
PUBLIC = {
    "pending": frozenset({"pending"}) | WAITS,
    "running": frozenset({"running"}),
    "success": frozenset(status.value for status in Status if status.good),
    "failed": frozenset(status.value for status in Status if not status.good) - WAITS,
}
"""The four states that clients know, and the states of records that each stands for."""
LONGEST_MESSAGE = 200
"""Bound on a message in a list, and on one made up from a request [characters]."""
AGENTS = "agents"
"""Server whose tools are the configured agents."""


def listed(record: ExecutionRecord) -> dict[str, Any]:
    """One line of a list of executions."""
    shown = {
        "id": record.id,
        "agent_name": record.agent,
        "status": public(record),
        "triggered_by": record.trigger,
        "message": brief(_message(record)),
        **_times(record),
        "cost_usd": record.cost_usd,
        "has_error": record.failure is not None and record.status not in WAITS,
    }
    return {**shown, "dry_run": True} if record.dry_run else shown


def detailed(record: ExecutionRecord) -> dict[str, Any]:
    """Everything about one execution but what happened inside. Null is what is not known, or not yet."""
    shown = {
        "id": record.id,
        "agent_name": record.agent,
        "status": public(record),
        "message": _message(record),
        "response": _response(record),
        "error": _error(record),
        **_times(record),
        "cost_usd": record.cost_usd,
        "context_used": record.context_used,
        "context_max": record.context_max,
        "tool_calls": list(record.tool_calls),
    }
    return {**shown, "dry_run": True} if record.dry_run else shown


def failed(record: ExecutionRecord) -> dict[str, Any]:
    """One line of a list of failures."""
    return {
        "id": record.id,
        "agent_name": record.agent,
        "message": brief(_message(record)),
        "error": _error(record),
        "failed_at": failed_at(record),
    }


def failed_at(record: ExecutionRecord) -> str:
    """When it ended; when it began, where that is not known."""
    times = _times(record)
    return str(times["completed_at"] or times["started_at"])


def asked(record: ExecutionRecord) -> dict[str, Any]:
    """The first line of a transcript: what was asked for."""
    return {"type": "request", "started_at": zulu(record.started_at), "request": record.request}


def inside(record: ExecutionRecord) -> dict[str, Any]:
    """A line of a transcript: one execution within another."""
    return {
        "type": "execution",
        "id": record.id,
        "kind": record.kind,
        "target": record.target,
        "status": public(record),
        "request": record.request,
        "response": record.response,
        "error": _error(record),
        **_times(record),
    }


def public(record: ExecutionRecord) -> str:
    """Which of the four states that clients know."""
    return next(public for public, statuses in PUBLIC.items() if record.status in statuses)


def zulu(time: datetime) -> str:
    """ISO 8601 in UTC with ``Z``; fractions of a second only where there are some."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def seconds(duration_ms: int) -> float:
    """A whole number where it is one [s]."""
    return duration_ms // 1000 if duration_ms % 1000 == 0 else duration_ms / 1000


def _is_agents_run(record: ExecutionRecord) -> bool:
    """Whether the agent did it, rather than asked for it."""
    return record.as_agent and record.target == f"{AGENTS}:{record.agent}"


def _message(record: ExecutionRecord) -> str:
    """What an agent was told; of all else the intent, and without one, what was called with what."""
    if _is_agents_run(record) and isinstance(told := record.request.get("message"), str):
        return told
    return record.intent or brief(f"{record.target or record.kind} {encode(record.request).decode()}")


def brief(text: str) -> str:
    """As much of it as a line has room for."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"


def _response(record: ExecutionRecord) -> Json:
    """Of an agent its text, where the result that it is wrapped in has one."""
    response = record.response
    if not _is_agents_run(record) or not isinstance(response, Mapping):
        return response
    structured = response.get("structuredContent")
    if isinstance(structured, Mapping) and isinstance(said := structured.get("response"), str):
        return said
    blocks = response.get("content")
    texts = [block.get("text") for block in _mappings(blocks) if block.get("type") == "text"]
    return "\n".join(map(str, texts)) if texts else response


async def selected(record: ExecutionRecord, select: str) -> Json:
    """What a JMESPath expression finds in the response, as references to it would see that; None before it has ended.

    Raises:
        InvalidArguments: It cannot be read, or does not fit the response.
    """
    from pml_kit.expressions import Expression, ExpressionError
    from pml_kit.mcp.result_values import value_of

    response = _response(record)
    value: Any = value_of(response) if record.kind == "tool" and isinstance(response, Mapping) else response
    if isinstance(value, str):
        value = value_of({"content": [{"type": "text", "text": value}]})
    value = value.value if isinstance(value, RawObject) else value
    try:
        if isinstance(value, str):
            raise ExpressionError("is for JSON, and the response is a text")
        if isinstance(value, dict) and value.get("truncated") is True and "size_bytes" in value:
            raise ExpressionError(
                f"needs all of the response, and history has only the head of {value['size_bytes']:,} bytes"
            )
        found: Json = await Expression(select).find_apart(value)
    except ExpressionError as exc:
        raise InvalidArguments(f"get_execution_result: 'select' {exc}.") from None
    return found


def _mappings(value: Any) -> Iterable[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, (list, tuple)) else []


def _error(record: ExecutionRecord) -> str | None:
    return None if record.failure is None else record.failure.message


def _times(record: ExecutionRecord) -> dict[str, Any]:
    if record.duration_ms is None:
        return {"started_at": zulu(record.started_at), "completed_at": None, "duration_seconds": None}
    return {
        "started_at": zulu(record.started_at),
        "completed_at": zulu(record.started_at + timedelta(milliseconds=record.duration_ms)),
        "duration_seconds": seconds(record.duration_ms),
    }
