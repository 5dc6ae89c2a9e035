from __future__ import annotations

from typing import Any

import pytest

from pml_exposure_meta_only import MetaOnly
from pml_hookspecs import Session
from pml_testing.exposure_mode import ExposureModeContract
from pml_testing.fakes import FakeCatalog, entry

pytestmark = pytest.mark.anyio


class TestContract(ExposureModeContract):
    @pytest.fixture
    def mode_type(self) -> Any:
        return MetaOnly


@pytest.mark.parametrize("intent", ["", "read thing"])
async def test_only_the_meta_tools_are_listed_in_catalog_order(catalog: FakeCatalog, intent: str) -> None:
    selection = await MetaOnly().select(catalog, Session(key="k", intent=intent))
    assert selection.tools == ("pml:execute_it", "pml:search_it")
    assert selection.shared
    assert selection.why == dict.fromkeys(selection.tools, "meta-tool")


async def test_a_hidden_tool_can_still_be_named_in_a_call(catalog: FakeCatalog) -> None:
    selection = await MetaOnly().select(catalog, Session(key="k"))
    called = catalog.resolve("s00__read_thing_000")
    assert called is not None
    assert called.id not in selection.tools


async def test_without_meta_tools_the_list_is_empty() -> None:
    catalog = FakeCatalog([entry("a:b"), entry("pml:unlisted")])
    assert (await MetaOnly().select(catalog, Session(key="k"))).tools == ()
