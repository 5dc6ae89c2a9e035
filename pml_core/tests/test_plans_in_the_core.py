"""What the core does for plans: journals, budgets, questions, rehearsals."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from pml_hookspecs import (
    CannotAskError,
    CodeRun,
    RpcError,
    RunOptions,
    Session,
    Status,
    ToolCall,
    Workflow,
)
from pml_testing.dispatching import SESSION, Code, gateway, records, tool
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedServer

pytestmark = pytest.mark.anyio
READ = ToolCall(id="a", tool="fs:read")
SURE = {"message": "sure?", "requestedSchema": {"type": "object"}}


def plan(*tasks, id="w", **options):
    return Workflow(id=id, tasks=tasks, **options)


class Journal:
    def __init__(self, **known):
        self.known, self.asked = known, []

    async def __call__(self, path, task, perform):
        self.asked.append(path)
        if path not in self.known:
            self.known[path] = await perform()
        return self.known[path]


def asking(method="elicitation/create", params=SURE):
    """A tool that asks the client and answers with what came back."""

    async def ask(arguments, run):
        try:
            return {"answer": dict(await run.ask(method, params))}
        except CannotAskError as exc:
            return {"cannot": str(exc)}
        except RpcError as exc:
            return {"error": exc.code}

    return tool("ask_it", call=ask)


# Journals


async def test_a_journal_keeps_what_a_workflow_dispatches_under_its_path_and_workflows_in_it_too():
    journal = Journal()
    async with gateway() as made:
        task = plan(READ, plan(ToolCall(id="b", tool="fs:read"), id="inner"))
        result = await made.dispatcher.start(task, SESSION, RunOptions(journal=journal))
        assert result.status is Status.OK
        assert journal.asked == ["a", "inner", "inner/b"]


async def test_what_a_journal_knows_is_not_run_again():
    server = ScriptedServer(["read"])
    async with gateway({"fs": server}) as made:
        task = plan(READ, ToolCall(id="b", tool="fs:read", arguments={"second": 1}))
        await made.dispatcher.start(task, SESSION, RunOptions(journal=Journal(a=outcome("a", "kept"))))
        assert server.calls == [("read", {"second": 1})]


async def test_a_journal_given_for_a_child_keeps_that_childs_tasks_and_nothing_else():
    journal = Journal()

    async def durable(task, run):
        return await run.dispatch(plan(READ, id="again"), journal=journal)

    Code.answers = {"x": durable}
    async with gateway() as made:
        await made.dispatcher.start(plan(CodeRun(id="c", language="x", source="x"), READ), SESSION)
    assert journal.asked == ["a"]


async def test_what_code_calls_is_kept_by_the_journal_of_its_workflow_for_the_code_begins_anew():
    async def calls(task, run):
        return outcome(task.id, [(await run.dispatch(READ)).status, run.durable])

    Code.answers, journal = {"x": calls}, Journal()
    server = ScriptedServer(["read"])
    async with gateway({"fs": server}) as made:
        for _ in range(2):
            journal.known.pop("c", None)
            await made.dispatcher.start(
                plan(CodeRun(id="c", language="x", source="x")), SESSION, RunOptions(journal=journal)
            )
    assert journal.asked == ["c", "c/a", "c", "c/a"]
    assert (server.calls, journal.known["c"].output) == ([("read", {})], ["ok", True])


async def test_what_a_tool_that_stands_for_code_calls_is_kept_too():
    async def calls(task, run):
        return await run.dispatch(READ)

    Code.answers, journal = {"x": calls}, Journal()
    stands = tool("code_it", task=lambda arguments: CodeRun(id="any", language="x", source="x"))
    async with gateway(tools=[stands]) as made:
        await made.dispatcher.start(plan(ToolCall(id="c", tool="code_it")), SESSION, RunOptions(journal=journal))
    assert journal.asked == ["c", "c/a"]


async def test_what_the_gateways_own_tools_call_is_theirs_and_not_kept():
    async def call(arguments, run):
        await run.dispatch(READ)
        return {"durable": run.durable}

    journal = Journal()
    async with gateway(tools=[tool("call_it", call=call)]) as made:
        await made.dispatcher.start(plan(ToolCall(id="c", tool="call_it")), SESSION, RunOptions(journal=journal))
    assert (journal.asked, journal.known["c"].output["structuredContent"]) == (["c"], {"durable": False})


async def test_a_run_knows_its_path():
    paths = []

    async def tells(task, run):
        paths.append(run.path)
        return outcome(task.id, 1)

    Code.answers = {"x": tells}
    async with gateway() as made:
        code = CodeRun(id="c", language="x", source="x")
        await made.dispatcher.start(plan(plan(code, id="inner"), id="outer"), SESSION)
    assert paths == ["outer/inner/c"]


# Budgets


async def test_a_budget_of_calls_counts_those_of_code_and_of_workflows_inside():
    async def twice(task, run):
        return outcome(task.id, [(await run.dispatch(READ)).status for _ in range(2)])

    Code.answers, server = {"x": twice}, ScriptedServer(["read"])
    async with gateway({"fs": server}) as made:
        inner = plan(CodeRun(id="c", language="x", source="x"), id="inner")
        result = await made.dispatcher.start(plan(inner, READ, READ, max_tool_calls=3), SESSION)
        refused = [r for r in await records(made) if r.failure is not None and r.kind == "tool"]
    assert (result.status, len(server.calls)) == (Status.ERROR, 3)
    assert [r.failure.code for r in refused] == ["budget.tool_calls"]


async def test_a_workflow_within_may_have_less_and_never_more():
    server = ScriptedServer(["read"])
    async with gateway({"fs": server}) as made:
        inner = plan(READ, READ, READ, id="inner", max_tool_calls=1)
        await made.dispatcher.start(plan(inner, plan(READ, READ, id="b", max_tool_calls=9), max_tool_calls=2), SESSION)
    assert len(server.calls) == 2


async def test_a_budget_of_money_ends_with_what_was_spent():
    Code.answers = {"dear": lambda task, run: paid(task)}

    async def paid(task):
        return outcome(task.id, 1, cost_usd=0.75)

    server = ScriptedServer(["read"])
    async with gateway({"fs": server}) as made:
        dear = CodeRun(id="c", language="x", source="dear")
        task = plan(dear, READ, dear, READ, max_cost_usd=1.0)
        await made.dispatcher.start(task, SESSION)
        found = {r.kind: r for r in await records(made)}
    assert len(server.calls) == 1
    assert found["code"].cost_usd == 0.75
    assert found["tool"].failure.code == "budget.cost"


# Questions


async def test_a_task_asks_the_client_whose_request_it_serves():
    async with gateway(tools=[asking()]) as made:
        client = Client(made)
        await client.initialize({"elicitation": {}})

        async def accepts(params):
            return {"action": "accept", "content": {"message": params["message"]}}

        client.peer.others["elicitation/create"] = accepts
        answer = await client.call("ask_it")
    assert answer["structuredContent"] == {"answer": {"action": "accept", "content": {"message": "sure?"}}}


async def test_a_client_without_a_handshake_gets_the_question_as_the_answer_and_comes_back():
    async with gateway(tools=[asking()]) as made:
        client = Client(made, modern=True, capabilities={"elicitation": {}}, stateless=True)
        asked = await client.call("ask_it")
        assert asked["resultType"] == "input_required"
        ((key, question),) = asked["inputRequests"].items()
        assert question == {"method": "elicitation/create", "params": SURE}
        answers = {"inputResponses": {key: {"action": "decline"}}, "requestState": asked["requestState"]}
        done = await client.call("ask_it", **answers)
    assert done["structuredContent"] == {"answer": {"action": "decline"}}


@pytest.mark.parametrize(
    ("capabilities", "method", "why"),
    [
        ({}, "elicitation/create", "the client does not offer elicitation"),
        ({"elicitation": {}}, "sampling/createMessage", "the client does not offer sampling"),
        ({"elicitation": {}}, "tools/list", "tools/list is no such question"),
    ],
)
async def test_who_cannot_answer_is_not_asked(capabilities, method, why):
    async with gateway(tools=[asking(method, {})]) as made:
        client = Client(made)
        await client.initialize(capabilities)
        assert (await client.call("ask_it"))["structuredContent"] == {"cannot": why}


async def test_a_clients_error_is_the_answer_to_the_question():
    async with gateway(tools=[asking()]) as made:
        client = Client(made)
        await client.initialize({"elicitation": {}})

        async def refuses(params):
            raise RpcError(-32042, "no")

        client.peer.others["elicitation/create"] = refuses
        assert (await client.call("ask_it"))["structuredContent"] == {"error": -32042}


async def test_a_child_is_asked_for_by_the_client_of_its_parent_from_any_context():
    """Code in a sandbox calls tools from a reader's task, which belongs to no request."""

    async def elsewhere(task, run):
        return await asyncio.create_task(run.dispatch(ToolCall(id="q", tool="ask_it")), context=empty)

    empty = contextvars.Context()
    Code.answers = {"x": elsewhere}
    script = tool("script", task=lambda arguments: CodeRun(id="", language="x", source="x"))
    async with gateway(tools=[asking(), script]) as made:
        client = Client(made)
        await client.initialize({"elicitation": {}})
        asked = []

        async def accepts(params):
            asked.append(params)
            return {"action": "accept"}

        client.peer.others["elicitation/create"] = accepts
        await client.call("script")
    assert asked == [SURE]


# Rehearsals


READS = {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


async def test_a_rehearsal_that_reads_lets_through_what_says_that_it_only_reads_and_nothing_else():
    server = ScriptedServer([READS, "write"])
    look, write = ToolCall(id="l", tool="fs:look"), ToolCall(id="w", tool="fs:write")
    async with gateway({"fs": server}) as made:
        await made.dispatcher.start(plan(look, write), SESSION, RunOptions(dry_run="reads"))
        assert [name for name, _ in server.calls] == ["look"]
        await made.dispatcher.start(plan(plan(look, dry_run=True, id="in"), dry_run="reads"), SESSION)
        await made.dispatcher.start(plan(plan(look, dry_run="reads", id="in"), dry_run=True), SESSION)
        await made.dispatcher.start(plan(plan(write, dry_run=False, id="in"), dry_run="reads"), SESSION)
    assert [name for name, _ in server.calls] == ["look"]


@pytest.mark.parametrize(
    ("gateway_mode", "endpoint", "key", "asked", "rehearsed"),
    [
        ("real", "", "", None, False),
        ("dry_run", "", "", None, True),
        ("dry_run", "real", "", None, False),
        ("real", "dry_run", "", None, True),
        ("real", "dry_run", "real", None, False),
        ("real", "real", "dry_run", None, True),
        ("dry_run", "dry_run", "dry_run", False, False),
        ("real", "real", "real", True, True),
    ],
)
async def test_what_the_call_says_counts_more_than_key_endpoint_and_gateway(
    gateway_mode, endpoint, key, asked, rehearsed
):
    session = Session(key="k", execution_mode=key or endpoint)
    server = ScriptedServer(["write"])
    async with gateway({"fs": server}, execution_mode=gateway_mode) as made:
        await made.dispatcher.start(ToolCall(id="w", tool="fs:write"), session, RunOptions(dry_run=asked))
    assert (server.calls == []) is rehearsed
