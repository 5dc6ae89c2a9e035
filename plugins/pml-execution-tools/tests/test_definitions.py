from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pml_execution_tools import plugin
from pml_hookspecs import MetaTool, encode
from pml_testing.fakes import FakeServices


def tools(settings: Any = None) -> dict[str, MetaTool]:
    services: Any = FakeServices(settings=settings)
    return {tool.definition["name"]: tool for tool in plugin.pml_meta_tools(services)}


@pytest.mark.seed("QRY-43")
def test_the_tools_can_be_called_and_are_listed_only_when_wanted() -> None:
    assert list(tools()) == ["list_recent_executions", "get_execution_result"]
    assert all(tool.call is not None and tool.task is None for tool in tools().values())
    assert [tool.listed for tool in tools().values()] == [False, False]
    assert [tool.listed for tool in tools(plugin.Settings(listed=True)).values()] == [True, True]


@pytest.mark.seed("QRY-1")
def test_the_list_is_described_as_in_the_seed() -> None:
    definition = tools()["list_recent_executions"].definition
    assert definition["description"] == (
        "List recent task executions across agents. "
        "Use to monitor what happened, check task completion status, or find specific executions."
    )
    properties = definition["inputSchema"]["properties"]
    assert {name: rule["description"] for name, rule in properties.items()} == {
        "agent_name": "Filter by specific agent name. Omit for all accessible agents.",
        "status": "Filter by execution status",
        "triggered_by": "Filter by trigger source",
        "hours": "Look back period in hours (default 24, max 168)",
        "limit": "Maximum results to return (default 20, max 100)",
    }
    assert "required" not in definition["inputSchema"]


@pytest.mark.seed("QRY-11", "QRY-12")
def test_the_result_is_described_as_in_the_seed() -> None:
    definition = tools()["get_execution_result"].definition
    assert definition["description"] == (
        "Get the full result of a specific execution including output, cost, and optionally the execution transcript. "
        "Use after triggering async tasks or to inspect historical execution details."
    )
    schema = definition["inputSchema"]
    assert {name: rule["description"] for name, rule in schema["properties"].items()} == {
        "agent_name": "Name of the agent that ran the execution",
        "execution_id": "Execution ID (returned from async chat_with_agent or list_recent_executions)",
        "include_transcript": "Include full execution transcript (can be large)",
    }
    assert schema["required"] == ["agent_name", "execution_id"]
    assert schema["properties"]["include_transcript"]["default"] is False


def test_definitions_are_the_same_bytes_every_time() -> None:
    first, second = ([encode(tool.definition) for tool in tools().values()] for _ in range(2))
    assert first == second


def test_importing_the_plugin_is_cheap() -> None:
    code = "import pml_execution_tools.plugin, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert not {"pydantic", "mcp", "mcp_types", "rich", "structlog", "difflib"}.intersection(loaded.stdout.split())
