from __future__ import annotations

import asyncio
import random

import pytest

from pml_hookspecs import TransportError
from pml_mcp.servers.connection.calls import InFlight
from pml_testing.downstream import a_while, moving_clock

pytestmark = pytest.mark.anyio


async def holding(places: InFlight, order: list, name, gate: asyncio.Event, limit_s: float = 60.0) -> float:
    left_s = await places.enter(limit_s)
    try:
        order.append(name)
        await gate.wait()
    finally:
        places.leave()
    return left_s


async def test_those_above_the_limit_get_their_turn_in_order():
    places, order, gates = InFlight("fs", 2, 10), [], [asyncio.Event() for _ in range(5)]
    tasks = [asyncio.ensure_future(holding(places, order, n, gate)) for n, gate in enumerate(gates)]
    await a_while()
    assert (order, places.count, places.waiting) == ([0, 1], 2, 3)
    gates[1].set()
    await a_while()
    assert (order, places.count, places.waiting) == ([0, 1, 2], 2, 2)
    for gate in gates:
        gate.set()
    await asyncio.gather(*tasks)
    assert (order, places.count, places.waiting) == ([0, 1, 2, 3, 4], 0, 0)


async def test_whoever_need_not_wait_keeps_all_of_the_time(monkeypatch):
    places, gate = InFlight("fs", 1, 10), asyncio.Event()
    advance = moving_clock(monkeypatch)
    first = asyncio.ensure_future(holding(places, [], 1, gate))
    second = asyncio.ensure_future(holding(places, [], 2, gate))
    await a_while()
    advance(40)
    gate.set()
    assert await first == 60.0
    assert 19 < await second <= 20


async def test_a_full_queue_refuses_at_once_and_says_what_to_do():
    places, gate = InFlight("fs", 1, 1), asyncio.Event()
    tasks = [asyncio.ensure_future(holding(places, [], n, gate)) for n in range(2)]
    await a_while()
    with pytest.raises(TransportError) as caught:
        await places.enter(60)
    assert caught.value.retryable is True
    assert "1 requests are on their way and 1 wait" in str(caught.value)
    assert "max_in_flight or max_queued in [servers.fs]" in str(caught.value)
    gate.set()
    await asyncio.gather(*tasks)
    assert await places.enter(60) == 60


async def test_no_turn_in_time_is_a_timeout_that_says_why_and_gives_the_place_up(monkeypatch):
    places, gate, order = InFlight("fs", 1, 10), asyncio.Event(), []
    advance = moving_clock(monkeypatch)
    tasks = [asyncio.ensure_future(holding(places, order, n, gate, limit_s)) for n, limit_s in enumerate((60, 5, 60))]
    await a_while()
    advance(6)
    with pytest.raises(
        TimeoutError, match=r"server 'fs' is busy: no turn came within 5 s; 1 requests are on their way"
    ):
        await tasks[1]
    assert (places.count, places.waiting) == (1, 1)
    gate.set()
    await asyncio.gather(tasks[0], tasks[2])
    assert (order, places.count, places.waiting) == ([0, 2], 0, 0)


async def test_a_turn_that_comes_together_with_a_cancellation_goes_to_the_next():
    places, gate, order = InFlight("fs", 1, 10), asyncio.Event(), []
    await places.enter(60)
    tasks = [asyncio.ensure_future(holding(places, order, n, gate)) for n in range(2)]
    await a_while()
    places.leave()
    tasks[0].cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    await tasks[1]
    assert (order, places.count, places.waiting) == ([1], 0, 0)


async def test_a_cancellation_that_comes_together_with_a_turn_stays_one():
    places, gate, order = InFlight("fs", 1, 10), asyncio.Event(), []
    await places.enter(60)
    tasks = [asyncio.ensure_future(holding(places, order, n, gate)) for n in range(2)]
    await a_while()
    tasks[0].cancel()
    places.leave()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    await tasks[1]
    assert (order, places.count, places.waiting) == ([1], 0, 0)


@pytest.mark.parametrize("seed", range(3))
async def test_ten_thousand_requests_with_random_cancellations_leave_nothing_behind(seed):
    dice = random.Random(seed)
    places, most, running = InFlight("fs", 7, 10_000), 0, 0
    ended = {"done": 0, "cancelled": 0, "timed out": 0}

    async def one() -> None:
        nonlocal most, running
        try:
            await places.enter(dice.choice((60, 60, 0.001)))
        except TimeoutError:
            ended["timed out"] += 1
            return
        running += 1
        most = max(most, running)
        try:
            for _ in range(dice.randrange(8)):
                await asyncio.sleep(0)
        finally:
            running -= 1
            places.leave()
        ended["done"] += 1

    tasks: list[asyncio.Task[None]] = []
    for _ in range(10_000):
        tasks.append(asyncio.ensure_future(one()))
        if dice.random() < 0.2:
            await asyncio.sleep(0)
        if dice.random() < 0.4:
            dice.choice(tasks[-100:]).cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert outcome is None or isinstance(outcome, asyncio.CancelledError)
        ended["cancelled"] += outcome is not None
    assert (places.count, places.waiting, running, most) == (0, 0, 0, 7)
    assert sum(ended.values()) == 10_000
    assert min(ended["done"], ended["cancelled"]) > 500
