"""Servers whose lists change while they run, beside the same client connected to them without PML."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).with_name("servers") / "growing.py"
BY_ITSELF = ("--set", 'servers.growing.prefix=""', "--mode", "full_proxy")
"""One server, whose tools have their own names."""
LISTED_S = 120.0
CHANGED = {f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")}


@asynccontextmanager
async def directly(command):
    """The same client without PML."""
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(stdio_client(parameters), mode="legacy", read_timeout_seconds=120, cache=None) as client:
        yield client


@pytest.fixture
def growing(site):
    """Configures the server, with options of its own; how to start it."""

    def made(*options):
        command = [sys.executable, str(SERVER), "--notes", str(site.notes), *options]
        site.configure(growing=command)
        return command

    return made


async def test_a_tool_called_right_after_the_server_says_that_it_has_more_is_called(site, growing):
    command = growing("--declares", "true", "--tells", "--listing", "0.5")

    async def visit(client):
        texts = [site.text_of(await client.call_tool("unlock", {}))]
        return [*texts, site.text_of(await client.call_tool("extra", {}))]

    async with directly(command) as client:
        expected = await visit(client)
    async with site.connect(*BY_ITSELF) as client:
        assert await visit(client) == expected == ["tools unlock", "tools extra"]


async def test_prompts_of_one_server_have_their_own_names(site, growing):
    command = growing()

    async def visit(client):
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        names = [name for name in names if not name.startswith("guide_")]  # PML's own
        return names, (await client.get_prompt("unlock")).messages[0].content.text

    async with directly(command) as client:
        expected = await visit(client)
    async with site.connect(*BY_ITSELF) as client:
        assert await visit(client) == expected == (["unlock", "count"], "prompts unlock")


@pytest.mark.parametrize("prefix", ["", "grow."])
async def test_a_server_that_cannot_be_started_is_told_of_whatever_its_prefix(site, prefix):
    site.configure(growing=[sys.executable, "-c", "raise SystemExit('no database')"])
    async with site.connect("--set", f'servers.growing.prefix="{prefix}"', "--mode", "full_proxy") as client:
        answer = await client.call_tool(f"{prefix}unlock", {})
        assert answer.is_error
        assert answer.meta["pml/failure"]["code"] == "tool.not_connected"
        assert answer.meta["pml/failure"]["retryable"] is True
        assert "growing" in site.text_of(answer)
        assert "no database" in site.text_of(answer)


@pytest.mark.parametrize("declares", [(), ("--declares", "false")])
async def test_tools_that_came_without_a_word_or_are_never_listed_are_called(site, growing, declares):
    command = growing(*declares)

    async def visit(client):
        await client.call_tool("unlock", {})
        return [site.text_of(await client.call_tool(name, {})) for name in ("extra", "unlisted")]

    async with directly(command) as client:
        expected = await visit(client)
    async with site.connect(*BY_ITSELF) as client:
        assert await visit(client) == expected == ["tools extra", "tools unlisted"]


@pytest.mark.attack("Access", "call a blacklisted tool that its server serves and does not list")
async def test_a_blacklist_holds_for_what_is_not_listed(site, growing):
    growing()
    rules = ("--set", 'plugins.hybrid.blacklisted_tools=["growing:delete_*"]', "--mode", "full_proxy")
    async with site.connect(*rules) as client:
        for name in ("growing__delete_unlisted", "growing:delete_unlisted", "growing__DELETE_unlisted"):
            answer = await client.call_tool(name, {})
            assert answer.meta["pml/failure"]["code"] == "policy.denied"
        by_another = await client.call_tool("call_tool", {"name": "growing:delete_unlisted", "arguments": {}})
        assert by_another.is_error
        assert "delete" not in (site.notes.read_text() if site.notes.exists() else "")
        assert site.text_of(await client.call_tool("growing__unlisted", {})) == "tools unlisted"


async def listed(client):
    """Names of everything that is listed but what is PML's own."""
    tools = [tool.name for tool in (await client.list_tools()).tools]
    resources = [str(one.uri) for one in (await client.list_resources()).resources]
    prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
    prompts = [name for name in prompts if not name.startswith("guide_")]
    return sorted(tools), sorted(uri for uri in resources if uri.startswith("grow:")), sorted(prompts)


async def seen(client, expected):
    """What is listed, once that is ``expected``: lists that are slow to come are told of."""
    async with asyncio.timeout(LISTED_S):
        while (found := await listed(client)) != expected:  # noqa: ASYNC110 - it may be told of before or after
            await asyncio.sleep(0.1)
    return found


@pytest.mark.parametrize("declares", [(), ("--declares", "false"), ("--declares", "true")])
async def test_what_came_without_a_word_is_listed_when_a_client_asks_again(site, growing, declares):
    command = growing(*declares)
    async with directly(command) as client:
        before = await listed(client)
        await client.call_tool("unlock", {})
        after = await listed(client)
    told = set()

    async def heard(message):
        told.add(getattr(message, "method", ""))

    options = (*BY_ITSELF, "--set", "servers.growing.relist_s=0")
    async with site.connect(*options, message_handler=heard) as client:
        assert await seen(client, before) == before
        await client.call_tool("unlock", {})
        assert await seen(client, after) == after != before
        async with asyncio.timeout(LISTED_S):
            while CHANGED - told:  # noqa: ASYNC110 - the client counts no messages
                await asyncio.sleep(0.1)


async def test_lists_that_are_not_old_are_not_read_again(site, growing):
    growing()
    async with site.connect(*BY_ITSELF, "--set", "servers.growing.relist_s=inf") as client:
        before = await listed(client)
        await client.call_tool("unlock", {})
        assert [await listed(client) for _ in range(3)] == [before] * 3
        counted = json.loads(site.text_of(await client.call_tool("count", {})))
        assert counted == {"tools": 1, "resources": 1, "prompts": 1}
