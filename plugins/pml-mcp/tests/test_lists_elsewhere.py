"""Lists of tools that change at another gateway on the store: who is told of them, and how often."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace

import pytest

from pml_mcp.wire import listeners
from pml_mcp.wire.listeners import ListComparison

pytestmark = pytest.mark.anyio
SOON_S = 60


class Documents:
    """Of two gateways."""

    def __init__(self):
        self.kept, self.asked, self.away, self.looked = {}, 0, False, asyncio.Condition()

    def put_soon(self, collection, key, value, **_more):
        assert collection == listeners.LISTS
        version = self.kept[key].version + 1 if key in self.kept else 1
        self.kept[key] = SimpleNamespace(key=key, value=value, version=version)

    async def find(self, _collection, **_more):
        async with self.looked:
            self.asked += 1
            self.looked.notify_all()
        if self.away:
            raise OSError("away")
        return SimpleNamespace(items=list(self.kept.values()))

    async def looks(self, many):
        """Wait until it was asked so often from now on."""
        until = self.asked + many
        async with asyncio.timeout(SOON_S), self.looked:
            await self.looked.wait_for(lambda: self.asked >= until)


class Client:
    def __init__(self, *, listens=True):
        self.listeners, self.told = [object()] * listens, []

    async def told_elsewhere(self, server):
        self.told.append(server)


class Gateway:
    def __init__(self, documents, **lists):
        self.lists, self.clients, self.documents = lists, [Client(), Client(listens=False)], documents
        self.made = ListComparison(documents, lambda: self.lists, self.clients)

    def list(self, monkeypatch, name, **lists):
        with monkeypatch.context() as patch:
            patch.setattr(listeners, "gateway_name", lambda: name)
            self.lists = lists
            self.made.changed()


@pytest.fixture
async def pair(monkeypatch, anyio_backend):
    monkeypatch.setattr(listeners, "LOOK_S", 0.01)
    documents = Documents()
    here, there = Gateway(documents, files="1"), Gateway(documents, files="1")
    watching = asyncio.ensure_future(here.made.watch())
    yield here, there
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


async def test_whoever_listens_is_told_once_of_each_change(pair, monkeypatch):
    here, there = pair
    for number, digest in enumerate(("2", "3"), 1):
        there.list(monkeypatch, "there", files=digest)
        await here.documents.looks(3)
        assert [client.told for client in here.clients] == [["files"] * number, []]


async def test_what_is_the_same_here_by_then_and_a_first_list_are_no_news(pair, monkeypatch):
    here, there = pair
    here.lists = {"files": "2"}
    there.list(monkeypatch, "there", files="2", mail="1")
    await here.documents.looks(3)
    assert set(here.documents.kept) == {"files"}
    assert here.clients[0].told == []


async def test_its_own_change_is_no_news(pair):
    here, _ = pair
    here.lists = {"files": "2"}
    here.made.changed()
    here.lists = {"files": "3"}
    await here.documents.looks(3)
    assert here.clients[0].told == []


async def test_a_store_that_is_away_is_asked_again(pair, monkeypatch):
    here, there = pair
    here.documents.away = True
    there.list(monkeypatch, "there", files="2")
    await here.documents.looks(2)
    here.documents.away = False
    await here.documents.looks(3)
    assert here.clients[0].told == ["files"]


async def test_the_store_is_not_asked_while_nobody_listens(monkeypatch, anyio_backend):
    turns, asleep = 0, asyncio.sleep

    async def sleep(_seconds):
        nonlocal turns
        turns += 1
        await asleep(0)

    monkeypatch.setattr(listeners.asyncio, "sleep", sleep)
    here = Gateway(Documents(), files="1")
    here.clients.pop(0)
    watching = asyncio.ensure_future(here.made.watch())
    while turns < 3:
        await asleep(0)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    assert here.documents.asked == 0
