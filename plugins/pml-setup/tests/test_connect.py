from __future__ import annotations

import json
import tomllib

import pytest

from pml_clients import edited_file, jsonc
from pml_core.cli import main
from pml_setup.clients.connect_places import CLIENTS

TOKEN = "ghp_" + "a1B2" * 9
KEYS = {"vscode": "servers"}
FILES = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "gemini": ".gemini/settings.json",
    "codex": ".codex/config.toml",
}
PROJECT_FILES = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "gemini": ".gemini/settings.json",
    "codex": ".codex/config.toml",
}


@pytest.fixture
def home(place, tmp_path, monkeypatch):
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    return folder


def written(client, path):
    tree = tomllib.loads(path.read_text()) if client == "codex" else jsonc.loads(path.read_text())
    return tree["mcp_servers" if client == "codex" else KEYS.get(client, "mcpServers")]


def before(client, home):
    """The client's file with something of the user's in it."""
    path = home / FILES[client]
    path.parent.mkdir(parents=True, exist_ok=True)
    if client == "codex":
        text = f'model = "x" # best\n\n[mcp_servers.gh]\ncommand = "npx"\nenv = {{ GITHUB_TOKEN = "{TOKEN}" }}\n'
    else:
        key = KEYS.get(client, "mcpServers")
        text = f'{{\n  // mine\n  "{key}": {{"gh": {{"command": "npx", "env": {{"GITHUB_TOKEN": "{TOKEN}"}}}}}},\n}}\n'
    path.write_text(text)
    return path


def document(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_is_connected_once_and_disconnected_without_a_trace(home, client, capsys):
    path = before(client, home)
    original = path.read_bytes()
    done = document(capsys, "connect", client)
    assert (done["action"], done["written"], done["file"]) == ("added", True, str(path))
    servers = written(client, path)
    assert servers["gh"]["command"] == "npx"
    assert servers["pml"]["args"][-1] == "serve"
    assert TOKEN not in json.dumps(done)
    connected = path.read_bytes()
    again = document(capsys, "connect", client)
    assert (again["action"], again["written"], path.read_bytes()) == ("unchanged", False, connected)
    assert "gh" in again["notes"][0]
    gone = document(capsys, "disconnect", client)
    assert (gone["action"], path.read_bytes()) == ("restored", original)
    assert TOKEN not in json.dumps(gone)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_connecting_made_is_gone_after_disconnecting(home, client, capsys):
    path = home / FILES[client]
    done = document(capsys, "connect", client)
    assert (done["action"], done["backup"]) == ("added", None)
    assert document(capsys, "disconnect", client)["action"] == "restored"
    assert not path.exists()
    assert document(capsys, "disconnect", client)["action"] == "unchanged"


@pytest.mark.parametrize("client", CLIENTS)
def test_what_changed_since_stays_when_the_client_is_disconnected(home, client, capsys):
    path = before(client, home)
    original = path.read_text()
    document(capsys, "connect", client)
    path.write_text(path.read_text().replace("npx", "bunx"))
    assert document(capsys, "disconnect", client)["action"] == "merged"
    assert path.read_text() == original.replace("npx", "bunx")


@pytest.mark.parametrize("client", PROJECT_FILES)
def test_the_projects_file_names_pml_as_everybody_has_it(home, place, client, capsys):
    place.write("pml.toml", "")
    done = document(capsys, "connect", client, "--project")
    path = place.project / PROJECT_FILES[client]
    assert done["file"] == str(path)
    entry = written(client, path)["pml"]
    assert (entry["command"], entry["args"]) == ("pml", ["serve"])


@pytest.mark.parametrize("client", ["claude-desktop", "windsurf"])
def test_a_client_without_files_of_projects_says_so(home, client, capsys):
    assert main(["connect", client, "--project"]) == 2
    assert "one file for all projects" in capsys.readouterr().err


def test_the_configuration_of_this_folder_and_the_mode_are_given_along(home, place, capsys):
    path = place.write("pml.toml", "")
    document(capsys, "connect", "cursor", "--mode", "hybrid")
    args = written("cursor", home / FILES["cursor"])["pml"]["args"]
    assert args[-5:] == ["serve", "--config", str(path), "--mode", "hybrid"]


def test_connecting_anew_changes_only_what_pml_wrote(home, capsys):
    path = home / ".cursor" / "mcp.json"
    document(capsys, "connect", "cursor")
    tree = json.loads(path.read_text())
    tree["mcpServers"]["pml"]["env"] = {"A": "1"}
    path.write_text(json.dumps(tree))
    assert document(capsys, "connect", "cursor", "--url", "http://127.0.0.1:8808/mcp")["action"] == "replaced"
    assert written("cursor", path)["pml"] == {"env": {"A": "1"}, "url": "http://127.0.0.1:8808/mcp"}


@pytest.mark.parametrize(
    ("client", "entry"),
    [
        ("claude-code", {"type": "http", "url": "http://h/mcp"}),
        ("vscode", {"type": "http", "url": "http://h/mcp"}),
        ("cursor", {"url": "http://h/mcp"}),
        ("windsurf", {"serverUrl": "http://h/mcp"}),
        ("gemini", {"httpUrl": "http://h/mcp"}),
        ("gemini-cli", {"httpUrl": "http://h/mcp"}),
        ("codex", {"url": "http://h/mcp"}),
    ],
)
def test_a_gateway_that_runs_already_is_written_as_the_client_wants_it(home, client, entry, capsys):
    path = document(capsys, "connect", client, "--url", "http://h/mcp")["file"]
    assert written("gemini" if client == "gemini-cli" else client, home / path)["pml"] == entry


def test_a_dry_run_writes_nothing_and_shows_no_secret(home, capsys):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(f'{{"mcpServers": {{"gh": {{"command": "x", "env": {{"GITHUB_TOKEN": "{TOKEN}"}}}}}}}}')
    original = path.read_bytes()
    assert main(["connect", "cursor", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert '+{"mcpServers": {"pml": ' in out
    assert TOKEN not in out
    assert path.read_bytes() == original
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not valid JSON"),
        ("[]", "belongs"),
        ('{"mcpServers": []}', "mcpServers is not an object"),
        ('{"mcpServers": {"pml": {"command": "mine"}}}', "a server 'pml' that is not PML"),
        ("\ufeff{", "not valid JSON"),
    ],
)
def test_a_file_that_cannot_be_changed_is_left_alone(home, text, said, capsys):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(text)
    for command in ("connect", "disconnect"):
        status = main([command, "cursor"])
        captured = capsys.readouterr()
        if command == "connect":
            assert status == 2
            assert said in captured.err
        assert "Traceback" not in captured.err
        assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


def test_what_looks_like_a_table_within_a_text_is_no_obstacle(home, capsys):
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    text = 'notes = """\n[mcp_servers.pml]\ncommand = 1\n"""\n\n[mcp_servers.git]\ncommand = "x"\n'
    path.write_text(text)
    assert main(["connect", "codex"]) == 0
    changed = tomllib.loads(path.read_text())
    assert (changed["notes"], set(changed["mcp_servers"])) == (tomllib.loads(text)["notes"], {"git", "pml"})
    assert main(["disconnect", "codex"]) == 0
    assert path.read_text() == text


def test_toml_that_cannot_be_changed_is_refused_with_what_to_add_by_hand(home, capsys):
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text('[mcp_servers.pml]\nurl = "x"\n[[mcp_servers.pml.command]]\n')
    assert main(["connect", "codex"]) == 2
    err = capsys.readouterr().err
    assert "Add this there by hand:\n[mcp_servers.pml]\ncommand = " in err
    assert len(list(path.parent.iterdir())) == 1


def test_a_failure_while_writing_leaves_the_clients_file_as_it_was(home, monkeypatch, capsys):
    path = before("cursor", home)
    original, upright = path.read_bytes(), type(path).replace

    def fail(temporary, target):
        if target.name == path.name:
            raise OSError(28, "No space left on device")
        return upright(temporary, target)

    monkeypatch.setattr(type(path), "replace", fail)
    assert main(["connect", "cursor"]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert path.read_bytes() == original
    [backup] = edited_file.backups(path)
    assert backup.read_bytes() == original


def test_another_name_and_another_file_are_taken_and_told_in_the_way_back(home, place, capsys):
    assert main(["connect", "cursor", "--name", "gate", "--file", "x.json"]) == 0
    assert "pml disconnect cursor --file x.json --name gate takes it back" in capsys.readouterr().out
    assert list(written("cursor", place.project / "x.json")) == ["gate"]
    assert main(["disconnect", "cursor", "--file", "x.json", "--name", "gate"]) == 0
    assert "is gone again" in capsys.readouterr().out


def test_a_configuration_that_is_not_there_is_said(home, capsys):
    assert main(["connect", "cursor", "--config", "none.toml"]) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert main(["connect", "cursor", "--url", "http://h", "--mode", "hybrid"]) == 2
    assert "Leave them out" in capsys.readouterr().err
