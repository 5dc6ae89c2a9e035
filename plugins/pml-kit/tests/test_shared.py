"""What several gateways share: changes, leases and windows."""

from __future__ import annotations

import asyncio
import gc
import weakref
from types import SimpleNamespace

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_kit.shared import GatewayParts, lease, window
from pml_kit.shared import change as changes
from pml_kit.shared.change import ContentionError, Write, change, plain

pytestmark = pytest.mark.anyio


def count(found):
    value = plain(found)
    value["n"] = value.get("n", 0) + 1
    return value["n"], Write(value)


async def test_of_many_changes_at_a_time_none_is_lost():
    documents = MemoryStore().documents

    class Slow:
        async def get(self, *place):
            found = await documents.get(*place)
            await asyncio.sleep(0)
            return found

        put = documents.put

    counts = await asyncio.gather(*(change(Slow(), "c", "k", count) for _ in range(20)))
    assert sorted(counts) == list(range(1, 21))
    assert (await documents.get("c", "k")).version == 20


async def test_what_stands_there_already_is_not_written():
    documents = MemoryStore().documents
    write = Write({"a": [1]}, {"mark": "m"})
    for _ in range(2):
        assert await change(documents, "c", "k", lambda _: ("done", write)) == "done"
    assert (await documents.get("c", "k")).version == 1
    assert await change(documents, "c", "other", lambda found: (found, None)) is None
    assert await documents.get("c", "other") is None
    await change(documents, "c", "k", lambda _: (None, Write({"a": [1]}, {"mark": "n"})))
    assert (await documents.get("c", "k")).marks == {"mark": "n"}


async def test_where_others_are_always_faster_it_ends_and_waits_a_little_between(monkeypatch):
    documents, slept = MemoryStore().documents, []

    async def sleep(pause_s):
        slept.append(pause_s)

    async def refuse(*_args, **_more):
        return None

    monkeypatch.setattr(documents, "put", refuse)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(ContentionError, match="c k: 60 times"):
        await change(documents, "c", "k", count)
    assert len(slept) == changes.ATTEMPTS
    assert max(slept) <= changes.LONGEST_PAUSE_S
    assert len(set(slept)) > 1


async def test_what_an_edit_raises_ends_the_change():
    def refuse(_found):
        raise LookupError("k")

    with pytest.raises(LookupError):
        await change(MemoryStore().documents, "c", "k", refuse)


@pytest.fixture
def clock(monkeypatch):
    made = SimpleNamespace(now=1000.0, wall=1_800_000_000.0)
    read = SimpleNamespace(monotonic=lambda: made.now, time=lambda: made.wall + made.now)
    monkeypatch.setattr(lease, "time", read)
    monkeypatch.setattr(window, "time", read)
    return made


def test_whose_number_stays_the_same_for_a_lease_is_gone(clock):
    leases = lease.Leases()

    def living(**beats):
        return leases.living("d", beats, {"mine"}, 20)

    assert living(mine=1, dead=1, slow=1) == {"mine", "dead", "slow"}
    clock.now += 19.9
    assert living(mine=1, dead=1, slow=2) == {"mine", "dead", "slow"}
    clock.now += 0.1
    assert living(mine=1, dead=1, slow=2) == {"mine", "slow"}
    clock.wall += 7200
    assert living(mine=1, slow=2, new=0) == {"mine", "slow", "new"}


def test_of_each_document_it_is_judged_apart(clock):
    leases = lease.Leases()
    leases.living("a", {"x": 1}, (), 20)
    clock.now += 20
    assert leases.living("b", {"x": 1}, (), 20) == {"x"}
    assert leases.living("a", {"x": 1}, (), 20) == set()
    leases.living("a", {}, (), 20)
    assert leases.living("a", {"x": 1}, (), 20) == {"x"}


def test_after_the_time_told_exactly_one_is_free(clock):
    for before, current in ((0, 5), (5, 0), (7, 3), (3, 5), (9, 9)):
        one = window.Window(60, previous=before, current=current, age_s=12)
        wait_s = one.wait_s(5)
        clock.now += wait_s - 2 * window.SHORTEST_WAIT_S
        assert wait_s <= window.SHORTEST_WAIT_S or not one.take(5)
        clock.now += 3 * window.SHORTEST_WAIT_S
        assert one.take(5)


def test_a_window_that_another_machine_wrote_is_as_old_as_it_said(clock, monkeypatch):
    written = window.Window(60, current=5, age_s=40).plain()
    clock.wall += 3600
    assert window.Windows().read("k", written, 60).used() == 0
    monkeypatch.setattr(window, "HOST", "elsewhere")
    reader = window.Windows()
    assert reader.read("k", written, 60).used() == 5
    clock.now += 19
    assert reader.read("k", written, 60).current == 5
    clock.now += 31
    assert reader.read("k", written, 60).used() == pytest.approx(2.5)


def test_windows_of_names_that_clients_choose_have_a_bound(clock, monkeypatch):
    monkeypatch.setattr(window, "MOST", 100)
    windows = window.Windows()
    for number in range(1000):
        windows.at(f"k{number}", 60).take(5)
    assert len(windows.kept) == 100
    assert "k999" in windows.kept


def test_parts_end_with_their_gateway():
    class Services:
        pass

    parts_of = GatewayParts(lambda services: [services])
    services = Services()
    assert parts_of(services) is parts_of(services)
    assert GatewayParts(lambda services: [services])(services) is not parts_of(services)
    left = weakref.ref(services)
    del services
    gc.collect()
    assert left() is None
