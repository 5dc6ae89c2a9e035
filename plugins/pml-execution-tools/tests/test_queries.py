from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from pml_execution_tools.queries import GetExecutionResult, ListRecentExecutions
from pml_hookspecs import (
    ExecutionId,
    ExecutionQuery,
    ExecutionRecord,
    Failure,
    InvalidArguments,
    Page,
    RawObject,
    Scope,
    Session,
    Status,
    encode,
)
from pml_testing.fakes import FakeRun, FakeServices

pytestmark = pytest.mark.anyio
NOW = datetime.now(UTC).replace(microsecond=0)
STARTED = NOW - timedelta(minutes=1)


class Executions:
    """The reading half of a store's executions, in memory, with pages."""

    def __init__(self, *records: ExecutionRecord) -> None:
        self.records = records
        self.asked: list[ExecutionQuery] = []

    async def get(self, id: ExecutionId, scope: Scope) -> ExecutionRecord | None:
        return next((r for r in self.records if r.id == id and in_scope(r, scope)), None)

    async def find(self, query: ExecutionQuery) -> Page[ExecutionRecord]:
        self.asked.append(query)
        found = sorted((r for r in self.records if matches(r, query)), key=lambda r: (r.started_at, r.id), reverse=True)
        start = int(query.cursor or 0)
        items = found[start : start + query.limit]
        more = start + query.limit < len(found)
        return Page(items, str(start + query.limit) if more else None, len(found))


def in_scope(record: ExecutionRecord, scope: Scope) -> bool:
    return scope.principals is None or record.principal in scope.principals


def matches(record: ExecutionRecord, query: ExecutionQuery) -> bool:
    return (
        in_scope(record, query.scope)
        and (query.since is None or record.started_at >= query.since)
        and query.agent in (None, record.agent)
        and (query.statuses is None or record.status in query.statuses)
        and query.trigger in (None, record.trigger)
        and query.parent in (None, record.parent)
        and not (query.top_level and record.parent is not None)
        and (query.include_dry_runs or not record.dry_run)
    )


def record(name: str = "abc123", **members: Any) -> ExecutionRecord:
    defaults = {
        "id": ExecutionId(name),
        "kind": "tool",
        "target": "files:read",
        "principal": "local",
        "agent": "ruby-agent",
        "intent": "Process daily invoices",
        "status": Status.OK,
        "started_at": STARTED,
        "duration_ms": 45_000,
        "response": {"content": [{"type": "text", "text": "15 invoices"}]},
    }
    return ExecutionRecord(**{**defaults, **members})


class Store:
    def __init__(self, executions: Executions) -> None:
        self.executions = executions


def using(*records: ExecutionRecord, executions: Executions | None = None) -> Any:
    store: Any = Store(executions or Executions(*records))
    return FakeServices(store=store)


async def listing(*records: ExecutionRecord, session: Session | None = None, **arguments: Any) -> dict[str, Any]:
    return await ListRecentExecutions(using(*records))(arguments, FakeRun(session=session))


async def ids(*records: ExecutionRecord, session: Session | None = None, **arguments: Any) -> list[str]:
    answer = await listing(*records, session=session, **arguments)
    return [execution["id"] for execution in answer["executions"]]


async def result(
    *records: ExecutionRecord, session: Session | None = None, execution: str = "abc123", **more: Any
) -> dict[str, Any]:
    arguments = {"agent_name": "ruby-agent", "execution_id": execution, **more}
    answer: Mapping[str, Any] = await GetExecutionResult(using(*records))(arguments, FakeRun(session=session))
    assert answer.keys() == {"execution"}
    return dict(answer["execution"])


def zulu(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.seed("QRY-7", "QRY-8", "QRY-9", "GAP-19")
async def test_a_list_has_the_shape_of_the_seed() -> None:
    answer = await listing(record(cost_usd=0.02, trigger="schedule"))
    assert answer == {
        "executions": [
            {
                "id": "abc123",
                "agent_name": "ruby-agent",
                "status": "success",
                "triggered_by": "schedule",
                "message": "Process daily invoices",
                "started_at": zulu(STARTED),
                "completed_at": zulu(STARTED + timedelta(seconds=45)),
                "duration_seconds": 45,
                "cost_usd": 0.02,
                "has_error": False,
            }
        ],
        "total_count": 1,
        "filters_applied": {"agent_name": None, "status": None, "triggered_by": None, "hours": 24, "limit": 20},
    }
    assert list(answer["executions"][0]) == [
        "id", "agent_name", "status", "triggered_by", "message", "started_at", "completed_at", "duration_seconds",
        "cost_usd", "has_error",
    ]  # fmt: skip


@pytest.mark.seed("QRY-8", "GAP-19")
async def test_the_filters_that_were_used_are_repeated() -> None:
    given = {"agent_name": "a", "status": "failed", "triggered_by": "mcp", "hours": 2.5, "limit": 1}
    assert (await listing(**given))["filters_applied"] == given


@pytest.mark.seed("QRY-9")
async def test_times_are_utc_with_a_z_and_fractions_where_there_are_some() -> None:
    elsewhere = timezone(timedelta(hours=2))
    [shown] = (await listing(record(started_at=STARTED.astimezone(elsewhere), duration_ms=1_250)))["executions"]
    assert shown["started_at"] == zulu(STARTED)
    assert shown["completed_at"] == (STARTED + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%S.250000Z")
    assert shown["duration_seconds"] == 1.25


@pytest.mark.seed("GAP-16")
@pytest.mark.parametrize(
    ("status", "public"),
    [
        ("pending", "pending"),
        ("running", "running"),
        ("ok", "success"),
        (Status.OK, "success"),
        (Status.SIMULATED, "success"),
        (Status.ERROR, "failed"),
        (Status.TIMED_OUT, "failed"),
        (Status.CANCELLED, "failed"),
        (Status.DENIED, "failed"),
        (Status.SKIPPED, "failed"),
        (Status.INPUT_REQUIRED, "failed"),
    ],
)
async def test_every_state_has_one_of_the_four_public_names_and_is_found_by_it(status: Any, public: str) -> None:
    only = record(status=status)
    assert (await listing(only))["executions"][0]["status"] == public
    assert (await result(only))["status"] == public
    found = {name: len(await ids(only, status=name)) for name in ("pending", "running", "success", "failed")}
    assert found == {name: int(name == public) for name in found}


@pytest.mark.seed("QRY-2", "QRY-4", "QRY-5")
async def test_the_filters_narrow_the_list() -> None:
    records = [
        record("new"),
        record("other", agent="other", started_at=STARTED - timedelta(minutes=1)),
        record("manual", trigger="manual", started_at=STARTED - timedelta(minutes=2)),
        record("old", started_at=NOW - timedelta(hours=30)),
    ]
    assert await ids(*records) == ["new", "other", "manual"]
    assert await ids(*records, agent_name="other") == ["other"]
    assert await ids(*records, agent_name="") == ["new", "other", "manual"]
    assert await ids(*records, triggered_by="manual") == ["manual"]
    assert await ids(*records, hours=168) == ["new", "other", "manual", "old"]
    assert await ids(*records, agent_name="nobody") == []


@pytest.mark.seed("QRY-6", "QRY-8")
async def test_the_total_counts_what_the_limit_leaves_out() -> None:
    answer = await listing(*(record(f"r{n}") for n in range(5)), limit=2)
    assert (len(answer["executions"]), answer["total_count"]) == (2, 5)


async def test_what_ran_inside_another_execution_is_not_listed() -> None:
    assert await ids(record("outer"), record("inner", parent=ExecutionId("outer"))) == ["outer"]


async def test_a_dry_run_says_so_and_nothing_else_does() -> None:
    rehearsed, real = record("rehearsed", dry_run=True), record("real")
    shown = {e["id"]: e for e in (await listing(rehearsed, real))["executions"]}
    assert shown["rehearsed"]["dry_run"] is True
    assert "dry_run" not in shown["real"]
    assert (await result(rehearsed, execution="rehearsed"))["dry_run"] is True
    assert "dry_run" not in await result(real, execution="real")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"request": {"path": "/a"}}, 'files:read {"path":"/a"}'),
        ({"request": RawObject(b'{"path":"/a"}')}, 'files:read {"path":"/a"}'),
        ({"kind": "workflow", "target": "", "request": {"tasks": []}}, 'workflow {"tasks":[]}'),
        ({"request": {"text": "x" * 999}}, 'files:read {"text":"' + "x" * 179 + "…"),
    ],
)
async def test_without_an_intent_the_message_says_what_was_called(members: dict[str, Any], message: str) -> None:
    [shown] = (await listing(record(intent="", **members)))["executions"]
    assert shown["message"] == message
    assert len(message) <= 200


@pytest.mark.seed("QRY-13")
async def test_a_result_has_the_shape_of_the_seed() -> None:
    shown = await result(record(tool_calls=("Read", "Write"), response="Successfully processed 15 invoices"))
    assert shown == {
        "id": "abc123",
        "agent_name": "ruby-agent",
        "status": "success",
        "message": "Process daily invoices",
        "response": "Successfully processed 15 invoices",
        "error": None,
        "started_at": zulu(STARTED),
        "completed_at": zulu(STARTED + timedelta(seconds=45)),
        "duration_seconds": 45,
        "cost_usd": None,
        "context_used": None,
        "context_max": None,
        "tool_calls": ["Read", "Write"],
    }


@pytest.mark.seed("QRY-9", "QRY-13")
async def test_an_error_is_told() -> None:
    failed = record(status=Status.ERROR, failure=Failure("tool.failed", "The disk is full."))
    assert (await result(failed))["error"] == "The disk is full."
    assert (await listing(failed))["executions"][0]["has_error"] is True


@pytest.mark.seed("QRY-16")
async def test_a_running_execution_can_be_polled() -> None:
    running = record(status="running", duration_ms=None, response=None)
    shown = await result(running)
    assert shown["status"] == "running"
    unknown = ("response", "error", "completed_at", "duration_seconds", "cost_usd")
    assert [shown[name] for name in unknown] == [None] * len(unknown)
    [line] = (await listing(running))["executions"]
    assert (line["completed_at"], line["duration_seconds"]) == (None, None)


@pytest.mark.seed("QRY-14", "QRY-38")
@pytest.mark.parametrize("arguments", [{}, {"include_transcript": False}, {"include_transcript": None}])
async def test_there_is_no_transcript_unless_it_is_asked_for(arguments: dict[str, Any]) -> None:
    assert "transcript" not in await result(record(), **arguments)


@pytest.mark.seed("QRY-14")
async def test_a_transcript_has_the_request_and_what_ran_inside_in_order_of_start() -> None:
    outer = record(kind="workflow", target="", request={"tasks": ["a", "b"]})
    inner = [
        record(f"inner{n}", parent=outer.id, started_at=STARTED + timedelta(seconds=n), request={"n": n})
        for n in (2, 1)
    ]
    broken = replace(inner[0], status=Status.ERROR, response=None, failure=Failure("tool.failed", "No."))
    transcript = (await result(outer, broken, inner[1], record("else"), include_transcript=True))["transcript"]
    first, *ran = transcript
    assert first == {"type": "request", "started_at": zulu(STARTED), "request": {"tasks": ["a", "b"]}}
    assert [line["id"] for line in ran] == ["inner1", "inner2"]
    assert ran[1] == {
        "type": "execution",
        "id": "inner2",
        "kind": "tool",
        "target": "files:read",
        "status": "failed",
        "request": {"n": 2},
        "response": None,
        "error": "No.",
        "started_at": zulu(STARTED + timedelta(seconds=2)),
        "completed_at": zulu(STARTED + timedelta(seconds=47)),
        "duration_seconds": 45,
    }


@pytest.mark.parametrize(("inside", "left_out"), [(250, None), (1000, None), (1001, 1), (1300, 300)])
async def test_a_long_transcript_is_read_page_by_page_up_to_a_limit(inside: int, left_out: int | None) -> None:
    ran = [record(f"{n:05}", parent=ExecutionId("abc123")) for n in range(inside)]
    transcript = (await result(record(), *ran, include_transcript=True))["transcript"]
    notes = [line["executions"] for line in transcript if line["type"] == "left_out"]
    assert notes == ([] if left_out is None else [left_out])
    shown = [line["id"] for line in transcript if line["type"] == "execution"]
    assert shown == [r.id for r in ran[left_out or 0 :]]


OTHER = Session(key="o", principal="other")
SYSTEM = Session(key="s", principal="root", scopes=frozenset({"system"}))


@pytest.mark.seed("QRY-2", "QRY-15")
async def test_callers_see_their_own_executions_and_the_system_sees_all() -> None:
    records = [record("mine"), record("theirs", principal="other")]
    assert await ids(*records) == ["mine"]
    assert (await listing(*records))["total_count"] == 1
    assert await ids(*records, session=OTHER) == ["theirs"]
    assert sorted(await ids(*records, session=SYSTEM)) == ["mine", "theirs"]
    assert (await result(*records, session=SYSTEM, execution="theirs"))["id"] == "theirs"


@pytest.mark.seed("QRY-15")
async def test_unknown_foreign_and_other_agents_executions_are_not_told_apart() -> None:
    messages = []
    for records in ([], [record(principal="other")], [record(agent="somebody")]):
        with pytest.raises(InvalidArguments) as caught:
            await result(*records)
        messages.append(str(caught.value))
    expected = (
        "get_execution_result: agent 'ruby-agent' has no execution 'abc123' that you can see; "
        "list_recent_executions shows the ids and agents of those you can."
    )
    assert messages == [expected] * 3


@pytest.mark.seed("QRY-15")
async def test_a_transcript_shows_only_what_the_caller_may_see() -> None:
    foreign = record("inner", parent=ExecutionId("abc123"), principal="other")
    assert len((await result(record(), foreign, include_transcript=True))["transcript"]) == 1
    assert len((await result(record(), foreign, session=SYSTEM, include_transcript=True))["transcript"]) == 2


@pytest.mark.seed("QRY-10")
async def test_answers_are_json() -> None:
    raw = record(request=RawObject(b'{"a":1}'), response=RawObject(b'{"b":2}'))
    inner = replace(raw, id=ExecutionId("inner"), parent=raw.id)
    shown = await result(raw, inner, include_transcript=True)
    decoded = json.loads(encode(shown))
    assert decoded["response"] == {"b": 2}
    assert decoded["transcript"][0]["request"] == {"a": 1}
    assert decoded["transcript"][1]["response"] == {"b": 2}


async def test_bad_arguments_are_refused_before_the_store_is_asked() -> None:
    executions = Executions(record())
    with pytest.raises(InvalidArguments):
        await ListRecentExecutions(using(executions=executions))({"limit": 0}, FakeRun())
    assert executions.asked == []
