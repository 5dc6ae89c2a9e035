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

    def run(*options: str, era: str = "auto") -> dict:
        folder = Path(str(FOLDER)).absolute()
        program = [str(folder / "node"), str(folder / "node_modules" / ".bin" / "mcp-inspector")]
        command, *arguments = site.serve()
        entry = {"command": command, "args": arguments, "env": site.environment}
        session = site.folder / "inspector.json"
        session.write_text(json.dumps({"mcpServers": {"pml": entry}}))
        environment = {**os.environ, "MCP_CATALOG_PATH": str(site.folder / "catalog.json")}
        command = [*program, "--cli", "--config", str(session), "--server", "pml", "--protocol-era", era, *options]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, cwd=site.folder, env=environment
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return run


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_the_inspector_lists_the_meta_tools(inspect, era):
    listed = inspect("--method", "tools/list", era=era)
    assert sorted(t["name"] for t in listed["tools"]) == ["call_tool", "execute_workflow", "search_tools"]


def test_the_inspector_calls_a_tool_behind_the_gateway(inspect):
    arguments = ["--tool-name", "plain__echo", "--tool-args-json", '{"text": "hello"}']
    called = inspect("--method", "tools/call", *arguments)
    assert called["content"] == [{"type": "text", "text": "hello"}]


def test_the_inspector_reads_the_status(inspect):
    read = inspect("--method", "resources/read", "--uri", "pml://status")
    status = json.loads(read["contents"][0]["text"])
    assert {s["name"] for s in status["servers"]} == {"plain", "typed"}
