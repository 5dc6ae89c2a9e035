"""The blacklist keeps the contract of filters."""

from __future__ import annotations

from typing import Any

import pytest

from pml_exposure_hybrid import lists
from pml_exposure_hybrid.settings import Settings
from pml_hookspecs import ToolFilter
from pml_testing.fakes import FakeCatalog, FakeServices, some_entries
from pml_testing.hook_contracts.filter import FilterContract


class TestTheBlacklistKeepsTheContract(FilterContract):
    @pytest.fixture
    def tool_filter(self) -> ToolFilter:
        settings = Settings(blacklisted_tools=("*delete*", "s01:write_thing_001"))
        services: Any = FakeServices(catalog=FakeCatalog(some_entries(2, 5)), settings=settings)
        (made,) = lists.pml_filter_tools(services)
        return made
