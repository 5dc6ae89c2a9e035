from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from pml_mcp.servers.connection.time_limit import TimeLimit, timeout_s

pytestmark = pytest.mark.anyio


def test_the_time_for_a_call_is_the_lesser_of_what_is_configured_and_what_is_left():
    assert timeout_s(60.0, None) == 60.0
    assert timeout_s(60.0, datetime.now(UTC) + timedelta(hours=1)) == 60.0
    assert 9 < timeout_s(60.0, datetime.now(UTC) + timedelta(seconds=10)) <= 10
    assert timeout_s(60.0, datetime.now(UTC) - timedelta(seconds=10)) == 0.001


async def test_a_clock_counts_on_from_where_it_was_stopped(frozen_clock):
    reached = []

    async def goes_by(seconds):
        frozen_clock.advance(seconds)
        for _ in range(10):
            await asyncio.sleep(0)

    async def work():
        async with TimeLimit(20, "too long") as clock:
            clock.stop()
            clock.stop()
            await goes_by(30)
            clock.go_on()
            await goes_by(30)
            clock.go_on()
            reached.append(True)
            await goes_by(30)

    with pytest.raises(TimeoutError, match="too long"):
        await work()
    assert reached
