"""Answers that do not come by the client: its call waits for them, and goes on by itself."""

from __future__ import annotations

import asyncio

import pytest

from pml_approvals import plugin
from pml_approvals.requests import Requests
from pml_approvals.settings import Settings
from pml_hookspecs import Session, Status, ToolCall, Workflow
from pml_testing.dispatching import InOrder
from pml_testing.gateway import Client, ScriptedServer, running, until

pytestmark = pytest.mark.anyio
ALICE = Session(key="k", principal="alice", client="tester/1")
BOSS = Session(key="b", principal="boss", scopes=frozenset({"approve"}))
TOOLS = [{"name": "drop", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}]


def gateway(server, **table):
    plugins = {("executor", "in_order"): InOrder, ("hooks", "approvals"): plugin}
    return running({"db": server}, plugins=plugins, tables={"approvals": {"scope": "everywhere", **table}})


def plan(**arguments):
    return Workflow(id="w", tasks=(ToolCall(id="a", tool="db:drop", arguments=arguments),))


async def tell(made, tool, **arguments):
    outcome = await made.dispatcher.start(ToolCall(id="t", tool=f"pml:{tool}", arguments=arguments), BOSS)
    assert outcome.failure is None, outcome.failure
    return outcome.output["structuredContent"]


async def waiting(made, **arguments):
    return (await tell(made, "list_approvals", **arguments))["approvals"]


async def found(find):
    """What ``find`` finds, once it finds anything."""
    async with asyncio.timeout(60):
        while not (what := await find()):  # noqa: ASYNC110 - it may be found by another process
            await asyncio.sleep(0.05)
    return what


async def one_that_waits(made):
    return (await found(lambda: waiting(made)))[0]


async def answer(made, approve, **more):
    request = await one_that_waits(made)
    await tell(made, "answer_approval", approval_id=request["approval_id"], approve=approve, **more)


async def looked(made):
    await waiting(made)
    await found(Requests(made.assembly.services("approvals"), Settings()).somebody_looks)


@pytest.mark.parametrize("approve", [True, False])
async def test_a_call_goes_on_when_somebody_who_looks_answers(approve):
    server = ScriptedServer(TOOLS)
    async with gateway(server) as made:
        await looked(made)
        call = asyncio.ensure_future(made.dispatcher.start(plan(table="x"), ALICE))
        await answer(made, approve, reason="" if approve else "keep it")
        outcome = await call
        assert await waiting(made) == []
    assert server.calls == ([("drop", {"table": "x"})] if approve else [])
    assert outcome.status is (Status.OK if approve else Status.DENIED)
    assert approve or "keep it" in outcome.failure.message


async def test_a_call_does_not_wait_when_nobody_looks_but_the_same_again_does():
    server = ScriptedServer(TOOLS)
    async with gateway(server, wait_s=3600) as made:
        first = await made.dispatcher.start(plan(), ALICE)
        assert first.status is Status.INPUT_REQUIRED
        again = asyncio.ensure_future(made.dispatcher.start(plan(), ALICE))
        await answer(made, approve=True)
        assert (await again).status is Status.OK


async def test_the_wait_ends_with_a_request_that_can_be_answered_later():
    server = ScriptedServer(TOOLS)
    async with gateway(server, wait_s=0.2) as made:
        await looked(made)
        outcome = await made.dispatcher.start(plan(), ALICE)
        assert outcome.failure.code == "approval.required"
        await answer(made, approve=True)
        assert (await made.dispatcher.start(plan(), ALICE)).status is Status.OK


async def test_of_two_calls_that_wait_for_one_answer_one_runs_and_the_other_waits_on():
    server = ScriptedServer(TOOLS)
    async with gateway(server, wait_s=3600) as made:
        await looked(made)
        calls = [asyncio.ensure_future(made.dispatcher.start(plan(), ALICE)) for _ in range(2)]
        await one_that_waits(made)
        for _ in calls:
            done = sum(call.done() for call in calls)
            await answer(made, approve=True)
            await until(lambda done=done: sum(call.done() for call in calls) > done, within_s=60)
        assert [(await call).status for call in calls] == [Status.OK, Status.OK]
    assert len(server.calls) == 2


async def test_somebody_elsewhere_is_faster_than_the_clients_human():
    server, taken_back = ScriptedServer(TOOLS), asyncio.Event()

    async def thinks(_params):
        try:
            await asyncio.Event().wait()
        finally:
            taken_back.set()

    async with gateway(server) as made:
        client = Client(made)
        await client.initialize({"elicitation": {}})
        client.peer.others["elicitation/create"] = thinks
        call = asyncio.ensure_future(client.call("db__drop", {"table": "x"}))
        await answer(made, approve=True)
        assert not (await call).get("isError")
        async with asyncio.timeout(60):
            await taken_back.wait()
    assert server.calls == [("drop", {"table": "x"})]


async def test_a_client_without_a_handshake_goes_on_when_it_comes_back():
    server = ScriptedServer(TOOLS)
    async with gateway(server) as made:
        client = Client(made, modern=True, capabilities={"elicitation": {}}, stateless=True)
        asked = await client.call("db__drop")
        await answer(made, approve=True)
        await until(lambda: server.calls, within_s=60)
        closed = {key: {"action": "cancel"} for key in asked["inputRequests"]}
        result = await client.call("db__drop", inputResponses=closed, requestState=asked["requestState"])
        assert not result.get("isError")
    assert server.calls == [("drop", {})]


async def test_what_was_approved_before_of_the_same_target_is_told():
    async with gateway(ScriptedServer(TOOLS), wait_s=0) as made:
        await made.dispatcher.start(plan(table="x"), ALICE)
        first = await one_that_waits(made)
        assert first["before"] is None
        await tell(made, "answer_approval", approval_id=first["approval_id"], approve=True)
        assert (await made.dispatcher.start(plan(table="x"), ALICE)).status is Status.OK
        await made.dispatcher.start(plan(table="y"), ALICE)
        await made.dispatcher.start(plan(table="y"), Session(key="o", principal="bob"))
        told = {one["principal"]: one["before"] for one in await waiting(made)}
        assert told["bob"] is None
        assert told["alice"]["request"] == {"table": "x"}
        assert told["alice"]["answered_by"] == "boss"


async def test_what_was_denied_is_nothing_that_was_approved_before():
    async with gateway(ScriptedServer(TOOLS), wait_s=0) as made:
        await made.dispatcher.start(plan(table="x"), ALICE)
        await answer(made, approve=False)
        await made.dispatcher.start(plan(table="x"), ALICE)
        await made.dispatcher.start(plan(table="y"), ALICE)
        assert (await one_that_waits(made))["before"] is None


async def test_a_list_without_details_has_no_arguments():
    async with gateway(ScriptedServer(TOOLS), wait_s=0) as made:
        await made.dispatcher.start(plan(table="x"), ALICE)
        (short,) = await waiting(made, details=False)
        assert short.keys() == {
            "approval_id", "principal", "kind", "target", "intent", "execution_id", "agent", "requested_at",
        }  # fmt: skip
        refused = await made.dispatcher.start(
            ToolCall(id="t", tool="pml:list_approvals", arguments={"details": "no"}), BOSS
        )
        assert "details must be true or false" in refused.failure.message
