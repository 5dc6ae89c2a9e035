"""The contract of every filter that an installed hook plugin contributes, with default settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pml_testing.fakes import FakeCatalog, FakeServices, some_entries
from pml_testing.hook_contracts.filter import FilterContract

if TYPE_CHECKING:
    from pml_hookspecs import ToolFilter


class TestInstalledFilter(FilterContract):
    """One run per hook plugin; of several filters, each is a part of it."""

    @pytest.fixture
    def tool_filter(self, installed: Any) -> ToolFilter:
        plugin = installed.entry_point.load()
        if not hasattr(plugin, "pml_filter_tools"):
            pytest.skip(f"{installed.name} has no filter")
        settings = plugin.settings_type() if hasattr(plugin, "settings_type") else None
        services = FakeServices(installed.name, settings=settings, catalog=FakeCatalog(some_entries(2, 5)))
        filters = list(plugin.pml_filter_tools(services=services))
        if not filters:
            pytest.skip(f"{installed.name} has no filter with default settings")
        first: ToolFilter = filters[0]
        return first
