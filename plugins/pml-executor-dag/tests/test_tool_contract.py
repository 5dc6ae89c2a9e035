"""The tools of workflows keep the contract of meta-tools."""

from __future__ import annotations

from typing import Any

import pytest

from pml_executor_dag import tool as plugin
from pml_testing.fakes import FakeServices
from pml_testing.hook_contracts.meta_tool import MetaToolContract

PLAN = {"tasks": [{"id": "a", "tool": "s:t", "arguments": {"x": [1]}}, {"id": "b", "tool": "s:u", "depends_on": ["a"]}]}


@pytest.mark.parametrize("name", ["execute_workflow", "execute_workflow_read"])
class TestToolsKeepTheContract(MetaToolContract):
    @pytest.fixture
    def tool(self, name: str) -> Any:
        return next(one for one in plugin.pml_meta_tools(FakeServices()) if one.definition["name"] == name)

    @pytest.fixture
    def good(self) -> Any:
        return {"workflow": PLAN, "intent": "try it", "dry_run": True}
