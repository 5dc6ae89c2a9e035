"""A server that never answers holds up nobody who asks for nothing of it."""

from __future__ import annotations

import json
import sys

import pytest

pytestmark = pytest.mark.anyio
SILENT = [sys.executable, "-c", "import sys\nfor line in sys.stdin: pass"]
FOR_EVER = ("--set", "gateway.list_wait_s=600", "--set", "gateway.start_timeout_s=600")
"""The client gives up after 30 s: who waits for the silent server fails."""
ECHO = {"text": "hello"}
PLAN = {"tasks": [{"id": "a", "tool": "good:echo", "arguments": {"text": "hello"}}]}


async def test_lists_searches_plans_and_calls_of_the_others_go_on_cold_and_warm(site):
    site.configure(good=site.plain(), silent=SILENT)
    for start in ("cold", "warm"):
        async with site.connect(*FOR_EVER, listed=False) as client:
            assert len((await client.list_tools()).tools) == 3
            ran = await client.call_tool("execute_workflow", {"workflow": PLAN})
            assert "hello" in site.text_of(ran), start
            found = json.loads(site.text_of(await client.call_tool("search_tools", {"query": "echo the text"})))
            assert found["tools"][0]["name"] == "good__echo", start
            assert [one["server"] for one in found["unavailable"]] == ["silent"], start
            called = await client.call_tool("call_tool", {"name": "good__echo", "arguments": {"text": "hello"}})
            assert site.text_of(called) == "hello", start


@pytest.mark.parametrize(("mode", "era"), [("semantic", "legacy"), ("hybrid", "auto"), ("full_proxy", "auto")])
async def test_a_list_of_all_tools_waits_for_it_once_and_calls_and_searches_never(site, mode, era):
    site.configure(good=site.plain(), silent=SILENT)
    shown = ("--mode", mode, "--set", "gateway.intent=echo a text")
    for wait in ("--set", "gateway.list_wait_s=3"), FOR_EVER:
        async with site.connect(*wait, *shown, mode=era, listed=False) as client:
            assert "good__echo" in [tool.name for tool in (await client.list_tools()).tools]
            for name, arguments in (("good__echo", ECHO), ("call_tool", {"name": "good__echo", "arguments": ECHO})):
                assert site.text_of(await client.call_tool(name, arguments)) == "hello"
            found = json.loads(site.text_of(await client.call_tool("search_tools", {"query": "echo the text"})))
            assert found["tools"][0]["name"] == "good__echo"


def test_commands_that_start_no_server_wait_for_none(site):
    site.configure(good=site.plain())
    with_tools = site.pml("tokens", "--connect")
    assert with_tools.returncode == 0, with_tools.stderr
    site.configure(good=site.plain(), dead=[sys.executable, "-c", "raise SystemExit(1)"], silent=SILENT)
    for command in ("eval", "advise"):  # each asks dozens of questions, and is given two minutes
        done = site.pml(command, *FOR_EVER)
        assert done.returncode == 0, done.stderr
