"""The contract every search index keeps. Subclass and provide ``make_index``; or run ``pytest --pml-contract``."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import CatalogEntry, Match, Session, ToolId
from pml_kit.offers import SEARCH
from pml_kit.signatures import fits
from pml_testing.fakes import entry

if TYPE_CHECKING:
    from pml_kit.offers import SearchIndex

GROUP = "pml.plugins"
TOOLS = (
    entry("files:read_file", "Read the contents of a file from the disk"),
    entry("files:write_file", "Write text into a file on the disk"),
    entry("files:list_directory", "List the names in a directory"),
    entry("weather:get_forecast", "Forecast of the weather for a city, for some days"),
    entry("mail:send_message", "Send a mail message to somebody"),
    entry("calendar:create_event", "Create an event in the calendar"),
    entry("bare:nothing_said"),
)
QUERIES = ("read a file", "weather in a city", "send mail", "calendar", "file")
ODD = ("\x00", "\ud800", "é" * 3_000, "(((", "a" * 20_000, "\n\t ", "SELECT * FROM", "日本語の検索", '"', "-" * 500)


@pytest.mark.anyio
class SearchContract:
    """Tests of an index. Override ``entries`` and ``queries`` with what it is made for."""

    group = GROUP

    @pytest.fixture
    def make_index(self) -> Callable[[], SearchIndex]:
        """Makes an index that holds nothing yet."""
        raise NotImplementedError("override: return a function that makes the index to test")

    @pytest.fixture
    def entries(self) -> Sequence[CatalogEntry]:
        """What is indexed."""
        return TOOLS

    @pytest.fixture
    def queries(self) -> Sequence[str]:
        """What is searched for."""
        return QUERIES

    @pytest.fixture
    async def index(self, make_index: Callable[[], SearchIndex], entries: Sequence[CatalogEntry]) -> SearchIndex:
        """One that holds the entries."""
        made = make_index()
        await made.build(entries, "1")
        return made

    def test_is_an_index_as_the_gateway_takes_it(self, make_index: Callable[[], SearchIndex]) -> None:
        assert fits(SEARCH.protocol)(make_index()) == ""

    async def test_finds_nothing_before_there_is_anything(self, make_index: Callable[[], SearchIndex]) -> None:
        assert list(await make_index().search("read", limit=5, min_score=0.0)) == []

    async def test_finds_a_tool_by_its_name(self, index: SearchIndex) -> None:
        found = await index.search("forecast of the weather", limit=3, min_score=0.0)
        assert [match.id for match in found][:1] == ["weather:get_forecast"]

    async def test_matches_are_of_the_catalog_best_first_and_within_their_bounds(
        self, index: SearchIndex, entries: Sequence[CatalogEntry], queries: Sequence[str]
    ) -> None:
        known = {one.id for one in entries}
        for query in queries:
            for limit, least in ((1, 0.0), (3, 0.0), (10, 0.5)):
                found = await index.search(query, limit=limit, min_score=least)
                assert all(isinstance(match, Match) and match.id in known for match in found)
                assert len(found) <= limit, f"{len(found)} matches of at most {limit} for {query!r}"
                assert len({match.id for match in found}) == len(found), f"a tool is found twice by {query!r}"
                assert all(0.0 <= match.score <= 1.0 and match.score >= least for match in found)
                order = sorted(found, key=lambda match: (-match.score, match.id))
                assert list(found) == order, f"not best first, ties by id, for {query!r}"

    async def test_an_empty_query_finds_nothing(self, index: SearchIndex) -> None:
        for query in ("", "   "):
            assert list(await index.search(query, limit=5, min_score=0.0)) == []

    async def test_any_query_is_answered(self, index: SearchIndex) -> None:
        for query in ODD:
            await index.search(query, limit=5, min_score=0.0)
            await index.search(query, limit=5, min_score=0.0, session=Session(key="somebody"))

    async def test_only_what_may_be_found_is_found(
        self, index: SearchIndex, entries: Sequence[CatalogEntry], queries: Sequence[str]
    ) -> None:
        for among in (frozenset(), frozenset([entries[1].id]), frozenset(one.id for one in entries[::2])):
            for query in queries:
                found = await index.search(query, limit=10, min_score=0.0, among=among)
                assert {match.id for match in found} <= among

    async def test_what_may_not_be_found_leaves_no_trace_in_scores_and_order(
        self, make_index: Callable[[], SearchIndex], entries: Sequence[CatalogEntry], queries: Sequence[str]
    ) -> None:
        seen = list(entries[::2])
        among = frozenset(one.id for one in seen)
        hidden = [entry(f"hidden:{n}_{word}", f"read file weather mail {word}") for n, word in enumerate(queries)]
        answers: list[Any] = []
        for others in ([], hidden):
            made = make_index()
            await made.build([*seen, *others], str(len(answers)))
            answers.append([list(await made.search(q, limit=5, min_score=0.0, among=among)) for q in queries])
        assert answers[0] == answers[1]

    async def test_the_same_question_gets_the_same_answer(
        self, index: SearchIndex, make_index: Callable[[], SearchIndex], entries: Sequence[CatalogEntry],
        queries: Sequence[str],
    ) -> None:  # fmt: skip
        other = make_index()
        await other.build(tuple(reversed(entries)), "1")
        for query in queries:
            first = list(await index.search(query, limit=5, min_score=0.0))
            assert list(await index.search(query, limit=5, min_score=0.0)) == first
            assert list(await other.search(query, limit=5, min_score=0.0)) == first

    async def test_what_is_built_replaces_what_was_there(self, index: SearchIndex) -> None:
        await index.build([entry("new:translate_text", "Translate a text into another language")], "2")
        assert [m.id for m in await index.search("translate a text", limit=5, min_score=0.0)] == ["new:translate_text"]
        assert not await index.search("weather", limit=5, min_score=0.0, among=frozenset([ToolId("files:read_file")]))
        await index.build([], "3")
        assert list(await index.search("translate", limit=5, min_score=0.0)) == []

    async def test_searches_go_on_while_it_is_built(self, index: SearchIndex, entries: Sequence[CatalogEntry]) -> None:
        before = list(await index.search("file", limit=5, min_score=0.0))
        building = asyncio.ensure_future(index.build([*entries, entry("more:tool", "Another one")], "2"))
        during = list(await index.search("file", limit=5, min_score=0.0))
        await building
        after = list(await index.search("file", limit=5, min_score=0.0))
        assert during in (before, after)

    async def test_definitions_are_left_as_they_are(self, make_index: Callable[[], SearchIndex]) -> None:
        before = copy.deepcopy([dict(one.definition) for one in TOOLS])
        await make_index().build(TOOLS, "1")
        assert [dict(one.definition) for one in TOOLS] == before
