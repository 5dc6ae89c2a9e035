"""What a gateway answered is in the history after it was killed, and of what it had not answered that it began."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import httpx2
import psycopg
import pytest
from balanced import call

pytestmark = pytest.mark.anyio
MANY, UNDER_WAY = 200, 16
# With every plugin a call notes what it took; without, nobody waits for its row.
PLAIN = 'block = ["costs"]'


async def rows(url):
    found, cursor = [], None
    while True:
        more = {"cursor": cursor} if cursor else {}
        told = await call(url, "list_recent_executions", {"limit": 100, **more})
        content = told["result"]["structuredContent"]
        found += [one for one in content["executions"] if one["message"].startswith("bank:pay")]
        if not (cursor := content.get("next_cursor")):
            return found


async def seen(url, many):
    """The rows, once there are so many."""
    async with asyncio.timeout(120):
        while len(found := await rows(url)) < many:  # noqa: ASYNC110 - another process writes them
            await asyncio.sleep(0.2)
    return found


@pytest.mark.parametrize("again", [True, False], ids=["it comes back", "another one of its machine"])
async def test_what_was_answered_before_a_kill_is_in_the_history(fleet, again):
    with fleet(2, gateway=PLAIN).running() as running:
        first, second = running.gateways
        if not again:
            first.end()
            first.home = second.home
            first.begin()
            first.wait()
        await call(first.url, "bank__pay", {"to": "warm"})
        await seen(second.url, 1)
        with psycopg.connect(running.database) as apart:  # the store does not get to writing
            apart.execute("LOCK TABLE pml.execution IN ACCESS EXCLUSIVE MODE")
            answers = await asyncio.gather(*(call(first.url, "bank__pay", {"to": str(n)}) for n in range(MANY)))
            first.end(signal.SIGKILL)
        assert not any(answer["result"].get("isError") for answer in answers)
        if again:
            first.begin()
            first.wait()
        found = await seen(second.url, MANY + 1)
        assert {one["status"] for one in found} == {"success"}
        assert len(found) == MANY + 1


async def test_of_what_was_under_way_at_a_kill_the_history_says_that_it_began(fleet):
    async def ask(url, to):
        with contextlib.suppress(httpx2.TransportError):
            await call(url, "bank__pay", {"to": to, "wait_s": 3600})

    with fleet(2, gateway=PLAIN).running() as running:
        first, second = running.gateways
        await call(first.url, "bank__pay", {"to": "warm"})
        await seen(second.url, 1)
        calls = asyncio.gather(*(ask(first.url, str(n)) for n in range(UNDER_WAY)))
        for number in range(30):  # what ends meanwhile lets the journal begin new files
            await call(first.url, "bank__pay", {"to": f"short-{number}"})
            await asyncio.sleep(0.2)
        first.end(signal.SIGKILL)
        await calls
        first.begin()
        first.wait()
        found = await seen(second.url, 1 + 30 + UNDER_WAY)
        assert [one["status"] for one in found].count("failed") == UNDER_WAY
        assert len(found) == 1 + 30 + UNDER_WAY
