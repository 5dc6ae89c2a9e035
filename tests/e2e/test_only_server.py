"""One server behind PML in ``full_proxy``: compared with the direct connection, by the official SDK's client."""

from __future__ import annotations

import asyncio
import sys

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from .conftest import SERVERS, Site

pytestmark = pytest.mark.anyio
PATIENT = ("--mode", "full_proxy", "--set", "gateway.list_wait_s=600")
LISTS = {
    "list_tools": ("tools", "name"),
    "list_resources": ("resources", "uri"),
    "list_resource_templates": ("resource_templates", "uri_template"),
    "list_prompts": ("prompts", "name"),
}
TOLD_S = 120.0
OWN = ("pml://", "guide_")
"""Begins what the gateway lists for itself."""


def site_of(folder, script):
    """A gateway before a server, and the server's own command line."""
    command = [sys.executable, str(SERVERS / script)]
    made = Site(folder)
    made.configure(one=command)
    return made, StdioServerParameters(command=command[0], args=command[1:])


async def pages_of(client, method):
    """What a client is told of each page: keys, cursors, and for how long it is fresh."""
    member, key = LISTS[method]
    pages, cursor = [], None
    while True:
        page = await getattr(client, method)(cursor=cursor)
        keys = [str(getattr(item, key)).removeprefix("one__") for item in getattr(page, member)]
        pages.append(([one for one in keys if not one.startswith(OWN)], page.next_cursor, page.ttl_ms))
        if (cursor := page.next_cursor) is None:
            return pages


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("script", ["asker.py", "paged.py"])
async def test_a_server_that_was_never_seen_declares_for_itself(tmp_path, script, mode):
    site, direct = site_of(tmp_path, script)
    async with Client(stdio_client(direct), mode=mode, cache=None) as client:
        expected = client.server_capabilities.model_dump(exclude_none=True).keys()
    async with site.connect(*PATIENT, mode=mode) as client:
        found = client.server_capabilities.model_dump(exclude_none=True).keys()
    assert found - {"extensions"} == expected | {"resources", "prompts"}  # the gateway's status and guides


async def test_that_tools_have_changed_is_passed_on_although_they_have_not(tmp_path):
    site, direct = site_of(tmp_path, "asker.py")

    async def told(connect, prefix):
        heard, first = [], asyncio.Event()

        async def hears(message):
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                heard.append(message.method)
                first.set()

        async with connect(hears) as client:
            await client.list_tools()
            await client.call_tool(f"{prefix}touch", {})
            await asyncio.wait_for(first.wait(), TOLD_S)
            tools = [tool.name.removeprefix(prefix) for tool in (await client.list_tools()).tools]
        return heard, sorted(tools)

    def directly(hears):
        return Client(stdio_client(direct), mode="legacy", message_handler=hears, cache=None)

    expected = await told(directly, "")
    found = await told(lambda hears: site.connect(*PATIENT, message_handler=hears), "one__")
    assert found == expected == (["notifications/tools/list_changed"], ["elicit", "roots", "sample", "touch"])


async def test_what_a_client_cannot_do_is_answered_as_by_that_client(tmp_path):
    site, direct = site_of(tmp_path, "asker.py")
    tools = ("elicit", "sample", "roots")
    async with Client(stdio_client(direct), mode="legacy", cache=None) as client:
        expected = [Site.text_of(await client.call_tool(tool, {})) for tool in tools]
    async with site.connect(*PATIENT) as client:
        assert [Site.text_of(await client.call_tool(f"one__{tool}", {})) for tool in tools] == expected


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_lists_come_in_the_servers_pages_and_stay_fresh_for_as_long(tmp_path, mode):
    site, direct = site_of(tmp_path, "paged.py")
    async with Client(stdio_client(direct), mode=mode, cache=None) as client:
        expected = {method: await pages_of(client, method) for method in LISTS}
    async with site.connect(*PATIENT, mode=mode) as client:
        found = {method: await pages_of(client, method) for method in LISTS}
    for method in LISTS:
        assert [page[:2] for page in found[method]] == [page[:2] for page in expected[method]]
        for (_, _, now_ms), (_, _, said_ms) in zip(found[method], expected[method], strict=True):
            assert bool(now_ms) == bool(said_ms)
            assert now_ms <= said_ms
