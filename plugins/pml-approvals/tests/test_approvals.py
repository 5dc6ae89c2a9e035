from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from pml_approvals import plugin
from pml_approvals.requests import Requests
from pml_approvals.settings import Settings
from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    MetaTool,
    RpcError,
    RunOptions,
    Session,
    Status,
    Step,
    ToolCall,
    Workflow,
)
from pml_testing.dispatching import Code, InOrder, hooks, tool
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
SESSION = Session(key="k", principal="alice", client="tester/1")
SCHEMA = {"type": "object"}
APPROVE = Step(approve=True)
TOOLS = [
    {"name": "read", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "drop", "inputSchema": SCHEMA, "annotations": {"destructiveHint": True}},
    {"name": "add", "inputSchema": SCHEMA, "annotations": {"destructiveHint": False}},
    {"name": "mystery", "inputSchema": SCHEMA},
]


def gateway(server, table=None, **options):
    plugins = {("executor", "in_order"): InOrder, ("executor", "code"): Code, ("hooks", "approvals"): plugin}
    return running({"db": server}, plugins=plugins, tables={"approvals": table or {}}, **options)


def call(tool="drop", **arguments):
    return ToolCall(id="a", tool=f"db:{tool}", arguments=arguments)


def plan(*tasks):
    return Workflow(id="w", tasks=tasks)


def requests(made):
    services = made.assembly.services("approvals")
    return Requests(services, Settings())


async def answer(made, request, state, **more):
    assert await requests(made).answer(request, state, by="human", **more)


async def test_a_destructive_task_of_a_plan_waits_and_runs_once_it_is_approved():
    server = ScriptedServer(TOOLS)
    async with gateway(server) as made:
        waits = await made.dispatcher.start(plan(call(table="x")), SESSION)
        assert (waits.status, waits.failure.code) == (Status.INPUT_REQUIRED, "approval.required")
        (request,) = await requests(made).all("pending", 10)
        assert waits.failure.details["approval_id"] == request.id
        assert request.value["request"] == {"table": "x"}
        assert server.calls == []
        await answer(made, request, "approved")
        done = await made.dispatcher.start(plan(call(table="x")), SESSION)
        assert done.status is Status.OK
    assert server.calls == [("drop", {"table": "x"})]


async def test_an_approval_is_good_once():
    server = ScriptedServer(TOOLS)
    async with gateway(server, {"wait_s": 0}) as made:
        await made.dispatcher.start(plan(call()), SESSION)
        (request,) = await requests(made).all("pending", 10)
        await answer(made, request, "approved")
        task = plan(call())
        results = await asyncio.gather(*(made.dispatcher.start(task, SESSION) for _ in range(5)))
    assert sorted(r.status for r in results) == [Status.INPUT_REQUIRED] * 4 + [Status.OK]
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "other",
    [call(table="y"), call("mystery", table="x"), CodeRun(id="a", language="x", source="")],
)
async def test_an_approval_of_one_call_is_none_of_another(other):
    Code.answers = {"": "ran"}
    server = ScriptedServer(TOOLS)
    async with gateway(server, {"effects": "unknown"}) as made:
        await made.dispatcher.start(plan(call(table="x")), SESSION)
        (request,) = await requests(made).all("pending", 10)
        await answer(made, request, "approved")
        await made.dispatcher.start(plan(other), SESSION)
        assert server.calls == []
        await made.dispatcher.start(plan(call(table="x")), Session(key="k2", principal="bob"))
        assert server.calls == []


async def test_an_approval_is_void_when_the_tools_definition_changes():
    server = ScriptedServer(TOOLS)
    async with gateway(server) as made:
        await made.dispatcher.start(plan(call()), SESSION)
        (request,) = await requests(made).all("pending", 10)
        await answer(made, request, "approved")
        from pml_catalog.live import make_entry

        changed = {**TOOLS[1], "description": "drops everything, not only the table"}
        made.catalog.publish("db", [make_entry("db", changed)])
        again = await made.dispatcher.start(plan(call()), SESSION)
    assert again.status is Status.INPUT_REQUIRED
    assert server.calls == []


async def test_a_request_and_its_approval_are_good_for_as_long_as_the_settings_say():
    before = datetime.now(UTC)
    async with gateway(ScriptedServer(TOOLS), {"expires_s": 3600}) as made:
        await made.dispatcher.start(plan(call()), SESSION)
        (request,) = await requests(made).all("pending", 10)
        await answer(made, request, "approved")
        (approval,) = await requests(made).all("approved", 10)
    assert timedelta(hours=1) <= approval.expires_at - before <= timedelta(hours=1, seconds=120)
    assert approval.expires_at == request.expires_at


async def test_a_refusal_reaches_the_agent_with_its_reason():
    server = ScriptedServer(TOOLS)
    async with gateway(server) as made:
        await made.dispatcher.start(plan(call()), SESSION)
        (request,) = await requests(made).all("pending", 10)
        await answer(made, request, "denied", reason="not on a Friday")
        refused = await made.dispatcher.start(plan(call()), SESSION)
    assert refused.failure.code == "approval.denied"
    assert "not on a Friday" in refused.failure.message
    assert server.calls == []


async def test_asking_again_while_a_request_waits_keeps_one_request():
    async with gateway(ScriptedServer(TOOLS), {"wait_s": 0}) as made:
        for _ in range(3):
            await made.dispatcher.start(plan(call()), SESSION)
        assert len(await requests(made).all(None, 10)) == 1


@pytest.mark.parametrize(
    ("table", "tool", "in_plan", "held"),
    [
        ({}, "drop", True, True),
        ({}, "drop", False, False),
        ({}, "mystery", True, False),
        ({}, "add", True, False),
        ({}, "read", True, False),
        ({"scope": "everywhere"}, "drop", False, True),
        ({"effects": "unknown"}, "mystery", True, True),
        ({"effects": "unknown"}, "add", True, False),
        ({"effects": "unknown"}, "read", True, False),
        ({"effects": "writes"}, "add", True, True),
        ({"effects": "writes"}, "mystery", True, True),
        ({"effects": "writes"}, "read", True, False),
        ({"effects": "none"}, "drop", True, False),
        ({"trust": ["db:*"]}, "drop", True, False),
        ({"require": ["db:re*"]}, "read", False, True),
        ({"require": ["db:drop"], "trust": ["db:*"]}, "drop", True, True),
    ],
)
async def test_policy(table, tool, in_plan, held):
    server = ScriptedServer(TOOLS)
    async with gateway(server, table) as made:
        task = plan(call(tool)) if in_plan else call(tool)
        result = await made.dispatcher.start(task, SESSION)
    assert (result.status is Status.INPUT_REQUIRED) is held
    assert (server.calls == []) is held


def stands_for_a_call():
    """As ``call_tool``: its client's human sees its name, and not the tool's."""

    def task(arguments):
        return ToolCall(id="call", tool=arguments["name"], arguments=arguments.get("arguments", {}))

    return hooks(MetaTool(definition={"name": "call_it", "inputSchema": SCHEMA}, task=task))


@pytest.mark.parametrize(
    ("name", "asks"),
    [("db__drop", False), ("db:drop", False), ("drop", False), ("call_it", True), ("pml:call_it", True)],
)
async def test_what_a_meta_tool_stands_for_is_asked_for_like_a_step_of_a_plan(name, asks):
    server = ScriptedServer(TOOLS)
    plugins = {("hooks", "approvals"): plugin, ("hooks", "meta"): stands_for_a_call()}
    async with running({"db": server}, plugins=plugins) as made:
        arguments = {"name": "db:drop", "arguments": {"table": "x"}} if asks else {"table": "x"}
        task = ToolCall(id="c", tool=name, arguments=arguments)
        waits = await made.dispatcher.start(task, SESSION)
        assert (waits.status is Status.INPUT_REQUIRED) is asks
        assert server.calls == ([] if asks else [("drop", {"table": "x"})])
        reads = ToolCall(id="c", tool="call_it", arguments={"name": "db:read"})
        assert (await made.dispatcher.start(reads, SESSION)).status is Status.OK
        if asks:
            (request,) = await requests(made).all("pending", 10)
            await answer(made, request, "approved")
            assert (await made.dispatcher.start(task, SESSION)).status is Status.OK


async def test_a_task_may_ask_for_approval_itself():
    Code.answers = {"x": "ran"}
    async with gateway(ScriptedServer(TOOLS)) as made:
        task = CodeRun(id="c", language="x", source="x", step=APPROVE)
        assert (await made.dispatcher.start(plan(task), SESSION)).status is Status.INPUT_REQUIRED
        (request,) = await requests(made).all("pending", 10)
        assert (request.value["kind"], request.value["target"]) == ("code", "x")
        await answer(made, request, "approved")
        assert (await made.dispatcher.start(plan(task), SESSION)).status is Status.OK


async def test_what_code_calls_is_held_back_like_a_task_of_a_plan():
    async def drops(task, run):
        return await run.dispatch(call())

    Code.answers, server = {"x": drops}, ScriptedServer(TOOLS)
    async with gateway(server) as made:
        await made.dispatcher.start(CodeRun(id="c", language="x", source="x"), SESSION)
    assert server.calls == []


async def test_a_rehearsal_asks_nobody():
    from pml_testing.dispatching import Simulator

    plugins = {
        ("executor", "in_order"): InOrder,
        ("hooks", "approvals"): plugin,
        ("hooks", "simulator"): hooks(wrappers=[Simulator()]),
    }
    async with running({"db": ScriptedServer(TOOLS)}, plugins=plugins) as made:
        result = await made.dispatcher.start(plan(call()), SESSION, RunOptions(dry_run=True))
        assert await requests(made).all(None, 10) == []
    assert result.status is not Status.INPUT_REQUIRED


# Through the client

FORM = {"action": "accept", "content": {"approve": True}}


async def asking_client(made, reply):
    client = Client(made)
    await client.initialize({"elicitation": {}})
    asked = []

    async def answers(params):
        asked.append(params)
        if isinstance(reply, Exception):
            raise reply
        return reply

    client.peer.others["elicitation/create"] = answers
    return client, asked


async def test_the_client_asks_its_human_and_the_task_runs_at_once():
    server = ScriptedServer(TOOLS)
    async with gateway(server, {"scope": "everywhere"}) as made:
        client, asked = await asking_client(made, FORM)
        result = await client.call("db__drop", {"table": "x"})
        assert not result.get("isError")
        (kept,) = await requests(made).all("used", 10)
    assert 'Call db:drop with {"table": "x"}?' in asked[0]["message"]
    assert kept.value["answered_by"] == "client"
    assert server.calls == [("drop", {"table": "x"})]


@pytest.mark.parametrize(
    "reply",
    [{"action": "decline"}, {"action": "accept", "content": {"approve": False}}, {"action": "accept"}],
)
async def test_a_no_is_a_no(reply):
    server = ScriptedServer(TOOLS)
    async with gateway(server, {"scope": "everywhere"}) as made:
        client, _ = await asking_client(made, reply)
        result = await client.call("db__drop")
        assert await requests(made).all("pending", 10) == []
    assert result["_meta"]["pml/failure"]["code"] == "approval.denied"
    assert server.calls == []


@pytest.mark.parametrize("reply", [{"action": "cancel"}, RpcError(-32000, "closed")])
async def test_no_answer_leaves_a_request_that_waits(reply):
    server = ScriptedServer(TOOLS)
    async with gateway(server, {"scope": "everywhere"}) as made:
        client, _ = await asking_client(made, reply)
        result = await client.call("db__drop")
        (waiting,) = await requests(made).all("pending", 10)
    assert result["_meta"]["pml/failure"]["details"]["approval_id"] == waiting.id
    assert server.calls == []


async def test_a_client_without_a_handshake_is_asked_by_the_answer():
    server = ScriptedServer(TOOLS)
    async with gateway(server, {"scope": "everywhere"}) as made:
        client = Client(made, modern=True, capabilities={"elicitation": {}}, stateless=True)
        asked = await client.call("db__drop")
        ((key, question),) = asked["inputRequests"].items()
        assert question["params"]["requestedSchema"]["required"] == ["approve"]
        again = {"inputResponses": {key: FORM}, "requestState": asked["requestState"]}
        await client.call("db__drop", **again)
    assert server.calls == [("drop", {})]


async def test_the_client_is_not_asked_when_that_is_switched_off():
    async with gateway(ScriptedServer(TOOLS), {"scope": "everywhere", "ask_client": False}) as made:
        client, asked = await asking_client(made, FORM)
        await client.call("db__drop")
    assert asked == []


async def test_secrets_are_in_neither_the_question_nor_what_is_kept():
    async with gateway(ScriptedServer(TOOLS), {"scope": "everywhere"}) as made:
        made.redactor.learn(["sesame-open"])
        client, asked = await asking_client(made, {"action": "cancel"})
        await client.call("db__drop", {"token": "sesame-open"})
        (waiting,) = await requests(made).all("pending", 10)
    assert "sesame" not in str(asked) + str(waiting)


@pytest.mark.parametrize("attempts", [1, 2])
async def test_what_a_human_was_asked_when_time_ran_out_is_kept_and_can_be_answered_by_command(attempts):
    asked, approved, server = asyncio.Event(), asyncio.Event(), ScriptedServer(TOOLS)

    async def thinks(params):
        asked.set()
        await asyncio.Event().wait()

    async def drops(task, run):
        dispatched = asyncio.ensure_future(run.dispatch(call(table="x")))
        if not approved.is_set():
            await asked.wait()
            asked.clear()
            dispatched.cancel()
        (ended,) = await asyncio.gather(dispatched, return_exceptions=True)
        return outcome(task.id, "too late" if isinstance(ended, asyncio.CancelledError) else str(ended.status))

    Code.answers = {"x": drops}
    code = hooks(tool("run_it", task=lambda _arguments: CodeRun(id="c", language="x", source="x")))
    plugins = {("executor", "code"): Code, ("hooks", "approvals"): plugin, ("hooks", "made"): code}
    async with running({"db": server}, plugins=plugins) as made:
        client = Client(made)
        await client.initialize({"elicitation": {}})
        client.peer.others["elicitation/create"] = thinks
        for _ in range(attempts):
            assert "too late" in str(await client.call("run_it"))
        (request,) = await requests(made).all(None, 10)
        assert (request.state, request.value["request"]) == ("pending", {"table": "x"})
        assert server.calls == []
        await answer(made, request, "approved")
        approved.set()
        assert "ok" in str(await client.call("run_it"))
    assert server.calls == [("drop", {"table": "x"})]


# The tool


async def test_an_agent_cannot_approve_what_it_asks_for():
    server = ScriptedServer(TOOLS)
    async with gateway(server) as made:
        await made.dispatcher.start(plan(call()), SESSION)
        (request,) = await requests(made).all("pending", 10)
        task = ToolCall(id="t", tool="answer_approval", arguments={"approval_id": request.id, "approve": True})
        refused = await made.dispatcher.start(task, SESSION)
        assert "lacks the scope 'approve'" in refused.failure.message
        boss = Session(key="b", principal="boss", scopes=frozenset({"approve"}))
        assert (await made.dispatcher.start(task, boss)).status is Status.OK
        assert "it is approved" in (await made.dispatcher.start(task, boss)).failure.message
        assert (await made.dispatcher.start(plan(call()), SESSION)).status is Status.OK


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give approval_id"),
        ({"approval_id": "apr-0", "approve": "yes"}, "give approval_id"),
        ({"approval_id": "apr-0", "approve": True}, "there is no such request"),
    ],
)
async def test_bad_answers_say_what_is_wrong(arguments, message):
    async with gateway(ScriptedServer(TOOLS)) as made:
        boss = Session(key="b", principal="boss", scopes=frozenset({"approve"}))
        task = ToolCall(id="t", tool="answer_approval", arguments=arguments)
        assert message in (await made.dispatcher.start(task, boss)).failure.message


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (call(), "The call of db:drop waits"),
        (CodeRun(id="c", language="x", source="x", step=APPROVE), "Code in x waits"),
        (CapabilityRun(id="c", capability_id="abc", step=APPROVE), "The capability abc waits"),
        (Workflow(id="in", tasks=(), step=APPROVE), "The plan 'in' waits"),
    ],
)
async def test_what_waits_is_said_in_words(task, says):
    async with gateway(ScriptedServer(TOOLS)) as made:
        waits = await made.dispatcher.start(plan(task), SESSION)
    assert waits.failure.message.startswith(f"{says} for a human: pml approvals approve apr-")


async def test_a_tool_that_its_server_does_not_list_counts_as_one_that_may_destroy():
    server = ScriptedServer(TOOLS)
    async with gateway(server) as made:
        waits = await made.dispatcher.start(plan(call("unlisted", table="x")), SESSION)
        assert (waits.status, waits.failure.code) == (Status.INPUT_REQUIRED, "approval.required")
        assert server.calls == []
        (request,) = await requests(made).all("pending", 10)
        await answer(made, request, "approved")
        assert (await made.dispatcher.start(plan(call("unlisted", table="x")), SESSION)).status is Status.OK
    assert server.calls == [("unlisted", {"table": "x"})]
    async with gateway(server, {"effects": "none"}) as made:
        assert (await made.dispatcher.start(plan(call("unlisted")), SESSION)).status is Status.OK
