"""The tasks extension: what the gateway leaves in the background is a task for clients that know tasks."""

from __future__ import annotations

import asyncio
import types

import pytest

from pml_core.tasks import EXTENSION
from pml_hookspecs import MetaTool, RpcError, ToolCall, hookimpl
from pml_hookspecs.protocol import INVALID_PARAMS, MISSING_CLIENT_CAPABILITY
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
KNOWS = {"extensions": {EXTENSION: {}}}


def plugin():
    """A tool that leaves a call of another one in the background."""
    made, known = types.ModuleType("plugin"), []

    async def later(arguments, run):
        id = await known[0].start(ToolCall(id="call", tool="one:a", arguments=arguments), run.session)
        return {"execution_id": id, "status": "pending"}

    def tools(services):
        known.append(services)
        return [MetaTool(definition={"name": "later", "inputSchema": {"type": "object"}}, call=later)]

    made.pml_meta_tools = hookimpl(tools)
    return {("hooks", "later"): made}


class Slow(ScriptedServer):
    """Answers when it may."""

    def __init__(self):
        self.may = asyncio.Event()

        async def answer(name, arguments):
            await self.may.wait()
            if arguments.get("fail"):
                return {"content": [{"type": "text", "text": "it broke"}], "isError": True}
            return {"content": [{"type": "text", "text": "done"}], "structuredContent": arguments}

        super().__init__(["a"], answer)


async def until(client, id, status):
    """The task, once it has that status."""
    async with asyncio.timeout(5):
        while (task := await client.request("tasks/get", {"taskId": id}))["status"] != status:  # noqa: ASYNC110 - polling is the protocol
            await asyncio.sleep(0.01)
    return task


@pytest.mark.seed("QRY-46")
async def test_what_runs_in_the_background_is_a_task_for_clients_that_know_tasks():
    server = Slow()
    async with running({"one": server}, plugins=plugin()) as gateway:
        client = Client(gateway, modern=True, capabilities=KNOWS)
        assert EXTENSION in (await client.request("server/discover"))["capabilities"]["extensions"]
        made = await client.call("later", {"n": 1})
        assert (made["resultType"], made["status"], made["ttlMs"]) == ("task", "working", None)
        assert "task" not in made
        assert "content" not in made
        assert (await client.request("tasks/get", {"taskId": made["taskId"]}))["status"] == "working"
        server.may.set()
        task = await until(client, made["taskId"], "completed")
        assert task["resultType"] == "complete"
        assert task["result"]["structuredContent"] == {"n": 1}
        assert task["createdAt"].endswith("Z")


async def test_a_call_that_fails_is_a_completed_task_whose_result_says_so():
    server = Slow()
    server.may.set()
    async with running({"one": server}, plugins=plugin()) as gateway:
        client = Client(gateway, modern=True, capabilities=KNOWS)
        made = await client.call("later", {"fail": True})
        task = await until(client, made["taskId"], "completed")
        assert task["result"]["isError"] is True
        assert task["result"]["content"][0]["text"] == "it broke"


async def test_a_task_can_be_cancelled():
    async with running({"one": Slow()}, plugins=plugin()) as gateway:
        client = Client(gateway, modern=True, capabilities=KNOWS)
        made = await client.call("later", {})
        assert (await client.request("tasks/cancel", {"taskId": made["taskId"]}))["resultType"] == "complete"
        await until(client, made["taskId"], "cancelled")
        await client.request("tasks/update", {"taskId": made["taskId"], "inputResponses": {}})


async def test_other_clients_get_the_id_and_no_task():
    server = Slow()
    server.may.set()
    async with running({"one": server}, plugins=plugin()) as gateway:
        client = Client(gateway, modern=True)
        told = await client.call("later", {})
        assert told["resultType"] == "complete"
        id = told["structuredContent"]["execution_id"]
        with pytest.raises(RpcError) as refused:
            await client.request("tasks/get", {"taskId": id})
        assert refused.value.code == MISSING_CLIENT_CAPABILITY
        assert EXTENSION in refused.value.data["requiredCapabilities"]["extensions"]


async def test_somebody_elses_task_and_none_at_all_are_not_told_apart():
    async with running({"one": Slow(), "two": ScriptedServer(["b"])}, plugins=plugin()) as gateway:
        alice = Client(gateway, modern=True, capabilities=KNOWS, principal="alice")
        bob = Client(gateway, modern=True, capabilities=KNOWS, principal="bob")
        made = await alice.call("later", {})
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            with pytest.raises(RpcError) as theirs:
                await bob.request(method, {"taskId": made["taskId"]})
            with pytest.raises(RpcError) as none:
                await bob.request(method, {"taskId": made["taskId"][:-1] + "x"})
            assert theirs.value.code == none.value.code == INVALID_PARAMS
            assert str(theirs.value)[:16] == str(none.value)[:16]
        assert (await alice.request("tasks/get", {"taskId": made["taskId"]}))["status"] == "working"


async def test_a_server_that_makes_up_an_id_of_the_gateways_makes_no_task():
    async def lies(name, arguments):
        return {"content": [], "structuredContent": {"execution_id": "01", "status": "pending"}}

    async with running({"one": ScriptedServer(["a"], lies)}) as gateway:
        told = await Client(gateway, modern=True, capabilities=KNOWS).call("one__a")
        assert told["resultType"] == "complete"
