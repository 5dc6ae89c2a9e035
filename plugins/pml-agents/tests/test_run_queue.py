from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from agents_kit import chat, gateway, happens, worker

from pml_agents import run_queue
from pml_agents.run_queue import QueueFullError, RunQueue, TurnLostError, all_turns
from pml_agents.settings import Agent
from pml_core.plugins.nulls import MemoryStore
from pml_testing.fakes import FakeServices

pytestmark = pytest.mark.anyio
ONE = Agent(command=("x",), max_parallel=3, max_queue=2)


@pytest.fixture
async def store():
    return MemoryStore()


@pytest.fixture
async def two(store):
    """Two gateways that share a store."""
    services = [FakeServices("agents", store=store) for _ in range(2)]
    yield [RunQueue(one) for one in services]
    for one in services:
        await one.stop()


class Holder:
    """Somebody who has a turn until it is let go."""

    def __init__(self, gateway, name="w", agent=ONE, *, parallel=False):
        self.gateway, self.name, self.agent, self.parallel = gateway, name, agent, parallel
        self.has, self.goes, self.ahead = asyncio.Event(), asyncio.Event(), []
        self.task = asyncio.create_task(self.hold())

    async def hold(self):
        turn = self.gateway.turn(self.name, self.agent, id="1", parallel=self.parallel, waits=self.ahead.append)
        async with turn:
            self.has.set()
            await self.goes.wait()

    async def got(self, within_s=30):
        async with asyncio.timeout(within_s):
            await self.has.wait()

    async def waits(self):
        async with asyncio.timeout(30):
            while not self.ahead:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)
        assert not self.has.is_set()

    async def leave(self):
        self.goes.set()
        await self.task


async def test_one_at_a_time_first_come_first_served(two):
    first, later = Holder(two[0]), []
    await first.got()
    for _ in range(2):
        later.append(Holder(two[0]))
        await later[-1].waits()
    assert [h.ahead[-1] for h in later] == [0, 1]
    for before, after in ((first, later[0]), (later[0], later[1])):
        assert not after.has.is_set()
        await before.leave()
        await after.got()
    assert later[1].ahead[-1] == 0
    await later[1].leave()


async def test_two_gateways_on_one_store_take_turns(two):
    mine = Holder(two[0])
    await mine.got()
    theirs = Holder(two[1])
    await theirs.waits()
    last = Holder(two[0])
    await last.waits()
    await mine.leave()
    await theirs.got()
    assert not last.has.is_set(), "the other gateway's came first"
    await theirs.leave()
    await last.got()
    await last.leave()


async def test_the_queue_is_bounded_over_all_gateways(two):
    runs = Holder(two[0])
    await runs.got()
    waiting = [Holder(two[0]), Holder(two[1])]
    for holder in waiting:
        await holder.waits()
    with pytest.raises(QueueFullError, match="2 requests wait for 'w' already") as told:
        await Holder(two[0]).task
    assert told.value.retryable
    for holder in (runs, *waiting):
        await holder.leave()


async def test_whoever_is_cancelled_leaves_the_queue(two):
    runs = Holder(two[0])
    await runs.got()
    gone, last = Holder(two[0]), Holder(two[0])
    await gone.waits()
    await last.waits()
    gone.task.cancel()
    await asyncio.wait([gone.task])
    await runs.leave()
    await last.got()
    await last.leave()
    found = await all_turns(two[0]._services)
    assert found == {"w": {"runs": [], "waits": []}}


async def test_parallel_runs_wait_for_nobody_but_are_bounded(two):
    alone = Holder(two[0])
    await alone.got()
    beside = [Holder(two[0], parallel=True), Holder(two[1], parallel=True)]
    for holder in beside:
        await holder.got()
    fourth = Holder(two[0], parallel=True)
    await fourth.waits()
    await beside[0].leave()
    await fourth.got()
    for holder in (alone, beside[1], fourth):
        await holder.leave()


async def test_different_agents_do_not_wait_for_each_other(two):
    one, other = Holder(two[0], "a"), Holder(two[0], "b")
    await one.got()
    await other.got()
    await one.leave()
    await other.leave()


async def test_the_turn_of_a_gateway_that_is_gone_is_over_when_its_lease_is(two, store, monkeypatch):
    monkeypatch.setattr(run_queue, "LEASE_S", 0.5)
    monkeypatch.setattr(run_queue, "BEAT_S", 0.1)
    dead = Holder(two[0])
    await dead.got()
    await two[0]._services.stop()  # no sign of life any more
    begun_s = time.monotonic()
    heir = Holder(two[1])
    await heir.got()
    assert time.monotonic() - begun_s >= run_queue.LEASE_S
    await heir.leave()
    await dead.leave()


async def test_whoever_stood_still_has_lost_the_turn_and_is_ended(two, store, monkeypatch):
    monkeypatch.setattr(run_queue, "LEASE_S", 0.5)
    stood = Holder(two[0])
    await stood.got()
    await two[0]._services.stop()
    heir = Holder(two[1])
    await heir.got()
    await two[0]._renew("w")  # as it does once it goes on
    with pytest.raises(TurnLostError, match="stood still"):
        await stood.task
    (runs,) = (await store.documents.get(run_queue.COLLECTION, "w")).value["runs"]
    assert runs["gateway"] == two[1]._gateway
    assert runs["token"] in two[1]._tickets
    await heir.leave()


async def test_whoever_waited_and_stood_still_waits_on_behind_the_others(two, monkeypatch):
    monkeypatch.setattr(run_queue, "LEASE_S", 0.5)
    runs = Holder(two[1])
    await runs.got()
    stood = Holder(two[0])
    await stood.waits()
    await two[0]._services.stop()
    async with asyncio.timeout(60):
        while (await all_turns(two[1]._services))["w"]["waits"]:
            await asyncio.sleep(0.05)
            two[0]._tickets, tickets = {}, two[0]._tickets  # it does not look either
            await two[1]._renew("w")
            two[0]._tickets = tickets
    await two[0]._renew("w")
    await runs.leave()
    await stood.got()
    await stood.leave()


class Clocks:
    """Of machines that do not agree by an hour: each look at one is a look at another."""

    def __init__(self):
        self._early = False

    def time(self):
        self._early = not self._early
        return time.time() + (-3600 if self._early else 3600)


async def test_no_clock_of_another_machine_ends_a_turn(two, store, monkeypatch):
    monkeypatch.setattr(run_queue, "time", Clocks())
    monkeypatch.setattr(run_queue, "BEAT_S", 0.05)
    for _ in range(4):
        runs, other = Holder(two[0]), None
        await runs.got()
        other = Holder(two[1])
        await other.waits()
        with pytest.raises(TimeoutError):
            await other.got(within_s=0.5)
        await runs.leave()
        await other.got()
        await other.leave()
    document = await store.documents.get(run_queue.COLLECTION, "w")
    assert document.expires_at - datetime.now(UTC) > timedelta(hours=1)


async def goes_by(clock, time_s):
    """Let time go by, little by little, and what is due meanwhile happen."""
    for _ in range(round(time_s / 0.05)):
        clock.advance(0.05)
        for _ in range(30):
            await asyncio.sleep(0)


async def test_whoever_lives_keeps_the_turn_beyond_the_first_lease(two, monkeypatch):
    monkeypatch.setattr(run_queue, "LEASE_S", 2.0)
    monkeypatch.setattr(run_queue, "BEAT_S", 0.05)
    runs = Holder(two[0])
    await runs.got()
    other = Holder(two[1])
    await other.waits()
    with pytest.raises(TimeoutError):
        await other.got(within_s=2.5)
    await runs.leave()
    await other.got()
    await other.leave()


async def test_while_the_store_is_out_of_order_each_gateway_counts_by_itself(two, store, monkeypatch):
    async def broken(*args, **options):
        raise OSError("disk full")

    monkeypatch.setattr(store.documents, "put", broken)
    first, second = Holder(two[0]), Holder(two[0])
    await first.got()
    await second.waits()
    elsewhere = Holder(two[1])
    await elsewhere.got()
    await first.leave()
    await second.got()
    await second.leave()
    await elsewhere.leave()
    assert any("counted by this gateway alone" in event for _, event, _ in two[0]._services.log.lines)


@pytest.mark.parametrize("operation", ["get", "put"])
async def test_one_failure_of_the_store_does_not_keep_those_who_wait_for_ever(two, store, monkeypatch, operation):
    # It looks again before it says again that it lives, which would find out too.
    for name, time_s in (("POLL_S", 0.02), ("BEAT_S", 0.5), ("LEASE_S", 0.8)):
        monkeypatch.setattr(run_queue, name, time_s)
    dead = Holder(two[0])
    await dead.got()
    heir = Holder(two[1])
    await heir.waits()
    sound, failed = getattr(store.documents, operation), []

    async def fails_once(*args, **options):
        if asyncio.current_task() is heir.task and not failed:
            failed.append(operation)
            raise OSError("disk full")
        return await sound(*args, **options)

    monkeypatch.setattr(store.documents, operation, fails_once)
    await two[0]._services.stop()  # so that the heir itself has to find out, and to write
    await heir.got()
    assert failed
    elsewhere = Holder(two[0])
    await elsewhere.waits()
    await heir.leave()
    await elsewhere.got()
    await elsewhere.leave()
    await dead.leave()
    said = [event for _, event, _ in two[1]._services.log.lines]
    assert "whose turn it is cannot be seen" in said
    assert not any("alone" in event for event in said)


async def test_what_is_counted_by_one_gateway_does_not_end_with_a_lease(two, store, monkeypatch, frozen_clock):
    async def broken(*args, **options):
        raise OSError("disk full")

    monkeypatch.setattr(store.documents, "put", broken)
    first, second = Holder(two[0]), Holder(two[0])
    await first.got()
    await second.waits()
    await goes_by(frozen_clock, 3 * run_queue.LEASE_S)
    assert not second.has.is_set()
    await first.leave()
    await second.got()
    await second.leave()


async def test_many_at_once_over_two_gateways_never_run_together(two):
    agent = Agent(command=("x",), max_parallel=8, max_queue=100)
    now, most, done = 0, 0, 0

    async def one(gateway):
        nonlocal now, most, done
        async with gateway.turn("w", agent, id="1", parallel=False, waits=lambda _: None):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1
            done += 1

    async with asyncio.timeout(20):
        await asyncio.gather(*(one(two[number % 2]) for number in range(10)))
    assert (most, done) == (1, 10)


async def reaches(made, size):
    """Wait until so many run and wait."""
    services = made.assembly.services("agents")
    async with asyncio.timeout(60):
        while sum(map(len, (await all_turns(services)).get("w", {}).values())) != size:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)


async def test_chats_with_one_agent_run_one_after_the_other_in_order(tmp_path):
    agent = worker("gate", tmp_path, "{message}")
    async with gateway({"w": agent}) as (made, client):
        asked = []
        for number in range(3):
            asked.append(asyncio.create_task(chat(client, "w", f"n{number}")))
            await reaches(made, number + 1)
        beside = asyncio.create_task(chat(client, "w", "beside", parallel=True))
        for name in ("n0", "beside"):
            await happens((tmp_path / f"{name}.begun").exists)
        assert sorted(path.stem for path in tmp_path.glob("*.begun")) == ["beside", "n0"]
        waiting = (await all_turns(made.assembly.services("agents")))["w"]["waits"]
        assert len(waiting) == 2
        (tmp_path / "all.go").touch()
        await asyncio.gather(*asked, beside)
    times = [int((tmp_path / f"n{n}.{what}").read_text()) for n in range(3) for what in ("begun", "ended")]
    assert times == sorted(times)


async def test_a_full_queue_is_a_clear_answer_to_the_caller(tmp_path):
    agent = worker("gate", tmp_path, "{message}", max_queue=0)
    async with gateway({"w": agent}) as (_, client):
        first = asyncio.create_task(chat(client, "w", "one"))
        await happens((tmp_path / "one.begun").exists)
        told, failed = await chat(client, "w", "two")
        (tmp_path / "all.go").touch()
        await first
    assert failed
    assert "no more may (max_queue)" in told["error"]
