"""Which gateways are gone: each judges by its own clock, and one that only stood still finds out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from pml_background import gateway_process
from pml_background.gateway_process import BEAT_S, DEAD_S, GATEWAYS, GONE, GatewayProcess, Presence
from pml_core.plugins.nulls import MemoryStore
from pml_kit.shared import lease

pytestmark = pytest.mark.anyio


class Gateways:
    """Several on one store; each has a clock of its own, and what comes next is read from the one whose turn it is."""

    def __init__(self, monkeypatch):
        self.store, self.now_s, self.lost, self.ahead_s = MemoryStore(), 1000.0, [], 0.0
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        monkeypatch.setattr(lease, "time", clock)
        monkeypatch.setattr(gateway_process, "time", clock)
        monkeypatch.setattr(gateway_process, "datetime", self)
        # Each on a machine of its own: that another process has ended cannot be seen.
        monkeypatch.setattr(GatewayProcess, "is_surely_gone", lambda _: False)

    def now(self, zone):
        return datetime.now(zone) + timedelta(seconds=self.ahead_s)

    fromisoformat = datetime.fromisoformat

    def made(self, name):
        return Presence(self.store, lambda: self.lost.append(name))


@pytest.fixture
def gateways(monkeypatch):
    return Gateways(monkeypatch)


async def test_a_gateway_whose_clock_is_an_hour_apart_lives(gateways):
    mine, other = gateways.made("mine"), gateways.made("other")
    for ahead_s in (3600.0, -3600.0):
        for _ in range(20):
            gateways.now_s += BEAT_S
            gateways.ahead_s = ahead_s
            await other.beat()
            gateways.ahead_s = 0.0
            await mine.beat()
            assert set(await mine.living()) == {mine.me.id, other.me.id}
    assert gateways.lost == []


async def test_one_that_is_silent_for_so_long_is_gone_and_not_sooner(gateways):
    mine, other = gateways.made("mine"), gateways.made("other")
    await other.beat()
    assert other.me.id in await mine.living()
    gateways.now_s += DEAD_S - 0.1
    assert other.me.id in await mine.living()
    gateways.now_s += 0.1
    assert other.me.id not in await mine.living()
    assert (await gateways.store.documents.get(GATEWAYS, other.me.id)).marks == GONE


async def test_one_that_stood_still_and_was_taken_for_gone_records_no_end_of_what_it_had_begun(gateways):
    mine, other = gateways.made("mine"), gateways.made("other")
    before = datetime.now(UTC)
    await other.beat()
    assert await other.holds(before)
    await mine.living()
    gateways.now_s += 2 * DEAD_S
    await mine.living()
    was = other.me.id
    assert not await other.holds(before), "asked before its own clock has come round to say that it lives"
    assert gateways.lost == ["other"]
    assert other.me.id != was
    assert await other.holds(datetime.now(UTC) + timedelta(seconds=1)), "what begins from now on is its own"
    assert set(await mine.living()) == {mine.me.id, other.me.id}


async def test_one_that_stood_still_while_nobody_looked_goes_on(gateways):
    alone = gateways.made("alone")
    before = datetime.now(UTC)
    await alone.beat()
    gateways.now_s += 10 * DEAD_S
    assert await alone.holds(before)
    assert gateways.lost == []


async def test_one_that_says_that_it_lives_while_it_is_being_buried_lives(gateways):
    mine, other = gateways.made("mine"), gateways.made("other")
    await other.beat()
    await mine.living()
    gateways.now_s += DEAD_S
    (seen,) = (await gateways.store.documents.find(GATEWAYS)).items
    await other.beat()
    assert not await mine._bury(seen)
    assert other.me.id in await mine.living()
