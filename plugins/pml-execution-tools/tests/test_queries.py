from __future__ import annotations

import json
from datetime import timedelta, timezone
from typing import Any

import pytest

from pml_hookspecs import ExecutionId, Failure, RawObject, Scope, Session, Status, UnauthenticatedError, encode, replace

pytestmark = pytest.mark.anyio
SYSTEM = Session(key="s", principal="root", scopes=frozenset({"system"}))
OTHER = Session(key="o", principal="other")
NO_TIMES = {"since": None, "until": None}
USUAL = {
    "agent_name": None, "status": None, "triggered_by": None, "person": None, "tool": None, "hours": 24, **NO_TIMES,
    "limit": 20,
}  # fmt: skip


def zulu(time):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_a_list_has_the_shape_of_the_seed(history):
    answer = await history.list(history.record(cost_usd=0.02, trigger="schedule"))
    assert answer == {
        "executions": [
            {
                "id": "abc123",
                "agent_name": "ruby-agent",
                "status": "success",
                "triggered_by": "schedule",
                "message": "Process daily invoices",
                "started_at": zulu(history.started),
                "completed_at": zulu(history.started + timedelta(seconds=45)),
                "duration_seconds": 45,
                "cost_usd": 0.02,
                "has_error": False,
            }
        ],
        "total_count": 1,
        "filters_applied": USUAL,
    }
    assert list(answer["executions"][0]) == [
        "id", "agent_name", "status", "triggered_by", "message", "started_at", "completed_at", "duration_seconds",
        "cost_usd", "has_error",
    ]  # fmt: skip


async def test_the_filters_that_were_used_are_repeated(history):
    given = {"agent_name": "a", "status": "failed", "triggered_by": "mcp", "hours": 2.5, "limit": 1}
    given |= {"person": "p", "tool": "s:*"}
    assert (await history.list(**given))["filters_applied"] == {**given, **NO_TIMES}
    applied = (await history.list(**given, since="2026-01-01", until="2026-01-31"))["filters_applied"]
    times = {"since": "2026-01-01T00:00:00Z", "until": "2026-02-01T00:00:00Z"}
    assert applied == {**given, "hours": None, **times}
    applied = (await history.list(hours=2, until="2026-01-31T12:00:00+02:00"))["filters_applied"]
    assert (applied["hours"], applied["since"], applied["until"]) == (2, None, "2026-01-31T10:00:00Z")


async def test_history_can_be_asked_for_as_far_back_as_it_is_kept(history):
    days = (1, 8, 85)
    await history.put(*(history.record(f"d{n}", started_at=history.now - timedelta(days=n)) for n in days))
    assert await history.ids(since="90d") == ["d1", "d8", "d85"]
    assert await history.ids(since="90d", until=f"{history.now - timedelta(days=8):%Y-%m-%d}") == ["d8", "d85"]
    assert await history.ids(hours=24, until=(history.now - timedelta(days=7.5)).isoformat()) == ["d8"]
    found = await history.ask("search_executions", query="invoices", since="90d")
    assert found["total_count"] == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"since": "soon"}, "'since' 'soon': give an age such as 30d, 12h or 2w, or a date such as 2026-11-01."),
        ({"until": "0001-01-01", "hours": 168}, "'until' '0001-01-01' is too long ago."),
        ({"until": "9999-12-31"}, "'until' '9999-12-31': give an age"),
        ({"since": "2999-01-01"}, "'since' '2999-01-01' lies ahead."),
        ({"since": "1d", "until": "2d"}, "is not before 'until'"),
    ],
)
async def test_a_time_that_is_none_is_named(history, given, message):
    for tool in ("list_recent_executions", "get_agent_activity_summary"):
        assert message in await history.refused(tool, given)


async def test_times_are_utc_with_a_z_and_fractions_where_there_are_some(history):
    elsewhere = timezone(timedelta(hours=2))
    [shown] = (await history.list(history.record(started_at=history.started.astimezone(elsewhere), duration_ms=1_250)))[
        "executions"
    ]
    assert shown["started_at"] == zulu(history.started)
    assert shown["completed_at"] == (history.started + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%S.250000Z")
    assert shown["duration_seconds"] == 1.25


@pytest.mark.parametrize(
    ("status", "public"),
    [
        ("pending", "pending"),
        ("running", "running"),
        (Status.OK, "success"),
        (Status.SIMULATED, "success"),
        (Status.ERROR, "failed"),
        (Status.TIMED_OUT, "failed"),
        (Status.CANCELLED, "failed"),
        (Status.DENIED, "failed"),
        (Status.SKIPPED, "failed"),
        (Status.INPUT_REQUIRED, "pending"),
    ],
)
async def test_every_state_has_one_of_the_four_public_names_and_is_found_by_it(history, status, public):
    only = history.record(status=status)
    assert (await history.list(only))["executions"][0]["status"] == public
    assert (await history.result())["status"] == public
    found = {name: len(await history.ids(status=name)) for name in ("pending", "running", "success", "failed")}
    assert found == {name: int(name == public) for name in found}


async def test_the_filters_narrow_the_list(history):
    await history.put(
        history.record("new"),
        history.record("other", agent="other", started_at=history.started - timedelta(minutes=1)),
        history.record("manual", trigger="manual", started_at=history.started - timedelta(minutes=2)),
        history.record("old", started_at=history.now - timedelta(hours=30)),
    )
    assert await history.ids() == ["new", "other", "manual"]
    assert await history.ids(agent_name="other") == ["other"]
    assert await history.ids(agent_name="") == ["new", "other", "manual"]
    assert await history.ids(triggered_by="manual") == ["manual"]
    assert await history.ids(hours=168) == ["new", "other", "manual", "old"]
    assert await history.ids(agent_name="nobody") == []


async def test_lists_are_narrowed_to_people_and_to_tools_wherever_these_were_called(history):
    await history.put(
        history.record("plan", kind="workflow", target="", principal="ada"),
        history.record("inside", parent=ExecutionId("plan"), kind="tool", target="web:get", principal="ada"),
        history.record("direct", kind="tool", target="web:put", principal="bob"),
    )
    assert await history.ids(session=SYSTEM, person="ada") == ["plan"]
    assert await history.ids(session=SYSTEM, tool="web:get") == ["inside"]
    assert sorted(await history.ids(session=SYSTEM, tool="web:*")) == ["direct", "inside"]
    assert await history.ids(session=SYSTEM, tool="web:*", person="bob") == ["direct"]
    assert await history.ids(session=OTHER, person="ada") == []


async def test_one_query_finds_what_each_trigger_made_run(history):
    triggers = ("manual", "schedule", "agent", "mcp")
    await history.put(*(history.record(trigger, trigger=trigger) for trigger in triggers))
    assert sorted(await history.ids()) == sorted(triggers)
    assert [await history.ids(triggered_by=trigger) for trigger in triggers] == [[trigger] for trigger in triggers]


async def test_the_total_counts_what_the_limit_leaves_out(history):
    answer = await history.list(*(history.record(f"r{n}") for n in range(5)), limit=2)
    assert (len(answer["executions"]), answer["total_count"]) == (2, 5)


@pytest.mark.parametrize("tool", ["list_recent_executions", "search_executions"])
async def test_a_cursor_leads_through_all_pages_and_only_pages_with_more_behind_them_have_one(history, tool):
    await history.put(*(history.record(f"r{n}", started_at=history.started - timedelta(n)) for n in range(5)))
    words = {"query": "invoices"} if tool == "search_executions" else {}
    page = await history.ask(tool, words, limit=2, hours=168)
    seen, filters = [], page["filters_applied"]
    assert "cursor" not in filters
    while True:
        assert (page["total_count"], page["filters_applied"]) == (5, filters)
        seen.append([execution["id"] for execution in page["executions"]])
        if "next_cursor" not in page:
            break
        page = await history.ask(tool, words, limit=2, hours=168, cursor=page["next_cursor"])
    assert seen == [["r0", "r1"], ["r2", "r3"], ["r4"]]


async def test_a_cursor_of_somebodys_own_making_is_refused(history):
    await history.put(history.record())
    assert await history.refused("list_recent_executions", cursor="nonsense") == (
        "list_recent_executions: 'cursor' is no next_cursor of a page before; leave it out for the newest."
    )


async def test_what_ran_inside_another_execution_is_not_listed(history):
    inner = history.record("inner", parent=ExecutionId("outer"))
    assert await history.ids(history.record("outer"), inner) == ["outer"]


async def test_a_dry_run_says_so_and_nothing_else_does(history):
    await history.put(history.record("rehearsed", dry_run=True), history.record("real"))
    shown = {e["id"]: e for e in (await history.list())["executions"]}
    assert shown["rehearsed"]["dry_run"] is True
    assert "dry_run" not in shown["real"]
    assert (await history.result(execution="rehearsed"))["dry_run"] is True
    assert "dry_run" not in await history.result(execution="real")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"request": {"path": "/a"}}, 'files:read {"path":"/a"}'),
        ({"request": RawObject(b'{"path":"/a"}')}, 'files:read {"path":"/a"}'),
        ({"kind": "workflow", "target": "", "request": {"tasks": []}}, 'workflow {"tasks":[]}'),
        ({"request": {"text": "x" * 999}}, 'files:read {"text":"' + "x" * 179 + "…"),
        ({"target": "agents:other", "as_agent": True, "request": {"message": "Hi"}}, 'agents:other {"message":"Hi"}'),
        ({"target": "agents:ruby-agent", "as_agent": True, "request": {"message": "Hi"}}, "Hi"),
        (
            {"target": "agents:ruby-agent", "as_agent": False, "request": {"message": "Hi"}},
            'agents:ruby-agent {"message":"Hi"}',
        ),
    ],
)
async def test_without_an_intent_the_message_says_what_was_called(history, members, message):
    [shown] = (await history.list(history.record(intent="", **members)))["executions"]
    assert shown["message"] == message
    assert len(message) <= 200


async def test_a_long_message_is_cut_in_lists_and_whole_in_the_result(history):
    message = "Summarise this: " + "x" * 5_000
    agent = {"target": "agents:ruby-agent", "as_agent": True, "request": {"message": message}}
    [shown] = (await history.list(history.record(intent="something else", **agent)))["executions"]
    assert shown["message"] == message[:199] + "…"
    assert (await history.result())["message"] == message


async def test_a_result_has_the_shape_of_the_seed(history):
    shown = await history.result(
        history.record(
            tool_calls=("Read", "Write", "Bash"),
            response="Successfully processed 15 invoices",
            context_used=12_500,
            context_max=200_000,
            cost_usd=0.02,
        )
    )
    assert shown == {
        "id": "abc123",
        "agent_name": "ruby-agent",
        "status": "success",
        "message": "Process daily invoices",
        "response": "Successfully processed 15 invoices",
        "error": None,
        "started_at": zulu(history.started),
        "completed_at": zulu(history.started + timedelta(seconds=45)),
        "duration_seconds": 45,
        "cost_usd": 0.02,
        "context_used": 12_500,
        "context_max": 200_000,
        "tool_calls": ["Read", "Write", "Bash"],
    }
    assert list(shown) == [
        "id", "agent_name", "status", "message", "response", "error", "started_at", "completed_at",
        "duration_seconds", "cost_usd", "context_used", "context_max", "tool_calls",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("response", "shown"),
    [
        (
            {"content": [{"type": "text", "text": "{}"}], "structuredContent": {"response": "15 invoices"}},
            "15 invoices",
        ),
        ({"content": [{"type": "text", "text": "15"}, {"type": "text", "text": "invoices"}]}, "15\ninvoices"),
        ({"content": [{"type": "image", "data": "…"}]}, {"content": [{"type": "image", "data": "…"}]}),
        ("15 invoices", "15 invoices"),
        (None, None),
    ],
)
async def test_the_response_of_an_agent_is_its_text(history, response, shown):
    agent = history.record(target="agents:ruby-agent", as_agent=True, response=response)
    assert json.loads(encode((await history.result(agent))["response"])) == shown


async def test_the_response_of_a_tool_that_an_agent_called_is_the_tools_result(history):
    called = history.record(target="files:read", as_agent=True)
    assert json.loads(encode((await history.result(called))["response"])) == called.response


async def test_an_error_is_told(history):
    failed = history.record(status=Status.ERROR, failure=Failure("tool.failed", "The disk is full."))
    assert (await history.result(failed))["error"] == "The disk is full."
    assert (await history.list())["executions"][0]["has_error"] is True


async def test_a_running_execution_can_be_polled(history):
    shown = await history.result(history.record(status="running", duration_ms=None, response=None))
    assert shown["status"] == "running"
    unknown = ("response", "error", "completed_at", "duration_seconds", "cost_usd", "context_used", "context_max")
    assert [shown[name] for name in unknown] == [None] * len(unknown)
    [line] = (await history.list())["executions"]
    assert (line["completed_at"], line["duration_seconds"]) == (None, None)


@pytest.mark.parametrize("arguments", [{}, {"include_transcript": False}, {"include_transcript": None}])
async def test_there_is_no_transcript_unless_it_is_asked_for(history, arguments):
    told = history.record(transcript=[{"type": "assistant", "text": "secret"}])
    assert "transcript" not in await history.result(told, **arguments)


async def test_the_transcript_of_an_agent_is_what_it_said_and_did(history):
    lines = [
        {"type": "user", "text": "Go"},
        {"type": "tool", "name": "Read"},
        {"type": "assistant", "text": "ActivityCounts"},
    ]
    outer = history.record(transcript=lines)
    shown = await history.result(outer, history.record("inner", parent=outer.id), include_transcript=True)
    assert json.loads(encode(shown["transcript"])) == lines


async def test_a_transcript_has_the_request_and_what_ran_inside_in_order_of_start(history):
    outer = history.record(kind="workflow", target="", request={"tasks": ["a", "b"]})
    second, first = [
        history.record(
            f"inner{n}", parent=outer.id, started_at=history.started + timedelta(seconds=n), request={"n": n}
        )
        for n in (2, 1)
    ]
    broken = replace(second, status=Status.ERROR, response=None, failure=Failure("tool.failed", "No."))
    shown = await history.result(outer, broken, first, history.record("else"), include_transcript=True)
    asked, *ran = json.loads(encode(shown["transcript"]))
    assert asked == {"type": "request", "started_at": zulu(history.started), "request": {"tasks": ["a", "b"]}}
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
        "started_at": zulu(history.started + timedelta(seconds=2)),
        "completed_at": zulu(history.started + timedelta(seconds=47)),
        "duration_seconds": 45,
    }


@pytest.mark.parametrize(("inside", "left_out"), [(250, None), (1000, None), (1001, 1), (1300, 300)])
async def test_a_long_transcript_is_read_page_by_page_up_to_a_limit(history, inside, left_out):
    ran = [
        history.record(f"{n:05}", parent=ExecutionId("abc123"), started_at=history.started + timedelta(microseconds=n))
        for n in range(inside)
    ]
    transcript = (await history.result(history.record(), *ran, include_transcript=True))["transcript"]
    notes = [line["executions"] for line in transcript if line["type"] == "left_out"]
    assert notes == ([] if left_out is None else [left_out])
    shown = [line["id"] for line in transcript if line["type"] == "execution"]
    assert shown == [r.id for r in ran[left_out or 0 :]]


async def test_callers_see_their_own_executions_and_the_system_sees_all(history):
    await history.put(history.record("mine"), history.record("theirs", principal="other"))
    assert await history.ids() == ["mine"]
    assert (await history.list())["total_count"] == 1
    assert await history.ids(session=OTHER) == ["theirs"]
    assert sorted(await history.ids(session=SYSTEM)) == ["mine", "theirs"]
    assert (await history.result(session=SYSTEM, execution="theirs"))["id"] == "theirs"


async def test_what_a_caller_sees_is_what_the_gateway_says_and_narrower_for_results(history):
    wide = Scope(principals=frozenset({"alice"}), agents=frozenset({"ruby-agent"}))
    history.services.scopes = {("alice", False): wide, ("alice", True): Scope(principals=frozenset({"alice"}))}
    alice = Session(key="a", principal="alice")
    await history.put(
        history.record("own", principal="alice", agent="claude"),
        history.record("shared", principal="bob", as_agent=True),
        history.record("same name, no agent", principal="bob", as_agent=False),
        history.record("not hers", principal="bob", agent="writer", as_agent=True),
    )
    assert sorted(await history.ids(session=alice)) == ["own", "shared"]
    found = await history.ask("search_executions", query="invoices", session=alice)
    assert (found["total_count"], sorted(e["id"] for e in found["executions"])) == (1, ["own"])
    fleet = await history.summary(session=alice)
    assert (fleet["fleet_summary"]["total_executions"], len(fleet["by_agent"])) == (2, 2)
    assert (await history.result(execution="own", agent_name="claude", session=alice))["id"] == "own"
    refused = await history.refused(
        "get_execution_result", agent_name="ruby-agent", execution_id="shared", session=alice
    )
    assert "has no execution 'shared' that you can see" in refused


async def test_unknown_foreign_and_other_agents_executions_are_not_told_apart(history):
    asked = {"agent_name": "ruby-agent", "execution_id": "abc123"}
    messages = [await history.refused("get_execution_result", asked)]
    for record in (history.record(principal="other"), history.record(agent="somebody")):
        await history.put(record)
        messages.append(await history.refused("get_execution_result", asked))
    expected = (
        "get_execution_result: agent 'ruby-agent' has no execution 'abc123' that you can see; "
        "list_recent_executions shows the ids and agents of those you can."
    )
    assert messages == [expected] * 3


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_recent_executions", {}),
        ("search_executions", {"query": "x"}),
        ("get_execution_result", {"agent_name": "a", "execution_id": "x"}),
        ("get_agent_activity_summary", {}),
    ],
)
async def test_without_a_key_where_one_is_needed_the_seed_says_what_to_say(history, tool, arguments):
    needed = UnauthenticatedError("MCP API key authentication required")
    history.services.scopes = {("local", False): needed, ("local", True): needed}
    assert await history.refused(tool, arguments) == "MCP API key authentication required"


async def test_a_transcript_shows_only_what_the_caller_may_see(history):
    foreign = history.record("inner", parent=ExecutionId("abc123"), principal="other")
    await history.put(history.record(), foreign)
    assert len((await history.result(include_transcript=True))["transcript"]) == 1
    assert len((await history.result(session=SYSTEM, include_transcript=True))["transcript"]) == 2


async def test_answers_are_json(history):
    raw = history.record(request=RawObject(b'{"a":1}'), response=RawObject(b'{"b":2}'))
    inner = replace(raw, id=ExecutionId("inner"), parent=raw.id)
    decoded = json.loads(encode(await history.result(raw, inner, include_transcript=True)))
    assert decoded["response"] == {"b": 2}
    assert decoded["transcript"][0]["request"] == {"a": 1}
    assert decoded["transcript"][1]["response"] == {"b": 2}


async def test_a_search_finds_words_in_what_was_asked_answered_and_went_wrong(history):
    no = Failure("tool.failed", "Rate limited by the bank")
    await history.put(
        history.record("asked", intent="Check the portfolio", response=None),
        history.record("answered", response="Nothing in the portfolio moved"),
        history.record("broken", intent="Pay", status=Status.ERROR, response=None, failure=no),
        history.record("inside", intent="portfolio", parent=ExecutionId("asked")),
        history.record("foreign", intent="portfolio", principal="other"),
        history.record("old", intent="portfolio", started_at=history.now - timedelta(hours=100)),
    )

    async def found(query: str, **more: Any) -> list[str]:
        answer = await history.ask("search_executions", query=query, **more)
        assert answer["total_count"] == len(answer["executions"])
        return sorted(execution["id"] for execution in answer["executions"])

    assert await found("PORTFOLIO") == ["answered", "asked", "old"]
    assert await found("portf", hours=24) == ["answered", "asked"]
    assert await found("limited bank", status="failed") == ["broken"]
    assert await found("portfolio bank") == []
    assert await found("portfolio", session=OTHER) == ["foreign"]


async def test_a_search_repeats_its_words_and_its_filters(history):
    answer = await history.ask("search_executions", query="Invoices")
    assert answer["filters_applied"] == {"query": "Invoices", **USUAL, "hours": 168}


@pytest.mark.parametrize("query", ["", "  ", "…!", "__"])
async def test_a_search_for_no_word_at_all_is_refused(history, query):
    expected = "search_executions: 'query' must have at least one word; list_recent_executions lists without words."
    assert await history.refused("search_executions", query=query) == expected


async def test_bad_arguments_are_refused_before_anything_is_looked_up(history):
    history.services.scopes = {("local", False): RuntimeError("was asked")}
    assert await history.refused("list_recent_executions", limit=0) == (
        "list_recent_executions: 'limit' must be from 1 to 100, not 0."
    )
