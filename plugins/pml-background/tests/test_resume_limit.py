"""How often a plan is gone on with whose gateway goes down each time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from pml_background.resume_limit import ATTEMPTS, ResumeLimit
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import ExecutionId, Failure, Status, Workflow
from pml_testing.fakes import FakeLog, FakeRun, outcome

pytestmark = pytest.mark.anyio
PLAN = Workflow(id="plan", tasks=(), durable=True)


def id_of(at):
    """An execution that began then."""
    stamp = f"{int(at.timestamp() * 1000):012x}"
    return ExecutionId(f"{stamp[:8]}-{stamp[8:]}-7000-8000-000000000001")


@pytest.fixture
def run():
    made = FakeRun()
    made.id = id_of(datetime.now(UTC) - timedelta(minutes=1))
    return made


class Gateways:
    """One after the other on one store; each is killed in the middle unless it is told otherwise."""

    def __init__(self, most=3):
        self.store, self.most, self.log, self.ran = MemoryStore(), most, FakeLog(), 0

    async def go_on(self, run, how="killed"):
        begun = asyncio.Event()

        async def runs(task, run):
            self.ran += 1
            begun.set()
            if how in ("killed", "ends"):
                await asyncio.Event().wait()
            failure = Failure("execution.elsewhere", "no") if how == "elsewhere" else None
            return outcome(task.id, status=Status.ERROR if failure else Status.OK, failure=failure)

        store = self.store if how != "killed" else KillableStore(self.store)
        work = asyncio.ensure_future(ResumeLimit(store, self.most, self.log).count(PLAN, run, runs))
        beginning = asyncio.ensure_future(begun.wait())
        await asyncio.wait({work, beginning}, return_when=asyncio.FIRST_COMPLETED)
        beginning.cancel()
        if how in ("killed", "ends") and not work.done():
            if how == "killed":
                store.stopped = True
            work.cancel()
            await asyncio.wait({work})
            return None
        return await work


class KillableStore:
    """A store that nothing more of a process reaches once it is killed."""

    def __init__(self, store):
        self.documents, self._store, self.stopped = self, store.documents, False

    async def get(self, *what):
        return await self._reached().get(*what)

    async def put(self, *what, **how):
        return await self._reached().put(*what, **how)

    async def delete(self, *what):
        return await self._reached().delete(*what)

    def _reached(self):
        if self.stopped:
            raise OSError("this process is dead")
        return self._store


async def test_a_plan_that_kills_its_gateway_each_time_is_given_up(run):
    gateways = Gateways(most=3)
    for _ in range(3):
        assert await gateways.go_on(run) is None
    ended = await gateways.go_on(run)
    assert (ended.status, ended.failure.code, ended.failure.details["attempts"]) == (
        Status.ERROR,
        "execution.given_up",
        3,
    )
    assert "max_resumes" in ended.failure.message
    assert gateways.ran == 3
    assert (await gateways.store.documents.find(ATTEMPTS)).total == 0


async def test_a_gateway_that_ends_in_good_order_does_not_count(run):
    gateways = Gateways(most=2)
    await gateways.go_on(run)
    for _ in range(5):
        await gateways.go_on(run, "ends")
    await gateways.go_on(run)
    assert (await gateways.go_on(run, "well")).failure.code == "execution.given_up"


async def test_what_ends_leaves_nothing_behind(run):
    gateways = Gateways(most=2)
    await gateways.go_on(run)
    assert (await gateways.go_on(run, "well")).status is Status.OK
    assert (await gateways.store.documents.find(ATTEMPTS)).total == 0


async def test_another_gateway_that_runs_it_is_not_forgotten(run):
    gateways = Gateways(most=2)
    await gateways.go_on(run)
    assert (await gateways.go_on(run, "elsewhere")).failure.code == "execution.elsewhere"
    (kept,) = (await gateways.store.documents.find(ATTEMPTS)).items
    assert len(kept.value["begun"]) == 1


async def test_what_has_just_begun_costs_nothing():
    run = FakeRun()
    run.id = id_of(datetime.now(UTC))
    gateways = Gateways(most=1)
    for _ in range(3):
        assert await gateways.go_on(run) is None
    assert gateways.ran == 3
    assert (await gateways.store.documents.find(ATTEMPTS)).total == 0


async def test_a_store_that_cannot_be_written_stops_nothing(run):
    gateways = Gateways()
    dead = KillableStore(gateways.store)
    dead.stopped = True

    async def runs(task, run):
        return outcome(task.id)

    assert (await ResumeLimit(dead, 1, gateways.log).count(PLAN, run, runs)).status is Status.OK
    assert [level for level, _, _ in gateways.log.lines] == ["warning", "warning"]
