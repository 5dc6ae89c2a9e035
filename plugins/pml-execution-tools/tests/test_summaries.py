from __future__ import annotations

from datetime import timedelta

import pytest

from pml_execution_tools import plugin
from pml_execution_tools.history import rate
from pml_hookspecs import ExecutionId, Failure, Scope, Session, Status
from pml_testing.fakes import FakeCatalog, entry

pytestmark = pytest.mark.anyio
SYSTEM = Session(key="s", principal="root", scopes=frozenset({"system"}))


def zulu(time):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def broken(history, name="xyz789", **members):
    failure = Failure("tool.failed", "Rate limited by external API")
    given = {"intent": "Check portfolio", "status": Status.ERROR, "failure": failure, "duration_ms": 5_000}
    return history.record(name, **{**given, **members})


@pytest.mark.parametrize(
    ("successful", "failed", "expected"),
    [(38, 4, 90.5), (142, 14, 91.0), (1, 0, 100.0), (0, 3, 0.0), (2, 1, 66.7)],
)
async def test_rates_are_percentages_of_what_ended_with_one_decimal(successful, failed, expected):
    assert rate(successful, failed) == expected


async def test_the_summary_of_an_agent_has_the_shape_of_the_seed(history):
    good = [history.record(f"good{n}", cost_usd=0.03, started_at=history.started) for n in range(38)]
    bad = [broken(history, f"bad{n}", started_at=history.started - timedelta(minutes=n + 1)) for n in range(4)]
    answer = await history.summary(*good, *bad, history.record("else", agent="other"), agent_name="ruby-agent")
    assert answer == {
        "agent_name": "ruby-agent",
        "summary": {
            "total_executions": 42,
            "successful": 38,
            "failed": 4,
            "running": 0,
            "success_rate": 90.5,
            "total_cost_usd": 1.14,
            "avg_duration_seconds": 41.19,
            "last_execution_at": zulu(history.started),
            "last_execution_status": "success",
            "is_busy": False,
            "queue_length": 0,
        },
        "recent_failures": [
            {
                "id": "bad0",
                "agent_name": "ruby-agent",
                "message": "Check portfolio",
                "error": "Rate limited by external API",
                "failed_at": zulu(history.started - timedelta(minutes=1) + timedelta(seconds=5)),
                "times": 4,
                "first_failed_at": zulu(history.started - timedelta(minutes=4) + timedelta(seconds=5)),
            }
        ],
    }
    assert list(answer["summary"]) == [
        "total_executions", "successful", "failed", "running", "success_rate", "total_cost_usd",
        "avg_duration_seconds", "last_execution_at", "last_execution_status", "is_busy", "queue_length",
    ]  # fmt: skip


async def test_the_summary_of_the_fleet_has_the_shape_of_the_seed(history):
    await history.put(
        *(history.record(f"ruby{n}", cost_usd=0.5) for n in range(3)),
        broken(history, agent="ruby-agent"),
        history.record("r1", agent="researcher", cost_usd=2.1),
        history.record("r2", agent="researcher", status="running", duration_ms=None),
        history.record("r3", agent="researcher", status="pending", duration_ms=None),
    )
    answer = await history.summary()
    assert answer == {
        "fleet_summary": {
            "total_agents": 2,
            "agents_with_activity": 2,
            "total_executions": 7,
            "successful": 4,
            "failed": 1,
            "running": 1,
            "success_rate": 80.0,
            "total_cost_usd": 3.6,
        },
        "by_agent": [
            {"agent_name": "ruby-agent", "executions": 4, "success_rate": 75.0, "cost_usd": 1.5, "status": "idle"},
            {"agent_name": "researcher", "executions": 3, "success_rate": 100.0, "cost_usd": 2.1, "status": "running"},
        ],
        "by_client": [],
        "recent_failures": [
            {
                "id": "xyz789",
                "agent_name": "ruby-agent",
                "message": "Check portfolio",
                "error": "Rate limited by external API",
                "failed_at": zulu(history.started + timedelta(seconds=5)),
                "times": 1,
                "first_failed_at": zulu(history.started + timedelta(seconds=5)),
            }
        ],
    }
    assert list(answer["fleet_summary"]) == [
        "total_agents", "agents_with_activity", "total_executions", "successful", "failed", "running",
        "success_rate", "total_cost_usd",
    ]  # fmt: skip


async def test_where_nothing_ran_there_are_zeros_and_unknowns(history):
    answer = await history.summary(agent_name="nobody")
    assert answer == {
        "agent_name": "nobody",
        "summary": {
            "total_executions": 0,
            "successful": 0,
            "failed": 0,
            "running": 0,
            "success_rate": None,
            "total_cost_usd": 0,
            "avg_duration_seconds": None,
            "last_execution_at": None,
            "last_execution_status": None,
            "is_busy": False,
            "queue_length": 0,
        },
        "recent_failures": [],
    }
    fleet = await history.summary()
    assert fleet["by_agent"] == fleet["recent_failures"] == []
    assert (fleet["fleet_summary"]["success_rate"], fleet["fleet_summary"]["total_agents"]) == (None, 0)


async def test_an_agent_whose_first_execution_runs_has_no_rate_yet(history):
    running = history.record(status="running", duration_ms=None, response=None)
    summary = (await history.summary(running, agent_name="ruby-agent"))["summary"]
    counts = (summary["total_executions"], summary["running"], summary["success_rate"])
    assert counts == (1, 1, None)
    assert (summary["is_busy"], summary["last_execution_status"]) == (True, "running")


async def test_the_queue_is_what_waits_and_busy_is_what_runs_now_however_long_it_has_been(history):
    long_ago = history.now - timedelta(hours=5)
    await history.put(
        history.record("r", status="running", duration_ms=None, started_at=long_ago),
        *(history.record(f"p{n}", status="pending", duration_ms=None) for n in range(3)),
    )
    summary = (await history.summary(agent_name="ruby-agent", hours=1))["summary"]
    assert (summary["is_busy"], summary["queue_length"]) == (True, 3)
    assert (summary["total_executions"], summary["running"]) == (3, 0)
    waiting = await history.summary(history.record("q", agent="idle", status="pending"), agent_name="idle")
    assert (waiting["summary"]["is_busy"], waiting["summary"]["queue_length"]) == (False, 1)


async def test_an_agent_that_is_busy_with_something_old_is_among_the_agents(history):
    long_ago = history.now - timedelta(hours=5)
    answer = await history.summary(history.record("r", status="running", started_at=long_ago), hours=1)
    assert answer["by_agent"] == [
        {"agent_name": "ruby-agent", "executions": 0, "success_rate": None, "cost_usd": 0, "status": "running"}
    ]
    fleet = answer["fleet_summary"]
    assert (fleet["total_agents"], fleet["agents_with_activity"], fleet["total_executions"]) == (1, 0, 0)


async def test_the_time_looked_back_is_a_day_unless_said_otherwise(history):
    await history.put(*(history.record(f"h{h}", started_at=history.now - timedelta(hours=h)) for h in (2, 30, 100)))

    async def total(**arguments):
        return (await history.summary(**arguments))["fleet_summary"]["total_executions"]

    assert [await total(), await total(hours=1), await total(hours=48), await total(hours=168)] == [1, 0, 2, 3]
    refused = await history.refused("get_agent_activity_summary", hours=169)
    assert refused == "get_agent_activity_summary: 'hours' must be from 1 to 168, not 169."


@pytest.mark.parametrize(("settings", "counted"), [(None, 1), (plugin.Settings(dry_runs_in_summaries=True), 2)])
async def test_rehearsals_count_only_where_it_is_said_that_they_do(history, settings, counted):
    history.services.settings = settings
    await history.put(history.record("real"), history.record("rehearsed", dry_run=True, status=Status.SIMULATED))
    assert (await history.summary())["fleet_summary"]["total_executions"] == counted
    assert (await history.summary(agent_name="ruby-agent"))["summary"]["successful"] == counted


async def test_clients_are_no_agents_whatever_they_call_themselves(history):
    failures = [
        broken(history, f"c{n}", agent=name, as_agent=False) for n, name in enumerate(("gamma", "client:gamma"))
    ]
    await history.put(history.record(agent="gamma", target="agents:gamma"), *failures)
    fleet = await history.summary()
    assert [(row["agent_name"], row["success_rate"]) for row in fleet["by_agent"]] == [("gamma", 100.0)]
    assert [(row["agent_name"], row["success_rate"]) for row in fleet["by_client"]] == [("client:gamma", 0.0)]
    counts = fleet["fleet_summary"]
    assert (counts["total_agents"], counts["total_executions"], counts["success_rate"]) == (1, 1, 100.0)
    gamma = await history.summary(agent_name="gamma")
    assert (gamma["summary"]["failed"], gamma["summary"]["success_rate"], gamma["recent_failures"]) == (0, 100.0, [])
    client = (await history.summary(agent_name="client:gamma"))["summary"]
    assert (client["total_executions"], client["failed"]) == (1, 1)


async def test_what_waits_has_not_failed_and_what_was_stopped_or_refused_lowers_no_rate(history):
    ends = (Status.INPUT_REQUIRED, Status.CANCELLED, Status.DENIED, Status.ERROR, Status.OK)
    failure = Failure("x", "Why")
    await history.put(*(history.record(f"e{n}", status=end, failure=failure) for n, end in enumerate(ends)))
    rehearsal = {"dry_run": True, "status": Status.INPUT_REQUIRED, "failure": failure}
    shown = {e["id"]: e for e in (await history.list(history.record("r", **rehearsal)))["executions"]}
    told = await history.summary(agent_name="ruby-agent")
    [row] = (await history.summary())["by_agent"]
    assert [shown[id]["status"] for id in ("e0", "r", "e1", "e2")] == ["pending", "pending", "failed", "failed"]
    assert [shown[id]["has_error"] for id in ("e0", "r", "e3")] == [False, False, True]
    assert [(f["id"], f["times"]) for f in told["recent_failures"]] == [("e3", 3)]  # alike, but for numbers
    summary = told["summary"]
    assert (summary["total_executions"], summary["failed"], summary["success_rate"]) == (5, 3, 50.0)
    assert (summary["queue_length"], row["success_rate"]) == (0, 50.0)


async def test_what_ran_inside_another_execution_does_not_count(history):
    outer = history.record("outer", cost_usd=0.5)
    inner = broken(history, "inner", parent=ExecutionId("outer"), cost_usd=0.5)
    answer = await history.summary(outer, inner, agent_name="ruby-agent")
    assert (answer["summary"]["total_executions"], answer["summary"]["total_cost_usd"]) == (1, 0.5)
    assert answer["recent_failures"] == []


async def test_the_last_ten_failures_are_told(history):
    failures = [
        broken(history, f"f{n:02}", agent=f"a{n}", started_at=history.started - timedelta(minutes=n)) for n in range(12)
    ]
    shown = (await history.summary(*failures))["recent_failures"]
    assert [failure["id"] for failure in shown] == [f"f{n:02}" for n in range(10)]


async def test_a_summary_counts_only_what_the_caller_may_see(history):
    await history.put(
        history.record("mine", cost_usd=1.0),
        history.record("theirs", principal="other", cost_usd=5.0),
        broken(history, "their failure", principal="other"),
        history.record("their work", principal="other", status="running"),
    )
    mine = await history.summary(agent_name="ruby-agent")
    assert (mine["summary"]["total_executions"], mine["summary"]["total_cost_usd"]) == (1, 1.0)
    assert (mine["summary"]["is_busy"], mine["recent_failures"]) == (False, [])
    assert (await history.summary(agent_name="ruby-agent", session=SYSTEM))["summary"]["total_executions"] == 4
    fleet = await history.summary()
    assert (fleet["fleet_summary"]["total_executions"], fleet["by_agent"][0]["status"]) == (1, "idle")


async def test_an_agent_that_is_not_the_callers_looks_like_one_that_does_not_exist(history):
    await history.put(history.record(principal="other", agent="secret", as_agent=True))
    answers = [await history.summary(agent_name=name) for name in ("secret", "nobody")]
    assert [answer.pop("agent_name") for answer in answers] == ["secret", "nobody"]
    assert answers[0] == answers[1]


async def test_agents_that_did_nothing_count_for_those_who_may_see_them(history):
    history.services.catalog = FakeCatalog([entry(f"agents:{name}") for name in ("ruby-agent", "writer", "secret")])
    shared = Scope(principals=frozenset({"alice"}), agents=frozenset({"writer"}))
    history.services.scopes = {("alice", False): shared}
    await history.put(history.record(principal="alice", agent="claude"))

    async def total(session):
        return (await history.summary(session=session))["fleet_summary"]["total_agents"]

    assert await total(SYSTEM) == 4
    assert await total(Session(key="a", principal="alice")) == 2
    assert await total(Session(key="b", principal="bob")) == 0


async def test_failures_that_repeat_are_one_line_with_the_agent_and_how_often(history):
    def failure(n: int, agent: str, said: str):
        at = history.started - timedelta(minutes=n)
        return broken(history, f"f{n:03}", agent=agent, started_at=at, failure=Failure("tool.failed", said))

    await history.put(
        *(failure(n, "flaky", f"Timed out after {n} s, request 0af31b{n:06}") for n in range(0, 240, 2)),
        failure(1, "once", "Timed out after 1 s, request 0af31b000001"),
        failure(3, "flaky", "No such table"),
    )
    shown = (await history.summary())["recent_failures"]
    assert [(one["id"], one["agent_name"], one["times"]) for one in shown] == [
        ("f000", "flaky", 120), ("f001", "once", 1), ("f003", "flaky", 1),
    ]  # fmt: skip
    assert shown[0]["first_failed_at"] == zulu(history.started - timedelta(minutes=238) + timedelta(seconds=5))
    assert [one["times"] for one in (await history.summary(agent_name="flaky"))["recent_failures"]] == [120, 1]


async def test_summaries_go_back_as_far_as_history_is_kept(history):
    await history.put(
        history.record("old", started_at=history.now - timedelta(days=80)),
        history.record("new", status="running", duration_ms=None),
    )
    answer = await history.summary(since="90d", until="2d")
    assert answer["fleet_summary"]["total_executions"] == 1
    assert [row["status"] for row in answer["by_agent"]] == ["running"]  # what is under way is told of now
