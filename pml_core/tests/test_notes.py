"""What executions say of themselves; rows before answers; clocks that stand still while people are asked."""

from __future__ import annotations

import asyncio
import types
from datetime import UTC, datetime, timedelta

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import InvalidArguments, MetaTool, Scope, Session, Status, ToolCall, hookimpl, replace
from pml_kit.system.clock import Clock
from pml_testing.fakes import FakeRun
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)


def tool(call):
    """A plugin with one tool."""
    made = types.ModuleType("plugin")
    definition = {"name": "work", "inputSchema": {"type": "object"}}
    made.pml_meta_tools = hookimpl(lambda services: [MetaTool(definition=definition, call=call)])
    return {("hooks", "worker"): made}


async def test_what_a_tool_notes_is_in_its_record():
    async def work(arguments, run):
        run.note(cost_usd=0.25, tokens_in=3, transcript=[{"said": "sesame-open"}])
        run.note(tokens_in=4, tokens_out=5, context_used=6, context_max=7)
        return {"ok": True}

    async with running({}, plugins=tool(work)) as gateway:
        gateway.redactor.learn(["sesame-open"])
        client = Client(gateway)
        await client.call("work")
        (id,) = gateway.store.executions.records
        record = await gateway.store.executions.get(id, EVERYONE, transcript=True)
        assert (record.tokens_in, record.tokens_out, record.context_used, record.context_max) == (4, 5, 6, 7)
        assert record.cost_usd == 0.25
        assert [dict(line) for line in record.transcript] == [{"said": "**********"}]
        assert (await gateway.store.executions.get(id, EVERYONE)).transcript is None


async def test_looks_at_the_history_are_not_in_it():
    async def look(arguments, run):
        return {}

    made = types.ModuleType("plugin")
    definition = {"name": "look", "inputSchema": {"type": "object"}}
    made.pml_meta_tools = hookimpl(lambda services: [MetaTool(definition=definition, call=look, recorded=False)])
    async with running({}, plugins={("hooks", "looker"): made}) as gateway:
        told = await Client(gateway).call("look")
        assert "isError" not in told
        assert not gateway.store.executions.records


async def test_what_it_cost_is_the_outcomes_so_that_budgets_see_it():
    async def work(arguments, run):
        run.note(cost_usd=0.25)
        return {}

    async with running({}, plugins=tool(work)) as gateway:
        outcome = await gateway.dispatcher.start(ToolCall(id="call", tool="pml:work"), Session(key="k"))
        assert outcome.cost_usd == 0.25


async def test_a_tool_that_fails_has_cost_something_all_the_same():
    async def work(arguments, run):
        run.note(cost_usd=0.25)
        raise InvalidArguments("no")

    async with running({}, plugins=tool(work)) as gateway:
        outcome = await gateway.dispatcher.start(ToolCall(id="call", tool="pml:work"), Session(key="k"))
        assert (outcome.status, outcome.cost_usd) == (Status.ERROR, 0.25)


class Slow(MemoryStore):
    """Writes when it is told to."""

    def __init__(self, settings=None, services=None):
        super().__init__()
        self.may_write = asyncio.Event()
        write = self.executions.put

        async def put(record):
            await self.may_write.wait()
            await write(record)

        self.executions.put = put


async def test_with_full_durability_the_row_is_there_before_the_answer():
    plugins = {("store", "sqlite"): Slow}
    async with running({"one": ScriptedServer(["a"])}, plugins=plugins, durability="full") as gateway:
        calling = asyncio.ensure_future(Client(gateway).call("one__a"))
        done, _ = await asyncio.wait((calling,), timeout=0.1)
        assert not done
        gateway.store.may_write.set()
        await calling
        assert len(gateway.store.executions.records) == 1


async def test_without_it_nobody_waits():
    async with running({"one": ScriptedServer(["a"])}, plugins={("store", "sqlite"): Slow}) as gateway:
        await Client(gateway).call("one__a")
        gateway.store.may_write.set()


@pytest.mark.parametrize("waits", [True, False])
async def test_without_it_only_what_cost_something_waits_for_its_row(waits):
    async def work(arguments, run):
        if waits:
            run.note(cost_usd=0.25)
        return {}

    plugins = {**tool(work), ("store", "sqlite"): Slow}
    async with running({}, plugins=plugins) as gateway:
        calling = asyncio.ensure_future(Client(gateway).call("work"))
        done, _ = await asyncio.wait((calling,), timeout=0.1 if waits else 20)
        assert bool(done) is not waits
        gateway.store.may_write.set()
        await calling
        assert len(gateway.store.executions.records) == 1


async def test_what_has_happened_is_answered_when_it_cannot_be_recorded():
    class Full(MemoryStore):
        def __init__(self, settings=None, services=None):
            super().__init__()

            async def put(record):
                raise OSError("no space left")

            self.executions.put = put

    plugins = {("store", "sqlite"): Full}
    async with running(
        {"one": ScriptedServer(["a"])}, plugins=plugins, durability="full", log_level="error"
    ) as gateway:
        told = await Client(gateway).call("one__a")
        assert "isError" not in told
        assert len(gateway.store.executions.records) == 1  # kept for when it can be written again


async def test_the_clock_stands_still_while_somebody_is_asked(frozen_clock):
    run = FakeRun()
    with pytest.raises(TimeoutError):
        async with Clock(run, 0.05):
            await asyncio.Event().wait()
    async with Clock(run, 20) as clock:
        for _ in range(10):
            run.asked_s += 15
            frozen_clock.advance(15)
            for _ in range(10):
                await asyncio.sleep(0)
        assert not clock.expired
    async with Clock(run, None):
        await asyncio.sleep(0)


async def test_the_clock_goes_on_after_the_answer():
    run = FakeRun()

    async def asks_and_goes_on():
        async with Clock(run, 0.05):
            await asyncio.sleep(0.02)
            run.asked_s += 0.02
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await asks_and_goes_on()


async def test_a_deadline_waits_for_people_and_the_execution_knows_how_long(frozen_clock):
    seen = []

    async def work(arguments, run):
        await run.ask("elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}})
        seen.append(run.asked_s)
        return {}

    async def answer(params):
        frozen_clock.advance(30)
        for _ in range(20):
            await asyncio.sleep(0)
        return {"action": "accept", "content": {}}

    async with running({}, plugins=tool(work)) as gateway:
        client = Client(gateway)
        client.peer.others["elicitation/create"] = answer
        await client.initialize({"elicitation": {}})

        async def with_deadline(task, session, asked, start=gateway.dispatcher.start_resolved):
            return await start(task, session, replace(asked, deadline=datetime.now(UTC) + timedelta(seconds=20)))

        gateway.dispatcher.start_resolved = with_deadline
        told = await client.call("work")
        assert "isError" not in told, told
        assert 30 <= seen[0] < 60
