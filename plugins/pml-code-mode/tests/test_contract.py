"""The tools and the filter keep their contracts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pml_code_mode import plugin
from pml_hookspecs import MetaTool, ToolFilter
from pml_testing.fakes import FakeCatalog, FakeServices, some_entries
from pml_testing.hook_contracts.filter import FilterContract
from pml_testing.hook_contracts.meta_tool import MetaToolContract

GOOD: Mapping[str, Mapping[str, Any]] = {
    "run_code": {"code": "return 1", "language": "python", "inputs": {"a": [1]}, "intent": "one"},
    "run_code_read": {"code": "return 1"},
    "describe_code_tools": {"query": "read a thing", "tools": ["s00:*"], "language": "python", "limit": 3},
}


def services(**settings: Any) -> Any:
    return FakeServices(catalog=FakeCatalog(some_entries(2, 5)), settings=plugin.Settings(**settings))


@pytest.mark.parametrize("name", GOOD)
class TestToolsKeepTheContract(MetaToolContract):
    @pytest.fixture
    def tool(self, name: str) -> MetaTool:
        made = plugin.pml_meta_tools(services(listed=True))
        return next(tool for tool in made if tool.definition["name"] == name)

    @pytest.fixture
    def good(self, name: str) -> Mapping[str, Any]:
        return GOOD[name]


class TestTheFilterKeepsTheContract(FilterContract):
    @pytest.fixture
    def tool_filter(self) -> ToolFilter:
        (made,) = plugin.pml_filter_tools(services(endpoints=("elsewhere",)))
        return made
