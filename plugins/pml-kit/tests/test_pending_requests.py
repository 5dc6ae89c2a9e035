"""Requests that wait, and their time limits."""

from __future__ import annotations

import asyncio

import pytest

from pml_kit.jsonrpc.pending_requests import REMEMBERED, SLACK, PendingRequests

pytestmark = pytest.mark.anyio


@pytest.fixture
def expired():
    return []


@pytest.fixture
async def pending(expired):
    made = PendingRequests(lambda key, _request: expired.append(key))
    yield made
    made.clear()


async def test_ids_count_from_one(pending):
    assert [pending.add("m", 1.0)[0] for _ in range(3)] == [1, 2, 3]


async def test_limits_fire_in_their_own_order_and_on_time(pending, expired):
    loop = asyncio.get_running_loop()
    start = loop.time()
    for timeout_s in (60.0, 0.15, 0.05, 0.1, 0.05):
        pending.add("m", timeout_s)
    pending.take(5)
    while len(pending) > 1:
        await asyncio.sleep(0.001)
        assert len(expired) <= (loop.time() - start) / 0.05
    assert expired == [3, 4, 2], "a limit waited for a later one"


async def test_after_the_last_limit_no_clock_runs(pending, expired):
    pending.add("m", 0.01)
    while len(pending):  # noqa: ASYNC110 - a limit tells nobody
        await asyncio.sleep(0.001)
    assert expired == [1]
    assert pending._timer is None


async def test_answered_requests_leave_nothing_behind(pending):
    for _ in range(10_000):
        key, answer = pending.add("m", 3600.0)
        assert pending.take(key).answer is answer
        assert len(pending._deadlines) <= SLACK + 3
    assert len(pending) == 0
    pending.add("m", 3600.0)
    assert pending._timer is not None


async def test_only_the_last_abandoned_requests_are_remembered(pending):
    keys = [pending.add("m", 3600.0)[0] for _ in range(REMEMBERED + 10)]
    for key in keys:
        pending.abandon(key)
    assert not pending.was_abandoned(keys[0])
    assert pending.was_abandoned(keys[-1])
    assert not pending.was_abandoned(keys[-1])
    assert pending.abandon(keys[-1]) is None


async def test_clearing_stops_the_clock(pending, expired):
    for _ in range(3):
        pending.add("m", 0.01)
    assert len(pending.clear()) == 3
    assert (len(pending), pending._timer) == (0, None)
    await asyncio.sleep(0.03)
    assert expired == []
