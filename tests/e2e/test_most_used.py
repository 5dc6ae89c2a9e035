"""Hybrid without an intent, with the history's help: what this caller used is listed by the next gateway."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio


async def names(site, *options):
    async with site.connect("--mode", "hybrid", *options) as client:
        return {tool.name for tool in (await client.list_tools()).tools}


async def test_what_was_used_is_listed_by_the_next_gateway(site):
    async with site.connect("--mode", "full_proxy") as client:
        for number in range(3):
            await client.call_tool("plain__echo", {"text": f"{number}"})
    assert not {"plain__echo", "typed__add"} & await names(site)
    listed = await names(site, "--set", 'plugins.hybrid.fallback="most_used"')
    assert ("plain__echo" in listed, "typed__add" in listed) == (True, False)
