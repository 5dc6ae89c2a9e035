"""What a question about executions means, in plain words of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pml_hookspecs import Status

from .values import documents_of
from .words import said, words

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionQuery, ExecutionRecord, Scope

OPEN = ("pending", "running")
"""Statuses of executions that have not ended."""
GOOD = (Status.OK, Status.SIMULATED)


def in_scope(record: ExecutionRecord, scope: Scope) -> bool:
    """Whether whoever has ``scope`` may see ``record``."""
    own = scope.principals is None or record.principal in scope.principals
    return own or (record.as_agent and record.agent in scope.agents)


def matches(record: ExecutionRecord, query: ExecutionQuery) -> bool:
    """Whether ``record`` is asked for. Page size and cursor do not matter."""
    return (
        in_scope(record, query.scope)
        and (query.since is None or record.started_at >= query.since)
        and (query.until is None or record.started_at < query.until)
        and query.agent in (None, record.agent)
        and query.principal in (None, record.principal)
        and (record.as_agent or not query.agents_only)
        and (query.statuses is None or record.status in query.statuses)
        and query.trigger in (None, record.trigger)
        and query.parent in (None, record.parent)
        and not (query.top_level and record.nested)
        and (query.include_dry_runs or not record.dry_run)
        and (query.target is None or is_of(record, query.target))
        and (query.text is None or has_text(record, query.text))
    )


def is_of(record: ExecutionRecord, target: str) -> bool:
    """Whether ``record`` is of this tool, or with ``server:*`` of any tool of that server."""
    if record.kind != "tool":
        return False
    return record.target.startswith(target[:-1]) if target.endswith(":*") else record.target == target


def has_text(record: ExecutionRecord, text: str) -> bool:
    """Whether all words of ``text`` are words of ``record``, or their beginnings; without words, of any record."""
    if not (wanted := words(text)):
        return True
    there = said(record, *documents_of(record))
    return all(any(word.startswith(beginning) for word in there) for beginning in wanted)
