"""Plans as an agent sends them: the official SDK's client, a gateway of its own process, real servers and sandboxes."""

from __future__ import annotations

import json

import pytest

from .conftest import Site

pytestmark = pytest.mark.anyio
LEARN = {
    "id": "greet",
    "type": "code_execution",
    "language": "python",
    "intent": "Echo a friendly greeting",
    "code": 'found = await tools.plain.echo(text="hello " + who)\nreturn found',
    "inputs": {"who": "Ann"},
}


def task(id_, tool="plain:write_note", **more):
    return {"id": id_, "tool": tool, "arguments": {"text": id_}, **more}


async def run(client, *tasks, **more):
    """What ``execute_workflow`` answers."""
    workflow = {"tasks": list(tasks), "return": "all"}
    return Site.value_of(await client.call_tool("execute_workflow", {"workflow": workflow, **more}))


async def go_on(client, told, decision="continue", **more):
    arguments = {"workflow_id": told["workflow_id"], "decision": decision, **more}
    return Site.value_of(await client.call_tool("continue_workflow", arguments))


def by_id(told):
    return {one["id"]: one for one in told["tasks"]}


async def test_tools_and_code_of_two_languages_hand_their_results_on(site):
    typescript = {
        "id": "double",
        "type": "code_execution",
        "language": "typescript",
        "code": "const n: number = sum.total; return { doubled: n * 2, said: await tools.plain.echo({ text: 'hi' }) }",
        "depends_on": ["sum"],
    }
    python = {
        "id": "half",
        "type": "code_execution",
        "language": "python",
        "code": 'return double["doubled"] / 2',
        "depends_on": ["double"],
    }
    async with site.connect() as client:
        told = await run(
            client,
            {"id": "sum", "tool": "typed:add", "arguments": {"a": 2, "b": 3}},
            typescript,
            python,
            task("note", arguments={"text": "half: {{half}}"}, depends_on=["half"]),
        )
    results = by_id(told)
    assert told["status"] == "completed", json.dumps(told)
    assert results["double"]["result"] == {"doubled": 10, "said": "hi"}
    assert results["half"]["result"] == 5
    assert site.notes.read_text().strip() in {"half: 5", "half: 5.0"}


async def test_a_code_error_and_a_time_out_are_told_apart(site):
    def code(id_, source, **more):
        return {"id": id_, "type": "code_execution", "language": "typescript", "code": source, **more}

    async with site.connect() as client:
        told = await run(
            client, code("raises", "throw new Error('out of paper')"), code("hangs", "for (;;) {}", timeout_s=1)
        )
    results = by_id(told)
    assert (results["raises"]["status"], results["hangs"]["status"]) == ("error", "timed_out")
    assert "out of paper" in json.dumps(results["raises"]["error"])


async def test_code_that_worked_is_learned_and_runs_again_by_its_id(site):
    async with site.connect() as client:
        assert (await run(client, LEARN))["status"] == "completed"
        listed = json.loads(site.pml("capabilities", "list", "--json").stdout)
        (learned,) = listed if isinstance(listed, list) else listed["capabilities"]
        again = {"id": "again", "type": "capability", "capability_id": learned["id"], "inputs": {"who": "Bob"}}
        told = await run(client, again)
    assert told["status"] == "completed", told
    assert by_id(told)["again"]["result"] == "hello Bob"


async def test_a_capability_that_nobody_knows_is_named(site):
    async with site.connect() as client:
        told = await run(client, {"id": "c", "type": "capability", "capability_id": "cap-nobody"})
    assert "Capability cap-nobody not found in CapabilityStore" in json.dumps(told)


async def test_layers_with_code_and_a_capability_stop_go_on_and_learn(site):
    async with site.connect() as client:
        await run(client, LEARN)
        listed = json.loads(site.pml("capabilities", "list", "--json").stdout)
        (learned,) = listed if isinstance(listed, list) else listed["capabilities"]
        capability = {
            "id": "cap",
            "type": "capability",
            "capability_id": learned["id"],
            "inputs": {"who": "Cy"},
            "depends_on": ["code"],
        }
        code = {
            "id": "code",
            "type": "code_execution",
            "language": "python",
            "intent": "Say something else",
            "code": 'return await tools.plain.echo(text="else")',
        }
        arguments = {"workflow": {"tasks": [code, capability, task("end", depends_on=["cap"])]}}
        arguments["workflow"]["per_layer_validation"] = True
        told = site.value_of(await client.call_tool("execute_workflow", arguments))
        assert told["status"] == "layer_complete", told
        assert not site.notes.exists()
        told = await go_on(client, told)
        assert told["status"] == "layer_complete", told
        assert not site.notes.exists()
        told = await go_on(client, told)
    assert told["status"] == "completed", told
    assert site.notes.read_text() == "end\n"
    learned = json.loads(site.pml("capabilities", "list", "--json").stdout)
    assert len(learned if isinstance(learned, list) else learned["capabilities"]) == 2


async def test_a_task_that_wants_approval_waits_for_the_terminal_and_then_runs_once(site):
    async with site.connect() as client:
        told = await run(client, task("before"), task("asked", approve=True), task("after", depends_on=["asked"]))
        assert told["status"] == "input_required", told
        assert site.notes.read_text() == "before\n"
        (waiting,) = json.loads(site.pml("approvals", "list", "--json").stdout)
        assert (waiting["target"], waiting["request"]) == ("plain:write_note", {"text": "asked"})
        still = await go_on(client, told)
        assert still["status"] == "input_required", still
        answered = site.pml("approvals", "approve", waiting["id"])
        assert answered.returncode == 0, answered.stderr
        done = await go_on(client, still)
    assert done["status"] == "completed", done
    assert site.notes.read_text() == "before\nasked\nafter\n"


async def test_the_clients_human_is_asked_where_the_client_can_ask(site):
    from mcp import Client, StdioServerParameters, stdio_client, types

    asked = []

    async def approve(context, params):
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": True})

    command, *arguments = site.serve()
    parameters = StdioServerParameters(command=command, args=arguments, env=site.environment, cwd=site.folder)
    with site.log.open("a") as log:
        for mode in ("legacy", "auto"):
            transport = stdio_client(parameters, errlog=log)
            async with Client(transport, mode=mode, elicitation_callback=approve, read_timeout_seconds=120) as client:
                told = await run(client, task(mode, approve=True))
                assert told["status"] == "completed", told
    assert len(asked) == 2
    assert site.notes.read_text() == "legacy\nauto\n"


async def test_an_intent_without_a_plan_is_told_the_tools_of_which_one_can_be_made(site):
    async with site.connect() as client:
        answer = await client.call_tool("execute_workflow", {"intent": "write a note"})
        told = site.value_of(answer)
        assert told["status"] == "explicit_required", told
        assert not site.notes.exists()
        tools = {tool["tool"]: tool for tool in told.get("tools", [])}
        assert all(tool["inputSchema"]["type"] == "object" for tool in tools.values())
