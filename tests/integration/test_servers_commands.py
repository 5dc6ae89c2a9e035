"""What ``pml`` says of servers and their tools, on the command line, with the plugins that people have."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from pml_core.cli import main

FILE = """# mine
[gateway]
tools_exposure = "meta_only"   # for now

[servers.git]
command = "git-mcp"            # from npm
args = ["-x"]

[servers.git.env]
A = "1"

# at the end
"""
SERVER = """
import json, sys
about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
one = {"description": "Does \\u202e it.\\nMore.", "inputSchema": {"type": "object"}}
answers = {"initialize": about, "tools/list": {"tools": [{"name": name, **one} for name in ("read", "drop")]}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answers.get(message["method"], {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
TICKETS = """
import json, sys
about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
answers = {"initialize": about, "tools/list": {"tools": [{"name": "delete_ticket", "inputSchema": {"type": "object"}}]}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answers.get(message["method"], {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


class Place:
    """A user's folder, and a project's; nothing of PML is in the environment."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def users(self, text: str) -> Path:
        path = self.home / "config.toml"
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.upper().startswith("PML_")]:
        monkeypatch.delenv(name)
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "project")
    return Place(tmp_path / "home")


@pytest.fixture
def mine(place):
    return place.users(FILE)


def told(capsys, *words):
    """The JSON that a command prints."""
    assert main(["servers", words[0], "--json", *words[1:]]) == 0
    return json.loads(capsys.readouterr().out)


def test_servers_are_listed_with_their_tools_also_those_that_are_denied(mine, place, capsys):
    script = place.home / "server.py"
    script.write_text(SERVER)
    told(capsys, "add", "crm", "--deny", "drop", "--", sys.executable, str(script), "--token=sk-0123456789abcdef0123")
    told(capsys, "disable", "git")
    rows = {row["name"]: row for row in told(capsys, "list")["servers"]}
    assert (rows["git"]["state"], rows["crm"]["state"]) == ("disabled", "not seen yet")
    assert "sk-0123456789abcdef0123" not in rows["crm"]["at"]
    assert rows["git"]["source"] == str(mine)
    assert told(capsys, "tools", "crm") == {"server": "crm", "tools": []}
    tools = told(capsys, "tools", "crm", "--connect")["tools"]
    assert [(tool["name"], tool["allowed"]) for tool in tools] == [("drop", False), ("read", True)]
    row = next(row for row in told(capsys, "list", "--connect")["servers"] if row["name"] == "crm")
    assert (row["state"], row["tools"], row["allowed"]) == ("up", 2, 1)
    assert main(["servers", "tools", "crm", "--connect"]) == 0
    out = capsys.readouterr().out
    assert "Does  it." in out
    assert "More." not in out
    assert main(["servers", "list"]) == 0


def test_config_check_and_the_doctor_name_them_by_what_was_last_known(place, capsys):
    script = place.home / "server.py"
    script.write_text(TICKETS)
    place.users(
        f"[servers.crm]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(script))}]\n"
        'tools = { deny = ["delete_tickets"] }\n',
    )
    assert main(["config", "check"]) == 0
    assert "delete_tickets" not in capsys.readouterr().out  # nothing is known of the server
    assert main(["servers", "tools", "crm", "--connect"]) == 0
    capsys.readouterr()
    assert main(["config", "check", "--json"]) == 0
    (line,) = [one for one in json.loads(capsys.readouterr().out)["warnings"] if "delete_tickets" in one]
    assert line.startswith(
        "servers.crm.tools.deny: 'crm:delete_tickets' fits no tool; did you mean 'crm:delete_ticket'"
    )
    assert main(["plugins", "doctor", "--json"]) == 1
    lines = {one["subject"]: one for one in json.loads(capsys.readouterr().out)}
    assert "crm:delete_ticket" in lines["names in servers.crm.tools.deny"]["detail"]
