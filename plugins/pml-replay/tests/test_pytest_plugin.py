"""The fixture, in tests of its users."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pml_replay.pytest_plugin import ReplaySession
from pml_replay.session import load

TESTS = """
import pytest
from pml_hookspecs import RpcError

def test_an_agent(pml_replay):
    session = pml_replay("session.jsonl")
    assert session.call("files:read", {"path": "a"})["content"][0]["text"] == "first"
    assert session.call("files:read", {"path": "gone"})["isError"] is True
    assert [tool["name"] for tool in session.tools()] == ["read", "list"]
    with pytest.raises(RpcError, match="no"):
        session.call("files:read", {"path": "x"})

def test_an_agent_that_swallows_errors(pml_replay):
    try:
        pml_replay("session.jsonl").call("files:read", {"path": "c"})
    except Exception:
        pass
"""


def test_the_fixture_replays_and_fails_the_test_that_asks_for_more(written):
    folder = written().parent
    (folder / "test_agent.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder), "-p", "no:cacheprovider", str(folder)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1, ended.stdout
    assert "2 passed, 1 error" in ended.stdout
    assert "nothing is recorded for files:read with" in ended.stdout
    assert "The nearest recording has" in ended.stdout


def test_agents_in_processes_of_their_own_get_a_command(written):
    path = written()
    replayed = ReplaySession(path, load(path))
    command, args = (replayed.config["mcpServers"]["replay"][key] for key in ("command", "args"))
    ended = subprocess.run([command, *args, "--check"], capture_output=True, text=True, timeout=60, check=True)
    assert "files: read" in ended.stdout


def test_a_file_is_looked_for_beside_the_test(pml_replay):
    with pytest.raises(Exception, match="cannot be read"):
        pml_replay("none.jsonl")
