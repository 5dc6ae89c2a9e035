"""Code that worked, run again where calls have fixed arguments: it gets them too, and cannot get others."""

from __future__ import annotations

import asyncio
import json

import pytest

import pml_capabilities.plugin
import pml_presentation.plugin
import pml_search_tools.plugin
from pml_capabilities import Capabilities
from pml_capabilities.library import COLLECTION
from pml_hookspecs import CapabilityRun, CodeRun, MetaTool, hookimpl
from pml_sandbox_monty import Monty
from pml_store_sqlite import SqliteStore
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
QUERY = {
    "name": "query",
    "description": "Runs a query.",
    "inputSchema": {
        "type": "object",
        "properties": {"table": {"type": "string"}, "text": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["table", "text"],
    },
    "annotations": {"readOnlyHint": True},
}
SHOWN = {"name": "find_orders", "arguments": {"table": "orders"}, "defaults": {"limit": 20}}
INTENT = "Find orders of a customer"
LONG_S = 300.0


class Tools:
    """Tools that stand for code, and for the same code run again."""

    @hookimpl
    def pml_meta_tools(self, services):
        def code(given):
            return CodeRun(
                id="code", language="python", source=given["source"], inputs=given["inputs"], intent=INTENT
            )  # fmt: skip

        def again(given):
            return CapabilityRun(id="again", capability_id=given["id"], inputs=given["inputs"])

        schema = {"type": "object"}
        tasks = {"run_code": code, "run_again": again}
        return [MetaTool(definition={"name": name, "inputSchema": schema}, task=task) for name, task in tasks.items()]


def gateway(server, folder, tool):
    plugins = {
        ("executor", "capabilities"): Capabilities,
        ("executor", "monty"): Monty,
        ("guards", "presentation"): pml_presentation.plugin,
        ("hooks", "capabilities"): pml_capabilities.plugin,
        ("hooks", "search_tools"): pml_search_tools.plugin,
        ("hooks", "tools"): Tools(),
        ("store", "sqlite"): SqliteStore,
    }
    tables = {
        "capabilities": {"proven_after": 1, "refresh_s": 0.1},
        "presentation": {"tools": {"s:query": tool}},
        "sqlite": {"path": str(folder / "pml.db")},
    }
    return running({"s": server}, plugins=plugins, tables=tables, store="sqlite")


async def connected(made):
    client = Client(made, principal="alice")
    await client.initialize()
    return client


async def learned(made):
    """The one capability that there is, once there is one."""
    async with asyncio.timeout(LONG_S):
        while not (found := (await made.store.documents.find(COLLECTION)).items):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    (document,) = found
    return document


async def named(client):
    """The name by which clients call it, once it is found."""
    async with asyncio.timeout(LONG_S):
        while True:
            found = value_of(await client.call("search_tools", {"query": INTENT}))["tools"]
            if names := [one["name"] for one in found if one["name"].startswith("capability__")]:
                return names[0]
            await asyncio.sleep(0.01)


async def test_code_run_again_calls_with_what_is_fixed(tmp_path):
    server = ScriptedServer([QUERY])
    async with gateway(server, tmp_path, SHOWN) as made:
        client = await connected(made)
        source = "return await tools.s.find_orders(text=text)"
        assert "isError" not in await client.call("run_code", {"source": source, "inputs": {"text": "ada"}})
        document = await learned(made)
        await client.call("call_tool", {"name": await named(client), "arguments": {"text": "bob"}})
    assert server.calls == [
        ("query", {"limit": 20, "text": text, "table": "orders"}) for text in ("ada", "bob")
    ]  # fmt: skip
    assert document.value["tools_used"] == ["s:query"]
    assert '"orders"' not in json.dumps(dict(document.value))


@pytest.mark.attack("A fixed argument has its value", "give another value to code that worked with the fixed one")
async def test_code_run_again_cannot_call_with_another_value(tmp_path):
    server = ScriptedServer([QUERY])
    async with gateway(server, tmp_path, SHOWN) as made:
        client = await connected(made)
        source = "return await tools.s.query(text='ada', table=table)"
        assert "isError" not in await client.call("run_code", {"source": source, "inputs": {"table": "orders"}})
        document = await learned(made)
        answer = await client.call("run_again", {"id": document.key, "inputs": {"table": "users"}})
    assert answer["isError"]
    assert "is fixed in the gateway's configuration" in answer["content"][0]["text"]
    assert len(server.calls) == 1


async def test_code_that_worked_before_something_was_fixed_is_not_run_again(tmp_path):
    server = ScriptedServer([QUERY])
    source = "return await tools.s.query(text='ada', table=table)"
    async with gateway(server, tmp_path, {"tags": ["reading"]}) as made:
        client = await connected(made)
        await client.call("run_code", {"source": source, "inputs": {"table": "users"}})
        await learned(made)
    async with gateway(server, tmp_path, SHOWN) as made:
        client = await connected(made)
        await client.call("query", {"text": "x"})
        document = await learned(made)
        answer = await client.call("run_again", {"id": document.key, "inputs": {"table": "users"}})
    assert "the definition of s:query has changed" in answer["content"][0]["text"]
    assert [given["table"] for _, given in server.calls] == ["users", "orders"]
