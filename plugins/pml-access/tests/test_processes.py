"""Gateways of their own processes, on standard input and output, and a store that they share."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PATIENCE_S = 120.0
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class Site:
    """A user's folder."""

    def __init__(self, folder):
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        self.environment = {**kept, "PML_HOME": str(folder / "home"), "COLUMNS": "200"}
        self.said = ""

    def pml(self, *words, key=None, given=""):
        environment = self.environment if key is None else {**self.environment, "PML_API_KEY": key}
        done = subprocess.run(
            [sys.executable, "-m", "pml_core", *words],
            input=given,
            capture_output=True,
            check=True,
            cwd=self.folder,
            encoding="utf-8",
            env=environment,
            timeout=PATIENCE_S,
        )
        self.said += done.stderr
        return done.stdout

    def key(self, *words):
        return json.loads(self.pml("keys", "create", *words, "--json"))["key"]

    def ask(self, tool, key=None, **arguments):
        """The answers to a handshake and a call."""
        requests = [
            {"id": 1, "method": "initialize", "params": HELLO},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
        ]
        given = "".join(json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in requests)
        return [json.loads(line) for line in self.pml("serve", key=key, given=given).splitlines()]

    def history(self, key=None):
        """How many executions one sees."""
        return self.ask("list_recent_executions", key)[-1]["result"]["structuredContent"]["total_count"]


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_people_on_stdio_see_their_own_history_and_no_key_is_left_anywhere(site):
    alice, bob = site.key("--user", "alice"), site.key("--user", "bob")
    assert site.history(alice) == 0
    site.ask("search_tools", alice, query="anything")
    assert [site.history(alice), site.history(bob)] == [1, 0]
    assert site.history(site.key("--system")) == 1
    for path in (path for path in site.folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for key in (alice, bob):
            assert key.encode() not in content, path
            assert key.rpartition("_")[2].encode() not in content, path
    for key in (alice, bob):
        assert key.rpartition("_")[2] not in site.said


def test_where_keys_are_required_nothing_is_answered_without_one(site):
    (site.folder / "home").mkdir(exist_ok=True)
    (site.folder / "home" / "config.toml").write_text("[plugins.access]\nrequired = true\n")
    needed = {"code": -32600, "message": "MCP API key authentication required"}
    assert [answer["error"] for answer in site.ask("list_recent_executions")] == [needed, needed]
    assert needed["message"] in site.said
    wrong = site.ask("list_recent_executions", f"pml_{'a' * 16}_{'b' * 52}")
    assert [answer["error"]["message"] for answer in wrong] == ["The API key is not valid"] * 2
    assert "b" * 52 not in site.said
    assert site.history(site.key("--user", "alice")) == 0
