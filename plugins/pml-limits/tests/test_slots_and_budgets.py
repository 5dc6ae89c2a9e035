from __future__ import annotations

import asyncio

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import Session, Status, ToolCall, Workflow
from pml_limits.settings import Rule, Settings
from pml_limits.wrapper import Limiter
from pml_testing.fakes import FakeRun, FakeServices, outcome

pytestmark = pytest.mark.anyio
ALICE = Session(key="a", principal="alice", client="tester/1")
BOB = Session(key="b", principal="bob", client="other/2")


def call(tool="fs:read", id="a"):
    return ToolCall(id=id, tool=tool)


def limiter(*, shared=False, store=None, **rules):
    services = FakeServices("limits", store=store or MemoryStore())
    return Limiter(services, Settings(rules={n: Rule(**r) for n, r in rules.items()}, shared=shared))


# Concurrency


class Held:
    """The rest of the chain; each task ends when it is let go."""

    def __init__(self):
        self.going, self.began, self.most = [], asyncio.Event(), 0
        self._now = 0

    async def __call__(self, task, run):
        gate = asyncio.Event()
        self.going.append(gate)
        self.began.set()
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await gate.wait()
        finally:
            self._now -= 1
        return outcome(task.id)

    async def reach(self, count):
        async with asyncio.timeout(60):
            while len(self.going) < count:
                self.began.clear()
                await self.began.wait()


@pytest.mark.parametrize("shared", [False, True])
async def test_no_more_run_at_a_time_than_allowed(shared):
    wrapper, held = limiter(shared=shared, two={"concurrency": 2}), Held()
    first = [asyncio.ensure_future(wrapper(call(), FakeRun(), held)) for _ in range(2)]
    await held.reach(2)
    refused = await wrapper(call(), FakeRun(), held)
    assert (refused.status, refused.failure.code) == (Status.DENIED, "limit.concurrency")
    assert refused.failure.details["allowed"] == 2
    assert refused.failure.details["retry_after_s"] > 0
    held.going[0].set()
    await first[0]
    third = asyncio.ensure_future(wrapper(call(), FakeRun(), held))
    await held.reach(3)
    for gate in held.going:
        gate.set()
    await asyncio.gather(first[1], third)
    assert held.most == 2


@pytest.mark.parametrize("shared", [False, True])
async def test_a_task_queues_for_a_slot(shared):
    wrapper, held = limiter(shared=shared, one={"concurrency": 1, "queue_s": 20}), Held()
    first = asyncio.ensure_future(wrapper(call(), FakeRun(), held))
    await held.reach(1)
    second = asyncio.ensure_future(wrapper(call(), FakeRun(), held))
    await asyncio.sleep(0)
    held.going[0].set()
    assert (await first).status is Status.OK
    await held.reach(2)
    held.going[1].set()
    assert (await second).status is Status.OK
    assert held.most == 1


@pytest.mark.parametrize("shared", [False, True])
async def test_a_queue_ends_with_a_refusal_when_no_slot_is_free_in_time(shared):
    wrapper, held = limiter(shared=shared, one={"concurrency": 1, "queue_s": 0.05}), Held()
    first = asyncio.ensure_future(wrapper(call(), FakeRun(), held))
    await held.reach(1)
    refused = await wrapper(call(), FakeRun(), held)
    assert "for 0.05 s none of them ended" in refused.failure.message
    held.going[0].set()
    await first
    assert wrapper.slots.taken == {}


async def test_slots_are_given_out_in_the_order_of_asking():
    wrapper, held = limiter(one={"concurrency": 1, "queue_s": 20}), Held()
    order = []

    async def run(n):
        await wrapper(call(), FakeRun(), held)
        order.append(n)

    tasks = []
    for n in range(5):
        tasks.append(asyncio.ensure_future(run(n)))
        await asyncio.sleep(0)
    for n in range(5):
        await held.reach(n + 1)
        held.going[n].set()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("shared", [False, True])
async def test_whoever_is_cancelled_leaves_no_slot_behind(shared):
    store = MemoryStore()
    wrapper, held = limiter(shared=shared, store=store, one={"concurrency": 1, "queue_s": 20}), Held()
    running_, queued = (asyncio.ensure_future(wrapper(call(), FakeRun(), held)) for _ in range(2))
    await held.reach(1)
    await asyncio.sleep(0.02)
    for task in (queued, running_):
        task.cancel()
    await asyncio.wait([running_, queued])
    assert running_.cancelled()
    assert queued.cancelled()
    last = asyncio.ensure_future(wrapper(call(), FakeRun(), held))
    await held.reach(2)
    held.going[1].set()
    assert (await last).status is Status.OK
    assert wrapper.slots.taken == {}
    if shared:
        (kept,) = (await store.documents.find("limits.slots")).items
        assert kept.value["holders"] == {}


async def test_the_next_in_the_queue_gets_the_slot_of_one_that_was_cancelled_when_it_got_it():
    wrapper = limiter(one={"concurrency": 1, "queue_s": 20})
    slots = wrapper.slots
    (limit,) = wrapper.rules.of(call(), FakeRun().session).slots
    token = await slots.take(limit)
    second, third = (asyncio.ensure_future(slots.take(limit)) for _ in range(2))
    await asyncio.sleep(0)
    await slots.give_back(limit, token)  # the second has it now, and does not know yet
    second.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait([second])
        assert second.cancelled()
        await slots.give_back(limit, await third)
    assert slots.taken == {}


# Time


async def test_a_task_is_ended_when_it_takes_too_long():
    ended = []

    async def hangs(task, run):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(task.id)

    wrapper = limiter(quick={"time_out_s": 0.02}, slower={"time_out_s": 60})
    result = await wrapper(call(), FakeRun(), hangs)
    assert (result.status, result.failure.code, result.failure.retryable) == (
        Status.TIMED_OUT,
        "limit.time_out",
        True,
    )
    assert result.failure.details["rule"] == "quick"
    assert "0.02 s" in result.failure.message
    assert ended == ["a"]


async def test_a_timeout_from_within_is_not_told_as_the_rules():
    async def times_out(task, run):
        raise TimeoutError("the server's own")

    with pytest.raises(TimeoutError, match="the server's own"):
        await limiter(slow={"time_out_s": 60})(call(), FakeRun(), times_out)


async def test_time_in_the_queue_is_not_time_of_the_task():
    wrapper, held = limiter(one={"concurrency": 1, "queue_s": 20, "time_out_s": 5}), Held()
    first, second = (asyncio.ensure_future(wrapper(call(), FakeRun(), held)) for _ in range(2))
    await held.reach(1)
    held.going[0].set()
    await first
    await held.reach(2)
    held.going[1].set()
    assert (await second).status is Status.OK


# Money


def costly(cost_usd):
    async def following(task, run):
        return outcome(task.id, cost_usd=cost_usd)

    return following


def run_of(id, parent=None, session=None):
    made = FakeRun(session=session, parent=parent)
    made.id = id
    return made


@pytest.mark.parametrize("shared", [False, True])
async def test_a_budget_is_used_up(shared):
    wrapper = limiter(shared=shared, money={"daily_usd": 0.3, "per": ["principal"]})
    results = [await wrapper(call(), run_of(str(n), session=ALICE), costly(0.1)) for n in range(4)]
    assert [r.status for r in results] == [Status.OK] * 3 + [Status.DENIED]
    failure = results[-1].failure
    assert (failure.code, failure.retryable) == ("limit.budget", True)
    assert 0 < failure.details["retry_after_s"] <= 86_400
    assert "0.3 USD" in failure.message
    assert (await wrapper(call(), run_of("x", session=BOB), costly(0.1))).status is Status.OK


@pytest.mark.parametrize("shared", [False, True])
async def test_a_new_start_does_not_refill_a_budget(shared):
    store = MemoryStore()
    rules = {"money": {"daily_usd": 1}}
    first = limiter(shared=shared, store=store, **rules)
    await first(call(), run_of("1"), costly(1.5))
    await first.budgets.write()
    second = limiter(shared=shared, store=store, **rules)
    assert (await second(call(), run_of("2"), costly(0))).failure.code == "limit.budget"


async def test_gateways_that_count_by_themselves_learn_what_others_spent():
    store = MemoryStore()
    first, second = (limiter(store=store, money={"daily_usd": 1}) for _ in range(2))
    await second(call(), run_of("1"), costly(0.1))
    await first(call(), run_of("2"), costly(0.95))
    for made in (first, second):
        await made.budgets.write()
    assert (await second(call(), run_of("3"), costly(0.1))).failure.code == "limit.budget"


async def test_what_ran_inside_is_not_counted_twice():
    store = MemoryStore()
    wrapper = limiter(store=store, money={"daily_usd": 10}, plans={"kind": "workflow", "daily_usd": 10})

    async def whole(task, run):
        for n in range(3):
            await wrapper(call(), run_of(f"c{n}", parent=run.id), costly(0.1))
        return outcome(task.id, cost_usd=0.35)

    await wrapper(Workflow(id="w", tasks=()), run_of("p"), whole)
    await wrapper.budgets.write()
    spent = {d.value["rule"]: d.value["micro_usd"] for d in (await store.documents.find("limits.spent")).items}
    assert spent == {"money": 300_000, "plans": 50_000}
    assert wrapper._costs._inside == {}


async def test_costs_that_come_while_others_are_being_written_are_all_added_up():
    store = MemoryStore()
    wrapper = limiter(shared=True, store=store, money={"daily_usd": 100})
    await asyncio.gather(*(wrapper(call(), run_of(str(n)), costly(0.01)) for n in range(100)))
    (document,) = (await store.documents.find("limits.spent")).items
    assert document.value["micro_usd"] == 1_000_000
