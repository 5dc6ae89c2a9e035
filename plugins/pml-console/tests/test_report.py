from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime, timedelta

import pytest

from pml_catalog.definitions import COLLECTION, Definitions
from pml_catalog.live import make_entry
from pml_console.reports import report_command
from pml_console.reports.report import Reader, report_of
from pml_hookspecs import ExecutionId, ExecutionRecord, Failure, InvalidArguments, Scope, Status, replace

pytestmark = pytest.mark.anyio
NOW = datetime.now(UTC)


def record(id, *, hours=1.0, why="", **values):
    usual = {"kind": "workflow", "target": "", "principal": "alice", "agent": "writer"}
    usual["status"] = Status.ERROR if why else Status.OK
    return ExecutionRecord(
        id=ExecutionId(id),
        started_at=NOW - timedelta(hours=hours),
        duration_ms=5,
        failure=Failure("tool.failed", why) if why else None,
        **{**usual, **values},
    )


@pytest.fixture
async def history(store):
    for one in (
        record("a", intent="sum up", cost_usd=0.25),
        record("b", intent="sum up 17", why="timed out after 31 s"),
        record("c", intent="sum up 18", why="timed out after 29 s", hours=2),
        record("d", intent="send", why="no such address", agent="mailer", principal="bob"),
        record("e", parent=ExecutionId("a"), kind="tool", target="web:get"),
        record("old", intent="long ago", why="something else", hours=100),
    ):
        await store.executions.put(one)
    return store


async def test_runs_are_counted_and_failures_that_are_alike_are_one(history):
    report = await report_of(history, NOW - timedelta(hours=24), NOW)
    assert (report["runs"], report["succeeded"], report["failed"], report["cost_usd"]) == (4, 1, 3, 0.25)
    assert [(one["name"], one["runs"], one["failed"]) for one in report["people"]] == [("alice", 3, 2), ("bob", 1, 1)]
    assert [one["name"] for one in report["agents"]] == ["writer", "mailer"]
    assert [(one["name"], one["runs"]) for one in report["tools"]] == [("web:get", 1)]
    assert [(one["times"], one["who"], one["id"]) for one in report["failures"]] == [
        (2, "writer", "b"),
        (1, "mailer", "d"),
    ]


async def test_what_waits_for_an_answer_has_not_failed(history):
    await history.executions.put(record("w", status=Status.INPUT_REQUIRED))
    report = await report_of(history, NOW - timedelta(hours=24), NOW)
    assert (report["runs"], report["failed"], report["waiting"]) == (5, 3, 1)
    assert [one["failed"] for one in report["people"]] == [2, 1]


async def approval(store, id, state, by, answered_at, **value):
    marks = {"state": state, "principal": "alice"}
    about = {"target": "db:drop", "agent": "writer", "execution_id": "a", **value}
    about |= {"answered_at": answered_at.isoformat(), "answered_by": by} if answered_at else {}
    await store.documents.put("approvals.requests", id, about, marks=marks)


async def test_it_tells_what_was_approved_by_whom(history):
    hour = timedelta(hours=1)
    await approval(history, "one", "used", "bob", NOW - 2 * hour)
    await approval(history, "two", "denied", "carol", NOW - hour, reason="not on a Friday")
    await approval(history, "old", "approved", "bob", NOW - 30 * hour)
    await approval(history, "waits", "pending", "", None)
    report = await report_of(history, NOW - 24 * hour, NOW)
    shown = [(one["answer"], one["by"], one["for"], one["target"], one["reason"]) for one in report["approvals"]]
    assert shown == [
        ("denied", "carol", "alice", "db:drop", "not on a Friday"),
        ("approved", "bob", "alice", "db:drop", ""),
    ]


async def test_a_reader_is_told_of_their_own_approvals_and_tools_only(history):
    await approval(history, "one", "used", "bob", NOW - timedelta(hours=1))
    await seen_first(history)
    nobody = Scope(principals=frozenset())
    of_carol = Reader(counted=nobody, read=nobody, principal="carol", tools=frozenset({"web:put"}))
    report = await report_of(history, NOW - timedelta(hours=24), NOW + timedelta(hours=1), of_carol)
    assert (report["runs"], report["failures"], report["approvals"]) == (0, [], [])
    assert [one["name"] for one in report["news"]] == ["web:put"]
    for who in ("alice", "bob"):
        report = await report_of(history, NOW - timedelta(hours=24), NOW, replace(of_carol, principal=who))
        assert len(report["approvals"]) == 1


async def seen_first(store):
    """A server that is seen for the first time, later lists one more tool, and says otherwise of another."""
    get, put = {"name": "get", "description": "Get"}, {"name": "put"}
    definitions = Definitions(holds=False)
    for tools in ([get], [get, put], [{**get, "description": "Get all"}, put]):
        definitions.judge([make_entry("web", tool) for tool in tools])
    await store.documents.put(COLLECTION, "web 0123", definitions.kept())


async def test_it_tells_which_servers_tools_and_definitions_were_new(history):
    await seen_first(history)
    later = datetime.now(UTC) + timedelta(hours=1)
    news = (await report_of(history, NOW - timedelta(hours=24), later))["news"]
    assert sorted((one["what"], one["name"], one["fields"]) for one in news) == [
        ("definition", "web:get", ["description"]),
        ("server", "web", []),
        ("tool", "web:put", []),
    ]
    assert (await report_of(history, NOW - timedelta(hours=24), NOW - timedelta(hours=1)))["news"] == []


async def told(services, capsys, *words):
    parser = argparse.ArgumentParser()
    report_command.add(parser.add_subparsers())
    arguments = parser.parse_args(["report", *words])
    assert await arguments.run_with(arguments, services) == 0
    return capsys.readouterr().out


async def test_it_is_told_on_the_terminal_as_json_and_as_a_page(history, services, capsys, tmp_path):
    assert "4 runs, 1 succeeded, 3 failed, $0.2500" in await told(services, capsys)
    assert json.loads(await told(services, capsys, "--json"))["runs"] == 4
    assert json.loads(await told(services, capsys, "--json", "--since", "5d"))["runs"] == 5
    page = tmp_path / "report.html"
    await told(services, capsys, "--html", str(page))
    html = page.read_text(encoding="utf-8")
    assert "no such address" in html
    assert "http" not in html.replace("datetime", "")
    assert "<style" not in html
    assert html.startswith("<!doctype html>")
    await told(services, capsys, "--html", str(page), "--base-url", "https://pml.test/")
    assert 'href="https://pml.test/console/executions/d"' in page.read_text(encoding="utf-8")


async def test_what_failed_is_text(store, services, capsys, tmp_path):
    markup = "<script>alert(1)</script><img src=x>"
    await store.executions.put(record("x", intent=markup, why="<img src=x>", agent=markup, principal=markup))
    await store.executions.put(record("y", kind="tool", target=f"s:{markup}", principal=markup))
    await approval(store, "one", markup, markup, NOW - timedelta(hours=1), reason=markup, target=markup, agent=markup)
    noted = {"at": NOW.isoformat(timespec="seconds"), "fields": [markup]}
    await store.documents.put(COLLECTION, f"{markup} 01", {"noted": {markup: noted}})
    page = tmp_path / "report.html"
    await told(services, capsys, "--html", str(page))
    html = page.read_text(encoding="utf-8")
    assert "<script>" not in html
    assert "<img" not in html


@pytest.mark.parametrize(
    "words",
    [
        ("--since", "soon"),
        ("--since", "1h", "--until", "2h"),
        ("--since", "2999-01-01"),
        ("--base-url", "javascript:alert(1)"),
    ],
)
async def test_bad_times_are_told(services, capsys, words):
    with pytest.raises(InvalidArguments):
        await told(services, capsys, *words)


@pytest.mark.parametrize("day", ["yesterday", "Today"])
async def test_days_have_names(history, services, capsys, day):
    since = json.loads(await told(services, capsys, "--json", "--since", day))["since"]
    assert datetime.fromisoformat(since).astimezone().strftime("%H:%M") == "00:00"
