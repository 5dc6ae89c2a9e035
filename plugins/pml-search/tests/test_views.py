from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pml_hookspecs import ServerStatus
from pml_search import catalogs, index_data, views
from pml_search._numpy import np
from pml_search.index import Index
from pml_search.piece_vectors import table
from pml_search.ranker import Ranker
from pml_testing.fakes import FakeCatalog, FakeLog, FakeServices, entry

pytestmark = pytest.mark.anyio

CATALOG = Path(__file__).parent / "data" / "catalog.jsonl"
BOILERPLATE = "This sentence stands in the descriptions of many tools."
ENTRIES = [
    entry(tool.id, f"{tool.definition['description']} {BOILERPLATE if place % 3 else ''}")
    for place, tool in enumerate(catalogs.read(CATALOG, pytest.fail))
]
QUERIES = [
    "read a file",
    "lösche die E-Mail",
    "screnshot",
    "list invioces and send an email",
    "Get the weather forecast for Oslo, then translate the text into French and post it to the channel",
    "path -> text",
    "forge",
]
SOME = st.sets(st.integers(0, len(ENTRIES) - 1))


async def built(entries, services=None):
    index = Index(FakeLog(), None, services)
    await index.build(entries, "1")
    return index


async def found(index, query, among=None):
    return await index.search(query, limit=50, min_score=0.0, among=among)


@settings(max_examples=40, deadline=None)
@given(SOME, st.sampled_from(QUERIES))
async def test_what_may_be_found_is_ranked_as_if_there_were_nothing_else(some, query):
    chosen = [ENTRIES[place] for place in sorted(some)]
    among = frozenset(one.id for one in chosen)
    assert await found(await built(ENTRIES), query, among) == await found(await built(chosen), query)


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(0, 34), min_size=1), st.text(max_size=200), st.sampled_from(QUERIES))
async def test_a_hidden_tool_leaves_no_trace_whatever_it_says(hidden, text, query):
    among = frozenset(one.id for place, one in enumerate(ENTRIES) if place not in hidden)
    usual = await found(await built(ENTRIES), query, among)
    altered = [
        entry(one.id, f"{query} {text} {BOILERPLATE}") if place in hidden else one for place, one in enumerate(ENTRIES)
    ]
    more = [*altered, *(entry(f"secret:{number}", f"{query} {number}") for number in range(5))]
    for others in (altered, more, [one for one in ENTRIES if one.id in among]):
        assert await found(await built(others), query, among) == usual


async def test_what_a_server_says_of_itself_is_evidence_and_hidden_with_its_tools():
    twins = [entry("one:list_items", "List items"), entry("two:list_items", "List items"), *ENTRIES]
    statuses = [
        ServerStatus(name="two", state="up", description="Recipes, ingredients and meals of a kitchen"),
        ServerStatus(name="one", state="up", description="Spare parts of cars"),
    ]
    told = await built(twins, FakeServices("search", catalog=FakeCatalog(twins, statuses)))
    untold = await built(twins, FakeServices("search", catalog=FakeCatalog(twins)))
    assert [match.id for match in await found(untold, "list the items")][:2] == ["one:list_items", "two:list_items"]
    query = "list the items of the kitchen"
    assert (await found(told, query))[0].id == "two:list_items"
    among = frozenset(one.id for one in twins if one.server != "two")
    assert await found(told, query, among) == await found(
        await built([one for one in twins if one.server != "two"], FakeServices(catalog=FakeCatalog((), statuses))),
        query,
    )


async def test_equal_views_have_one_index_that_is_made_once(monkeypatch):
    index = await built(ENTRIES)
    sizes = []
    real = index_data.build
    monkeypatch.setattr(index_data, "build", lambda tools, *more: sizes.append(len(tools)) or real(tools, *more))
    among = [frozenset(one.id for one in ENTRIES[:20]) for _ in range(3)]
    answers = await asyncio.gather(*(found(index, "read a file", view) for view in among))
    assert answers[0] == answers[1] == answers[2]
    assert sizes == [20]
    assert await found(index, "read a file", {one.id for one in ENTRIES}) == await found(index, "read a file")
    assert sizes == [20], "whoever may find everything has the index of everything"


async def test_ids_that_the_index_does_not_know_make_no_difference():
    index = await built(ENTRIES)
    assert await found(index, "read a file", ["no:such"]) == []
    assert await found(index, "read a file", []) == []
    view = {one.id for one in ENTRIES[:9]}
    assert await found(index, "read a file", view | {"no:such"}) == await found(index, "read a file", view)


async def test_views_that_were_not_used_for_long_are_dropped(tools, ranker, monkeypatch):
    kept = views.Views(tools, ranker)
    first = await kept.of([tools[0].id])
    assert await kept.of([tools[0].id]) is first
    for tool in tools[1 : views.MOST_VIEWS + 1]:
        await kept.of([tool.id])
    assert await kept.of([tools[0].id]) is not first
    monkeypatch.setattr(views, "MOST_TOOLS", 10)
    large = {tool.id for tool in tools[:9]}
    last = await kept.of(large)
    assert await kept.of(large) is last
    await kept.of({tool.id for tool in tools[:8]})
    assert await kept.of(large) is not last


async def test_a_view_that_could_not_be_made_is_tried_again(tools, ranker, monkeypatch):
    kept = views.Views(tools, ranker)
    real = index_data.build

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(index_data, "build", fails)
    with pytest.raises(MemoryError):
        await kept.of([tools[0].id])
    monkeypatch.setattr(index_data, "build", real)
    assert (await kept.of([tools[0].id])).data.ids == (tools[0].id,)


async def test_a_catalog_that_changes_during_a_search_does_not_disturb_it(monkeypatch):
    index = await built(ENTRIES)
    begun, go_on = threading.Event(), threading.Event()
    real = views.Views._make

    def slow(self, tools):
        begun.set()
        assert go_on.wait(10)
        return real(self, tools)

    monkeypatch.setattr(views.Views, "_make", slow)
    among = frozenset(one.id for one in ENTRIES[:20])
    searching = asyncio.ensure_future(found(index, "read a file", among))
    await asyncio.to_thread(begun.wait, 10)
    await index.build([replace(one, digest="", definition={"name": "other"}) for one in ENTRIES[3:]], "2")
    go_on.set()
    assert await searching == await found(await built(ENTRIES[:20]), "read a file")


async def test_whoever_gives_up_waiting_for_a_view_does_not_take_it_from_others(monkeypatch):
    index = await built(ENTRIES)
    begun, go_on = threading.Event(), threading.Event()
    real = views.Views._make

    def slow(self, tools):
        begun.set()
        assert go_on.wait(10)
        return real(self, tools)

    monkeypatch.setattr(views.Views, "_make", slow)
    among = frozenset(one.id for one in ENTRIES[:20])
    hasty, patient = (asyncio.ensure_future(found(index, "read a file", among)) for _ in range(2))
    await asyncio.to_thread(begun.wait, 10)
    hasty.cancel()
    go_on.set()
    assert await patient == await found(await built(ENTRIES[:20]), "read a file")
    assert hasty.cancelled()


def test_a_place_in_the_catalog_changes_no_cosine(tools):
    """Sums of whole numbers are exact: the same whatever stands beside a tool."""
    whole = Ranker(index_data.build(tools, table()))
    backwards = Ranker(index_data.build(tools[::-1], table()))
    for query in QUERIES:
        vectors = table().encode([part.tokens for part in whole.prepare(query)])
        products = [one.data.vectors._products(np.rint(vectors * 511)) for one in (whole, backwards)]
        assert (products[0] == products[1][:, ::-1]).all()
