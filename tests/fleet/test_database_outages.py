"""A database that is away, fails over to another address, or is cut off from one gateway: what clients see of it."""

from __future__ import annotations

import asyncio
import os
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest
from balanced import call, executions, until
from relay import Relay

from pml_testing.postgres import cluster

pytestmark = pytest.mark.anyio
AWAY_S = float(os.environ.get("PML_AWAY_S", "10"))


def at(made, database, durable=""):
    """Have all gateways of a fleet use another database."""
    for one in made.gateways:
        text = one.config.read_text().replace(made.database, database)
        one.config.write_text(text + (f'\n[plugins.dbos]\ndatabase = "{durable}"\n' if durable else ""))


async def paid_in_history(url, many):
    """Wait until the history has so many payments."""
    async with asyncio.timeout(180):
        while True:
            found = [one for one in await executions(url) if one["message"].startswith("bank:pay")]
            if len(found) >= many:
                return found
            await asyncio.sleep(0.5)


async def paying(running, names, over):
    """Pay at the balancer, one after the other, until ``over`` is set; what was not answered with a payment."""
    failed = []
    while not over.is_set():
        names.append(f"{len(names)}")
        try:
            answer = await call(running.url, "bank__pay", {"to": names[-1]})
            failed += [answer] if "error" in answer or answer["result"].get("isError") else []
        except httpx2.TransportError as error:
            failed.append(error)
        await asyncio.sleep(max(0.2, AWAY_S / 40))
    return failed


async def test_a_database_that_is_away_stops_no_call_and_loses_no_row(fleet):
    with cluster() as server:
        made = fleet(2)
        at(made, server.database())
        with made.running() as running:
            names, over = [], asyncio.Event()
            calls = asyncio.create_task(paying(running, names, over))
            await until(lambda: len(names) > 5, "calls")
            await asyncio.to_thread(server.stop)
            await asyncio.sleep(AWAY_S)
            await asyncio.to_thread(server.start)
            before = len(names)
            await until(lambda: len(names) > before + 5, "calls")
            over.set()
            assert await calls == []
            found = await paid_in_history(running.url, len(names))
            assert len(found) == len(names) == len(running.payments())


async def test_a_standby_at_another_address_goes_on(fleet):
    with cluster() as main:
        name, durable = (main.database().rpartition("/")[2] for _ in range(2))
        with cluster(standby_of=main) as spare, psycopg.connect(main.url, autocommit=True) as apart:
            # What was answered for is at both then, as it is where nothing may be lost.
            apart.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            apart.execute("SELECT pg_reload_conf()")
            hosts = ",".join(f"127.0.0.1:{urlsplit(one.url).port}" for one in (main, spare))
            made = fleet(2)
            at(
                made,
                *(f"postgresql://postgres@{hosts}/{one}?target_session_attrs=read-write" for one in (name, durable)),
            )
            with made.running() as running:
                names, over = [], asyncio.Event()
                calls = asyncio.create_task(paying(running, names, over))
                tasks = [{"id": "a", "tool": "bank:pay", "arguments": {"to": "plan"}}]
                plan = {"workflow": {"tasks": tasks, "durable": True}}
                assert not (await call(running.url, "execute_workflow", plan))["result"].get("isError")
                await until(lambda: len(names) > 5, "calls")
                await asyncio.to_thread(main.stop)
                await asyncio.to_thread(spare.promote)
                before = len(names)
                await until(lambda: len(names) > before + 10, "calls")
                over.set()
                assert await calls == []
                async with asyncio.timeout(120):
                    while (await call(running.url, "execute_workflow", plan))["result"].get("isError"):  # noqa: ASYNC110 - another process
                        await asyncio.sleep(1)
                assert len(await paid_in_history(running.url, len(names))) == len(names)
                assert running.payments().count("plan") == 2


async def test_a_gateway_cut_off_from_its_database_goes_on_with_calls(fleet):
    made = fleet(2)
    url = urlsplit(made.database)
    with Relay(url.port).running() as relay:
        first, second = made.gateways
        first.config.write_text(first.config.read_text().replace(f":{url.port}/", f":{relay.port}/"))
        with made.running() as running:
            await call(first.url, "bank__pay", {"to": "warm"})
            relay.silence()
            for number in range(20):
                for one in (first, second):
                    answer = await call(one.url, "bank__pay", {"to": f"{one.name}-{number}"})
                    assert not answer["result"].get("isError"), answer
                await asyncio.sleep(AWAY_S / 20)
            relay.resume()
            found = await paid_in_history(second.url, 41)
            assert len(found) == len(running.payments()) == 41
