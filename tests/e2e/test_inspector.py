"""MCP Inspector, as people run it by hand and in CI, against ``pml serve``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

FOLDER = os.environ.get("PML_E2E_NODE_DIR")
pytestmark = pytest.mark.skipif(
    FOLDER is None, reason="needs MCP Inspector: run tests/e2e/install_node_tools.sh DIR and set PML_E2E_NODE_DIR=DIR"
)


@pytest.fixture
def inspect(site):
    """Runs the Inspector with options and gives what it prints, decoded."""

    def run(*options: str, era: str = "auto", mode: str = "meta_only") -> dict:
        folder = Path(str(FOLDER)).absolute()
        program = [str(folder / "node"), str(folder / "node_modules" / ".bin" / "mcp-inspector")]
        command, *arguments = site.serve("--mode", mode)
        entry = {"command": command, "args": arguments, "env": site.environment}
        session = site.folder / "inspector.json"
        session.write_text(json.dumps({"mcpServers": {"pml": entry}}))
        environment = {**os.environ, "HOME": str(site.folder), "MCP_INSPECTOR_SECRET_STORE": "memory"}
        command = [*program, "--cli", "--config", str(session), "--server", "pml", "--protocol-era", era, *options]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, cwd=site.folder, env=environment
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return run


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_the_inspector_lists_the_meta_tools(inspect, era):
    listed = inspect("--method", "tools/list", era=era)
    assert sorted(t["name"] for t in listed["tools"]) == ["call_tool", "execute_workflow", "search_tools"]


def test_the_inspector_calls_a_tool_that_is_not_listed(inspect):
    arguments = json.dumps({"name": "plain__echo", "arguments": {"text": "hello"}})
    called = inspect("--method", "tools/call", "--tool-name", "call_tool", "--tool-args-json", arguments)
    assert called["content"] == [{"type": "text", "text": "hello"}]


def test_the_inspector_calls_a_tool_as_if_there_were_no_gateway(inspect):
    arguments = ["--tool-name", "typed__add", "--tool-args-json", '{"a": 1, "b": 2}']
    called = inspect("--method", "tools/call", *arguments, mode="full_proxy")
    assert called["structuredContent"] == {"total": 3, "parts": [1, 2]}


def test_the_inspector_reads_the_status(inspect):
    read = inspect("--method", "resources/read", "--uri", "pml://status")
    status = json.loads(read["contents"][0]["text"])
    assert {s["name"] for s in status["servers"]} == {"plain", "typed"}
