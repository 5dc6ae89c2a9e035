"""What a client asks for and cannot have: one message that says what, where and what to do."""

from __future__ import annotations

import pytest
from mcp import MCPError

pytestmark = pytest.mark.anyio


async def refused(site, workflow):
    """The message that ``execute_workflow`` answers with; nothing may have run."""
    async with site.connect() as client:
        failed = await client.call_tool("execute_workflow", {"workflow": {"tasks": workflow}})
    assert failed.is_error
    assert not site.notes.exists()
    return site.text_of(failed)


def note(id, text="x", **more):
    return {"id": id, "tool": "plain:write_note", "arguments": {"text": text}, **more}


async def test_a_cycle_is_named_and_nothing_runs(site):
    message = await refused(site, [note("a", depends_on=["b"]), note("b", depends_on=["a"]), note("c")])
    assert "a → b → a" in message


async def test_a_reference_to_no_task_is_named_and_nothing_runs(site):
    message = await refused(site, [note("a"), note("b", "{{nobody.name}}")])
    assert "nobody" in message
    assert "b" in message


async def test_a_reference_to_nothing_in_a_result_fails_that_task_only(site):
    tasks = [
        {"id": "sum", "tool": "typed:add", "arguments": {"a": 1, "b": 2}},
        note("wrong", "{{sum.totl}}"),
        note("right", "total {{sum.total}}"),
    ]
    async with site.connect() as client:
        failed = await client.call_tool("execute_workflow", {"workflow": {"tasks": tasks}})
    assert failed.is_error
    assert "totl" in site.text_of(failed)
    assert "total" in site.text_of(failed)
    assert site.notes.read_text() == "total 3\n"


async def test_a_tool_that_does_not_exist_is_answered_with_those_that_look_like_it(site):
    async with site.connect() as client:
        with pytest.raises(MCPError, match="plain_ecko") as error:
            await client.call_tool("plain_ecko", {"text": "x"})
    assert error.value.code == -32602
    assert "plain__echo" in error.value.message


async def test_arguments_that_fail_the_tools_schema_do_not_reach_a_server_that_is_not_to_judge(site):
    async with site.connect("--set", 'plugins.argument_validation.refuse=["plain:*"]') as client:
        failed = await client.call_tool("plain__write_note", {"text": 7})
        missing = await client.call_tool("plain__write_note", {})
    assert failed.is_error
    assert "text" in site.text_of(failed)
    assert "string" in site.text_of(failed)
    assert missing.is_error
    assert "text" in site.text_of(missing)
    assert not site.notes.exists()


@pytest.mark.parametrize("mode", ["meta_only", "semantic", "hybrid", "full_proxy"])
async def test_a_blacklisted_tool_is_neither_listed_nor_called_in_any_mode(site, mode):
    blacklist = 'plugins.hybrid.blacklisted_tools=["plain:write_*"]'
    async with site.connect("--mode", mode, "--set", blacklist) as client:
        hint = {"pml/intent": "write a note"}
        assert "plain__write_note" not in {t.name for t in (await client.list_tools(meta=hint)).tools}
        direct = await client.call_tool("plain__write_note", {"text": "x"})
        wrapped = await client.call_tool("call_tool", {"name": "plain__write_note", "arguments": {"text": "x"}})
    assert direct.is_error
    assert wrapped.is_error
    assert not site.notes.exists()
