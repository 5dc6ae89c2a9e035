"""What dead gateways left, stores that are away, runs by hand, and schedules that are kept."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from schedules_kit import NOON, Gateway, finish, tool

from pml_hookspecs import RunOptions, Status, ToolCall
from pml_schedules.ledger import CLAIMED, QUEUED, Claim, Ledger, State, execution_of
from pml_schedules.settings import Schedule, Settings, to_plain
from pml_schedules.times import Times

pytestmark = pytest.mark.anyio
MINUTE, HOUR = 60.0, 3600.0


async def left_by_another(gateway, **members):
    """A claim whose gateway died before it began the run."""
    due = NOON + timedelta(minutes=1)
    claim = Claim(schedule="a", due=due, execution=execution_of("a", due, due), state=CLAIMED, **members)
    return await gateway.scheduler.ledger.claim(claim)


async def test_a_run_that_a_dead_gateway_had_taken_is_begun_by_another_after_the_lease(gateway):
    one = gateway(a=tool())
    claim = await left_by_another(one)
    await one.look()
    await one.look(go_on_s=29)
    assert one.started == []
    await one.look(go_on_s=1)
    assert [id for id, *_ in one.started] == [claim.execution]
    assert one.said("beginning a run that another gateway left")
    await one.look(go_on_s=100)
    assert [id for id, *_ in one.started].count(claim.execution) == 1


async def test_a_run_that_the_dead_gateway_had_begun_is_not_begun_again(gateway, clock):
    one, other = gateway(a=tool()), gateway(a=tool())
    await one.look()
    claim = await left_by_another(one)
    options = RunOptions(id=claim.execution, trigger="schedule", schedule="a")
    await one.start(ToolCall(id="a", tool="s:tool"), one.session(claim_identity()), options)
    for _ in range(3):
        await other.look()
        clock.go_on(30)
    assert claim.execution not in [id for id, *_ in other.started]
    assert (await other.scheduler.ledger.claim_at(claim.key)).state == "started"


def claim_identity():
    from pml_hookspecs import Identity

    return Identity(principal="local")


async def test_of_several_gateways_one_begins_what_a_dead_one_left(gateway, clock):
    several = [gateway(a=tool(cron="0 0 1 1 *")) for _ in range(4)]
    claim = await left_by_another(several[0])
    for _ in range(3):
        await asyncio.gather(*(one.look() for one in several))
        clock.go_on(31)
    assert [id for one in several for id, *_ in one.started] == [claim.execution]


async def test_what_a_dead_gateway_had_taken_ends_with_its_schedule(gateway):
    """And is not begun by a schedule that gets the name later."""
    one = gateway()
    schedule = to_plain(tool(cron="0 0 1 1 *"))
    await one.scheduler.ledger.keep_plan("a", schedule, if_version=0)
    claim = await left_by_another(one)
    await one.scheduler.ledger.remove_plan("a")
    kept = await one.scheduler.ledger.claim_at(claim.key)
    assert (kept.state, kept.status, kept.reason) == ("ended", "skipped", "the schedule was removed")
    await one.scheduler.ledger.keep_plan("a", schedule, if_version=0)
    for _ in range(3):
        await one.look(go_on_s=31)
    assert one.started == []


async def test_what_was_taken_of_a_schedule_that_nobody_declares_any_more_ends(gateway, clock):
    other, declares = gateway(), gateway(a=tool(cron="0 0 1 1 *"))
    claim = await left_by_another(other)
    for _ in range(3):
        await other.look(go_on_s=31)
    assert (await other.scheduler.ledger.claim_at(claim.key)).state == CLAIMED  # of a gateway that is down, maybe
    clock.go_on(86_400)
    await other.look()
    kept = await other.scheduler.ledger.claim_at(claim.key)
    assert (kept.state, kept.reason) == ("ended", "the schedule was removed")
    for _ in range(3):
        await declares.look(go_on_s=31)
    assert declares.started == []


async def test_a_run_that_counts_against_the_last_of_its_times_is_begun_after_a_crash(gateway):
    """The dead gateway had counted it, and died before it began it."""
    one = gateway(a=tool(max_runs=1, cron="0 0 1 1 *"))
    claim = await left_by_another(one)
    await one.scheduler.ledger.change("a", lambda _: State(going=(claim.key,), runs=1))
    await one.look()
    await one.look(go_on_s=31)
    assert [id for id, *_ in one.started] == [claim.execution]
    assert (await one.scheduler.ledger.state("a")).runs == 1


async def test_what_no_gateway_can_begin_is_recorded_as_failed(gateway):
    one = gateway(a=tool(cron="0 0 1 1 *"))
    await left_by_another(one, attempts=3)
    await one.look()
    await one.look(go_on_s=31)
    (record,) = one.store.executions.records.values()
    assert record.status is Status.ERROR
    assert "3 gateways took it" in record.failure.message


async def test_what_cannot_be_recorded_is_tried_again(gateway):
    one = gateway(a=tool(cron="1 12 1 5 *"))
    await one.look()
    one.refusal = OSError("disk full")
    await one.look(go_on_s=MINUTE)
    assert one.said("a schedule cannot be looked after") == [{"schedule": "a", "problem": "disk full"}]
    one.refusal = None
    for _ in range(3):
        await one.look(go_on_s=31)
    assert len(one.started) == 1


async def test_a_store_that_is_away_stops_nothing_and_is_said_once(gateway, clock, monkeypatch):
    one = gateway(a=tool())
    looks = 0

    async def look():
        nonlocal looks
        looks += 1
        if looks == 5:
            raise asyncio.CancelledError
        raise OSError("no route to the database")

    monkeypatch.setattr(one.scheduler, "look", look)
    with pytest.raises(asyncio.CancelledError):
        await one.scheduler.run()
    assert [said["problem"] for said in one.said("schedules cannot be looked after")] == ["no route to the database"]
    assert clock.elapsed_s() == 8.0


# By hand, and kept schedules


async def by_hand(gateway, name="a"):
    due = gateway.clock.now()
    claim = Claim(schedule=name, due=due, execution=execution_of(name, due, due), state=QUEUED, by_hand=True)
    return await gateway.scheduler.ledger.claim(claim)


async def test_a_run_by_hand_begins_also_when_it_is_paused_or_over_and_is_not_counted(gateway):
    one = gateway(a=tool(paused=True, max_runs=1))
    await one.scheduler.ledger.change("a", lambda _: State(runs=1))
    claim = await by_hand(one)
    await one.look()
    ((id, _, _, how),) = one.started
    assert (id, how.trigger, how.schedule) == (claim.execution, "manual", "a")
    assert (await one.scheduler.ledger.state("a")).runs == 1


async def test_a_run_by_hand_waits_for_the_one_under_way(gateway):
    one = gateway(a=tool())
    await one.look()
    await one.look(go_on_s=MINUTE)
    one.clock.go_on(1)
    claim = await by_hand(one)
    await one.look()
    assert len(one.started) == 1
    await finish(one)
    await one.look()
    assert one.started[-1][0] == claim.execution


async def keep(gateway, name, schedule, version=0):
    assert await gateway.scheduler.ledger.keep_plan(name, {"schedule": to_plain(schedule)}, if_version=version)


async def test_schedules_that_are_kept_are_seen_without_a_restart(gateway):
    one = gateway()
    await one.look()
    await keep(one, "b", tool())
    await one.look()
    await one.look(go_on_s=MINUTE)
    assert one.times == ["12:01:00"]
    await one.scheduler.ledger.remove_plan("b")
    await one.look(go_on_s=MINUTE)
    assert len(one.started) == 1


async def test_what_is_declared_wins_over_what_is_kept_under_its_name(gateway):
    one = gateway(a=tool(cron="0 0 1 1 *"))
    await keep(one, "a", tool())
    await one.look()
    await one.look(go_on_s=MINUTE)
    assert one.started == []


async def test_a_kept_schedule_that_does_not_fit_any_more_is_said_once_and_stops_no_other(gateway):
    one = gateway(a=tool())
    ledger: Ledger = one.scheduler.ledger
    await ledger.keep_plan("b", {"schedule": {"cron": "* * * * *", "tool": "t", "of_the_future": 1}}, if_version=0)
    await ledger.keep_plan("c", {"schedule": {"cron": "99 * * * *", "tool": "t"}}, if_version=0)
    await one.look()
    await one.look(go_on_s=MINUTE)
    assert len(one.started) == 1
    assert [said["schedule"] for said in one.said("a schedule is left out")] in (["b", "c"], ["c", "b"])


async def test_a_declared_name_that_is_none_is_said_and_stops_no_other(clock, store):
    one = Gateway(store, clock, Settings(schedules={"a b": tool(), "c": tool()}))
    await one.look()
    await one.look(go_on_s=MINUTE)
    assert len(one.started) == 1
    assert "is no name" in one.said("a declared schedule is left out")[0]["problem"]


async def test_a_schedule_of_an_unknown_tool_or_agent_is_warned_of_once(gateway):
    one = gateway(a=tool(), b=Schedule(every_s=60, agent="janitr", message="x"), c=Schedule(every_s=60, tool="s:tol"))
    for _ in range(5):
        await one.look(go_on_s=6)
    problems = {said["schedule"]: said["problem"] for said in one.said("a schedule would fail")}
    assert problems == {
        "b": "agent: there is no agent 'janitr'; did you mean 'janitor'?",
        "c": "tool: there is no tool 's:tol'; did you mean 's:tool'?",
    }
    assert len(one.said("a schedule would fail")) == 2


async def test_the_last_date_that_there_is_holds_up_nobody(gateway):
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    one = gateway(
        a=tool(), far=Schedule(tool="s:tool", every_s=60, until=end, jitter_s=5), late=tool(until=end, jitter_s=5)
    )
    await one.look()
    for _ in range(4):
        await one.look(go_on_s=MINUTE)
        await finish(one)
    assert one.said("a schedule cannot be looked after") == []
    assert {key[0] for key in one.scheduler._due_at} == {"a", "far", "late"}
    assert len([1 for _, _, _, how in one.started if how.schedule == "far"]) >= 3


async def test_one_that_cannot_be_looked_after_holds_up_no_other_and_says_why_once(gateway, monkeypatch):
    one = gateway(a=tool(), b=tool(), c=tool())
    upright = Times.next

    def broken(self, after):
        if self.name == "b":
            raise OverflowError("date value out of range")
        return upright(self, after)

    monkeypatch.setattr(Times, "next", broken)
    await one.look()
    for _ in range(3):
        await one.look(go_on_s=MINUTE)
        await finish(one)
    begun = [how.schedule for _, _, _, how in one.started]
    assert (begun.count("a"), begun.count("b"), begun.count("c")) == (3, 0, 3)
    assert one.said("a schedule cannot be looked after") == [
        {"schedule": "b", "problem": "date value out of range"},
    ]
