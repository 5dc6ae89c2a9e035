from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pml_exposure_full_proxy import FullProxy, Settings
from pml_hookspecs import Session
from pml_kit.mcp.tokens import estimate
from pml_testing.exposure_mode import ExposureModeContract
from pml_testing.fakes import FakeCatalog, FakeServices, entry

pytestmark = pytest.mark.anyio
SESSION = Session(key="k")


class TestContract(ExposureModeContract):
    @pytest.fixture
    def mode_type(self) -> Any:
        return FullProxy


class TestContractWithMetaTools(TestContract):
    @pytest.fixture
    def settings(self) -> Any:
        return Settings(expose_meta_tools=True)


@pytest.mark.parametrize("intent", ["", "read thing"])
async def test_all_tools_of_servers_are_listed_and_nothing_else(catalog: FakeCatalog, intent: str) -> None:
    selection = await FullProxy().select(catalog, Session(key="k", intent=intent))
    assert selection.tools == tuple(e.id for e in catalog if e.server in ("s00", "s01"))
    assert len(selection.tools) == 10
    assert selection.shared


async def test_the_meta_tools_come_first_when_they_are_wanted(catalog: FakeCatalog) -> None:
    plain = await FullProxy().select(catalog, SESSION)
    both = await FullProxy(Settings(expose_meta_tools=True)).select(catalog, SESSION)
    assert both.tools == ("pml:execute_it", "pml:search_it", *plain.tools)


async def test_every_listed_tool_can_be_named_in_a_call(catalog: FakeCatalog) -> None:
    for tool in (await FullProxy().select(catalog, SESSION)).tools:
        called = catalog.resolve(catalog.exposed_name(tool))
        assert called is not None
        assert called.id == tool


async def test_the_cost_is_logged_once_when_there_are_tools() -> None:
    services = FakeServices()
    mode = FullProxy(Settings(), services)
    await mode.select(FakeCatalog([entry("pml:search_tools", meta=True)]), SESSION)
    assert services.log.lines == []
    tool = entry("a:b", "Does things")
    for _ in range(3):
        await mode.select(FakeCatalog([tool]), SESSION)
    await asyncio.gather(*services.tasks)
    [(level, event, details)] = services.log.lines
    assert level == "warning"
    assert "full_proxy" in event
    shown = '{"name":"a__b","description":"Does things","inputSchema":{"type":"object"}}'
    assert details == {"tools": 1, "tokens": estimate(shown)}  # as pml tokens counts
