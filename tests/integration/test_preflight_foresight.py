"""A pre-flight with what really runs code and really asks humans: what is wrong, and who would be asked, per step."""

from __future__ import annotations

import sys
import types

import pytest

import pml_approvals.plugin
import pml_dry_run.plugin
import pml_executor_dag.tool
import pml_preflight.plugin
from pml_executor_dag import Dag
from pml_hookspecs import CodeRun, Offer, ToolCall, Workflow, hookimpl
from pml_kit.offers import SUGGESTER, Suggestion
from pml_sandbox_deno import Deno
from pml_sandbox_monty import Monty
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
TEXT = {"type": "string"}
READ = {
    "name": "read",
    "inputSchema": {
        "type": "object",
        "properties": {"path": TEXT},
        "required": ["path"],
        "additionalProperties": False,
    },
    "outputSchema": {"type": "object", "properties": {"lines": {"type": "array", "items": TEXT}}},
    "annotations": {"readOnlyHint": True},
}
DROP = {"name": "drop", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}
PATIENT = {"preflight": {"check_code_s": 60.0}}
"""A machine with much else to do needs its time for types."""


def plugins(**hooks):
    return {
        ("executor", "dag"): Dag,
        ("executor", "monty"): Monty,
        ("executor", "deno"): Deno,
        ("hooks", "workflow_tool"): pml_executor_dag.tool,
        ("hooks", "dry_run"): pml_dry_run.plugin,
        ("hooks", "preflight"): pml_preflight.plugin,
        ("hooks", "approvals"): pml_approvals.plugin,
        **{("hooks", name): module for name, module in hooks.items()},
    }


async def rehearsed(tasks, *, tables=PATIENT, meta=None, intent="", **hooks):
    """The answer to a rehearsal, and the server."""
    server = ScriptedServer([READ, DROP])
    async with running({"fs": server}, plugins=plugins(**hooks), tables=tables) as gateway:
        client = Client(gateway)
        await client.initialize()
        arguments = {"dry_run": True, **({"intent": intent} if intent else {"workflow": {"tasks": tasks}})}
        answer = await client.call("execute_workflow", arguments, **({"_meta": meta} if meta else {}))
    assert server.calls == []
    return value_of(answer)


def code(id_, source, language="python", **more):
    return {"id": id_, "type": "code_execution", "language": language, "code": source, **more}


LOOK = {"id": "look", "tool": "fs:read", "arguments": {"path": "a"}}


async def test_code_that_is_right_raises_no_alarm():
    tasks = [
        LOOK,
        code("py", "return [line.upper() for line in look['lines']]", depends_on=["look"]),
        code("ts", "return look.lines.map((line) => line.length)", "typescript", depends_on=["look"]),
        code("js", "const r = await tools.fs.read({ path: 'a' });\nreturn r.lines", "javascript"),
        {"id": "in", "type": "workflow", "tasks": [code("deep", "return await tools.fs.read(path='a')")]},
    ]
    report = (await rehearsed(tasks))["preflight"]
    assert (report["errors"], report["warnings"]) == ([], [])
    checked = {step["id"]: step.get("code_checked") for step in report["steps"]}
    types = "types" if sys.platform == "linux" else "parsed"
    assert checked == {"look": None, "py": "types", "ts": types, "js": "parsed", "in": None, "in/deep": "types"}


async def test_mistakes_in_code_are_found_with_step_and_line():
    tasks = [
        code("py", "x = 1\nawait tools.fs.read(path=5)"),
        code("syntax", "const x = 1;\nlet y z = 2;", "typescript"),
        code("js", "let a = 1;\nlet a = 2;", "javascript"),
        {"id": "in", "type": "workflow", "tasks": [code("deep", "def g():\n    yield 1\nreturn g()")]},
    ]
    if sys.platform == "linux":
        tasks.append(code("ts", "const r = await tools.fs.read({\n  path: 5 });\nreturn undefd", "typescript"))
    report = (await rehearsed(tasks))["preflight"]
    found = [(one["task"], one["code"], one.get("line")) for one in report["errors"]]
    assert found[:4] == [
        ("py", "code.type", 2),
        ("syntax", "code.syntax", 2),
        ("js", "code.syntax", 2),
        ("in/deep", "code.unsupported", 2),
    ]
    assert found[4:] == ([("ts", "code.type", 2), ("ts", "code.undefined", 3)] if sys.platform == "linux" else [])
    assert report["syntax_valid"] is False


async def test_what_would_be_asked_of_a_human_is_told_and_nobody_is_asked():
    tasks = [
        LOOK,
        {"id": "gone", "tool": "fs:drop"},
        {"id": "said", "tool": "fs:read", "arguments": {"path": "a"}, "approve": True},
        code("py", "return await tools.fs.drop()"),
    ]
    report = (await rehearsed(tasks, tables={**PATIENT, "approvals": {"require": ["fs:read"]}}))["preflight"]
    destroys, always = "policy: it says that it may destroy", "policy: it always needs approval"
    assert {step["id"]: step.get("approval") for step in report["steps"]} == {
        "look": always,
        "gone": destroys,
        "said": "the plan says so",
        "py": f"it calls fs:drop, and {destroys}",
    }  # fmt: skip


class Suggests:
    async def suggest(self, intent, run, *, limit):
        tasks = (ToolCall(id="out", tool="fs:drop"), CodeRun(id="code", language="python", source="return 1"))
        return [Suggestion(workflow=Workflow(id="w", tasks=tasks), confidence=0.9, why="it is clear")]


def suggesting():
    made = types.ModuleType("suggesting")
    made.pml_offers = hookimpl(lambda services: [Offer(SUGGESTER, Suggests())])
    return made


@pytest.mark.parametrize(
    ("level", "ends"), [("strict", {"error"}), ("loose", {"simulated"}), ("warn", {"simulated"}), ("lax", {"error"})]
)
async def test_the_level_of_a_request_holds_in_plans_without_calls(level, ends):
    told = await rehearsed([code("a", "return 1"), code("b", "return 2")], meta={"pml/dry_run_level": level})
    assert {task["status"] for task in told["tasks"]} == ends


@pytest.mark.parametrize(("level", "ends"), [("strict", "dry_run.miss"), ("lax", "dry_run.level"), ("loose", None)])
async def test_the_level_of_a_request_holds_in_plans_that_are_made_of_an_intent(level, ends):
    told = await rehearsed([], intent="tidy up", meta={"pml/dry_run_level": level}, suggesting=suggesting())
    assert [(task.get("error") or {}).get("code") for task in told["tasks"]] == [ends, ends]
    assert told["preflight"]["needs_approval"] == ["out", "code"]


async def test_a_level_is_that_of_its_request_only():
    server = ScriptedServer([DROP])
    async with running({"fs": server}, plugins=plugins()) as gateway:
        client = Client(gateway)
        await client.initialize()
        asked = {"pml/dry_run": True, "pml/dry_run_level": "strict"}
        assert (await client.call("fs__drop", {}, _meta=asked))["isError"]
        assert not (await client.call("fs__drop", {}, _meta={"pml/dry_run": True})).get("isError")
        await client.call("fs__drop", {}, _meta={"pml/dry_run_level": "strict"})
    assert [name for name, _ in server.calls] == ["drop"]
