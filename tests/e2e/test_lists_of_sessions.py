"""Two clients over HTTP, of a server whose list depends on who asks: as they would see it without PML."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from contextlib import asynccontextmanager, suppress

import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client

from .conftest import SERVERS

pytestmark = pytest.mark.anyio
VAULT = str(SERVERS / "vault.py")
STARTED_S, TOLD_S = 240.0, 120.0


@asynccontextmanager
async def listening(*options):
    """The server over HTTP: its address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    process = await asyncio.create_subprocess_exec(sys.executable, VAULT, "--port", str(port), *options)
    try:
        async with asyncio.timeout(STARTED_S):
            while True:
                with suppress(OSError):
                    (await asyncio.open_connection("127.0.0.1", port))[1].close()
                    break
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        await process.wait()


async def nobody(*_asked):
    """Is asked, and never needs to answer."""
    raise AssertionError


class Person:
    """A client, and what it is told."""

    def __init__(self, address, *, able=False, mode="legacy"):
        self.told, self.able = asyncio.Event(), able
        elicits = {"elicitation_callback": nobody} if able else {}
        self.client = Client(address, mode=mode, message_handler=self._heard, cache=None, **elicits)

    async def _heard(self, message):
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self.told.set()

    async def tools(self):
        """Names as the server gave them."""
        return sorted(tool.name.removeprefix("vault__") for tool in (await self.client.list_tools()).tools)

    async def tools_with(self, name):
        """As :meth:`tools`, once there is one of that name."""
        async with asyncio.timeout(TOLD_S):
            while name not in (listed := await self.tools()):  # noqa: ASYNC110 - it may be told of before or after
                await asyncio.sleep(0.1)
        return listed

    async def call(self, name):
        for listed in (name, f"vault__{name}"):
            with suppress(MCPError):
                result = await self.client.call_tool(listed, {})
                if not result.is_error:
                    return result.content[0].text
        return "refused"


async def seen(address, mode):
    """What two clients see of the server there, step by step."""
    able, plain = Person(address, able=True, mode=mode), Person(address, mode=mode)
    async with able.client, plain.client:
        shown = [await able.tools_with("form"), await plain.tools(), await able.call("form"), await plain.call("form")]
        if mode != "legacy":  # there are no sessions
            return shown
        shown += [await plain.call("inner"), await able.call("unlock"), await able.tools_with("inner")]
        shown += [await plain.tools(), await able.call("inner"), await plain.call("inner")]
        async with asyncio.timeout(TOLD_S):
            await able.told.wait()
        assert not plain.told.is_set()
        shown += [await plain.call("unlock"), await plain.tools_with("inner"), await able.tools()]
        return [*shown, await able.call("inner"), await plain.call("inner")]


@pytest.mark.parametrize("mode", ["legacy"])
async def test_what_a_session_is_listed_is_what_it_is_listed_directly(site, mode):
    async with listening() as address:
        direct = await seen(address, mode)
        site.config.write_text(json.dumps({"mcpServers": {"vault": {"url": address}}}))
        async with site.listen("--mode", "full_proxy") as (_, pml):
            assert await seen(pml, mode) == direct


async def test_a_program_that_clients_share_lists_for_each_what_it_lists_directly(site):
    command = [sys.executable, VAULT]

    async def shown(person):
        async with person.client:
            tools = await (person.tools_with("form") if person.able else person.tools())
            return tools, await person.call("form")

    def directly(*, able):
        return Person(stdio_client(StdioServerParameters(command=command[0], args=command[1:])), able=able)

    expected = [await shown(directly(able=able)) for able in (True, False)]
    site.configure(vault=command)
    for _start in ("first", "second"):
        async with site.listen("--mode", "full_proxy") as (_, pml):
            assert [await shown(Person(pml, able=able)) for able in (True, False)] == expected


async def test_what_a_session_has_without_a_word_is_listed_in_it_alone(site):
    async def visit(address):
        one, two = Person(address), Person(address)
        async with one.client, two.client:
            shown = [await one.tools_with("unlock"), await two.tools_with("unlock"), await one.call("unlock")]
            return [*shown, await one.tools_with("inner"), await two.tools(), await one.call("inner")]

    async with listening("--silent") as address:
        direct = await visit(address)
        site.config.write_text(json.dumps({"mcpServers": {"vault": {"url": address}}}))
        async with site.listen("--mode", "full_proxy", "--set", "servers.vault.relist_s=0") as (_, pml):
            assert await visit(pml) == direct
