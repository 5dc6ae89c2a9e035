"""Gateways in processes of their own on one store: each run is begun once, also when one of them is killed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import schedules_process

from pml_hookspecs import ExecutionQuery, Scope, replace
from pml_schedules.ledger import ENDED, Ledger
from pml_testing.fakes import FakeServices

pytestmark = pytest.mark.anyio
SECOND = timedelta(seconds=1)
WAITS_S = 120.0


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "pml.db")
    return request.getfixturevalue("postgres").database()


@pytest.fixture
def traces(tmp_path):
    return tmp_path / "traces"


@asynccontextmanager
async def gateway(where: str, traces: Path, *more: str):
    """A process; killed in the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        schedules_process.__file__,
        where,
        str(traces),
        *more,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        process.stdin.close()
        await process.wait()
        process._transport.close()


async def says(word: str, *processes) -> None:
    for process in processes:
        async with asyncio.timeout(WAITS_S):
            line = await process.stdout.readline()
        assert line.decode().strip() == word


async def leave(*processes) -> None:
    """Their clients go, so they end by themselves."""
    for process in processes:
        process.stdin.close()
    for process in processes:
        async with asyncio.timeout(WAITS_S):
            assert await process.wait() == 0


@asynccontextmanager
async def opened(where: str):
    name, driver, settings = schedules_process.store(where)
    store = driver(driver.settings_type(**settings), FakeServices(name))
    async with store:
        yield store


async def until(condition) -> None:
    """Wait for what other processes do."""
    async with asyncio.timeout(WAITS_S):
        while not await condition():  # noqa: ASYNC110 - they tell nothing
            await asyncio.sleep(0.1)


async def run_on(where: str, count: int) -> None:
    """Wait until so many runs have ended, pause, and wait for those under way, so that processes leave in peace."""
    async with opened(where) as store:
        ledger = Ledger(store.documents, SECOND)

        async def enough() -> bool:
            return len(await ledger.claims({"state": ENDED})) >= count

        async def quiet() -> bool:
            before = await ledger.claims({})
            await asyncio.sleep(0.5)
            return await ledger.claims({}) == before and {claim.state for claim in before} == {ENDED}

        await until(enough)
        await ledger.change("trace", lambda state: replace(state, paused=True))
        await until(quiet)


async def check_each_ran_once(where: str, left: Counter[str]) -> None:
    """No due time was left out, and each left one trace."""
    async with opened(where) as store:
        claims = await Ledger(store.documents, SECOND).claims({"schedule": "trace"})
        page = await store.executions.find(ExecutionQuery(scope=Scope(principals=None), top_level=True, limit=100))
    due = sorted(claim.due for claim in claims)
    assert due == [due[0] + n * SECOND for n in range(len(due))]
    assert left.total() == len(due)
    assert {(record.status, record.schedule, record.trigger) for record in page.items} == {("ok", "trace", "schedule")}
    assert {record.id for record in page.items} == {claim.execution for claim in claims}


def left_by(traces: Path) -> Counter[str]:
    """How many traces each process left."""
    return Counter(traces.read_text().split())


async def test_two_gateways_on_one_store_run_each_time_once(where, traces):
    async with gateway(where, traces) as one, gateway(where, traces) as other:
        await says("up", one, other)
        await run_on(where, 4)
        await leave(one, other)
    await check_each_ran_once(where, left_by(traces))


async def test_a_run_whose_gateway_is_killed_in_mid_claim_is_begun_by_the_other_once(where, traces):
    async with gateway(where, traces, "1") as one, gateway(where, traces) as other:
        await says("up", one, other)
        await says("claimed", one)
        one.kill()
        await one.wait()
        await run_on(where, 4)
        await leave(other)
    left = left_by(traces)
    await check_each_ran_once(where, left)
    assert left[str(one.pid)] == 1
