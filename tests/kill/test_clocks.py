"""Two gateways on one store whose clocks are an hour apart, one of which stands still for a minute (SIGSTOP).

Nobody may have what another has: neither a slot of a limit nor a turn of an agent has two holders, an agent that runs
one thing at a time never runs two, and nothing that was recorded as failed becomes a success.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from gateway_process import COUNTING, GatewayProcess, Site

from pml_hookspecs import ExecutionQuery, Scope, Store
from pml_testing.fakes import FakeServices
from pml_testing.postgres import HOW, cluster, programs

pytestmark = pytest.mark.anyio
STILL_S = 60.0
SOON_S = 120.0
EVERYONE = Scope(principals=None)
UNDER_WAY = ("pending", "running")
GATEWAY = str(Path(__file__).with_name("skewed_gateway.py"))
AGENT = str(Path(__file__).with_name("lasting_agent.py"))
CONFIG = """
[gateway]
tools_exposure = "full_proxy"
block = ["dbos"]
store = "{store}"
call_timeout_s = 1000

[plugins.sqlite]
path = {path}

[plugins.postgres]
url = "{url}"

[plugins.limits]
shared = true

[plugins.limits.rules.one]
tool = "counting:again"
concurrency = 1
queue_s = 100

[plugins.agents.agents.w]
command = {agent}

[servers.counting]
command = {command}
args = {args}
"""


class OffsetGateway(GatewayProcess):
    """One on a machine of its own, whose clock is wrong."""

    def __init__(self, site: Site, ahead_s: float) -> None:
        super().__init__(site)
        self.command = (sys.executable, GATEWAY, str(ahead_s), site.folder.name)

    async def chat(self, message: str) -> str:
        """Have the agent run in the background; the id."""
        told = await self.call("chat_with_agent", {"agent_name": "w", "message": message, "async": True})
        id: str = told["structuredContent"]["execution_id"]
        return id

    async def plan(self, key: str, lasts_s: float) -> str:
        """Have a workflow run in the background; the id."""
        task = {"id": "a", "tool": "counting:once", "arguments": {"key": key, "before_ms": round(1000 * lasts_s)}}
        told = await self.call("execute_workflow", {"workflow": {"tasks": [task]}, "async": True})
        id: str = told["structuredContent"]["execution_id"]
        return id

    def slow_call(self, key: str, lasts_s: float) -> asyncio.Future[dict[str, Any]]:
        """A call that a limit lets one at a time through."""
        arguments = {"key": key, "before_ms": round(1000 * lasts_s)}
        return self.begin("tools/call", {"name": "counting__again", "arguments": arguments})[1]


class Watch:
    """Looks all the while at what the store says."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.statuses: dict[str, list[str]] = {}
        """Of each execution, in the order in which it had them."""
        self.most = {"limits.slots": 0, "agents.turns": 0}
        """Holders that there were at once."""

    async def look(self) -> None:
        """Once."""
        for record in (await self._store.executions.find(ExecutionQuery(scope=EVERYONE, limit=100))).items:
            seen = self.statuses.setdefault(record.id, [])
            if not seen or seen[-1] != str(record.status):
                seen.append(str(record.status))
        for collection, part in (("limits.slots", "holders"), ("agents.turns", "runs")):
            for document in (await self._store.documents.find(collection)).items:
                self.most[collection] = max(self.most[collection], len(document.value.get(part, ())))

    async def goes_on(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(0.05)

    async def ended(self, id: str) -> str:
        """How an execution ended."""
        async with asyncio.timeout(SOON_S):
            while self.statuses.get(id, UNDER_WAY)[-1] in UNDER_WAY:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.05)
        return self.statuses[id][-1]


def runs(folder: Path) -> list[tuple[float, float, str]]:
    """When each run of the agent began, when it was last alive, and its name."""
    found = [(path, path.read_text().split()) for path in folder.glob("*.run")]
    return sorted((float(times[0]), float(times[-1]), path.stem) for path, times in found if times)


async def until_it_runs(folder: Path, name: str) -> None:
    async with asyncio.timeout(SOON_S):
        while name not in [run[2] for run in runs(folder)]:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.05)


@pytest.fixture
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Name, file and address of the store."""
    place = {"store": request.param, "path": json.dumps(str(tmp_path / "pml.db")), "url": ""}
    if request.param == "sqlite":
        yield place
        return
    if programs() is None:
        pytest.skip(HOW)
    with cluster() as server:
        yield {**place, "url": server.database()}


@asynccontextmanager
async def opened(where: dict[str, str]) -> AsyncIterator[Store]:
    services = FakeServices(where["store"])
    if where["store"] == "sqlite":
        from pml_store_sqlite import SqliteStore

        store: Store = SqliteStore(SqliteStore.settings_type(path=json.loads(where["path"])), services)
    else:
        from pml_store_postgres import PostgresStore

        store = PostgresStore(PostgresStore.settings_type(url=where["url"]), services)
    async with store:
        yield store


@asynccontextmanager
async def gateway(folder: Path, where: dict[str, str], name: str, ahead_s: float) -> AsyncIterator[OffsetGateway]:
    site = Site(folder / name)
    site.config.write_text(
        CONFIG.format(
            **where,
            agent=json.dumps([sys.executable, AGENT, str(folder), "{message}"]),
            command=json.dumps(sys.executable),
            args=json.dumps([COUNTING, str(folder / f"{name}.traces")]),
        )
    )
    made = OffsetGateway(site, ahead_s)
    await made.start()
    try:
        async with asyncio.timeout(SOON_S):
            await made.hello()
        yield made
    finally:
        made.process.send_signal(signal.SIGCONT)
        await made.kill()


@pytest.mark.parametrize(("where", "ahead_s"), [("sqlite", 3600.0), ("postgres", -3600.0)], indirect=["where"])
async def test_one_that_stands_still_for_a_minute(tmp_path: Path, where: dict[str, str], ahead_s: float) -> None:
    async with (
        opened(where) as store,
        gateway(tmp_path, where, "sound", 0.0) as sound,
        gateway(tmp_path, where, "stopped", ahead_s) as stopped,
    ):
        watch = Watch(store)
        watching = asyncio.create_task(watch.goes_on())
        long, plan = await stopped.chat("long 600"), await stopped.plan("plan", 55)
        waited = stopped.begin(
            "tools/call",
            {
                "name": "execute_workflow",
                "arguments": {
                    "workflow": {
                        "tasks": [{"id": "a", "tool": "counting:once", "arguments": {"key": "k", "before_ms": 55_000}}]
                    }
                },
            },
        )[1]
        held = stopped.slow_call("held", 600)
        await until_it_runs(tmp_path, "long")
        queued, after = await sound.chat("queued 3"), sound.slow_call("after", 1)
        # Clocks alone take nothing away from a gateway that lives.
        await asyncio.sleep(15)
        assert {watch.statuses[id][-1] for id in (long, plan)} == {"running"}
        assert [run[2] for run in runs(tmp_path)] == ["long"]

        stopped.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(STILL_S)
        assert await watch.ended(queued) == "ok", "others go on without it"
        assert "result" in await after
        assert {await watch.ended(id) for id in (long, plan)} == {"error"}
        stopped.process.send_signal(signal.SIGCONT)

        async with asyncio.timeout(SOON_S):
            assert (await held)["result"]["_meta"]["pml/failure"]["code"] == "limit.lost"
            assert not (await waited)["result"].get("isError"), "its client hears what its server said"
        again = await stopped.chat("again 1")
        assert await watch.ended(again) == "ok", "it takes part again"
        await asyncio.sleep(8)
        await watch.look()
        watching.cancel()
        await asyncio.wait([watching])

    assert watch.most == {"limits.slots": 1, "agents.turns": 1}
    ran = runs(tmp_path)
    assert [name for *_, name in ran] == ["long", "queued", "again"]
    for (_, end, name), (begin, _, later) in pairwise(ran):
        assert end < begin, f"{later} ran beside {name}"
    for id, seen in watch.statuses.items():
        ends = [status for status in seen if status not in UNDER_WAY]
        assert len(ends) <= 1, f"{id} was {', then '.join(seen)}"
