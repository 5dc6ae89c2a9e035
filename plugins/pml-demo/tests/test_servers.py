"""The configuration that the demo writes."""

from __future__ import annotations

from pathlib import Path

from pml_demo import servers
from pml_demo.materials import Materials
from pml_demo.plan import workflow

MATERIALS = Materials(Path("/tmp/demo folder"))
FOLDERS = {servers.PYTHON: Path("/e/one"), servers.PYTHON_MCP_1: Path("/e/two"), servers.NODE: Path("/e/three")}


def test_the_configuration_is_an_mcp_clients_with_paths_that_are_full():
    everything = [servers.TIME, servers.GIT, servers.SQLITE, *servers.NODE_SERVERS]
    written = servers.configuration(everything, FOLDERS, MATERIALS)["mcpServers"]
    assert list(written) == ["time", "git", "sqlite", "filesystem", "memory", "everything"]
    assert written["git"] == {
        "command": "/e/one/bin/python",
        "args": ["-m", "mcp_server_git", "--repository", "/tmp/demo folder/repository"],
    }
    assert written["sqlite"]["command"] == "/e/two/bin/python"
    assert written["sqlite"]["args"][-1] == "/tmp/demo folder/station.db"
    assert written["filesystem"]["args"] == [
        "/e/three/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
        "/tmp/demo folder/files",
    ]
    assert written["memory"]["env"] == {"MEMORY_FILE_PATH": "/tmp/demo folder/memory.jsonl"}


def test_only_the_servers_that_are_there_are_configured():
    assert list(servers.configuration([servers.TIME], FOLDERS, MATERIALS)["mcpServers"]) == ["time"]


def test_servers_that_need_different_sdks_are_installed_apart():
    assert servers.PYTHON.folder != servers.PYTHON_MCP_1.folder
    assert "mcp<2" in servers.PYTHON_MCP_1.requirements


def test_other_requirements_are_another_folder():
    more = servers.Environment(runtime="python", requirements=("mcp-server-time==1",), servers=("time",))
    assert more.folder != servers.PYTHON.folder
    same = servers.Environment(runtime="python", requirements=servers.PYTHON.requirements, servers=())
    assert same.folder == servers.PYTHON.folder


def test_the_plan_refers_to_results_of_other_servers():
    tasks = {task["id"]: task for task in workflow(MATERIALS, with_git=True)["workflow"]["tasks"]}
    query = tasks["save"]["arguments"]["query"]
    assert all(reference in query for reference in ("{{now.datetime}}", "{{now.day_of_week}}", "{{log}}"))
    assert tasks["read"]["depends_on"] == ["save"]


def test_without_git_the_plan_does_without_its_task():
    tasks = {task["id"]: task for task in workflow(MATERIALS, with_git=False)["workflow"]["tasks"]}
    assert "log" not in tasks
    assert "{{log}}" not in tasks["save"]["arguments"]["query"]
