"""What calls have shown of tools, where it is shown: searches and types for code, within its budget and its rights."""

from __future__ import annotations

import json

import pytest

import pml_code_mode.plugin
import pml_dry_run.plugin
import pml_executor_dag.tool
import pml_preflight.plugin
import pml_search_tools.plugin
import pml_tool_notes.plugin
from pml_executor_dag import Dag
from pml_hookspecs import Identity
from pml_kit.mcp.tokens import estimate, text_of_result
from pml_kit.offers import TOOL_NOTES
from pml_sandbox_deno import Deno
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
TEXT = {"type": "string"}
MEMBERS = ("branch", "commit", "author", "committed_at", "files", "labels", "milestone", "reviewers", "checks")
LOG = {
    "name": "log",
    "description": "List commits",
    "inputSchema": {
        "type": "object",
        "properties": {"repo": TEXT, "since": TEXT, "limit": {"type": "integer"}, "order": {"enum": ["new", "old"]}},
        "required": ["repo"],
    },
}


async def answers(name, arguments):
    if "repo" not in arguments:
        return {"content": [{"type": "text", "text": "Which repository? /home/ann/secret"}], "isError": True}
    commit = {member: {"id": 1, "name": "Ann's", "url": "https://example.com"} for member in MEMBERS}
    return {"content": [], "structuredContent": {"commits": [commit] * 5, "total": 5}}


def gateway(**settings):
    return running(
        {"git": ScriptedServer([LOG], answers)},
        plugins={
            ("hooks", "search_tools"): pml_search_tools.plugin,
            ("hooks", "tool_notes"): pml_tool_notes.plugin,
            ("hooks", "code_mode"): pml_code_mode.plugin,
            ("executor", "deno"): Deno,
            ("executor", "dag"): Dag,
            ("hooks", "workflow_tool"): pml_executor_dag.tool,
            ("hooks", "dry_run"): pml_dry_run.plugin,
            ("hooks", "preflight"): pml_preflight.plugin,
        },
        tables={"tool_notes": settings, "dry_run": {"record": False}},
    )


async def taught(started, principal="ann"):
    """A client whose calls have taught something, and what that is."""
    client = Client(started, modern=True, principal=principal)
    for _ in range(2):
        await client.call("call_tool", {"name": "git:log", "arguments": {"path": "x"}})
        good = {"repo": "/home/ann/secret", "since": "2026-11-26", "limit": 20, "order": "new"}
        await client.call("call_tool", {"name": "git:log", "arguments": good})
    notes = started.offers.find(TOOL_NOTES)
    await notes.read(principal)
    session = started.assembly.services("tool_notes").session(Identity(principal=principal))
    return client, notes.of(started.catalog.get("git:log"), session)


async def shown(client, **arguments):
    return value_of(await client.call("search_tools", {"query": "git:log", **arguments}))["tools"][0]


async def test_at_most_sixty_tokens_are_added_to_a_search_and_to_types_for_code():
    plain, python = {"tools": ["git:log"]}, {"tools": ["git:log"], "language": "python"}
    async with gateway() as started:
        client = Client(started, modern=True, principal="bob")
        asked = [("describe_code_tools", plain), ("describe_code_tools", python)]
        before = [estimate(text_of_result(await client.call(*one))) for one in asked]
        client, note = await taught(started)
        assert set(note.members()) == {"arguments", "returns"}
        for detail in ("brief", "full"):
            tool = await shown(client, detail=detail)
            assert note.returns == tool["seen"]["returns"]
            assert estimate(json.dumps(tool["seen"], separators=(",", ":"))) <= 60
        after = [estimate(text_of_result(await client.call(*one))) for one in asked]
    assert all(now > then for now, then in zip(after, before, strict=True))
    assert all(now - then <= 60 for now, then in zip(after, before, strict=True))


async def test_nobody_else_is_told_anything_and_nobodys_values_are_told():
    async with gateway() as started:
        ann, _ = await taught(started)
        bob = Client(started, modern=True, principal="bob")
        await shown(bob)
        await started.offers.find(TOOL_NOTES).read("bob")
        assert "seen" not in await shown(bob, detail="full")
        for value in ("secret", "Ann's", "example.com", "2026"):
            assert value not in str(await shown(ann, detail="full"))


async def test_without_learning_tools_are_shown_as_they_are():
    async with gateway(learn=False) as started:
        client = Client(started, modern=True, principal="ann")
        await client.call("call_tool", {"name": "git:log", "arguments": {"repo": "x"}})
        assert "seen" not in await shown(client)


async def test_a_plan_that_reads_what_was_never_seen_is_warned_and_runs():
    log = {"id": "a", "tool": "git:log", "arguments": {"repo": "x"}}
    wrong = {"id": "b", "tool": "git:log", "arguments": {"repo": "{{a.commits[0].auhtor.name}}"}}
    right = {"id": "b", "tool": "git:log", "arguments": {"repo": "{{a.commits[0].author.name}}"}}
    async with gateway() as started:
        ann, _ = await taught(started)
        for second, warnings in ((wrong, ["reference.undeclared"]), (right, [])):
            plan = {"workflow": {"tasks": [log, second]}, "dry_run": True}
            report = value_of(await ann.call("execute_workflow", plan))["preflight"]
            assert [one["code"] for one in report["warnings"]] == warnings
            assert report["ok"] is True
        plan = {"workflow": {"tasks": [log, wrong]}}
        ran = value_of(await ann.call("execute_workflow", plan))
        assert {task["id"]: task["status"] for task in ran["tasks"]}["a"] == "ok"
