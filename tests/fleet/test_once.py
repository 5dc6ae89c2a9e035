"""Two gateways, one of which is killed now and then: of each time that a schedule says, one run begins at most."""

from __future__ import annotations

import asyncio
import signal

import pytest
from balanced import call, until

pytestmark = pytest.mark.anyio
KILLS, BETWEEN = 4, 4
MORE = """
[plugins.schedules]
look_s = 0.2
lease_s = 5

[plugins.schedules.schedules.tick]
every_s = 1
tool = "bank:pay"
arguments = { to = "tick" }
principal = "local"
"""


async def runs(url):
    """The runs of the schedule, a page of them."""
    told = await call(url, "list_recent_executions", {"limit": 100, "triggered_by": "schedule"})
    return told["result"]["structuredContent"]["executions"]


async def test_no_run_of_a_schedule_pays_twice(fleet):
    with fleet(2, more=MORE).running() as running:
        for number in range(KILLS):
            paid = len(running.payments())
            await until(lambda paid=paid: len(running.payments()) >= paid + BETWEEN, "it goes on")
            one = running.gateways[number % 2]
            one.end(signal.SIGKILL)
            one.begin()
            await asyncio.to_thread(one.wait)
        paid = len(running.payments())
        await until(lambda: len(running.payments()) >= paid + BETWEEN, "it goes on")
        found = await runs(running.gateways[0].url)
        ids = [one["id"] for one in found]
        assert len(ids) == len(set(ids)) < 100
        # The row of what is paid right now may be there first, and never a payment without a row.
        assert len(running.payments()) <= len(await runs(running.gateways[0].url))
        assert len(found) >= KILLS * BETWEEN
