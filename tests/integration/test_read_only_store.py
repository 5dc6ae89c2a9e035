"""A store that turns read-only while the gateway serves: calls go on, and their rows are there afterwards."""

from __future__ import annotations

import asyncio

import pytest

from pml_executor_dag import Dag, tool
from pml_hookspecs import ExecutionQuery, Scope
from pml_store_sqlite import SqliteStore
from pml_store_sqlite.database import Database
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)
SOON_S = 120


@pytest.fixture
def connections(monkeypatch):
    """Those that write."""
    opened, open_writer = [], Database.open_writer

    def opening(database):
        opened.append(open_writer(database))
        return opened[-1]

    monkeypatch.setattr(Database, "open_writer", opening)
    return opened


async def rows(gateway):
    """How many calls of the tool the history has."""
    query = ExecutionQuery(scope=EVERYONE, target="one:a")
    return (await gateway.store.executions.find(query)).total


@pytest.mark.parametrize("durability", ["soon", "full"])
async def test_calls_go_on_and_their_rows_are_there_afterwards(tmp_path, connections, durability, capfd):
    plugins = {("store", "sqlite"): SqliteStore, ("executor", "dag"): Dag, ("hooks", "workflow_tool"): tool}
    options = {"tables": {"sqlite": {"path": str(tmp_path / "pml.db")}}, "store": "sqlite", "durability": durability}
    async with running({"one": ScriptedServer(["a"])}, plugins=plugins, **options) as gateway:
        client = Client(gateway)
        assert "isError" not in await client.call("one__a")
        assert await rows(gateway) == 1
        connections[0].execute("PRAGMA query_only = ON")
        for _ in range(20):
            assert "isError" not in await client.call("one__a")
        plan = {"workflow": {"tasks": [{"id": "only", "tool": "one:a"}]}, "async": True}
        refused = await client.call("execute_workflow", plan)
        assert refused["_meta"]["pml/failure"]["code"] == "execution.unrecorded"
        assert "readonly" in (await gateway.store.health())["trouble"]
        # They wait in memory, and a list has what is in the file.
        assert await rows(gateway) == 1
        connections[0].execute("PRAGMA query_only = OFF")
        async with asyncio.timeout(SOON_S):
            while (await gateway.store.health())["trouble"]:  # noqa: ASYNC110 - another thread writes them
                await asyncio.sleep(0.01)
        assert await rows(gateway) == 21
        assert (await gateway.store.health())["drops"] == 0
        begun = await client.call("execute_workflow", plan)
        assert value_of(begun)["status"] == "pending"
    assert "store cannot write" in capfd.readouterr().err
