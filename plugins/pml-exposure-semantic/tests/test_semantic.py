from __future__ import annotations

from typing import Any

import pytest

from pml_exposure_semantic import Semantic, Settings
from pml_hookspecs import Session
from pml_testing.exposure_mode import ExposureModeContract
from pml_testing.fakes import FakeCatalog, entry, some_entries

pytestmark = pytest.mark.anyio
META = ("pml:execute_it", "pml:search_it")


class TestContract(ExposureModeContract):
    @pytest.fixture
    def mode_type(self) -> Any:
        return Semantic


def asking(intent: str) -> Session:
    return Session(key=intent, intent=intent)


async def test_what_fits_the_intent_follows_the_meta_tools_best_first(catalog: FakeCatalog) -> None:
    selection = await Semantic(Settings(semantic_threshold=0.5)).select(catalog, asking("read thing"))
    assert selection.tools[:4] == (*META, "s00:read_thing_000", "s01:read_thing_000")
    assert len(selection.tools) == 2 + 10, "every other tool shares one word of two"
    assert selection.why["s00:read_thing_000"] == "fits the intent (relevance 1.00)"


@pytest.mark.parametrize("intent", ["", "  \n"])
async def test_without_an_intent_only_the_meta_tools_are_listed(catalog: FakeCatalog, intent: str) -> None:
    assert (await Semantic().select(catalog, asking(intent))).tools == META


async def test_a_tool_that_does_not_fit_can_still_be_named_in_a_call(catalog: FakeCatalog) -> None:
    selection = await Semantic().select(catalog, asking("read thing"))
    called = catalog.resolve("s00__delete_thing_003")
    assert called is not None
    assert called.id not in selection.tools


async def test_no_more_tools_than_the_cap_follow() -> None:
    catalog = FakeCatalog(some_entries(23, 30))
    shown = (await Semantic().select(catalog, asking("thing"))).tools
    assert len(shown) == 2 + 50
    for cap in (0, 1):
        shown = (await Semantic(Settings(max_underlying_tools=cap)).select(catalog, asking("thing"))).tools
        assert len(shown) == 2 + cap


def test_what_is_not_set_falls_back_to_hybrid() -> None:
    assert Semantic.settings_fallback == "hybrid"
    assert (Settings().max_underlying_tools, Settings().semantic_threshold) == (50, 0.6)


async def test_a_relevance_exactly_at_the_threshold_is_enough() -> None:
    catalog = FakeCatalog([entry("a:one_two_three"), entry("a:one_two")])
    selection = await Semantic(Settings(semantic_threshold=2 / 3)).select(catalog, asking("one two three"))
    assert selection.tools == ("a:one_two_three", "a:one_two")


async def test_the_answer_is_shared_only_when_no_intent_can_change_it(catalog: FakeCatalog) -> None:
    assert not (await Semantic().select(catalog, asking(""))).shared
    assert (await Semantic(Settings(max_underlying_tools=0)).select(catalog, asking("read"))).shared


async def test_tools_that_a_session_may_not_have_take_no_place_of_another(catalog: FakeCatalog) -> None:
    mode = Semantic(Settings(semantic_threshold=0.5, max_underlying_tools=2))
    catalog.denied = {"s00:read_thing_000", "s00:copy_thing_004"}
    without = FakeCatalog([e for e in catalog if e.id not in catalog.denied])
    selection = await mode.select(catalog, asking("read thing"))
    assert selection == await mode.select(without, asking("read thing"))
    assert selection.tools == (*META, "s01:read_thing_000", "s00:delete_thing_003")
