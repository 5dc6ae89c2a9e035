"""The official SDK's client, in both ways that it can open a connection, against ``pml serve``."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio
META_TOOLS = ["call_tool", "execute_workflow", "search_tools"]


@pytest.fixture(params=["legacy", "auto"])
def mode(request):
    """``auto`` asks for the stateless revision of 2026 first and falls back to the handshake."""
    return request.param


async def test_the_client_lists_the_meta_tools(site, mode):
    async with site.connect(mode=mode) as client:
        assert sorted(t.name for t in (await client.list_tools()).tools) == META_TOOLS
        assert client.server_info.name == "pml"
        assert client.protocol_version == {"legacy": "2025-11-25", "auto": "2026-07-28"}[mode]


async def test_the_client_calls_tools_of_servers_of_both_makes(site, mode):
    site.configure(plain=site.plain(), typed=site.sdk)
    async with site.connect(mode=mode) as client:
        echoed = await client.call_tool("plain__echo", {"text": "grüß dich ✓"})
        added = await client.call_tool("call_tool", {"name": "typed__add", "arguments": {"a": 40, "b": 2}})
    assert site.text_of(echoed) == "grüß dich ✓"
    assert added.structured_content == {"total": 42, "parts": [40, 2]}


async def test_a_call_that_comes_before_the_servers_are_up_waits_for_them(site, mode):
    async with site.connect(mode=mode, listed=False) as client:
        echoed = await client.call_tool("plain__echo", {"text": "early"})
        assert site.text_of(echoed) == "early"


async def test_a_tool_can_be_called_as_server_colon_tool(site, mode):
    async with site.connect("--mode", "full_proxy", mode=mode) as client:
        echoed = await client.call_tool("plain:echo", {"text": "hello"})
    assert site.text_of(echoed) == "hello"


async def test_what_search_finds_can_be_called_as_it_is_named(site, mode):
    async with site.connect(mode=mode) as client:
        found = await client.call_tool("search_tools", {"query": "add two numbers"})
        name = found.structured_content["tools"][0]["name"]
        added = await client.call_tool(name, {"a": 1, "b": 2})
    assert added.structured_content["total"] == 3


async def test_an_error_of_a_tool_reaches_the_client_as_it_is(site, mode):
    async with site.connect(mode=mode) as client:
        failed = await client.call_tool("plain__fail", {})
    assert failed.is_error
    assert site.text_of(failed) == "it always fails"


async def test_a_workflow_carries_results_from_one_server_to_another(site, mode):
    tasks = [
        {"id": "sum", "tool": "typed:add", "arguments": {"a": 20, "b": 22}},
        {"id": "note", "tool": "plain:write_note", "arguments": {"text": "total {{sum.total}}"}},
    ]
    async with site.connect(mode=mode) as client:
        ran = await client.call_tool("execute_workflow", {"workflow": {"tasks": tasks}})
    assert site.value_of(ran)["status"] == "completed"
    assert site.notes.read_text() == "total 42\n"


async def test_the_same_workflow_is_first_rehearsed_without_effect_and_then_run(site, mode):
    tasks = [{"id": "note", "tool": "plain:write_note", "arguments": {"text": "once"}}]
    async with site.connect(mode=mode) as client:
        rehearsed = await client.call_tool("execute_workflow", {"workflow": {"tasks": tasks}, "dry_run": True})
        assert rehearsed.structured_content["status"] == "simulated"
        assert not site.notes.exists()
        ran = await client.call_tool("execute_workflow", {"workflow": {"tasks": tasks}, "dry_run": False})
    assert site.value_of(ran)["status"] == "completed"
    assert site.notes.read_text() == "once\n"


async def test_the_history_tells_what_ran_and_what_came_back(site, mode):
    async with site.connect(mode=mode) as client:
        await client.call_tool("plain__echo", {"text": "remember me"})
        recent = await client.call_tool("list_recent_executions", {"hours": 1})
        newest = recent.structured_content["executions"][0]
        asked = {"agent_name": newest["agent_name"], "execution_id": newest["id"]}
        found = await client.call_tool("get_execution_result", asked)
    assert newest["status"] == "success"
    assert "remember me" in site.text_of(found)
