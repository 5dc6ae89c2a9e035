"""What a durable plan does when its gateway is told to end, its client leaves, or takes the request back."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from gateway_process import GatewayProcess, Site

from pml_executor_dbos import Settings
from pml_executor_dbos.ledger import Ledger, RunRow

pytestmark = pytest.mark.anyio
SOON_S = 60.0


class Scene:
    """A site, its rows, and a plan of two tasks one after the other, the first of which takes a while."""

    def __init__(self, folder: Path, *, like: Scene | None = None) -> None:
        """``like``: another, whose database and server it shares."""
        self.database = str(folder / "durable.db") if like is None else like.database
        self.site = Site(folder, database=self.database, traces=None if like is None else like.site.traces)
        self.ledger = Ledger(Settings(database=self.database))

    @property
    def counted(self) -> Counter[str]:
        return Site.counted_in(self.site.traces)

    @staticmethod
    def plan(tool: str = "once", *, before_ms: int = 1000) -> dict[str, Any]:
        first = {"id": "a", "tool": f"counting:{tool}", "arguments": {"key": "a", "before_ms": before_ms}}
        then = {"id": "b", "tool": "counting:once", "arguments": {"key": "b"}, "depends_on": ["a"]}
        workflow = {"tasks": [first, then], "durable": True, "return": "all"}
        return {"name": "execute_workflow", "arguments": {"workflow": workflow}}

    async def begun(
        self, gateway: GatewayProcess, tool: str = "once", *, before_ms: int = 1000
    ) -> tuple[int, asyncio.Future[dict[str, Any]]]:
        """Send the plan; it is under way, with its first task if that must not be repeated."""
        asked = gateway.begin("tools/call", self.plan(tool, before_ms=before_ms))
        run = await self.run_is("running")
        async with asyncio.timeout(SOON_S):
            while tool == "once" and not await self.ledger.tasks(run.id):  # noqa: ASYNC110 - another process writes them
                await asyncio.sleep(0.01)
        return asked

    async def run_is(self, *states: str) -> RunRow:
        async with asyncio.timeout(SOON_S):
            while not (runs := await self.ledger.runs()) or runs[0].state not in states:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        return runs[0]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    made = Scene(tmp_path)
    yield made
    await made.ledger.close()


async def started(scene: Scene) -> GatewayProcess:
    gateway = await GatewayProcess(scene.site).start()
    await gateway.hello()
    return gateway


async def test_a_plan_goes_on_with_the_next_gateway_after_sigterm(scene: Scene) -> None:
    gateway = await started(scene)
    await scene.begun(gateway, "again")
    await gateway.end()
    assert (await scene.run_is("running")).outcome is None
    assert scene.counted["b"] == 0
    gateway = await started(scene)
    ended = await scene.run_is("ended")
    await gateway.end()
    assert ended.outcome is not None
    assert ended.outcome.status == "ok"
    assert scene.counted["b"] == 1


async def test_a_request_that_is_taken_back_cancels_the_plan(scene: Scene) -> None:
    gateway = await started(scene)
    number, _ = await scene.begun(gateway)
    gateway.cancel(number)
    await scene.run_is("cancelled")
    await gateway.end()
    assert scene.counted["b"] == 0


async def test_somebody_cancels_resumes_and_decides_on_the_command_line(scene: Scene) -> None:
    gateway = await started(scene)
    _, answer = await scene.begun(gateway, before_ms=60_000)
    run = (await scene.run_is("running")).id
    assert (await scene.site.pml("runs", "cancel", run))[0] == 0
    told = (await asyncio.wait_for(answer, SOON_S))["result"]
    assert told["isError"]
    assert "cancelled" in json.dumps(told)
    assert (await scene.site.pml("runs", "resume", run))[0] == 0
    await scene.run_is("paused")
    status, shown = await scene.site.pml("runs", "show", run)
    assert status == 0
    assert "durable.in_doubt" in shown
    status, _ = await scene.site.pml("runs", "decide", run, "a", "done", "--result", '{"key": "a"}')
    assert status == 0
    ended = await scene.run_is("ended")
    await gateway.end()
    assert ended.outcome is not None
    assert ended.outcome.status == "ok"
    assert scene.counted["b"] == 1
    status, message = await scene.site.pml("runs", "decide", run, "a", "done")
    assert status == 2
    assert "is in doubt" in message
    assert "Traceback" not in message


async def test_an_ordinary_plan_does_not_bring_dbos_up(scene: Scene) -> None:
    gateway = await started(scene)
    plan = scene.plan(before_ms=0)
    plan["arguments"]["workflow"]["durable"] = False
    result = await gateway.request("tools/call", plan)
    loaded = gateway.loaded()
    await gateway.end()
    assert not result.get("isError")
    assert "psycopg" not in loaded
    assert "sqlalchemy" not in loaded
    assert not (scene.site.folder / "durable.db").exists()


async def test_what_a_failed_plan_did_is_undone_once_even_if_the_gateway_was_killed_before(scene: Scene) -> None:
    undo = {"tool": "counting:once", "arguments": {"key": "undone"}}
    tasks = [
        {"id": "a", "tool": "counting:once", "arguments": {"key": "a"}, "compensate": undo},
        {"id": "b", "tool": "counting:again", "arguments": {"key": "b", "before_ms": 1000}, "depends_on": ["a"]},
        {"id": "c", "tool": "counting:again", "arguments": {"key": "{{b.nothing_of_that_name}}"}},
    ]
    gateway = await started(scene)
    plan = {"workflow": {"tasks": tasks, "durable": True}}
    gateway.begin("tools/call", {"name": "execute_workflow", "arguments": plan})
    async with asyncio.timeout(SOON_S):
        while not scene.counted["a"]:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
    await gateway.kill()
    gateway = await started(scene)
    run = await scene.run_is("ended", "paused")
    if run.state == "paused":  # killed before the outcome of a was kept
        decided = {"run_id": run.id, "path": "a", "decision": "done", "result": {"key": "a"}}
        await gateway.call("decide_durable_task", decided)
        run = await scene.run_is("ended")
    await gateway.end()
    assert run.outcome is not None
    assert run.outcome.status == "error"
    assert (scene.counted["a"], scene.counted["undone"]) == (1, 1)


async def test_a_gateway_that_is_only_asleep_keeps_its_run_and_goes_on_with_it(scene: Scene, tmp_path: Path) -> None:
    sleeper = await started(scene)
    _, answer = await scene.begun(sleeper, before_ms=1500)
    sleeper.process.send_signal(signal.SIGSTOP)
    other = Scene(tmp_path / "other", like=scene)
    gateway = await started(other)
    await asyncio.sleep(2)  # in which it looks for work ten times
    assert (await other.run_is("running")).outcome is None
    sleeper.process.send_signal(signal.SIGCONT)
    told = (await asyncio.wait_for(answer, SOON_S))["result"]
    assert not told.get("isError")
    await sleeper.end()
    await gateway.end()
    await other.ledger.close()
    assert (scene.counted["a"], scene.counted["b"]) == (1, 1)
