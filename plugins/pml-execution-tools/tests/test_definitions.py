from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pml_execution_tools import plugin, shapes
from pml_hookspecs import Failure, MetaTool, Status, encode
from pml_testing.fakes import FakeServices
from pml_testing.gateway import Client

THREE = ["list_recent_executions", "get_execution_result", "get_agent_activity_summary"]


SPAN = {
    "since": "From when on, in place of hours, as far back as history is kept: a date or time in ISO 8601 "
    "(UTC unless it says its zone), or an age such as 30d",
    "until": "Until when, a date to its end; hours count back from here. Omit for now.",
}


def tools(settings: Any = None) -> dict[str, MetaTool]:
    services: Any = FakeServices(settings=settings)
    return {tool.definition["name"]: tool for tool in plugin.pml_meta_tools(services)}


def described(name: str) -> dict[str, str]:
    properties = tools()[name].definition["inputSchema"]["properties"]
    return {name: rule["description"] for name, rule in properties.items()}


def test_listing_them_adds_exactly_three_tools_to_the_list() -> None:
    assert list(tools()) == [*THREE, "search_executions"]
    assert all(tool.call is not None and tool.task is None for tool in tools().values())
    assert [name for name, tool in tools().items() if tool.listed] == []
    assert [name for name, tool in tools(plugin.Settings(listed=True)).items() if tool.listed] == THREE
    both = plugin.Settings(listed=True, list_search=True)
    assert all(tool.listed for tool in tools(both).values())


def test_the_list_is_described_as_in_the_seed() -> None:
    definition = tools()["list_recent_executions"].definition
    assert definition["description"] == (
        "List recent task executions across agents. "
        "Use to monitor what happened, check task completion status, or find specific executions."
    )
    assert described("list_recent_executions") == {
        "agent_name": "Filter by specific agent name. Omit for all accessible agents.",
        "status": "Filter by execution status",
        "triggered_by": "Filter by trigger source",
        "person": "Filter by whose key asked for it",
        "tool": "Calls of this tool (server:tool, or server:* for any of it), inside others as well",
        "hours": "Look back period in hours (default 24, max 168)",
        **SPAN,
        "limit": "Maximum results to return (default 20, max 100)",
        "cursor": "next_cursor of the page before. Omit for the first page.",
    }
    assert "required" not in definition["inputSchema"]


def test_the_result_is_described_as_in_the_seed() -> None:
    definition = tools()["get_execution_result"].definition
    assert definition["description"] == (
        "Get the full result of a specific execution including output, cost, and optionally the execution transcript. "
        "Use after triggering async tasks or to inspect historical execution details."
    )
    assert described("get_execution_result") == {
        "agent_name": "Name of the agent that ran the execution",
        "execution_id": "Execution ID (returned from async chat_with_agent or list_recent_executions)",
        "include_transcript": "Include full execution transcript (can be large)",
        "select": "JMESPath: what of the response",
    }
    schema = definition["inputSchema"]
    assert schema["required"] == ["agent_name", "execution_id"]
    assert schema["properties"]["include_transcript"]["default"] is False


def test_the_summary_is_described_as_in_the_seed() -> None:
    definition = tools()["get_agent_activity_summary"].definition
    assert definition["description"] == (
        "Get a high-level summary of agent activity and health. "
        "Use for monitoring dashboards, health checks, or understanding agent workload."
    )
    assert described("get_agent_activity_summary") == {
        "agent_name": "Specific agent to summarize. Omit for fleet-wide summary.",
        "hours": "Look back period in hours (default 24)",
        **SPAN,
    }
    assert "required" not in definition["inputSchema"]
    assert definition["inputSchema"]["properties"]["hours"]["default"] == 24


def test_definitions_are_the_same_bytes_every_time() -> None:
    first, second = ([encode(tool.definition) for tool in tools().values()] for _ in range(2))
    assert first == second


def test_the_schemas_are_schemas() -> None:
    for tool in tools().values():
        for name in ("inputSchema", "outputSchema"):
            Draft202012Validator.check_schema(tool.definition[name])
            assert tool.definition[name]["type"] == "object"
    Draft202012Validator.check_schema(shapes.LOG)


def closed(schema: Any) -> Any:
    """The schema without room for members that it does not name, so that none is forgotten in it."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(member) for name, member in schema.items()}
    return {**made, "additionalProperties": False} if isinstance(schema.get("properties"), dict) else made


@pytest.mark.anyio
async def test_what_the_tools_answer_is_what_their_output_schemas_say(history) -> None:
    made = tools()
    failure = Failure("tool.failed", "No.")
    await history.put(
        history.record("whole", cost_usd=0.1, context_used=1, context_max=2, tool_calls=("a",)),
        history.record("running", status="running", duration_ms=None, dry_run=True),
        history.record("failed", status=Status.ERROR, failure=failure, started_at=history.now - timedelta(hours=2)),
    )
    asked: list[tuple[str, dict[str, Any]]] = [
        ("list_recent_executions", {}),
        ("list_recent_executions", {"limit": 1, "status": "success", "triggered_by": "mcp", "agent_name": "a"}),
        ("search_executions", {"query": "invoices", "limit": 1}),
        *(("get_execution_result", {"execution_id": name, "agent_name": "ruby-agent"}) for name in ("whole", "failed")),
        (
            "get_execution_result",
            {"execution_id": "running", "agent_name": "ruby-agent", "include_transcript": True},
        ),
        *(("get_agent_activity_summary", {"agent_name": name}) for name in ("ruby-agent", "nobody", None)),
    ]
    for tool, arguments in asked:
        answer = await history.ask(tool, arguments)
        Draft202012Validator(closed(made[tool].definition["outputSchema"])).validate(answer)


@pytest.mark.anyio
async def test_a_client_gets_json_indented_by_two_spaces_and_structured_content(served) -> None:
    await served.history.put(served.history.record())
    client = Client(served.gateway)
    answer = await client.call("list_recent_executions", {"status": "success"})
    [block] = answer["content"]
    assert block["type"] == "text"
    shown = answer["structuredContent"]
    # As JSON.stringify(result, null, 2) writes it.
    import json

    assert block["text"] == json.dumps(shown, indent=2, ensure_ascii=False)
    assert [execution["id"] for execution in shown["executions"]] == ["abc123"]
    refused = await client.call("list_recent_executions", {"hours": 169})
    assert refused["isError"] is True
    assert "must be from 1 to 168, not 169" in refused["content"][0]["text"]


@pytest.mark.parametrize("module", ["pml_execution_tools.plugin", "pml_execution_tools.command"])
def test_importing_the_plugin_is_cheap(module: str) -> None:
    code = f"import {module}, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    heavy = {"pydantic", "mcp", "mcp_types", "rich", "structlog", "difflib", "starlette", "httpx2"}
    assert not heavy.intersection(loaded.stdout.split())


def test_only_the_client_needs_an_http_client() -> None:
    code = "import pml_execution_tools.api, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert "httpx2" not in loaded.stdout.split()


def test_without_starlette_there_are_no_routes_and_everything_else_works() -> None:
    code = (
        "import sys; sys.modules['starlette'] = None; sys.modules['starlette.responses'] = None\n"
        "from pml_execution_tools import plugin\n"
        "print(list(plugin.pml_routes(None)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert ran.stdout.strip() == "[]"
