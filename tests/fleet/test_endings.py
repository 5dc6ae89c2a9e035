"""A gateway that is told to end lets work under way end within its time, and leaves what waits to the next one."""

from __future__ import annotations

import asyncio
import signal

import pytest
from balanced import call, until

pytestmark = pytest.mark.anyio
MORE = """
[plugins.agents.agents.slow]
command = ["sh", "-c", "while [ ! -e FOLDER/go ]; do sleep 0.1; done; echo done"]

[plugins.schedules]
look_s = 0.2

[plugins.schedules.schedules.tick]
every_s = 1
max_runs = 1
tool = "bank:pay"
arguments = { to = "tick", wait_s = 2 }
principal = "local"
"""


async def states(url):
    told = await call(url, "list_recent_executions", {"limit": 100})
    return sorted((one["message"], one["status"]) for one in told["result"]["structuredContent"]["executions"])


async def test_agents_and_a_schedule_survive_sigterm_and_nothing_runs_twice(fleet):
    with fleet(2, gateway="drain_s = 60", more=MORE).running() as running:
        first, second = running.gateways
        for number in range(3):
            asked = {"agent_name": "slow", "message": f"m{number}", "async": True}
            assert not (await call(first.url, "chat_with_agent", asked))["result"].get("isError")
        async with asyncio.timeout(60):
            while ("m0", "running") not in await states(second.url):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
        assert first.process is not None
        first.process.send_signal(signal.SIGTERM)
        (running.folder / "go").touch()
        await asyncio.to_thread(first.process.wait, 120)
        first.process = None

        async with asyncio.timeout(120):
            while {state for _, state in await states(second.url)} & {"pending", "running"}:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.2)
        await until(lambda: running.payments() != [], "the schedule")
        found = await states(second.url)
        assert [one for one in found if one[0].startswith("m")] == [(f"m{number}", "success") for number in range(3)]
        assert running.payments() == ["tick"]
