"""What queries ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pml_hookspecs import ExecutionQuery, ExecutionRecord, Scope, encode, split_tool_id

WORD, ESCAPE = re.compile(r"[^\W_]+"), re.compile(r"\\(u[0-9a-f]{4}|.)")
SEARCHED = 2048
"""Characters of each part that are searched."""


def sees(scope: Scope, record: ExecutionRecord) -> bool:
    """Whether it may be told of."""
    shared = record.as_agent and record.agent in scope.agents
    return shared or scope.principals is None or record.principal in scope.principals


def says(record: ExecutionRecord, text: str | None) -> bool:
    """Whether all words of ``text`` begin words of the record."""
    wanted = WORD.findall((text or "").lower())
    if not wanted or record.parent is not None:
        return not wanted
    kept = [ESCAPE.sub(" ", encode(json).decode()) for json in (record.request, record.response)]
    parts = (record.intent, record.target, *kept, record.failure.message if record.failure else "")
    there = WORD.findall(" ".join(part[:SEARCHED] for part in parts).lower())
    return all(any(word.startswith(beginning) for word in there) for beginning in wanted)


def family(top: ExecutionRecord, inside: Mapping[str | None, list[ExecutionRecord]]) -> list[ExecutionRecord]:
    """It, and all that ran inside."""
    found = [top]
    for record in found:
        found += inside.get(record.id, [])
    return found


def matches(record: ExecutionRecord, query: ExecutionQuery) -> bool:
    """Whether it is asked for."""
    same = (("agent", query.agent), ("trigger", query.trigger), ("parent", query.parent))
    return (
        sees(query.scope, record)
        and all(wanted is None or getattr(record, name) == wanted for name, wanted in same)
        and (query.since is None or record.started_at >= query.since)
        and (query.until is None or record.started_at < query.until)
        and (query.statuses is None or record.status in query.statuses)
        and (query.target is None or _is_of(record, query.target))
        and (query.include_dry_runs or not record.dry_run)
        and (record.parent is None or not query.top_level)
        and says(record, query.text)
    )


def _is_of(record: ExecutionRecord, target: str) -> bool:
    server = split_tool_id(record.target)[0]
    return record.kind == "tool" and (server == target[:-2] if target.endswith(":*") else record.target == target)
