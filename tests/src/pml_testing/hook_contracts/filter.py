"""The contract every tool filter keeps. Subclass and provide ``tool_filter``; or run ``pytest --pml-contract``."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import CatalogEntry, RawObject, Session, ToolId, replace
from pml_kit.shapes import item_problem
from pml_testing.fakes import entry, some_entries

if TYPE_CHECKING:
    from pml_hookspecs import ToolFilter

GROUP = "pml.plugins"
MOST_US = 50.0
"""One call of a filter, in the median: it is asked of every tool of a list, and on every call [µs]."""
SOMEBODY = Session(key="somebody")
SESSIONS = (
    SOMEBODY,
    replace(SOMEBODY, key="other", principal="other", access_key="k1", scopes=frozenset({"system"})),
    replace(SOMEBODY, key="bound", principal="bound", access_key="k2", allow=("s00:*",), deny=("*:delete_*",)),
    replace(SOMEBODY, key="agent", agent="agent", endpoint="elsewhere", mode="hybrid", intent="delete"),
)


def unlisted(tool: str) -> CatalogEntry:
    """What stands for a tool that its server serves and does not list: there is its name, and no more."""
    server, _, name = tool.partition(":")
    return CatalogEntry(ToolId(tool), server, RawObject.of({"name": name}), 0)


class FilterContract:
    """Tests of a filter. Override ``entries`` and ``sessions`` with those that it has to do something with."""

    group = GROUP

    @pytest.fixture
    def tool_filter(self) -> ToolFilter:
        """The filter to test."""
        raise NotImplementedError("override: return the filter to test")

    @pytest.fixture
    def entries(self) -> Sequence[CatalogEntry]:
        """Tools of servers and of the gateway, one that is not listed, and a resource as patterns have it."""
        odd = entry("s00:odd", annotations=["readOnlyHint"])
        return [*some_entries(2, 5), odd, unlisted("s00:secret"), unlisted("s00:@resource/file:///x")]

    @pytest.fixture
    def sessions(self) -> Sequence[Session]:
        """Those who ask."""
        return SESSIONS

    def test_is_a_filter_as_the_gateway_takes_it(self, tool_filter: ToolFilter) -> None:
        assert item_problem("pml_filter_tools", tool_filter) == ""
        for mark in ("shared", "hides"):
            assert isinstance(getattr(tool_filter, mark, False), bool), f"{mark!r} is neither True nor False"

    def test_says_true_or_false_of_every_tool(
        self, tool_filter: ToolFilter, entries: Sequence[CatalogEntry], sessions: Sequence[Session]
    ) -> None:
        for session in sessions:
            for one in entries:
                said: Any = tool_filter(one, session)
                assert said is True or said is False, f"of {one.id} it says {said!r}: it is dropped"

    def test_says_the_same_again_whatever_was_asked_between(
        self, tool_filter: ToolFilter, entries: Sequence[CatalogEntry], sessions: Sequence[Session]
    ) -> None:
        first = [tool_filter(one, session) for session in sessions for one in entries]
        for session in reversed(sessions):
            for one in reversed(entries):
                tool_filter(one, session)
        again = [tool_filter(one, replace(session)) for session in sessions for one in entries]
        assert again == first

    def test_a_shared_filter_keeps_the_same_for_everybody(
        self, tool_filter: ToolFilter, entries: Sequence[CatalogEntry], sessions: Sequence[Session]
    ) -> None:
        if getattr(tool_filter, "shared", False):
            for one in entries:
                assert len({tool_filter(one, session) for session in sessions}) == 1, f"not so of {one.id}"

    def test_definitions_are_left_as_they_are(
        self, tool_filter: ToolFilter, entries: Sequence[CatalogEntry], sessions: Sequence[Session]
    ) -> None:
        before = copy.deepcopy([dict(one.definition) for one in entries])
        for session in sessions:
            for one in entries:
                tool_filter(one, session)
        assert [dict(one.definition) for one in entries] == before

    def test_takes_at_most_50_us(self, tool_filter: ToolFilter, entries: Sequence[CatalogEntry]) -> None:
        took = []
        for _ in range(51):
            for one in entries:
                started = time.perf_counter()
                tool_filter(one, SOMEBODY)
                took.append((time.perf_counter() - started) * 1e6)
        assert statistics.median(took) <= MOST_US
