"""The lines that connect clients."""

from __future__ import annotations

import json
import shlex
import sys

from pml_demo.connect import connections, pml_command


def test_every_client_is_told_the_full_command():
    claude, cursor, code = connections(["/home/me/bin/pml"])
    assert claude.text == "claude mcp add pml -- /home/me/bin/pml serve"
    entry = {"command": "/home/me/bin/pml", "args": ["serve"]}
    assert json.loads(cursor.text) == {"mcpServers": {"pml": entry}}
    assert json.loads(code.text) == {"servers": {"pml": {"type": "stdio", **entry}}}
    assert (cursor.where, code.where) == (".cursor/mcp.json", ".vscode/mcp.json")


def test_a_path_with_spaces_survives_the_shell_and_json():
    claude, cursor, _ = connections(["/my tools/pml"])
    assert shlex.split(claude.text)[-2:] == ["/my tools/pml", "serve"]
    assert json.loads(cursor.text)["mcpServers"]["pml"]["command"] == "/my tools/pml"


def test_the_command_is_the_one_that_was_run(tmp_path, monkeypatch):
    mine = tmp_path / "pml"
    mine.touch()
    monkeypatch.setattr(sys, "argv", [str(mine), "demo"])
    assert pml_command() == [str(mine)]


def test_the_command_is_the_one_beside_python_when_another_program_was_run(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "pml").touch()
    assert pml_command() == [str(tmp_path / "pml")]


def test_without_a_command_the_module_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert pml_command() == [str(tmp_path / "python"), "-m", "pml_core"]
