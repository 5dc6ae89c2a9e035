"""The tools keep the contract of meta-tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pml_hookspecs import MetaTool
from pml_search_tools import plugin
from pml_testing.fakes import FakeCatalog, FakeServices, some_entries
from pml_testing.hook_contracts.meta_tool import MetaToolContract


def tool_of(name: str) -> MetaTool:
    services: Any = FakeServices(catalog=FakeCatalog(some_entries(2, 5)))
    return next(tool for tool in plugin.pml_meta_tools(services) if tool.definition["name"] == name)


class TestSearchToolsKeepsTheContract(MetaToolContract):
    @pytest.fixture
    def tool(self) -> MetaTool:
        return tool_of("search_tools")

    @pytest.fixture
    def good(self) -> Mapping[str, Any]:
        return {"query": "read a thing", "limit": 3, "detail": "full", "server": "s00"}


@pytest.mark.parametrize("name", ["call_tool", "call_tool_read", "call_tool_write", "call_tool_destroy"])
class TestCallToolKeepsTheContract(MetaToolContract):
    @pytest.fixture
    def tool(self, name: str) -> MetaTool:
        return tool_of(name)

    @pytest.fixture
    def good(self) -> Mapping[str, Any]:
        return {"name": "s00:read_thing_000", "arguments": {"path": ["a"]}, "select": "a", "dry_run": True}
