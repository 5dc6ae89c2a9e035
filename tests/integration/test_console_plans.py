"""Plans as text in the console: what is wrong with them, rehearsed, run, copied from what ran."""

from __future__ import annotations

import html
import json
import re

import pytest
from console_browser import TOOLS, Browser, run, served

import pml_dry_run.plugin
import pml_executor_dag.tool
import pml_preflight.plugin
from pml_executor_dag import Dag
from pml_executor_dag.arguments import read
from pml_hookspecs import ToolCall, Workflow, replace
from pml_testing.gateway import ScriptedServer

pytestmark = pytest.mark.anyio
PLUGINS = {
    ("executor", "dag"): Dag,
    ("hooks", "workflow_tool"): pml_executor_dag.tool,
    ("hooks", "preflight"): pml_preflight.plugin,
    ("hooks", "dry_run"): pml_dry_run.plugin,
}
HOSTILE = "<script>alert('x')</script>"
TWO = {
    "intent": "read twice",
    "workflow": {
        "tasks": [
            {"id": "first", "tool": "db:read", "arguments": {"path": "/a"}},
            {"id": "second", "tool": "db:read", "arguments": {"path": "{{first.path}}"}},
        ]
    },
}


def text_in(page):
    return html.unescape(re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", page, re.DOTALL)[1])


def digest_in(page):
    found = re.search(r'name="plan_digest" value="([0-9a-f]+)"', page)
    return found[1] if found else ""


async def reader(made, key="k-ada"):
    browser = Browser(made)
    await browser.log_in(key)
    return browser


async def test_a_plan_is_rehearsed_and_then_run_as_it_was():
    server = ScriptedServer(TOOLS)
    async with served(server, plugins=PLUGINS) as made:
        ada = await reader(made)
        page = await ada.page("/plans")
        assert "rehearse it" in page
        assert "Run what was rehearsed" not in page
        text = json.dumps(TWO, indent=1)
        rehearsed = (await ada.send("/plans", plan=text, how="rehearse")).text
        assert "Nothing is wrong" in rehearsed
        assert rehearsed.count('<g class="box simulated') == 2
        assert text_in(rehearsed) == text
        assert server.calls == []
        done = await ada.send("/plans", plan=text, how="run", plan_digest=digest_in(rehearsed))
        assert done.url.path.startswith("/console/executions/")
        assert done.text.count('<g class="box ok') == 2
        assert server.calls == [("read", {"path": "/a"}), ("read", {"path": "/a"})]


async def test_what_was_not_rehearsed_is_not_run():
    server = ScriptedServer(TOOLS)
    async with served(server, plugins=PLUGINS) as made:
        ada = await reader(made)
        text = json.dumps(TWO)
        assert "Rehearse the plan before" in (await ada.send("/plans", plan=text, how="run")).text
        digest = digest_in((await ada.send("/plans", plan=text, how="rehearse")).text)
        other = text.replace('"/a"', '"/b"')
        refused = await ada.send("/plans", plan=other, how="run", plan_digest=digest)
        assert refused.status_code == 400
        assert "not what was rehearsed" in refused.text
        assert text_in(refused.text) == other
        assert digest_in(refused.text) == ""
        assert server.calls == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"tasks": [\n  {"id": "a",, }\n]}', "Line 2, column 14"),
        ("", "Line 1, column 1"),
        ("[1]", "A plan is an object"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
async def test_a_text_that_is_no_plan_says_where_and_is_kept(text, told):
    async with served(plugins=PLUGINS) as made:
        ada = await reader(made)
        answer = await ada.send("/plans", plan=text, how="rehearse")
        assert answer.status_code == 400
        assert told in answer.text
        assert text_in(answer.text) == text


async def test_findings_name_the_task_and_the_place_and_the_line():
    tool = {
        "name": "move",
        "inputSchema": {"type": "object", "properties": {"depth": {"type": "integer"}}, "required": ["depth"]},
    }
    async with served(ScriptedServer([*TOOLS, tool]), plugins=PLUGINS) as made:
        ada = await reader(made)
        plan = {"tasks": [{"id": "a", "tool": "db:raed"}, {"id": "b", "tool": "db:move", "arguments": {"depth": []}}]}
        page = (await ada.send("/plans", plan=json.dumps(plan, indent=1), how="rehearse")).text
        assert "did you mean" in page
        assert "tool.unknown" in page
        assert "arguments.depth" in page
        assert "line 4" in page
        assert "line 8" in page


async def test_what_stands_in_a_plan_is_text():
    async with served(plugins=PLUGINS) as made:
        ada = await reader(made)
        plan = {"intent": HOSTILE, "tasks": [{"id": HOSTILE, "tool": HOSTILE, "arguments": {HOSTILE: HOSTILE}}]}
        for text in (json.dumps(plan), f"</textarea>{HOSTILE}"):
            page = (await ada.send("/plans", plan=text, how="rehearse")).text
            assert "<script>alert" not in page
            assert text_in(page) == text


async def test_an_execution_is_copied_by_those_who_may_read_it():
    async with served(plugins=PLUGINS) as made:
        inner = Workflow(id="in", tasks=(ToolCall(id="x", tool="db:read"),))
        tasks = (ToolCall(id="a", tool="db:read", arguments={"path": "/a"}), inner)
        await run(made, Workflow(id="w", tasks=tasks, intent="read it"), "k-ada")
        ada = await reader(made)
        (id,) = re.findall(r'/console/executions/([^"]+)">read it', await ada.page("/"))
        text = text_in(await ada.page(f"/plans?execution={id}"))
        plan = json.loads(text)
        assert plan["intent"] == "read it"
        assert plan["workflow"]["tasks"][0] == {"id": "a", "tool": "db:read", "arguments": {"path": "/a"}}
        assert "Nothing is wrong" in (await ada.send("/plans", plan=text, how="rehearse")).text
        bob = await reader(made, "k-bob")
        assert "not yours to read" in await bob.page(f"/plans?execution={id}", 404)


async def test_a_plan_that_ran_is_copied_with_all_that_it_says_of_its_tasks():
    tool = {"tool": "db:read", "arguments": {"path": "/{{item}}"}}
    every = {
        "id": "every", **tool, "for_each": ["a", "b"], "max_items": 7, "retry": {"attempts": 3, "delay_s": 0.0},
        "timeout_s": 9.0, "on_error": "continue", "idempotency_key": "once", "select": "path",
        "compensate": {**tool, "timeout_s": 8.0},
    }  # fmt: skip
    code = {
        "id": "code", "type": "code_execution", "language": "python", "code": "1", "inputs": {"n": 1},
        "tools": ["db:*"], "timeout_s": 5.0, "when": "every == `null`", "depends_on": ["every"],
    }  # fmt: skip
    inner = {"id": "inner", "type": "workflow", "tasks": [every], "max_tool_calls": 0, "when": "every == `null`"}
    bounds = {"max_parallel": 2, "timeout_s": 60.0, "max_tool_calls": 9, "max_cost_usd": 1.5, "return": ["every"]}
    asked, mistakes = read({"workflow": {"tasks": [every, code, {**inner, "depends_on": ["every"]}], **bounds}})
    assert not mistakes
    async with served(plugins=PLUGINS) as made:
        await run(made, replace(asked, intent="all of it"), "k-ada")
        ada = await reader(made)
        (id,) = re.findall(r'/console/executions/([^"]+)">all of it', await ada.page("/"))
        copy, mistakes = read(json.loads(text_in(await ada.page(f"/plans?execution={id}"))))
        assert not mistakes
        assert (copy.tasks, copy.returns) == (asked.tasks, asked.returns)
        assert all(getattr(copy, name) == getattr(asked, name) for name in bounds if name != "return")


async def test_approvals_hold_for_plans_of_the_page():
    server = ScriptedServer(TOOLS)
    async with served(server, plugins=PLUGINS) as made:
        ada = await reader(made)
        text = json.dumps({"tasks": [{"id": "gone", "tool": "db:drop", "arguments": {"table": "t"}}]})
        rehearsed = (await ada.send("/plans", plan=text, how="rehearse")).text
        assert "destroys" in rehearsed
        await ada.send("/plans", plan=text, how="run", plan_digest=digest_in(rehearsed))
        assert server.calls == []
        assert "db:drop" in await ada.page("/approvals")


async def test_a_form_that_is_too_long_is_refused_in_words():
    async with served(plugins=PLUGINS) as made:
        ada = await reader(made)
        answer = await ada.send("/plans", plan="x" * 1_000_001, how="rehearse")
        assert (answer.status_code, "longer than 1,000,000 bytes" in answer.text) == (413, True)


async def test_a_plan_that_could_not_be_examined_says_so(monkeypatch):
    def fail(*_):
        raise RecursionError

    monkeypatch.setattr("pml_preflight.examination.Preflights.of", fail)
    async with served(plugins=PLUGINS) as made:
        page = (await (await reader(made)).send("/plans", plan=json.dumps(TWO), how="rehearse")).text
        assert "nested too deeply to be examined" in page
        assert "What each task would do" not in page
