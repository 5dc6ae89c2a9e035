from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime, timedelta

import pytest

from pml_console import report_command
from pml_console.report import report_of
from pml_hookspecs import ExecutionId, ExecutionRecord, Failure, InvalidArguments, Status

pytestmark = pytest.mark.anyio
NOW = datetime.now(UTC)


def record(id, *, hours=1.0, why="", **values):
    usual = {"kind": "workflow", "target": "", "principal": "alice", "agent": "writer"}
    return ExecutionRecord(
        id=ExecutionId(id),
        status=Status.ERROR if why else Status.OK,
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
    report = await report_of(history.executions, NOW - timedelta(hours=24), NOW)
    assert (report["runs"], report["succeeded"], report["failed"], report["cost_usd"]) == (4, 1, 3, 0.25)
    assert [(one["name"], one["runs"], one["failed"]) for one in report["people"]] == [("alice", 3, 2), ("bob", 1, 1)]
    assert [one["name"] for one in report["agents"]] == ["writer", "mailer"]
    assert [(one["name"], one["runs"]) for one in report["tools"]] == [("web:get", 1)]
    assert [(one["times"], one["who"], one["id"]) for one in report["failures"]] == [
        (2, "writer", "b"),
        (1, "mailer", "d"),
    ]


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


async def test_what_failed_is_text(store, services, capsys, tmp_path):
    await store.executions.put(record("x", intent="<script>alert(1)</script>", why="<img src=x>"))
    page = tmp_path / "report.html"
    await told(services, capsys, "--html", str(page))
    html = page.read_text(encoding="utf-8")
    assert "<script>" not in html
    assert "<img" not in html


@pytest.mark.parametrize("words", [("--since", "soon"), ("--since", "1h", "--until", "2h"), ("--since", "2999-01-01")])
async def test_bad_times_are_told(services, capsys, words):
    with pytest.raises(InvalidArguments):
        await told(services, capsys, *words)


@pytest.mark.parametrize("day", ["yesterday", "Today"])
async def test_days_have_names(history, services, capsys, day):
    since = json.loads(await told(services, capsys, "--json", "--since", day))["since"]
    assert datetime.fromisoformat(since).astimezone().strftime("%H:%M") == "00:00"
