"""What a user decided in a client still holds for what is imported of it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from pml_clients import client_files
from pml_clients.client_configs import ClientConfigError
from pml_core.cli import main
from pml_settings.config import load


@pytest.fixture
def user(place, tmp_path, monkeypatch):
    """The folder of a user with no client."""
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return folder


def write(path: Path, tree: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree))


def claude(place, user, *, mine=(), here=(), brought=(), state=None, **settings) -> None:
    """Claude Code's files: servers of each scope, each called as what it runs, and settings by ``user`` and so on."""
    entry = {"mcpServers": {name: {"command": "here"} for name in here}, **(state or {})}
    servers = {name: {"command": "mine"} for name in mine}
    write(user / ".claude.json", {"mcpServers": servers, "projects": {str(place.project): entry}})
    write(place.project / ".mcp.json", {"mcpServers": {name: {"command": "brought"} for name in brought}})
    places = {"users": user / ".claude/settings.json", "folders": place.project / ".claude/settings.json"}
    places["local"] = place.project / ".claude/settings.local.json"
    for name, tree in settings.items():
        write(places[name], tree)


def imported(place, *words) -> dict:
    assert main(["import", *words]) == 0
    servers = tomllib.loads((place.project / "pml.toml").read_text())["servers"]
    return {name: (table.get("command"), table.get("enabled", True)) for name, table in servers.items()}


TRUSTED = {"hasTrustDialogAccepted": True}
ALL, ONE, NOT = (
    {"enableAllProjectMcpServers": True},
    {"enabledMcpjsonServers": ["x"]},
    {"disabledMcpjsonServers": ["x"]},
)


@pytest.mark.parametrize(
    ("state", "settings", "started"),
    [
        ({}, {}, False),
        ({}, {"users": ALL}, True),
        ({}, {"users": ONE}, True),
        ({}, {"users": {"enabledMcpjsonServers": ["y"]}}, False),
        (ONE, {}, True),
        (NOT, {"users": ALL}, False),
        ({}, {"folders": ALL}, False),
        ({}, {"local": ONE}, False),
        (TRUSTED, {"folders": ALL}, True),
        (TRUSTED, {"local": ONE}, True),
        (TRUSTED, {"local": ONE, "folders": NOT}, False),
        ({}, {"users": ALL, "local": NOT}, False),
        ({"disabledMcpServers": ["x"], **ONE}, {}, False),
        (ONE, {"users": {"permissions": {"deny": ["mcp__x"]}}}, False),
        (ONE, {"folders": {"permissions": {"deny": ["mcp__x__*", "Bash"]}}}, False),
        (ONE, {"users": {"deniedMcpServers": [{"serverName": "x"}]}}, False),
        (ONE, {"users": {"deniedMcpServers": [{"serverCommand": ["brought"]}, "?"]}}, False),
        (ONE, {"users": {"deniedMcpServers": [{"serverUrl": "*"}, {"serverName": "y"}]}}, True),
    ],
)
@pytest.mark.attack
def test_what_a_folder_brings_to_claude_code_starts_when_its_user_approved_it(
    place, user, state, settings, started, capsys
):
    claude(place, user, brought=["x"], state=state, **settings)
    assert imported(place, "--from", "claude-code") == {"x": ("brought", started)}
    assert ("x: is disabled, because" in capsys.readouterr().out) is not started


@pytest.mark.attack
def test_a_cloned_folder_does_not_replace_a_server(place, user, capsys):
    claude(place, user, mine=["a", "b", "c"], here=["b"], brought=["a", "b", "d"])
    assert imported(place, "--from", "claude-code") == {
        "a": ("mine", True),
        "b": ("here", True),
        "c": ("mine", True),
        "d": ("brought", False),
    }
    assert "comes first" in capsys.readouterr().out


def test_what_is_approved_counts_between_what_is_here_and_what_is_everywhere(place, user):
    claude(place, user, mine=["a", "b"], here=["b"], brought=["a", "b"], state={"enabledMcpjsonServers": ["a", "b"]})
    assert imported(place, "--from", "claude-code") == {"a": ("brought", True), "b": ("here", True)}


def test_settings_that_cannot_be_read_approve_nothing(place, user, capsys):
    claude(place, user, mine=["a"], users="{")
    assert main(["import", "--from", "claude-code"]) == 2
    assert "settings.json:1:2: not valid JSON" in capsys.readouterr().err
    write(user / ".claude/settings.json", "")
    assert imported(place, "--from", "claude-code") == {"a": ("mine", True)}


def test_the_users_own_folder_brings_nothing(user, monkeypatch):
    write(user / ".claude.json", {"mcpServers": {"a": {"command": "mine"}}})
    write(user / ".cursor/mcp.json", {"mcpServers": {"b": {"command": "mine"}}})
    for client in ("claude-code", "cursor"):
        (entry,) = client_files.of_client(client, user, user, [])
        assert entry.server.enabled
        assert not entry.is_refused


@pytest.mark.parametrize(
    ("levels", "command", "enabled"),
    [
        ({}, "mine", False),
        ({"": "trusted"}, "brought", True),
        ({"": "untrusted", "..": "trusted"}, "mine", False),
        ({"..": "trusted"}, "brought", True),
    ],
)
@pytest.mark.attack
def test_codex_has_a_folders_servers_when_the_folder_is_trusted(place, user, levels, command, enabled):
    folders = {str((place.project / up).resolve()): level for up, level in levels.items()}
    trust = "".join(f'[projects."{folder}"]\ntrust_level = "{level}"\n' for folder, level in folders.items())
    write(user / ".codex/config.toml", f'[mcp_servers.a]\ncommand = "mine"\n{trust}')
    write(
        place.project / ".codex/config.toml",
        '[mcp_servers.a]\ncommand = "brought"\n[mcp_servers.b]\ncommand = "brought"\n',
    )
    assert imported(place, "--from", "codex") == {"a": (command, True), "b": ("brought", enabled)}


@pytest.mark.parametrize(("url", "started"), [("https://*.evil.example/*", False), ("https://good.example/*", True)])
def test_addresses_that_claude_code_may_not_reach_are_not_reached(place, user, url, started):
    claude(place, user, users={"deniedMcpServers": [{"serverUrl": url}]})
    server = {"type": "http", "url": "https://a.evil.example/mcp"}
    assert configured(place, "claude-code", user / ".claude.json", server).enabled is started


@pytest.mark.attack
def test_a_clients_file_cannot_reach_the_keyring(place, user, capsys):
    servers = {"a": {"command": "x", "env": {"T": "${keyring:github}"}}, "b": {"command": "${env:X}"}}
    write(place.project / ".cursor/mcp.json", {"mcpServers": servers})
    assert imported(place, "--from", "cursor") == {"b": ("${env:X}", True)}
    assert "mcpServers.a.env.T: refers to the keyring" in capsys.readouterr().out


def test_one_malformed_server_is_said_and_the_others_are_imported(place, user, capsys):
    write(user / ".cursor/mcp.json", {"mcpServers": {"a": {"command": 5}, "b": {"command": "x"}, "c": {}, "d": []}})
    assert imported(place, "--from", "cursor") == {"b": ("x", True)}
    said = capsys.readouterr().out
    for path in ("mcpServers.a.command: must be text", "mcpServers.c: has neither", "mcpServers.d: must be an object"):
        assert f"{user}/.cursor/mcp.json: {path}" in said
    assert main(["import", str(user / ".cursor/mcp.json"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [server["name"] for server in document["servers"]] == ["b"]
    assert len(document["skipped"]) == 3


def test_when_no_server_is_sound_nothing_is_imported(place, user):
    write(user / ".cursor/mcp.json", {"mcpServers": {"a": {"command": 5}}})
    with pytest.raises(ClientConfigError, match="1 mistake to correct"):
        client_files.of_client("cursor", user, place.project, [])


def test_all_clients_are_imported_at_once(place, user, capsys):
    claude(place, user, mine=["git", "a"])
    write(user / ".cursor/mcp.json", {"mcpServers": {"git": {"command": "other"}, "a": {"command": "mine"}}})
    write(user / ".codex/config.toml", '[mcp_servers.c]\ncommand = "codex"\n')
    write(user / ".gemini/settings.json", "{")
    assert imported(place, "--all") == {"git": ("mine", True), "a": ("mine", True), "c": ("codex", True)}
    said = capsys.readouterr().out
    assert f"git: a server of this name in {user}/.claude.json comes first" in said
    assert "a: a server of this name" not in said
    assert f"{user}/.gemini/settings.json:1:2: not valid JSON" in said
    assert main(["import"]) == 0
    assert "pml import --all" in capsys.readouterr().out


@pytest.mark.attack
def test_of_all_clients_what_a_folder_brings_replaces_and_starts_nothing(place, user, capsys):
    claude(place, user, brought=["git"])
    for client in (".cursor", ".gemini"):
        name = "mcp.json" if client == ".cursor" else "settings.json"
        write(
            place.project / client / name, {"mcpServers": {"git": {"command": "brought"}, "x": {"command": "brought"}}}
        )
    write(user / ".codex/config.toml", '[mcp_servers.git]\ncommand = "mine"\n')
    assert imported(place, "--all") == {"git": ("mine", True), "x": ("brought", False)}
    assert "x: is disabled, because this folder brings it" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--all", "--from", "cursor"], ["--all", "x.json"]])
def test_all_clients_and_one_exclude_each_other(place, user, words, capsys):
    assert main(["import", *words]) == 2
    assert "exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("client", "path", "server", "protocol"),
    [
        ("claude-code", ".claude.json", {"type": "sse", "url": "https://h"}, "auto"),
        ("claude-code", ".claude.json", {"type": "http", "url": "https://h"}, None),
        ("cursor", ".cursor/mcp.json", {"url": "https://h/sse"}, "auto"),
        ("gemini-cli", ".gemini/settings.json", {"url": "https://h"}, "auto"),
        ("gemini-cli", ".gemini/settings.json", {"httpUrl": "https://h"}, None),
    ],
)
def test_an_address_is_reached_as_its_client_would(place, user, client, path, server, protocol):
    write(user / path, {"mcpServers": {"a": server}})
    assert main(["import", "--from", client]) == 0
    table = tomllib.loads((place.project / "pml.toml").read_text())["servers"]["a"]
    assert table.get("protocol") == protocol


def configured(place, client, path, server, name="a"):
    """A server's settings as they count after it was imported."""
    tables = f"[mcp_servers.{name}]\n{server}" if isinstance(server, str) else {"mcpServers": {name: server}}
    write(path, tables)
    assert main(["import", "--from", client]) == 0
    return load().servers[name]


@pytest.mark.parametrize(
    ("client", "path", "server", "had"),
    [
        ("codex", ".codex/config.toml", 'command = "x"\nenabled_tools = ["get"]\n', {"get"}),
        ("codex", ".codex/config.toml", 'command = "x"\nenabled_tools = []\n', set()),
        ("codex", ".codex/config.toml", 'command = "x"\ndisabled_tools = ["wipe"]\n', {"get", "g*t"}),
        (
            "codex",
            ".codex/config.toml",
            'command = "x"\nenabled_tools = ["get", "wipe"]\ndisabled_tools = ["wipe"]\n',
            {"get"},
        ),
        ("gemini-cli", ".gemini/settings.json", {"command": "x", "includeTools": ["get(a)"]}, {"get"}),
        ("gemini-cli", ".gemini/settings.json", {"command": "x", "includeTools": ["g*t"]}, {"g*t"}),
        ("gemini-cli", ".gemini/settings.json", {"command": "x", "includeTools": []}, set()),
        (
            "gemini-cli",
            ".gemini/settings.json",
            {"command": "x", "includeTools": ["get", "wipe"], "excludeTools": ["wipe"]},
            {"get"},
        ),
        ("windsurf", ".codeium/windsurf/mcp_config.json", {"command": "x", "disabledTools": ["get"]}, {"wipe", "g*t"}),
        ("cursor", ".cursor/mcp.json", {"command": "x", "tools": ["*"]}, {"get", "wipe", "g*t"}),
    ],
)
def test_tools_that_a_client_does_not_have_pml_has_not_either(place, user, client, path, server, had):
    rules = configured(place, client, user / path, server).tools
    assert {tool for tool in ("get", "wipe", "g*t") if rules.allows(tool)} == had


@pytest.mark.attack
def test_tools_that_claude_code_may_not_call_pml_may_not_either(place, user):
    deny = {"permissions": {"deny": ["mcp__my_server__wipe", "mcp__my_server__drop_*", "mcp__other__get"]}}
    claude(place, user, users=deny)
    rules = configured(place, "claude-code", user / ".claude.json", {"command": "x"}, "my.server").tools
    assert [tool for tool in ("get", "wipe", "drop_all") if rules.allows(tool)] == ["get"]


def test_a_rule_about_tools_of_the_wrong_shape_leaves_the_server_out(place, user, capsys):
    write(
        user / ".gemini/settings.json",
        {"mcpServers": {"a": {"command": "x", "excludeTools": "wipe"}, "b": {"command": "y"}}},
    )
    assert imported(place, "--from", "gemini-cli") == {"b": ("y", True)}
    assert "mcpServers.a.excludeTools: must be an array" in capsys.readouterr().out


@pytest.mark.parametrize("written", ["${workspaceFolder}/.env", ".env", "ABSOLUTE"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_file_of_variables_of_a_server_of_vs_code_is_read(place, user, written, elsewhere):
    file = str(place.project / ".env")
    server = {"type": "stdio", "command": "x", "envFile": file if written == "ABSOLUTE" else written}
    write(place.project / ".vscode/mcp.json", {"servers": {"a": server}})
    target = place.home / "config.toml" if elsewhere else place.project / "pml.toml"
    assert main(["import", "--from", "vscode", "--to", str(target)]) == 0
    assert load().servers["a"].env_file == file


@pytest.mark.parametrize("where", ["home", "elsewhere"])
def test_codex_file_is_found_where_its_user_put_it_and_the_gateway_itself_left_out(
    place, user, tmp_path, monkeypatch, capsys, where
):
    folder = user / ".codex" if where == "home" else tmp_path / "codex"
    if where == "elsewhere":
        monkeypatch.setenv("CODEX_HOME", str(folder))
    tables = (
        '[mcp_servers.git]\ncommand = "uvx"\n[mcp_servers.far]\nurl = "https://host/mcp"\n'
        '[mcp_servers.pml]\ncommand = "pml"\nargs = ["serve"]\n'
    )
    write(folder / "config.toml", tables)
    assert main(["import", "--from", "codex"]) == 0
    assert "is PML itself" in capsys.readouterr().out
    assert set(tomllib.loads((place.project / "pml.toml").read_text())["servers"]) == {"git", "far"}
    assert main(["import", str(folder / "config.toml"), "--to", "other.toml"]) == 0
    assert (place.project / "other.toml").read_text() == (place.project / "pml.toml").read_text()
