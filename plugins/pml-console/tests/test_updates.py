"""The part of a page that goes on: rendered when something says that it differs, and seldom otherwise."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pml_console.history import RefusedError
from pml_console.pages import updates
from pml_hookspecs import UnauthenticatedError

pytestmark = pytest.mark.anyio


class Reader:
    """A visit of somebody who keeps a page open for some looks; what there is to see is counted."""

    def __init__(self, monkeypatch, marks, *, rendered_s=1e9):
        self.marks, self.looks, self.states, self.said = list(marks), 0, 0, "state"
        self.site = SimpleNamespace(sessions=self)
        self.browser = SimpleNamespace(id="id")
        self.request = SimpleNamespace(is_disconnected=self.is_gone, state=SimpleNamespace(identify=None))
        monkeypatch.setattr(updates, "EVERY_S", 0)
        monkeypatch.setattr(updates, "RENDERED_S", rendered_s)

    async def is_gone(self):
        self.looks += 1
        return self.looks > len(self.marks)

    def of(self, id):
        return self.browser

    async def identity(self, browser, identify):
        if self.marks[self.looks - 1] is UnauthenticatedError:
            raise UnauthenticatedError

    async def mark(self, visit):
        if self.marks[self.looks - 1] is RefusedError:
            raise RefusedError
        return self.marks[self.looks - 1]

    async def render(self, visit):
        self.states += 1
        return f"<p>\n{self.said or self.states}"

    async def events(self):
        return [event async for event in updates._changes(self, updates.Part(self.mark, self.render))]


async def test_what_does_not_differ_is_neither_asked_for_nor_rendered(monkeypatch):
    reader = Reader(monkeypatch, "aaabbb")
    assert await reader.events() == ["data: <p>\ndata: state\n\n", ": nothing new\n\n"]
    assert reader.states == 2


async def test_after_a_while_it_is_rendered_all_the_same(monkeypatch):
    reader = Reader(monkeypatch, "aaa", rendered_s=0)
    reader.said = ""
    assert await reader.events() == [f"data: <p>\ndata: {n}\n\n" for n in (1, 2, 3)]


@pytest.mark.parametrize("end", [UnauthenticatedError, RefusedError])
async def test_it_ends_with_the_key(monkeypatch, end):
    reader = Reader(monkeypatch, ["a", end, "b"])
    assert len(await reader.events()) == 1
    assert reader.looks == 2


async def test_it_ends_with_the_log_in(monkeypatch):
    reader = Reader(monkeypatch, "ab")
    reader.of = {}.get
    assert await reader.events() == []
