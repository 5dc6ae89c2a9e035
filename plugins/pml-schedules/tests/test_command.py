from __future__ import annotations

import argparse
import asyncio
import io
import json
import sys
from datetime import UTC, datetime, timedelta

import pytest
from schedules_kit import Gateway, SetClock, Store

from pml_hookspecs import InvalidArguments, Session, Status
from pml_schedules import plugin
from pml_schedules.ledger import Ledger
from pml_schedules.plan import plan_from
from pml_schedules.settings import Schedule, Settings
from pml_testing.fakes import FakeRun


class Terminal:
    """``pml schedules``, and the gateways whose store it looks at."""

    def __init__(self, **schedules):
        self.store, self.clock = Store(), SetClock(datetime.now(UTC))
        self.gateway = Gateway(self.store, self.clock, Settings(schedules=schedules))
        self.gateway.settings = Settings(schedules=schedules)
        self.ledger = Ledger(self.store.documents, timedelta(days=1))

    def __call__(self, *words):
        parser = argparse.ArgumentParser()
        plugin.pml_commands(parser.add_subparsers())
        arguments = parser.parse_args(["schedules", *words])
        return asyncio.run(arguments.run_with(arguments, self.gateway))

    def look(self, *, go_on_s=0.0):
        asyncio.run(self.gateway.look(go_on_s=go_on_s))

    def kept(self, name):
        return plan_from(asyncio.run(self.ledger.plan(name)), Settings())


@pytest.fixture
def pml():
    return Terminal(declared=Schedule(cron="0 3 * * *", tool="s:tool"))


@pytest.fixture
def said(pml, capsys):
    """The answer of a command for programs."""

    def run(*words):
        capsys.readouterr()
        assert pml(*words, "--json") == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_a_schedule_is_made_listed_shown_paused_resumed_and_removed(pml, said, capsys):
    assert pml("add", "tidy", "--every", "2h", "--agent", "janitor", "--message", "tidy up") == 0
    assert "tidy runs agent janitor, every 2 h; next at 20" in capsys.readouterr().out
    assert [(row["name"], row["state"]) for row in said("list")] == [("declared", "active"), ("tidy", "active")]
    shown = said("show", "tidy")
    assert (shown["declared"], shown["principal"], len(shown["upcoming"]), shown["problem"]) == (
        False,
        "local",
        5,
        None,
    )
    said("pause", "tidy")
    assert said("show", "tidy")["state"] == "paused"
    assert said("show", "tidy")["next"] is None
    assert pml("resume", "tidy") == 0
    assert "tidy goes on; next at" in capsys.readouterr().out
    assert said("remove", "tidy") == {"name": "tidy", "state": "removed"}
    assert [row["name"] for row in said("list")] == ["declared"]


def test_an_interval_counts_from_now(pml):
    pml("add", "a", "--every", "6h", "--tool", "s:tool")
    plan = pml.kept("a")
    assert plan.times.next(plan.times.start) - plan.times.start == timedelta(hours=6)
    assert abs(plan.times.start - datetime.now(UTC)) < timedelta(minutes=1)


def test_all_options_are_kept(pml, tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"tasks": [{"id": "a", "tool": "s:tool"}]}))
    words = (
        f"--cron 0.7.*.*.MON-FRI --time-zone Europe/Berlin --until 2099-01-01T00:00 --max-runs 9 --jitter-s 5 "
        f"--workflow {file} --intent see --dry-run --principal ada --scope x --scope y --missed all --most-missed 3 "
        "--overlap queue --timeout-s 60 --paused"
    )
    pml("add", "a", *(word.replace(".", " ") if "MON" in word else word for word in words.split()))
    file.unlink()
    assert pml.kept("a").schedule == Schedule(
        cron="0 7 * * MON-FRI",
        time_zone="Europe/Berlin",
        until=datetime(2099, 1, 1),  # noqa: DTZ001 - of the time zone of the schedule
        max_runs=9,
        jitter_s=5,
        workflow={"tasks": [{"id": "a", "tool": "s:tool"}]},
        intent="see",
        dry_run=True,
        principal="ada",
        scopes=("x", "y"),
        missed="all",
        most_missed=3,
        overlap="queue",
        timeout_s=60,
        paused=True,
    )
    assert pml.kept("a").times.until == datetime(2098, 12, 31, 23, tzinfo=UTC)


def test_a_plan_comes_from_the_standard_input(pml, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"workflow": {"tasks": [{"id": "a", "tool": "s:tool"}]}}'))
    pml("add", "a", "--every", "1d", "--workflow", "-")
    assert pml.kept("a").what == "workflow of 1 tasks"


WHEN, WHAT = ("--every", "1h"), ("--tool", "s:tool")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "a", *WHAT], "give either cron or every_s"),
        (["add", "a", *WHEN, *WHAT, "--scope", "x", "--scope", "system"], "scopes: 'system' is what keys made with"),
        (["add", "a", *WHEN], "give exactly one of"),
        (["add", "a", "--cron", "0 0 * * 9", *WHAT], "field 5 of '0 0 .* 9', the day of the week: '9'"),
        (["add", "a", "--cron", "0 0 * * *", "--time-zone", "Mars", *WHAT], "time_zone: there is no 'Mars'"),
        (["add", "a", "--every", "soon", *WHAT], "--every: 'soon' is no time; .* such as 15m"),
        (["add", "a", "--every", "0s", *WHAT], "give either cron or every_s"),
        (["add", "a", *WHEN, "--until", "tomorrow", *WHAT], "--until: 'tomorrow' is no time"),
        (["add", "a", *WHEN, "--until", "2020-01-01", *WHAT], "until: must be later than start"),
        (["add", "a", "--cron", "0 0 * * *", "--until", "2020-01-01", *WHAT], "It would never run"),
        (["add", "a b", *WHEN, *WHAT], "'a b' is no name for a schedule; names are 1 to 100"),
        (["add", "a", *WHEN, *WHAT, "--arguments", "{"], "--arguments: is not JSON"),
        (["add", "a", *WHEN, *WHAT, "--arguments", "[1]"], "--arguments: must be a JSON object"),
        (["add", "a", *WHEN, *WHAT, "--max-runs", "-1"], "--max-runs: must be 0 or more"),
        (["add", "a", *WHEN, *WHAT, "--jitter-s", "nan"], "--jitter-s: must be 0 or more"),
        (["add", "a", *WHEN, "--workflow", "/nowhere.json"], "/nowhere.json cannot be read: No such file"),
        (["add", "a", *WHEN, "--workflow", "/dev/null"], "/dev/null is not JSON"),
        (["add", "declared", *WHEN, *WHAT], "stands in the configuration"),
        (["remove", "declared"], "stands in the configuration; remove"),
        (["remove", "declred"], "There is no schedule 'declred'; did you mean 'declared'?"),
        (["show", "x"], "There is no schedule 'x'; pml schedules list shows all."),
        (["history", "x"], "There is no schedule 'x'"),
        (["history", "declared", "--limit", "0"], "--limit must be 1 to 1000"),
    ],
)
def test_a_mistake_gets_a_message(pml, words, message):
    with pytest.raises(InvalidArguments, match=message):
        pml(*words)
    assert asyncio.run(pml.ledger.plans()) == []


def test_a_name_is_taken_once_unless_it_is_to_be_replaced(pml):
    pml("add", "a", *WHEN, *WHAT)
    with pytest.raises(InvalidArguments, match="--replace"):
        pml("add", "a", "--every", "5m", *WHAT)
    pml("add", "a", "--every", "5m", *WHAT, "--replace")
    assert pml.kept("a").schedule.every_s == 300


def test_one_that_names_an_unknown_agent_is_kept_with_a_warning(pml, capsys):
    assert pml("add", "a", *WHEN, "--agent", "janitr", "--message", "x") == 0
    assert (
        "warning: its runs will fail unless this changes: agent: there is no agent 'janitr'" in capsys.readouterr().err
    )
    assert pml.kept("a").schedule.agent == "janitr"


def test_runs_are_in_the_list_and_in_the_history(pml, said, capsys):
    pml("add", "a", "--every", "10s", *WHAT)
    pml.look()
    pml.look(go_on_s=11)
    pml.look(go_on_s=10)
    ((id, *_),) = pml.gateway.started
    row = next(row for row in said("list") if row["name"] == "a")
    assert (row["last"]["execution_id"], row["last"]["status"]) == (id, "started")
    skipped, run = said("history", "a")
    assert (skipped["status"], skipped["execution_id"], skipped["reason"]) == (
        "skipped", None, "the run before was still under way (overlap)",
    )  # fmt: skip
    assert (run["status"], run["execution_id"], run["duration_ms"]) == ("pending", id, None)
    asyncio.run(pml.gateway.end(id, Status.ERROR))
    pml.look()
    assert said("history", "a")[1]["status"] == "error"
    assert next(row for row in said("list") if row["name"] == "a")["last"]["status"] == "error"
    capsys.readouterr()
    for words in (["list"], ["history", "a"]):
        assert pml(*words) == 0
        assert "error" in capsys.readouterr().out
    assert said("history", "a", "--limit", "1") == [skipped]


def test_a_run_by_hand_is_begun_by_a_gateway(pml, said, capsys):
    summary_of = said("run-now", "declared")
    assert summary_of["status"] == "queued"
    pml.look()
    assert [id for id, *_ in pml.gateway.started] == [summary_of["execution_id"]]
    asyncio.run(pml.gateway.end(summary_of["execution_id"]))
    pml.look()
    (run,) = said("history", "declared")
    assert (run["by_hand"], run["status"]) == (True, "ok")
    assert pml("run-now", "declared") == 0
    assert "a gateway that is up begins it within 2 s" in capsys.readouterr().out


def test_waiting_for_a_run_that_nobody_begins_ends(pml, capsys):
    assert pml("run-now", "declared", "--wait-s", "0.1") == 0
    assert "has not ended in 0.1 s. Is a gateway up?" in capsys.readouterr().out


def test_a_removed_schedule_leaves_its_history_and_no_run_in_line(pml, said):
    pml("add", "a", *WHEN, *WHAT)
    pml("run-now", "a")
    pml("remove", "a")
    pml.look()
    assert pml.gateway.started == []
    assert [(run["status"], run["reason"]) for run in said("history", "a")] == [("skipped", "the schedule was removed")]


def test_a_schedule_made_anew_under_an_old_name_begins_anew(pml, said):
    pml("add", "a", "--every", "10s", *WHAT, "--max-runs", "1")
    pml.look()
    pml.look(go_on_s=11)
    assert next(row for row in said("list") if row["name"] == "a")["state"] == "over"
    pml("remove", "a")
    pml("add", "a", "--every", "10s", *WHAT, "--max-runs", "1")
    assert next(row for row in said("list") if row["name"] == "a")["state"] == "active"


def test_a_kept_schedule_that_does_not_fit_is_listed_with_its_problem(pml, said, capsys):
    asyncio.run(pml.ledger.keep_plan("b", {"schedule": {"cron": "99 * * * *", "tool": "t"}}, if_version=0))
    assert "field 1" in said("list")[-1]["problem"]
    pml("list")
    assert "b: does not fit: cron: field 1" in capsys.readouterr().err
    with pytest.raises(InvalidArguments, match="'b' does not fit: cron: field 1"):
        pml("show", "b")
    said("remove", "b")
    assert [row["name"] for row in said("list")] == ["declared"]


def test_a_table_obeys_nothing_that_is_in_it(pml, capsys):
    asyncio.run(pml.ledger.keep_plan("b", {"schedule": {"every_s": 5, "tool": "x\x1b[31m[bold]y"}}, if_version=0))
    pml("list")
    assert "\x1b" not in capsys.readouterr().out


def test_an_empty_list_says_so(capsys):
    assert Terminal()("list") == 0
    assert capsys.readouterr().out == "There are no schedules; pml schedules add makes one.\n"


def test_the_doctor_tells_what_declared_schedules_are_and_what_is_wrong_with_them():
    settings = Settings(
        schedules={
            "good": Schedule(cron="0 3 * * *", tool="s:tool"),
            "bad name": Schedule(every_s=5, tool="s:tool"),
            "lost": Schedule(every_s=5, tool="s:none"),
        }
    )
    gateway = Gateway(Store(), SetClock(), settings)
    gateway.settings = settings
    good, bad, lost = plugin.pml_checks(gateway)
    assert (good.ok, good.detail) == (True, "tool s:tool, 0 3 * * * (UTC)")
    assert (bad.ok, lost.ok) == (False, False)
    assert "there is no tool 's:none'" in lost.detail


def test_tools_tell_of_what_runs_for_the_caller_and_let_operators_steer(pml):
    tell, steer = (one.call for one in plugin.pml_meta_tools(pml.gateway))

    def ask(tool, arguments, principal="local", *scopes):
        run = FakeRun(session=Session(key=principal, principal=principal, scopes=frozenset(scopes)))
        return asyncio.run(tool(arguments, run))

    for who, names in ((("local",), ["declared"]), (("ada",), []), (("ada", "system"), ["declared"])):
        assert [one["name"] for one in ask(tell, {}, *who)["schedules"]] == names
    with pytest.raises(InvalidArguments, match="lacks the scope 'operate'"):
        ask(steer, {"name": "declared", "action": "pause"})
    with pytest.raises(InvalidArguments, match="does not run for you"):
        ask(steer, {"name": "declared", "action": "pause"}, "ada", "operate")
    boss = ("boss", "system", "operate")
    assert ask(steer, {"name": "declared", "action": "pause"}, *boss)["state"] == "paused"
    (shown,) = ask(tell, {}, *boss)["schedules"]
    assert (shown["state"], shown["upcoming"]) == ("paused", [])
    ask(steer, {"name": "declared", "action": "resume"}, *boss)
    (shown,) = ask(tell, {}, *boss)["schedules"]
    assert (shown["state"], len(shown["upcoming"])) == ("active", 5)
    assert ask(steer, {"name": "declared", "action": "run_now"}, *boss)["execution_id"]
    for bad in ({}, {"name": "declared", "action": "erase"}, {"name": "other", "action": "pause"}):
        with pytest.raises(InvalidArguments):
            ask(steer, bad, *boss)
