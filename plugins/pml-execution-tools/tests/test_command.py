from __future__ import annotations

import argparse
import asyncio
import csv
import io
import json
import re
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pml_execution_tools import plugin
from pml_execution_tools.screen import money, took
from pml_execution_tools.units import size_bytes
from pml_hookspecs import ExecutionId, Failure, InvalidArguments, Status
from pml_kit.command_line.moments import moment
from pml_testing.fakes import FakeCatalog, entry

pytestmark = pytest.mark.anyio


@pytest.fixture
def pml(history):
    async def run(*words: str) -> int:
        parser = argparse.ArgumentParser()
        plugin.pml_commands(parser.add_subparsers())
        arguments = parser.parse_args(["executions", *words])
        status: int = await arguments.run_with(arguments, history.services)
        return status

    return run


@pytest.fixture
def said(pml, capsys):
    async def run(*words: str) -> Any:
        assert await pml(*words, "--json") == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
async def filled(history):
    failure = Failure("tool.failed", "Rate limited by\nexternal API")
    await history.put(
        history.record("one", principal="alice", cost_usd=0.02, trigger="schedule", tool_calls=("files:read",)),
        history.record("two", principal="bob", agent="writer", status=Status.ERROR, failure=failure),
        history.record("three", principal="bob", agent="writer", started_at=history.now - timedelta(hours=40)),
        history.record("four", agent="writer", dry_run=True),
        history.record("inner", parent=ExecutionId("one"), target="web:get", cost_usd=0.01),
    )
    return history


async def test_the_list_shows_everyones_executions_to_whoever_sits_at_the_terminal(filled, said):
    answer = await said("list")
    assert sorted(e["id"] for e in answer["executions"]) == ["four", "one", "two"]
    assert answer["total_count"] == 3


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["--agent", "writer"], ["four", "two"]),
        (["--status", "failed"], ["two"]),
        (["--trigger", "schedule"], ["one"]),
        (["--person", "alice"], ["one"]),
        (["--tool", "nobody:*"], []),
        (["--hours", "48"], ["four", "one", "three", "two"]),
        (["--agent", "nobody"], []),
    ],
)
async def test_the_list_is_narrowed(filled, said, words, ids):
    assert sorted(e["id"] for e in (await said("list", *words))["executions"]) == ids


async def test_a_list_may_be_longer_than_a_page_of_the_store(history, said):
    await history.put(*(history.record(f"r{n:03}") for n in range(230)))
    answer = await said("list", "--limit", "215")
    assert [e["id"] for e in answer["executions"]] == [f"r{n:03}" for n in range(229, 14, -1)]
    assert (answer["total_count"], answer["filters_applied"]["limit"]) == (230, 215)


async def test_in_a_pipe_the_list_is_plain_columns_that_are_never_cut(filled, pml, capsys):
    assert await pml("list") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["started", "agent", "status", "trigger", "took", "cost", "message", "id"]
    assert len(rows) == 3
    assert any("(rehearsed) Process daily invoices" in row for row in rows)
    assert all("\x1b" not in row for row in rows)
    assert await pml("list", "--agent", "nobody") == 0
    assert capsys.readouterr().out == "Nothing ran that fits.\n"


async def test_what_is_found_is_counted_up_to_a_thousand(history, pml, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    await history.put(*(history.record(f"id {n}", intent="Send the invoice") for n in range(1001)))
    assert await pml("search", "invoice", "--limit", "1") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1000 or more; --limit shows more."
    assert await pml("list", "--limit", "1") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1001; --limit shows more."


@pytest.mark.parametrize("columns", [80, 120, 200])
async def test_at_a_terminal_the_list_is_a_table_that_fits_and_has_whole_ids(
    history, pml, capsys, monkeypatch, columns
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    id = "01900000-0000-7000-8000-00000000000a"
    await history.put(
        history.record(id, intent="Process " + "many " * 30 + "invoices"),
        history.record("other", started_at=history.started - timedelta(minutes=1)),
    )
    assert await pml("list", "--limit", "1") == 0
    *lines, more = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()
    assert more == "1 of 2; --limit shows more."
    assert all(len(line.rstrip()) <= columns for line in lines)
    assert lines[1].rstrip().endswith(id)
    assert "Process many" in lines[1]
    assert ("trigger" in lines[0]) == (columns > 80)


async def test_what_agents_write_does_not_reach_the_terminal_as_it_is(history, pml, capsys):
    await history.put(history.record(intent="red \x1b[31m alert\n[bold]", response="\x1b[2J gone\nsecond line"))
    for words in (["list"], ["show", "abc123"], ["show", "abc123", "--transcript"], ["summary"]):
        assert await pml(*words) == 0
        assert "\x1b" not in capsys.readouterr().out


async def test_one_execution_is_shown_whole(filled, pml, said, capsys):
    shown = (await said("show", "one"))["execution"]
    assert (shown["id"], shown["cost_usd"], "transcript" in shown) == ("one", 0.02, False)
    whole = (await said("show", "one", "--transcript"))["execution"]
    assert [line["type"] for line in whole["transcript"]] == ["request", "execution"]
    assert await pml("show", "two") == 0
    out = capsys.readouterr().out
    assert "status   failed" in out
    assert "error:\nRate limited by\nexternal API" in out
    with pytest.raises(InvalidArguments, match="no execution 'nothing'; pml executions list shows ids"):
        await pml("show", "nothing")


async def test_the_summary_tells_of_one_agent_or_of_all(filled, pml, said, capsys):
    filled.services.catalog = FakeCatalog([entry("agents:idle-one")])
    fleet = (await said("summary"))["fleet_summary"]
    assert (fleet["total_agents"], fleet["agents_with_activity"], fleet["total_executions"]) == (3, 2, 2)
    one = await said("summary", "--agent", "writer", "--hours", "48")
    assert (one["summary"]["total_executions"], one["summary"]["success_rate"]) == (2, 50.0)
    assert await pml("summary") == 0
    out = capsys.readouterr().out
    assert "2 of 3 agents did something: 2 executions, 1 successful, 1 failed, 0 running" in out
    assert "Rate limited by\\nexternal API" in out
    assert "client:" not in out
    await filled.put(filled.record("c", agent="client:claude", as_agent=False))
    assert await pml("summary") == 0
    assert re.search(r"client:claude +1 +100.0 %", capsys.readouterr().out)
    assert await pml("summary", "--agent", "writer") == 0
    assert capsys.readouterr().out.startswith("writer: idle, 0 waiting\n")


async def test_words_are_searched_for(filled, said, pml):
    found = await said("search", "rate", "limit", "--hours", "24")
    assert repr(found["filters_applied"]["hours"]) == "24"
    assert [e["id"] for e in found["executions"]] == ["two"]
    with pytest.raises(InvalidArguments, match="at least one word"):
        await pml("search", "…")


async def test_a_tail_begins_with_the_last_ones_and_follows(history, pml, capsys):
    old = history.record("long", status="running", duration_ms=None, started_at=history.now - timedelta(minutes=30))
    await history.put(old, *(history.record(f"r{n}", started_at=history.started) for n in range(3)))
    tail = asyncio.get_running_loop().create_task(pml("tail", "--limit", "2", "--interval", "0.05", "--json"))
    lines: list[dict[str, Any]] = []

    async def until(count: int) -> None:
        async with asyncio.timeout(60):
            while len(lines) < count:
                lines.extend(json.loads(line) for line in capsys.readouterr().out.splitlines())
                await asyncio.sleep(0.01)

    await until(2)
    await history.put(history.record("new", status="running", duration_ms=None, started_at=datetime.now(UTC)))
    await until(3)
    await history.put(history.record("new", started_at=datetime.now(UTC)))
    await until(4)
    await history.put(history.record("long", status=Status.OK, started_at=old.started_at))
    await until(5)
    tail.cancel()
    await asyncio.wait([tail])
    assert [(line["id"], line["status"]) for line in lines] == [
        ("r1", "success"), ("r2", "success"), ("new", "running"), ("new", "success"), ("long", "success"),
    ]  # fmt: skip


async def test_a_tail_for_people_is_a_line_each_and_keeps_to_its_filters(filled, pml, capsys):
    tail = asyncio.get_running_loop().create_task(pml("tail", "--status", "failed", "--interval", "0.05"))
    text = ""
    async with asyncio.timeout(60):
        while "two" not in text:
            await asyncio.sleep(0.01)
            text += capsys.readouterr().out
    tail.cancel()
    await asyncio.wait([tail])
    [line] = text.splitlines()
    assert "failed" in line
    assert line.endswith("[two] 45 s, -: Rate limited by\\nexternal API")


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("agent", {"ruby-agent": 0.02, "writer": 0.0}),
        ("tool", {"files:read": 0.02, "web:get": 0.01}),
        ("server", {"files": 0.02, "web": 0.01}),
        ("key", {"": 0.02}),
        ("person", {"alice": 0.02, "bob": 0.0}),
    ],
)
async def test_costs_are_added_up_and_nothing_counts_twice(filled, said, by, groups):
    answer = await said("costs", "--by", by)
    assert answer["by"] == by
    assert {total["group"]: total["cost_usd"] for total in answer["totals"]} == pytest.approx(groups)


async def test_costs_by_day_are_in_the_order_of_days(filled, said, pml, capsys):
    days = [total["group"] for total in (await said("costs", "--by", "day"))["totals"]]
    assert days == sorted(days)
    assert f"{filled.started:%Y-%m-%d}" in days
    assert await pml("costs", "--agent", "ruby-agent") == 0
    header, row, times = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "agent"
    assert re.fullmatch(r"From \d{4}-\d\d-\d\d \d\d:\d\d to now, days and times of \S+ \(UTC[+-]\d\d:\d\d\)\.", times)
    assert row.split()[:4] == ["ruby-agent", "1", "0", "$0.0200"]
    assert await pml("costs", "--agent", "nobody") == 0
    assert capsys.readouterr().out == "Nothing ran that fits.\n"


@pytest.fixture
def tokyo(monkeypatch):
    """Nine hours ahead of UTC, all the year."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


async def test_days_of_costs_are_those_of_whoever_asks_and_the_zone_is_said(history, said, pml, capsys, tokyo):
    noon = history.now.replace(hour=12, minute=0, second=0) - timedelta(days=10)
    for hours, principal, agent in ((0, "alice", "a"), (2, "bob", "a"), (4, "alice", "a"), (5, "alice", "b")):
        at = noon + timedelta(hours=hours)
        await history.put(history.record(f"h{hours}", principal=principal, agent=agent, cost_usd=0.5, started_at=at))
    today, tomorrow = f"{noon:%Y-%m-%d}", f"{noon + timedelta(days=1):%Y-%m-%d}"
    answer = await said("costs", "--by", "day")
    assert answer["time_zone"] == "JST (UTC+09:00)"
    assert [(row["group"], row["executions"], row["cost_usd"]) for row in answer["totals"]] == [
        (today, 2, 1.0), (tomorrow, 2, 1.0),
    ]  # fmt: skip
    rows = (await said("costs", "--by", "person", "--per-day"))["totals"]
    assert [(row["day"], row["group"], row["executions"]) for row in rows] == [
        (today, "alice", 1), (today, "bob", 1), (tomorrow, "alice", 2),
    ]  # fmt: skip
    rows = (await said("costs", "--by", "agent", "--per-day", "--since", today, "--until", today))["totals"]
    assert [(row["day"], row["group"], row["executions"]) for row in rows] == [(today, "a", 2)]
    assert await pml("costs", "--per-day") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split()[:2] == ["day", "agent"]
    assert out[-1].endswith("to now, days and times of JST (UTC+09:00).")


async def test_the_history_of_months_is_listed_searched_and_summed_up(filled, said):
    at = filled.now - timedelta(days=80)
    await filled.put(filled.record("ancient", agent="writer", cost_usd=1.5, started_at=at))
    assert (await said("list", "--since", "90d"))["total_count"] == 5
    assert [e["id"] for e in (await said("list", "--since", "90d", "--until", "70d"))["executions"]] == ["ancient"]
    assert [e["id"] for e in (await said("search", "daily", "--until", "70d", "--since", "12w"))["executions"]] == [
        "ancient"
    ]
    old = await said("summary", "--agent", "writer", "--since", "90d", "--until", "70d")
    assert old["summary"]["total_cost_usd"] == 1.5
    old = await said("costs", "--since", "90d", "--until", "70d")
    assert [(row["group"], row["cost_usd"]) for row in old["totals"]] == [("writer", 1.5)]


async def test_everything_can_be_exported(filled, pml, capsys, tmp_path):
    odd = filled.record("odd", intent="=1+1 \ud83d", started_at=filled.now - timedelta(days=80), transcript=[{"a": 1}])
    await filled.put(odd, *(filled.record(f"many{n}", started_at=filled.now - timedelta(days=2)) for n in range(150)))
    assert await pml("export") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 155
    assert "inner" not in {line["id"] for line in lines}
    (two,) = (line for line in lines if line["id"] == "two")
    assert two["failure"] == {"code": "tool.failed", "message": "Rate limited by\nexternal API", "details": {}}
    assert (two["principal"], two["status"], two["response"]["content"][0]["text"]) == ("bob", "error", "15 invoices")
    file = tmp_path / "out.jsonl"
    words = ("--output", str(file), "--since", "90d", "--until", "70d", "--transcripts")
    assert await pml("export", *words, "--inside") == 0
    assert capsys.readouterr().err == f"1 executions are in {file}.\n"
    assert file.stat().st_mode & 0o077 == 0
    assert json.loads(file.read_text(encoding="utf-8"))["transcript"] == [{"a": 1}]
    assert await pml("export", "--format", "csv", "--status", "success") == 0
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert len(rows) == 154
    assert rows["odd"]["intent"].startswith("'=1+1")  # no formula
    assert json.loads(rows["one"]["tool_calls"]) == ["files:read"]
    assert float(rows["one"]["cost_usd"]) == 0.02


async def test_old_executions_are_deleted_with_what_ran_inside(filled, said):
    assert await said("prune", "--before", "1d", "--dry-run") == {"would_delete": 1}
    assert await said("prune", "--before", "1d") == {"deleted": 1}
    assert await said("prune", "--before", "1d") == {"deleted": 0}
    assert sorted(e["id"] for e in (await said("list", "--hours", "168"))["executions"]) == ["four", "one", "two"]


async def test_executions_are_deleted_until_what_is_left_is_small_enough(filled, pml, capsys):
    assert await pml("prune", "--keep-size", "0MB") == 0
    assert capsys.readouterr().out == "4 executions are deleted.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list", "--limit", "0"], "--limit must be 1 to 1000, not 0"),
        (["list", "--hours", "169"], "'hours' must be from 1 to 168, not 169"),
        (["summary", "--hours", "0"], "'hours' must be from 1 to 168, not 0"),
        (["tail", "--interval", "0"], "--interval must be 0.05 or more, not 0"),
        (["tail", "--limit", "-1"], "--limit must be 0 to 1000, not -1"),
        (["costs", "--days", "0"], "--days must be more than 0 and at most 3660, not 0"),
        (["list", "--since", "soon"], "--since 'soon': give an age such as 30d, 12h or 2w, or a date"),
        (["costs", "--since", "1d", "--until", "2d"], "is not before 'until'"),
        (["export", "--format", "csv", "--transcripts"], "--transcripts needs --format jsonl"),
        (["export", "--output", "/no/such/folder/x"], "/no/such/folder/x cannot be written: No such file"),
        (["prune"], "Say what to delete: --before 30d, --keep-size 1GB, or both"),
        (["prune", "--before", "soon"], "--before 'soon': give an age such as 30d, 12h or 2w, or a date"),
        (["prune", "--before", "2999-01-01"], "--before '2999-01-01' lies ahead"),
        (["prune", "--keep-size", "much"], "--keep-size 'much': give a size such as 500MB, 1GB or 2GiB"),
        (["prune", "--keep-size", "1GB", "--dry-run"], "--dry-run counts by age"),
    ],
)
async def test_a_mistake_on_the_command_line_is_named(history, pml, words, message):
    with pytest.raises(InvalidArguments) as caught:
        await pml(*words)
    assert message in str(caught.value)


NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", NOW - timedelta(days=30)),
        ("1.5h", NOW - timedelta(minutes=90)),
        ("2W", NOW - timedelta(weeks=2)),
        ("90 s", NOW - timedelta(seconds=90)),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T10:00:00+02:00", datetime(2026, 11, 1, 8, tzinfo=UTC)),
    ],
)
async def test_times_are_ages_or_dates(text, expected):
    assert moment(text, "--before", NOW) == expected


@pytest.mark.parametrize("text", ["30", "30x", "9" * 30 + "w", "", "-3d"])
async def test_what_is_no_time_is_refused(text):
    with pytest.raises(InvalidArguments):
        moment(text, "--before", NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500MB", 500_000_000), ("1gb", 10**9), ("2GiB", 2 * 1024**3), ("1.5 kb", 1500), ("7", 7), ("0b", 0)],
)
async def test_sizes_have_units(text, expected):
    assert size_bytes(text, "--keep-size") == expected


async def test_amounts_are_short_and_never_say_nothing_where_there_is_something():
    assert [took(s) for s in (None, 0.0423, 45, 61, 3_700)] == ["-", "0.0423 s", "45 s", "1 min 01 s", "1 h 01 min"]
    assert [money(c) for c in (None, 0.0, 0.0042, 1234.5)] == ["-", "$0.00", "$0.0042", "$1,234.50"]
