"""Executions, spans and tools to try a store with, and what a query means in plain words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Ended, ExecutionId, ExecutionQuery, ExecutionRecord, Failure, Scope, Span, Status

from .fakes import EPOCH, entry

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry

EVERYONE = Scope(principals=None)
NOBODY = Scope(principals=frozenset())
ALICE, BOB = (Scope(principals=frozenset({name})) for name in ("alice", "bob"))


def execution(n: int, **members: Any) -> ExecutionRecord:
    """The ``n``-th of a series: a second after the one before, with an id that sorts after it."""
    given = {
        "id": ExecutionId(f"01900000-0000-7000-8000-{n:012x}"),
        "kind": "tool",
        "target": "files:read",
        "principal": "alice",
        "agent": "claude",
        "status": Status.OK,
        "started_at": EPOCH + timedelta(seconds=n, microseconds=n),
        "duration_ms": n,
    }
    return ExecutionRecord(**{**given, **members})


def ended(n: int, execution: str | None = None, **members: Any) -> Ended:
    """The ``n``-th of a series of spans."""
    given = {
        "trace_id": f"{1:032x}",
        "span_id": f"{n:016x}",
        "parent_id": None,
        "name": "tools/call",
        "kind": "server",
        "execution": execution,
        "start_ns": 1_767_225_600_000_000_000 + n,
    }
    span = Span(**{**given, **members})
    return Ended(span=span, end_ns=span.start_ns + 10, status=Status.OK)


def plain(value: Any) -> Any:
    """``value`` with every mapping a dictionary and every sequence a list."""
    if isinstance(value, Mapping):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(member) for member in value]
    return value


def assert_same(found: ExecutionRecord | None, expected: ExecutionRecord) -> None:
    """Every field is the same, JSON member by member, in order."""
    assert found is not None
    for name in (field.name for field in fields(expected)):
        ours, theirs = getattr(expected, name), getattr(found, name)
        if name in ("request", "response", "failure", "tool_calls"):
            ours, theirs = (json.dumps(plain(json_of(value))) for value in (ours, theirs))
        assert theirs == ours, name
    assert found.started_at.utcoffset() == timedelta(0)


def json_of(value: Any) -> Any:
    """A failure as a list of its fields, anything else as it is."""
    return [value.code, value.message, value.retryable, value.details] if isinstance(value, Failure) else value


def matches(record: ExecutionRecord, query: ExecutionQuery) -> bool:
    """What ``query`` asks for, in the plainest words."""
    return all(
        (
            query.scope.principals is None or record.principal in query.scope.principals,
            query.since is None or record.started_at >= query.since,
            query.agent is None or record.agent == query.agent,
            query.statuses is None or record.status in query.statuses,
            query.trigger is None or record.trigger == query.trigger,
            query.parent is None or record.parent == query.parent,
            not query.top_level or record.parent is None,
            query.include_dry_runs or not record.dry_run,
        )
    )


def some_executions() -> list[ExecutionRecord]:
    """Records that differ in everything that a query can ask for; some start in the same microsecond."""
    ends = [*Status, "pending", "running"]
    return [
        execution(
            n,
            parent=None if n % 3 else execution(n // 10).id,
            principal=("alice", "bob", "carol")[n % 7 % 3],
            agent=("claude", "", "codex", "claude")[n % 4],
            trigger=("manual", "schedule", "agent", "mcp")[n // 5 % 4],
            status=ends[n % len(ends)],
            duration_ms=None if ends[n % len(ends)] in ("pending", "running") else n,
            dry_run=n % 5 == 0,
            cost_usd=None if n % 2 else n / 1000,
            started_at=EPOCH + timedelta(seconds=n // 4),
        )
        for n in range(80)
    ]


def some_queries() -> list[ExecutionQuery]:
    """Each filter alone and in pairs, under several scopes."""
    one: list[dict[str, Any]] = [
        {},
        {"since": EPOCH + timedelta(seconds=7)},
        {"agent": "claude"},
        {"agent": ""},
        {"statuses": frozenset({"ok"})},
        {"statuses": frozenset({"error", "denied"})},
        {"statuses": frozenset({"pending", "running"})},
        {"statuses": frozenset({"running", "ok", "timed_out"})},
        {"statuses": frozenset()},
        {"trigger": "agent"},
        {"parent": execution(3).id},
        {"top_level": True},
        {"include_dry_runs": False},
    ]
    scopes = (EVERYONE, NOBODY, ALICE, Scope(principals=frozenset({"bob", "carol", "nobody"})))
    return [ExecutionQuery(scope=s, limit=100, **{**a, **b}) for s, (a, b) in product(scopes, combinations(one, 2))]


def tools(names: Sequence[str], server: str = "files") -> list[CatalogEntry]:
    """One entry per name."""
    return [entry(f"{server}:{name}", f"does {name}", annotations={"z": 1, "a": [2.5, None]}) for name in names]
