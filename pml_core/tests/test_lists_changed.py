"""A mode that depends on more than the catalog says when its lists are others, and clients are told."""

from __future__ import annotations

import asyncio

import pytest

from pml_hookspecs import Selection
from pml_testing.gateway import Client, ScriptedServer, running, until

pytestmark = pytest.mark.anyio
CHANGED = ("notifications/tools/list_changed", {})


class AtNight:
    """Shows what may be done at this time of the day."""

    night = False
    services = None
    asked = 0

    def __init__(self, settings=None, services=None):
        type(self).services = services

    async def select(self, catalog, session):
        type(self).asked += 1
        wanted = "sleep" if self.night else "work"
        return Selection(tuple(entry.id for entry in catalog if entry.name == wanted))


@pytest.fixture
async def client():
    AtNight.night = False
    modes = {("exposure_mode", "hours"): AtNight}
    async with running({"s": ScriptedServer(["work", "sleep"])}, plugins=modes, tools_exposure="hours") as made:
        one = Client(made)
        await one.initialize()
        assert await one.tools() == ["s__work"]
        yield one


def told(client):
    return [one for one in client.link.notified if one[0] == CHANGED[0]]


async def test_a_list_is_kept_until_the_mode_says_that_it_is_another(client):
    AtNight.night = True
    assert await client.tools() == ["s__work"]
    assert told(client) == []
    AtNight.services.lists_changed()
    await until(lambda: told(client))
    assert await client.tools() == ["s__sleep"]


async def test_whoever_sees_the_same_as_before_is_not_told(client):
    asked = AtNight.asked
    AtNight.services.lists_changed()
    await until(lambda: AtNight.asked > asked)
    await asyncio.sleep(0)
    assert await client.tools() == ["s__work"]
    assert told(client) == []


async def test_what_changes_while_clients_are_told_is_told_too(client):
    for night in (True, False, True):
        AtNight.night = night
        AtNight.services.lists_changed()
        await asyncio.sleep(0)
    await until(lambda: told(client))
    assert await client.tools() == ["s__sleep"]
    count = len(told(client))
    AtNight.night = False
    AtNight.services.lists_changed()
    await until(lambda: len(told(client)) > count)
    assert await client.tools() == ["s__work"]


async def test_before_clients_can_connect_nothing_happens():
    class Early(AtNight):
        def __init__(self, settings=None, services=None):
            super().__init__(settings, services)
            services.lists_changed()

    async with running({}, plugins={("exposure_mode", "early"): Early}, tools_exposure="early") as made:
        client = Client(made)
        await client.initialize()
        assert await client.tools() == []
