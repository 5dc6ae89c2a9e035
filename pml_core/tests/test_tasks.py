"""The tasks extension: what the gateway leaves in the background is a task for clients that know tasks."""

from __future__ import annotations

import asyncio
import types

import pytest

from pml_hookspecs import MetaTool, Offer, RpcError, Scope, Session, ToolCall, UnauthenticatedError, hookimpl
from pml_kit.mcp.protocol import INVALID_PARAMS, MISSING_CLIENT_CAPABILITY
from pml_kit.offers import ACCESS_WATCHERS, IDENTITIES
from pml_mcp.clients.mcp_tasks import EXTENSION, may_act_on
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
    async with asyncio.timeout(30):
        while (task := await client.request("tasks/get", {"taskId": id}))["status"] != status:  # noqa: ASYNC110 - polling is the protocol
            await asyncio.sleep(0.01)
    return task


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


# Who may, and what is told of it


class Sees:
    """Lets the principal ``auditor`` see everybody's executions, and ``nobody`` none at all."""

    async def identify(self, token):
        return None

    async def current(self, session):
        return None

    async def scope(self, session, *, results):
        if session.principal == "nobody":
            raise UnauthenticatedError("A key is needed")
        return Scope(principals=None if session.principal == "auditor" else frozenset({session.principal}))


def watched():
    """Plugins as above, who may see what, and what is heard of access."""
    made, heard = types.ModuleType("watching"), []

    async def hear(event):
        heard.append(event)

    async def fail(event):
        raise OSError("no space left")

    offers = [Offer(IDENTITIES, Sees()), Offer(ACCESS_WATCHERS, fail), Offer(ACCESS_WATCHERS, hear)]
    made.pml_offers = hookimpl(lambda services: offers)
    return {**plugin(), ("guards", "watching"): made}, heard


async def test_who_may_only_see_a_task_may_not_stop_it():
    plugins, heard = watched()
    async with running({"one": Slow()}, plugins=plugins) as gateway:
        alice = Client(gateway, modern=True, capabilities=KNOWS, principal="alice")
        auditor = Client(gateway, modern=True, capabilities=KNOWS, principal="auditor")
        id = (await alice.call("later", {}))["taskId"]
        assert (await auditor.request("tasks/get", {"taskId": id}))["status"] == "working"
        for method in ("tasks/cancel", "tasks/update"):
            with pytest.raises(RpcError, match="not yours") as refused:
                await auditor.request(method, {"taskId": id})
            assert refused.value.code == INVALID_PARAMS
        assert (await alice.request("tasks/get", {"taskId": id}))["status"] == "working"
        assert [(e.kind, e.target, e.session.principal, e.code) for e in heard if e.session.principal == "auditor"] == [
            ("query", "tasks/get", "auditor", ""),
            ("denied", "tasks/cancel", "auditor", "policy.denied"),
            ("denied", "tasks/update", "auditor", "policy.denied"),
        ]
        assert {event.execution for event in heard} == {id}
        await alice.request("tasks/cancel", {"taskId": id})
        await until(alice, id, "cancelled")


async def test_an_agents_run_may_be_stopped_by_the_agent_and_by_systems():
    session = {"key": "k", "principal": "agent:a", "agent": "a"}
    record = types.SimpleNamespace(principal="alice", agent="a", as_agent=True)
    assert may_act_on(Session(**session), record)
    assert not may_act_on(Session(**{**session, "agent": "b"}), record)
    assert not may_act_on(Session(**session), types.SimpleNamespace(principal="alice", agent="a", as_agent=False))
    assert may_act_on(Session(key="k", principal="s", scopes=frozenset({"system"})), record)


async def test_requests_about_tasks_of_others_and_of_nobody_are_told_of_alike():
    plugins, heard = watched()
    async with running({"one": Slow()}, plugins=plugins) as gateway:
        alice = Client(gateway, modern=True, capabilities=KNOWS, principal="alice")
        bob = Client(gateway, modern=True, capabilities=KNOWS, principal="bob")
        nobody = Client(gateway, modern=True, capabilities=KNOWS, principal="nobody")
        id = (await alice.call("later", {}))["taskId"]
        for method in ("tasks/get", "tasks/cancel"):
            for asked in (id, id[:-1] + "x"):
                with pytest.raises(RpcError):
                    await bob.request(method, {"taskId": asked})
        with pytest.raises(RpcError, match="A key is needed"):
            await nobody.request("tasks/get", {"taskId": id})
    about = [(e.kind, e.target, e.session.principal, e.execution, e.code) for e in heard]
    assert about == [
        ("refused", "tasks/get", "bob", id, "task.unknown"),
        ("refused", "tasks/get", "bob", id[:-1] + "x", "task.unknown"),
        ("refused", "tasks/cancel", "bob", id, "task.unknown"),
        ("refused", "tasks/cancel", "bob", id[:-1] + "x", "task.unknown"),
        ("denied", "tasks/get", "nobody", id, "access.unauthenticated"),
    ]
    assert len({event.message for event in heard[:4]}) == 1
