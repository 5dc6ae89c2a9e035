"""Whether a gateway says that it can do its work, and from when on that it ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from pml_background import readiness
from pml_background.readiness import LiveReadiness
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import ServerStatus
from pml_kit.offers import ReadinessPart

pytestmark = pytest.mark.anyio


class Around:
    """What a gateway has around its readiness, as a test changes it."""

    def __init__(self):
        self.states = {"files": "up", "mail": "up"}
        self.guards, self.health = {}, {"dag": "up"}
        self.store, self.ready_servers, self.checks = MemoryStore(), ("*",), []

    def servers(self):
        return [ServerStatus(name=name, state=state) for name, state in self.states.items()]

    def made(self):
        engines, store = (lambda: ["dag"]), (lambda: self.store)
        return LiveReadiness(self, self.guards, self.health, engines, store, lambda: self, lambda: self.checks)


async def unready(around):
    """What a readiness that is made now says is not ready, and why."""
    return {part.name: part.detail for part in await around.made().parts() if not part.ready}


@pytest.fixture
def around():
    return Around()


async def test_a_gateway_that_is_well_is_ready_in_every_part(around):
    names = [part.name for part in await around.made().parts()]
    assert names == ["gateway", "servers", "guards", "engines", "store"]
    assert await unready(around) == {}


@pytest.mark.parametrize("state", ["down", "starting"])
async def test_a_server_that_cannot_be_used_is_told(around, state):
    around.states["mail"] = state
    assert await unready(around) == {"servers": f"mail is {state}"}
    around.ready_servers = ("file*",)
    assert await unready(around) == {}


@pytest.mark.parametrize("state", ["idle", "disabled"])
async def test_a_server_that_starts_with_its_first_call_is_no_trouble(around, state):
    around.states["mail"] = state
    assert await unready(around) == {}


async def test_a_guard_that_failed_and_an_engine_in_trouble_are_told(around):
    around.guards["access"] = "no keys"
    around.health["dag"] = "background task 'poll' failed"
    around.health["notes"] = "quarantined"
    assert await unready(around) == {"guards": "access: no keys", "engines": "dag: background task 'poll' failed"}


async def test_a_store_that_cannot_be_read_or_written_is_told(around, monkeypatch):
    around.store = None
    assert "store" in await unready(around)

    async def full():
        return {"trouble": "the disk is full"}

    around.store = MemoryStore()
    monkeypatch.setattr(around.store, "health", full)
    assert await unready(around) == {"store": "the disk is full"}

    async def away(*_):
        raise ConnectionError("nobody answers")

    around.store = SimpleNamespace(documents=SimpleNamespace(get=away))
    assert await unready(around) == {"store": "nobody answers"}


async def test_a_look_that_takes_too_long_is_no_good_and_holds_up_no_other(around, monkeypatch):
    monkeypatch.setattr(readiness, "CHECK_S", 0.05)

    async def never():
        await asyncio.Event().wait()

    async def good():
        return [ReadinessPart("disk", ready=True)]

    around.checks = [("slow", never), ("disk", good)]
    assert await unready(around) == {"slow": "no answer within 0.05 s"}


async def test_many_who_ask_cost_one_look(around):
    looks = []

    async def look():
        looks.append(1)
        await asyncio.sleep(0)
        return [ReadinessPart("disk", ready=True)]

    around.checks = [("disk", look)]
    made = around.made()
    await asyncio.gather(*(made.parts() for _ in range(20)))
    assert len(looks) == 1


async def test_it_says_that_the_gateway_ends_before_others_have_heard(around):
    made = around.made()
    assert not made.shutting_down
    leaving = asyncio.ensure_future(made.leave(30))
    await asyncio.sleep(0)
    assert made.shutting_down
    assert not leaving.done()
    assert [part.name for part in await made.parts() if not part.ready] == ["gateway"]
    leaving.cancel()
    await asyncio.wait((leaving,))
    await made.leave(0)
