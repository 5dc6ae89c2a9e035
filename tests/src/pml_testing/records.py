"""Executions, spans and tools to try a store with, and what a query means in plain words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

from pml_hookspecs import (
    Ended,
    ExecutionId,
    ExecutionQuery,
    ExecutionRecord,
    Failure,
    Scope,
    Span,
    Status,
    defaults,
    split_tool_id,
)

from .fakes import EPOCH, entry

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Store

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
    for name in defaults(ExecutionRecord):
        ours, theirs = getattr(expected, name), getattr(found, name)
        if name in ("request", "response", "failure", "tool_calls", "transcript"):
            ours, theirs = (json.dumps(plain(json_of(value))) for value in (ours, theirs))
        assert theirs == ours, name
    assert found.started_at.utcoffset() == timedelta(0)


def json_of(value: Any) -> Any:
    """A failure as a list of its fields, anything else as it is."""
    return [value.code, value.message, value.retryable, value.details] if isinstance(value, Failure) else value


SEARCHED_CHARACTERS = 2048
"""Of each part of an execution."""


def words(text: str) -> list[str]:
    """What a search takes for words: letters and digits side by side, whatever their case."""
    return re.findall(r"[^\W_]+", text.lower())


def said(record: ExecutionRecord) -> str:
    """What a search looks at. Line breaks in JSON are line breaks."""
    request, response = (
        "" if value is None else re.sub(r"\\[bfnrt]", "\n", json.dumps(plain(value), ensure_ascii=False))
        for value in (record.request, record.response)
    )
    message = record.failure.message if record.failure else ""
    parts = (record.intent, record.target, request, response, message)
    return "\n".join(part[:SEARCHED_CHARACTERS] for part in parts)


def is_part(record: ExecutionRecord) -> bool:
    """Whether ``record`` is only a part of another one; a run of an agent is not, wherever it stands."""
    run = record.as_agent and record.kind == "tool" and record.target == f"agents:{record.agent}"
    return record.parent is not None and not run


def says(record: ExecutionRecord, text: str | None) -> bool:
    """Whether ``record`` is found by ``text``."""
    wanted = words(text or "")
    if not wanted:
        return True
    if is_part(record):
        return False
    there = words(said(record))
    return all(any(word.startswith(part) for word in there) for part in wanted)


def sees(scope: Scope, record: ExecutionRecord) -> bool:
    """Whether ``scope`` includes ``record``."""
    if scope.principals is None or record.principal in scope.principals:
        return True
    return record.as_agent and record.agent in scope.agents


def is_of(record: ExecutionRecord, target: str | None) -> bool:
    """Whether ``record`` is of the tool or server that ``target`` names."""
    if target is None:
        return True
    if target.endswith(":*"):
        return record.kind == "tool" and split_tool_id(record.target)[0] == target[:-2]
    return record.kind == "tool" and record.target == target


def matches(record: ExecutionRecord, query: ExecutionQuery) -> bool:
    """What ``query`` asks for, in the plainest words."""
    return all(
        (
            sees(query.scope, record),
            query.since is None or record.started_at >= query.since,
            query.until is None or record.started_at < query.until,
            query.agent is None or record.agent == query.agent,
            record.as_agent or not query.agents_only,
            query.statuses is None or record.status in query.statuses,
            query.trigger is None or record.trigger == query.trigger,
            query.principal is None or record.principal == query.principal,
            query.parent is None or record.parent == query.parent,
            not query.top_level or not is_part(record),
            query.include_dry_runs or not record.dry_run,
            is_of(record, query.target),
            says(record, query.text),
        )
    )


async def written(store: Store, records: Sequence[ExecutionRecord]) -> None:
    """Have ``records`` recorded, and wait until the database has them: otherwise it need not be asked."""
    *most, last = records
    for record in most:
        store.executions.record(record)
    await store.executions.put(last)


def some_executions() -> list[ExecutionRecord]:
    """Records that differ in everything that a query can ask for; some start in the same microsecond."""
    ends = [*Status, "pending", "running"]
    return [
        execution(
            n,
            parent=None if n % 3 else execution(n // 10).id,
            kind=("tool", "tool", "code", "tool", "workflow")[n % 5],
            target="agents:codex" if n % 8 == 2 else ("files:read", "files:write", "python", "web:get", "")[n % 5],
            principal=("alice", "bob", "carol")[n % 7 % 3],
            agent=("claude", "", "codex", "claude")[n % 4],
            as_agent=n % 8 in (2, 3),
            access_key=("", "k1", "k2")[n % 3],
            trigger=("manual", "schedule", "agent", "mcp")[n // 5 % 4],
            status=ends[n % len(ends)],
            duration_ms=None if ends[n % len(ends)] in ("pending", "running") else n,
            dry_run=n % 5 == 0,
            cost_usd=None if n % 2 else n / 1000,
            tokens_in=None if n % 3 else n * 10,
            tokens_out=None if n % 4 else n,
            started_at=EPOCH + timedelta(seconds=n // 4),
            intent=("send the weekly report", "look up the Größe", "")[n % 3 % 2],
            request={} if n % 4 else {"path": f"/srv/reports/number_{n}.csv"},
        )
        for n in range(80)
    ]


ONE: list[dict[str, Any]] = [
    {},
    {"since": EPOCH + timedelta(seconds=7)},
    {"until": EPOCH + timedelta(seconds=13)},
    {"agent": "claude"},
    {"agent": ""},
    {"principal": "bob"},
    {"agents_only": True},
    {"statuses": frozenset({"ok"})},
    {"statuses": frozenset({"error", "denied"})},
    {"statuses": frozenset({"pending", "running"})},
    {"statuses": frozenset({"running", "ok", "timed_out"})},
    {"statuses": frozenset()},
    {"trigger": "agent"},
    {"parent": execution(3).id},
    {"top_level": True},
    {"include_dry_runs": False},
    {"target": "files:read"},
    {"target": "files:*"},
    {"text": "REPORT send"},
    {"text": "größ"},
]
"""Each filter alone."""
SHARED = Scope(principals=frozenset({"bob"}), agents=frozenset({"codex", "nobody"}))
SCOPES = (EVERYONE, NOBODY, ALICE, Scope(principals=frozenset({"bob", "carol", "nobody"})), SHARED)


def single_queries() -> list[ExecutionQuery]:
    """Each filter alone under several scopes."""
    return [ExecutionQuery(scope=scope, limit=100, **one) for scope, one in product(SCOPES, ONE)]


def some_queries() -> list[ExecutionQuery]:
    """Each filter alone under several scopes, and in pairs under one of them each."""
    pairs = enumerate(combinations(ONE[1:], 2))
    return single_queries() + [
        ExecutionQuery(scope=(EVERYONE, SHARED, ALICE)[n % 3], limit=100, **{**a, **b}) for n, (a, b) in pairs
    ]


def tools(names: Sequence[str], server: str = "files") -> list[CatalogEntry]:
    """One entry per name."""
    return [entry(f"{server}:{name}", f"does {name}", annotations={"z": 1, "a": [2.5, None]}) for name in names]


def of_earlier_version(*, as_agent: bool) -> list[ExecutionRecord]:
    """What the databases of earlier versions have, which stores keep with their tests; the last if agents had runs."""
    records = [
        execution(n, intent=f"count zebras {n}", principal="alice" if n % 3 else "bob", cost_usd=0.5) for n in range(40)
    ]
    records += [
        execution(100, response={"text": "a\nzebra " + "x" * 9000}),
        execution(
            101, status=Status.ERROR, failure=Failure("a.b", "no zebra"), request={"animal": "none"}, duration_ms=101
        ),
        execution(102, parent=execution(100).id, intent="zebra", tool_calls=("a:b",)),
    ]
    run: Any = {"agent": "r", "as_agent": True, "transcript": ({"text": "said " * 2000},)}
    return [*records, execution(103, principal="bob", intent="zebra", **run)] if as_agent else records


async def assert_is_of_earlier_version(store: Store, version: int, *, as_agent: bool, documents: bool) -> None:
    """Everything is there, searched, added up and deleted as if it had been written today."""
    records = of_earlier_version(as_agent=as_agent)
    for record in records:
        assert_same(await store.executions.get(record.id, EVERYONE, transcript=True), record)
    for scope in (EVERYONE, ALICE, Scope(principals=frozenset({"alice"}), agents=frozenset({"r"}))):
        for text in (None, "zebra", "count zeb"):
            query = ExecutionQuery(scope=scope, text=text)
            right = [record for record in records if matches(record, query)]
            page = await store.executions.find(query)
            assert page.total == len(right), (version, query)
            newest = sorted(right, key=lambda record: (record.started_at, record.id), reverse=True)
            assert [record.id for record in page.items] == [record.id for record in newest[:20]], (version, query)
            for by in ("agent", "tool", "day", "principal", "key"):
                totals = await store.executions.totals(query, by)
                assert sum(total.executions for total in totals) == len(right), (version, query, by)
                cost = sum(record.cost_usd or 0 for record in right)
                assert sum(total.cost_usd for total in totals) == cost, (version, query, by)
    assert len(await store.traces.of(execution(100).id, EVERYONE)) == 3
    assert [status.name for status in await store.catalog.statuses()] == ["files"]
    await store.secrets.put("http", "second", "kept")
    assert await store.secrets.get("http", "git") == (None if version == 1 and not documents else "token")
    found = await store.documents.get("test", "a")
    assert (found and dict(found.value)) == ({"n": 1} if documents else None)
    await store.executions.put(execution(0, intent="anew"))
    assert (await store.executions.find(ExecutionQuery(scope=EVERYONE, text="anew"))).total == 1
    assert await store.executions.prune(before=execution(1000).started_at) == len(records) - 1
    assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 0
    assert not await store.executions.totals(ExecutionQuery(scope=EVERYONE), "day")
