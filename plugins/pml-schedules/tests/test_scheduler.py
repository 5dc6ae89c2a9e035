from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest
from schedules_kit import NOON, Gateway, SetClock, claims, finish, settings, tool

from pml_hookspecs import CapabilityRun, RunOptions, Status, ToolCall
from pml_schedules.ledger import ENDED, QUEUED, State, execution_of, key_of
from pml_schedules.settings import Schedule

pytestmark = pytest.mark.anyio
MINUTE, HOUR = 60.0, 3600.0


# Being due


async def test_a_new_schedule_begins_at_its_next_time_and_then_at_each(gateway):
    one = gateway(a=tool())
    assert await one.look() == one.scheduler._settings.look_s
    assert one.started == []
    assert await one.look(go_on_s=30) == 2.0
    assert one.started == []
    for _ in range(3):
        await one.look(go_on_s=30)
        await finish(one)
        await one.look(go_on_s=30)
    assert one.times == ["12:01:00", "12:02:00", "12:03:00"]


async def test_it_sleeps_no_longer_than_until_the_next_time(gateway):
    one = gateway(a=tool())
    await one.look()
    assert await one.look(go_on_s=59.5) == 0.5
    assert one.started == []


async def test_an_execution_says_whose_it_is_and_what_triggered_it(gateway):
    one = gateway(
        a=Schedule(every_s=60, agent="janitor", message="tidy", principal="ada", scopes=("x",), intent="order")
    )
    await one.look()
    await one.look(go_on_s=MINUTE)
    ((id, task, session, how),) = one.started
    assert task == ToolCall(id="a", tool="agents:janitor", arguments={"message": "tidy"})
    assert (session.principal, session.scopes, session.client) == ("ada", {"x"}, "schedules")
    assert how == RunOptions(id=id, intent="order", trigger="schedule", agent="janitor", schedule="a")
    assert id == execution_of("a", NOON + timedelta(minutes=1), NOON + timedelta(minutes=1))


async def test_the_id_of_an_execution_is_a_uuid_of_version_7_that_follows_from_schedule_and_due_time():
    due = NOON + timedelta(minutes=1)
    first, again = execution_of("a", due, NOON), execution_of("a", due, NOON)
    assert first == again
    assert first[14] == "7"
    assert first[19] == "8"
    assert len(first) == 36
    assert Gateway.claimed_at(first) == NOON
    assert execution_of("b", due, NOON)[15:] != first[15:]
    assert execution_of("a", due, due)[15:] == first[15:]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule(every_s=60, tool="s:tool", arguments={"n": 1}), ToolCall(id="a", tool="s:tool", arguments={"n": 1})),
        (
            Schedule(every_s=60, capability="cap", inputs={"n": 1}),
            CapabilityRun(id="a", capability_id="cap", inputs={"n": 1}),
        ),
        (
            Schedule(every_s=60, workflow={"tasks": [{"id": "t", "tool": "s:tool"}], "intent": "x", "timeout_s": 5}),
            ToolCall(
                id="a",
                tool="pml:execute_workflow",
                arguments={"intent": "x", "workflow": {"tasks": [{"id": "t", "tool": "s:tool"}], "timeout_s": 5}},
            ),
        ),
        (
            Schedule(every_s=60, workflow={"intent": "make a report"}),
            ToolCall(id="a", tool="pml:execute_workflow", arguments={"intent": "make a report"}),
        ),
    ],
)
async def test_what_is_run(gateway, schedule, expected):
    one = gateway(a=schedule)
    await one.look()
    await one.look(go_on_s=MINUTE)
    assert one.started[0][1] == expected


async def test_a_plan_in_a_file_is_read_for_each_run(gateway, tmp_path):
    file = tmp_path / "plan.json"
    one = gateway(a=Schedule(every_s=60, workflow=str(file)))
    await one.look()
    for number in (1, 2):
        file.write_text(json.dumps({"workflow": {"tasks": [{"id": f"t{number}", "tool": "s:tool"}]}}))
        await one.look(go_on_s=MINUTE)
        await finish(one)
    assert [task.arguments["workflow"]["tasks"][0]["id"] for _, task, *_ in one.started] == ["t1", "t2"]


async def test_a_plan_that_cannot_be_read_is_recorded_as_a_failed_execution(gateway, tmp_path):
    one = gateway(a=Schedule(every_s=60, workflow=str(tmp_path / "none.json"), principal="ada"))
    await one.look()
    await one.look(go_on_s=MINUTE)
    assert one.started == []
    (record,) = one.store.executions.records.values()
    assert (record.status, record.trigger, record.schedule, record.principal) == (Status.ERROR, "schedule", "a", "ada")
    assert "No such file" in record.failure.message
    assert await claims(one) == {"12:01": (ENDED, "error")}
    await one.look(go_on_s=MINUTE)
    assert len(one.store.executions.records) == 2


async def test_a_schedule_ends_after_its_runs_and_says_so(gateway):
    one = gateway(a=tool(max_runs=2))
    await one.look()
    for _ in range(5):
        await one.look(go_on_s=MINUTE)
        await finish(one)
    assert one.times == ["12:01:00", "12:02:00"]
    assert (await one.scheduler.ledger.state("a")).runs == 2


async def test_nothing_runs_after_the_end(gateway):
    one = gateway(a=tool(until=NOON + timedelta(minutes=2)))
    await one.look()
    for _ in range(5):
        await one.look(go_on_s=MINUTE)
        await finish(one)
    assert one.times == ["12:01:00", "12:02:00"]


async def test_jitter_moves_runs_and_makes_none_twice(gateway, store, clock):
    one, other = gateway(a=tool(jitter_s=50)), Gateway(store, clock, settings(a=tool(jitter_s=50)))
    await one.look()
    for _ in range(600):
        await asyncio.gather(one.look(), other.look())
        await finish(one)
        await finish(other)
        clock.go_on(1)
    assert len(one.started) + len(other.started) == 10
    assert {id for id, *_ in one.started}.isdisjoint(id for id, *_ in other.started)


# Missed


@pytest.mark.parametrize(
    ("schedule", "begun", "missed"),
    [
        (tool(missed="once"), 1, 59),
        (tool(missed="skip"), 1, 59),  # the time at which the gateway is back
        (tool(missed="skip", cron="30 * * * *"), 0, 1),
        (tool(missed="once", cron="30 * * * *"), 1, 0),
        (tool(missed="all", overlap="allow"), 10, 50),
        (tool(missed="all", overlap="allow", most_missed=3), 3, 57),
        (tool(missed="all", overlap="allow", cron="*/20 * * * *"), 3, 0),
    ],
)
async def test_what_becomes_of_times_at_which_no_gateway_was_up(gateway, clock, schedule, begun, missed):
    await gateway(a=schedule).look()
    clock.go_on(HOUR)
    later = gateway(a=schedule)
    for _ in range(3):
        await later.look()
    assert len(later.started) == begun
    assert (await later.scheduler.ledger.state("a")).missed == missed
    assert [said["times"] for said in later.said("times of a schedule were missed")] == ([missed] if missed else [])


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
async def test_a_suspend_of_a_year_fires_no_storm(gateway, clock, missed):
    one = gateway(a=tool(every_s=1, missed=missed, overlap="allow"))
    await one.look()
    clock.put(NOON + timedelta(days=365))
    for _ in range(5):
        await one.look()
    assert len(one.started) == {"skip": 1, "once": 1, "all": 10}[missed]
    await one.look(go_on_s=1)
    assert len(one.started) == {"skip": 2, "once": 2, "all": 11}[missed]


async def test_missed_times_are_counted_once_by_several_gateways(gateway, clock):
    await gateway(a=tool(overlap="allow")).look()
    clock.go_on(HOUR)
    several = [gateway(a=tool(overlap="allow")) for _ in range(3)]
    await asyncio.gather(*(one.look() for one in several))
    assert sum(len(one.started) for one in several) == 1
    assert (await several[0].scheduler.ledger.state("a")).missed == 59


async def test_what_was_due_while_it_was_paused_was_not_missed(gateway, clock):
    one = gateway(a=tool(missed="all"))
    await one.look()
    await one.scheduler.ledger.change("a", lambda state: State(paused=True, handled=state.handled))
    for _ in range(10):
        await one.look(go_on_s=MINUTE)
    assert one.started == []
    await one.scheduler.ledger.change("a", lambda state: State(paused=False, handled=state.handled))
    await one.look(go_on_s=MINUTE)
    assert one.times == ["12:11:00"]
    assert (await one.scheduler.ledger.state("a")).missed == 0


# Clocks


async def test_a_clock_put_back_repeats_no_run_and_stops_none(gateway, clock):
    one = gateway(a=tool(overlap="allow"))
    await one.look()
    for _ in range(30):
        await one.look(go_on_s=MINUTE)
    assert len(one.started) == 30
    clock.put(NOON + timedelta(minutes=10))
    for _ in range(30):
        await one.look(go_on_s=MINUTE)
    assert len(one.started) == 40
    assert [said["schedule"] for said in one.said("the clock was put back: a schedule goes on from now")] == ["a"]


async def test_a_clock_that_was_far_ahead_for_a_moment_does_not_stop_a_schedule(gateway, clock):
    one = gateway(a=tool(overlap="allow"))
    await one.look()
    clock.put(NOON + timedelta(days=3650))
    await one.look()
    assert len(one.started) == 1
    clock.put(NOON)
    await one.look()
    for _ in range(5):
        await one.look(go_on_s=MINUTE)
    assert len(one.started) == 6


async def test_two_gateways_whose_clocks_differ_run_each_time_once(store):
    fast, slow = SetClock(NOON + timedelta(seconds=20)), SetClock(NOON)
    gateways = [Gateway(store, clock, settings(a=tool(overlap="allow"))) for clock in (fast, slow)]
    for _ in range(400):
        for one in gateways:
            await one.look(go_on_s=3)
    begun = [id for one in gateways for id, *_ in one.started]
    assert len(begun) == len(set(begun)) == 20


async def test_a_change_of_its_times_does_not_make_old_ones_missed(gateway, clock):
    await gateway(a=tool(cron="0 12 * * *")).look()
    clock.go_on(10 * HOUR)
    later = gateway(a=tool(cron="0 * * * *"))
    await later.look()
    assert later.started == []
    await later.look(go_on_s=HOUR)
    assert later.times == ["23:00:00"]


async def test_two_gateways_that_have_different_times_for_one_name_both_go_by_theirs(gateway, clock):
    one, other = gateway(a=tool(cron="0 * * * *", overlap="allow")), gateway(a=tool(cron="30 * * * *", overlap="allow"))
    for _ in range(241):
        await one.look()
        await other.look()
        clock.go_on(MINUTE)
    assert one.times == [f"{hour}:00:00" for hour in (13, 14, 15, 16)]
    assert other.times == [f"{hour}:30:00" for hour in (12, 13, 14, 15)]


# Overlap


async def test_a_time_at_which_the_run_before_is_under_way_is_skipped_and_said_so(gateway):
    one = gateway(a=tool())
    await one.look()
    await one.look(go_on_s=MINUTE)
    await one.look(go_on_s=MINUTE)
    assert len(one.started) == 1
    assert (await claims(one))["12:02"] == (ENDED, "skipped")
    await finish(one)
    await one.look(go_on_s=MINUTE)
    assert len(one.started) == 2
    assert (await claims(one))["12:01"] == (ENDED, "ok")


async def test_queued_runs_begin_one_after_the_other(gateway):
    one = gateway(a=tool(overlap="queue"))
    await one.look()
    for _ in range(4):
        await one.look(go_on_s=MINUTE)
    assert len(one.started) == 1
    for expected in (2, 3):
        await finish(one)
        await one.look()
        assert len(one.started) == expected
    due = {execution_of("a", NOON + timedelta(minutes=n), NOON)[15:]: n for n in range(1, 5)}
    assert [due[id[15:]] for id, *_ in one.started] == [1, 2, 3]
    assert [state for state, _ in (await claims(one)).values()].count(QUEUED) == 1


async def test_the_queue_has_an_end(gateway, monkeypatch):
    monkeypatch.setattr("pml_schedules.runs.MOST_QUEUED", 3)
    one = gateway(a=tool(overlap="queue"))
    await one.look()
    for _ in range(8):
        await one.look(go_on_s=MINUTE)
    states = [state for state, _ in (await claims(one)).values()]
    assert (states.count(QUEUED), states.count(ENDED)) == (3, 4)


async def test_with_overlap_allowed_all_run_side_by_side(gateway):
    one = gateway(a=tool(overlap="allow"))
    await one.look()
    for _ in range(4):
        await one.look(go_on_s=MINUTE)
    assert len(one.started) == 4


async def test_gateways_that_see_two_times_at_once_do_not_overlap_them(gateway, clock):
    several = [gateway(a=tool(missed="all", overlap="queue")) for _ in range(4)]
    await several[0].look()
    clock.go_on(5 * MINUTE)
    await asyncio.gather(*(one.look() for one in several))
    assert sum(len(one.started) for one in several) == 1
    assert len((await several[0].scheduler.ledger.state("a")).going) == 1


async def test_a_run_that_takes_too_long_is_stopped_once(gateway):
    one = gateway(a=tool(timeout_s=30))
    await one.look()
    await one.look(go_on_s=MINUTE)
    await one.look(go_on_s=29)
    assert one.stopped == []
    await one.look(go_on_s=2)
    await one.look(go_on_s=2)
    ((id, *_),) = one.started
    assert one.stopped == [id]
    await one.end(id, Status.CANCELLED)
    await one.look()
    claim = await one.scheduler.ledger.claim_at(key_of("a", NOON + timedelta(minutes=1)))
    assert (claim.state, claim.status, claim.reason) == (ENDED, "cancelled", "stopped after 30 s (timeout_s)")


async def test_a_run_whose_execution_was_deleted_does_not_block_the_next(gateway):
    one = gateway(a=tool())
    await one.look()
    await one.look(go_on_s=MINUTE)
    one.store.executions.records.clear()
    await one.look(go_on_s=MINUTE)
    assert len(one.started) == 2
    assert (await claims(one))["12:01"] == (ENDED, "unknown")


# Several gateways, and those that die


async def test_each_time_runs_once_however_many_gateways_look_at_once(gateway, clock):
    several = [gateway(a=tool(overlap="allow"), b=tool(cron="*/2 * * * *", overlap="allow")) for _ in range(5)]
    for _ in range(40):
        await asyncio.gather(*(one.look() for one in several))
        clock.go_on(15)
    begun = [id for one in several for id, *_ in one.started]
    assert len(begun) == len(set(begun)) == 9 + 4
