"""What PML has taken over moves out of the client's files, and back."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_clients import edited_file, jsonc, text_merge, toml_edit
from pml_core.cli import main
from pml_setup.clients.connect_places import CLIENTS, IMPORTED_AS

TOKEN = "ghp_" + "a1B2" * 9
FILES = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "gemini": ".gemini/settings.json",
    "codex": ".codex/config.toml",
}
TOML = f"""\
model = "x" # best

[mcp_servers.git]   # mine
command = "uvx"
args = [
  "mcp-server-git",
]

# the other one
[mcp_servers.gh]
command = "npx"
[mcp_servers.gh.env]
GITHUB_TOKEN = "{TOKEN}"

[tui]
theme = "dark"
"""
JSON = """\
{{
  // mine
  "theme": "dark",
  "{key}": {{
    "git": {{"command": "uvx",
            "args": ["mcp-server-git"]}},
    /* the other one */
    "gh": {{"command": "npx", "env": {{"GITHUB_TOKEN": "{token}"}}}},
  }},
  "more": [1, 2]
}}
"""


@pytest.fixture
def user(place, tmp_path, monkeypatch):
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    return folder


def write(path, tree):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree))
    return path


def before(client, user):
    text = JSON.format(key="servers" if client == "vscode" else "mcpServers", token=TOKEN)
    return write(user / FILES[client], TOML if client == "codex" else text)


def servers(client, path):
    tree = tomllib.loads(path.read_text()) if client == "codex" else jsonc.loads(path.read_text())
    return list(tree["mcp_servers" if client == "codex" else "servers" if client == "vscode" else "mcpServers"])


def document(capsys, *words):
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    text = capsys.readouterr().out
    assert TOKEN not in text
    return json.loads(text)


def connected(client, capsys, *words, imported=()):
    document(capsys, "import", "--from", IMPORTED_AS.get(client, client), *imported)
    return document(capsys, "connect", client, *words)


@pytest.mark.parametrize("secrets", ["keep", "references"])
@pytest.mark.parametrize("client", CLIENTS)
def test_what_was_imported_moves_and_comes_back_byte_by_byte(user, place, client, secrets, capsys):
    path = before(client, user)
    original = path.read_bytes()
    done = connected(client, capsys, imported=["--secrets", secrets])
    assert (done["action"], done["moved"], done["others"], done["notes"]) == ("added", ["git", "gh"], [], [])
    assert '-    "git"' in done["diff"] or "-[mcp_servers.git]   # mine" in done["diff"]
    assert servers(client, path) == ["pml"]
    assert document(capsys, "connect", client)["action"] == "unchanged"
    gone = document(capsys, "disconnect", client)
    assert (gone["action"], path.read_bytes()) == ("restored", original)
    assert list(path.parent.iterdir()) == [path]
    assert not list((place.home / "connected").iterdir())


@pytest.mark.parametrize("client", CLIENTS)
def test_what_was_changed_elsewhere_since_stays_and_the_rest_comes_back_byte_by_byte(user, client, capsys):
    path = before(client, user)
    original = path.read_text()
    connected(client, capsys)
    path.write_text(path.read_text().replace('"dark"', '"light"'))
    assert document(capsys, "disconnect", client)["action"] == "merged"
    assert path.read_text() == original.replace('"dark"', '"light"')


def test_it_is_so_for_a_file_on_one_line_and_for_one_that_its_client_writes_anew(user, capsys):
    tree = {"theme": "dark", "mcpServers": {"a": {"command": "x"}, "b": {"url": "https://h"}}, "z": {}}
    for indent in (None, 2):
        text = json.dumps(tree, indent=indent)
        path = write(user / ".cursor/mcp.json", text)
        connected("cursor", capsys)
        now = json.loads(path.read_text())
        path.write_text(json.dumps({"first": 1, **now, "theme": "light"}, indent=indent))
        assert document(capsys, "disconnect", "cursor")["action"] == "merged"
        assert path.read_text() == json.dumps({"first": 1, **tree, "theme": "light"}, indent=indent)


def test_a_byte_order_mark_and_line_ends_come_back(user, capsys):
    text = JSON.format(key="mcpServers", token=TOKEN).replace("\n", "\r\n")
    path = write(user / ".cursor/mcp.json", "{}")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    original = path.read_bytes()
    connected("cursor", capsys)
    path.write_bytes(path.read_bytes().replace(b'"dark"', b'"light"'))
    assert document(capsys, "disconnect", "cursor")["action"] == "merged"
    assert path.read_bytes() == original.replace(b'"dark"', b'"light"')


def test_a_server_that_cannot_be_taken_out_stays_and_is_said(user, capsys, monkeypatch):
    def refuse(text, path):
        raise toml_edit.TomlEditError(f"{path[-1]} is written in a way that cannot be changed safely")

    monkeypatch.setattr(toml_edit, "without_table", refuse)
    text = '[mcp_servers]\ngit = { command = "x" }\n'
    path = write(user / ".codex/config.toml", text)
    done = connected("codex", capsys)
    assert (done["moved"], servers("codex", path)) == ([], ["git", "pml"])
    assert "git stays" in done["notes"][0]
    document(capsys, "disconnect", "codex")
    assert path.read_text() == text


@pytest.mark.parametrize("client", CLIENTS)
def test_what_was_changed_among_the_servers_stays_and_the_others_are_put_back(user, client, capsys):
    path = before(client, user)
    connected(client, capsys)
    pml = path.read_text()
    if client == "codex":
        path.write_text(
            pml.replace("[mcp_servers.pml]", '[mcp_servers.new]\ncommand = "n"\n[mcp_servers.pml]\nenv = {}')
        )
    else:
        path.write_text(pml.replace('"pml": {', '"new": {"command": "n"},\n    "pml": {"env": {},'))
    assert document(capsys, "disconnect", client)["action"] in ("merged", "removed")
    assert set(servers(client, path)) == {"git", "gh", "new"}
    assert "dark" in path.read_text()


def test_how_a_file_was_put_back_that_was_changed_in_the_same_place_is_said(user, capsys):
    path = before("cursor", user)
    connected("cursor", capsys)
    path.write_text(json.dumps({"mcpServers": {"git": {"command": "new"}}}))
    done = document(capsys, "disconnect", "cursor")
    assert done["action"] == "removed"
    assert any("gh is put back as it read" in note for note in done["notes"])
    assert any("git stays as it is" in note for note in done["notes"])
    assert jsonc.loads(path.read_text())["mcpServers"]["git"] == {"command": "new"}
    assert done["backup"]


def test_a_file_that_is_gone_since_stays_gone_and_that_is_said(user, capsys):
    path = before("cursor", user)
    connected("cursor", capsys)
    path.unlink()
    assert any("it had git, gh" in note for note in document(capsys, "disconnect", "cursor")["notes"])
    assert not path.exists()


def test_what_is_to_be_kept_is_kept(user, capsys):
    path = before("cursor", user)
    done = connected("cursor", capsys, "--keep")
    assert (done["moved"], servers("cursor", path)) == ([], ["pml", "git", "gh"])
    assert "still starts gh, git itself, and PML does, too" in done["notes"][0]
    assert document(capsys, "connect", "cursor")["moved"] == ["git", "gh"]
    assert document(capsys, "connect", "cursor", "--keep")["moved"] == []
    assert set(servers("cursor", path)) == {"pml", "git", "gh"}


def test_what_pml_does_not_have_stays_and_is_said(user, place, capsys):
    path = write(
        user / ".cursor/mcp.json",
        {"mcpServers": {"a": {"command": "x"}, "b": {"command": "y", "env": {"A": "1"}}, "c": {"command": 5}}},
    )
    place.write("pml.toml", '[servers.b]\ncommand = "y"\nenv = { A = "2" }\n')
    done = document(capsys, "connect", "cursor")
    assert (done["moved"], servers("cursor", path)) == ([], ["pml", "a", "b", "c"])
    told = "\n".join(done["notes"])
    assert "b itself: PML has another server of this name" in told
    assert "a itself; pml import --from cursor takes them over" in told
    assert "mcpServers.c.command" in told


def test_what_pml_would_not_start_stays_with_the_client_that_does(user, place, capsys):
    path = write(
        user / ".cursor/mcp.json", {"mcpServers": {"a": {"command": "x"}, "b": {"command": "x", "disabled": True}}}
    )
    off = "".join(f'[servers.{name}]\ncommand = "x"\nenabled = false\n' for name in "ab")
    place.write("pml.toml", off)
    done = document(capsys, "connect", "cursor")
    assert (done["moved"], servers("cursor", path)) == (["b"], ["pml", "a"])
    assert "a itself: PML has it with enabled = false" in done["notes"][0]


def test_a_reference_stands_for_no_text_but_the_secret(user, place, capsys):
    write(user / ".cursor/mcp.json", {"mcpServers": {"a": {"command": "x", "env": {"API_TOKEN": TOKEN, "MODE": "m"}}}})
    place.write("pml.toml", '[servers.a]\ncommand = "x"\nenv = { API_TOKEN = "${T}", MODE = "${MODE}" }\n')
    assert document(capsys, "connect", "cursor")["moved"] == []
    place.write("pml.toml", '[servers.a]\ncommand = "x"\nenv = { API_TOKEN = "${T}", MODE = "m" }\ntimeout_s = 5\n')
    assert document(capsys, "connect", "cursor")["moved"] == ["a"]


@pytest.mark.parametrize("ignored", [True, False])
def test_an_untrusted_folders_configuration_has_taken_nothing_over(user, place, ignored, capsys):
    path = write(user / ".cursor/mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    if ignored:
        (place.project / "pml.toml").write_text('[servers.a]\ncommand = "x"\n')
    else:
        place.write("pml.toml", '[servers.a]\ncommand = "x"\n')
    assert document(capsys, "connect", "cursor")["moved"] == ([] if ignored else ["a"])
    assert ("a" in servers("cursor", path)) is ignored


def test_the_file_that_pml_reads_keeps_its_servers(user, capsys):
    path = write(user / ".cursor/mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    done = document(capsys, "connect", "cursor", "--config", str(path))
    assert (done["moved"], servers("cursor", path)) == ([], ["pml", "a"])
    assert "PML reads that file" in done["notes"][0]


def test_servers_of_every_scope_of_claude_code_move_and_those_of_other_folders_stay(user, place, capsys):
    other = {"mcpServers": {"a": {"command": "theirs"}}}
    state = {
        "mcpServers": {"a": {"command": "mine"}, "b": {"command": "mine"}},
        "projects": {
            str(place.project): {"mcpServers": {"a": {"command": "here"}}, "enabledMcpjsonServers": ["c"]},
            "/other": other,
        },
    }
    path = write(user / ".claude.json", json.dumps(state, indent=2))
    brought = write(place.project / ".mcp.json", {"mcpServers": {"c": {"command": "x"}, "d": {"command": "x"}}})
    originals = path.read_bytes(), brought.read_bytes()
    done = connected("claude-code", capsys)
    tree = json.loads(path.read_text())
    assert (list(tree["mcpServers"]), tree["projects"]["/other"]) == (["pml"], other)
    assert tree["projects"][str(place.project)]["mcpServers"] == {}
    assert list(json.loads(brought.read_text())["mcpServers"]) == ["d"]
    assert [(one["file"], one["moved"]) for one in done["others"]] == [(str(brought), ["c"])]
    assert "comes with this folder" in done["notes"][0]
    path.write_text(path.read_text().replace('"enabledMcp', '"numStartups": 4,\n      "enabledMcp'))
    place_elsewhere = place.home
    place_elsewhere.joinpath("x").mkdir()
    gone = document(capsys, "disconnect", "claude-code")
    assert [gone["action"], gone["others"][0]["action"]] == ["merged", "restored"]
    assert brought.read_bytes() == originals[1]
    grown = originals[0].decode().replace('"enabledMcp', '"numStartups": 4,\n      "enabledMcp')
    assert path.read_text() == grown


def test_for_a_folder_only_the_folders_servers_move(user, place, capsys):
    path = write(user / ".cursor/mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    brought = write(place.project / ".cursor/mcp.json", {"mcpServers": {"b": {"command": "y"}}})
    done = connected("cursor", capsys, "--project")
    assert (servers("cursor", path), servers("cursor", brought)) == (["a"], ["pml"])
    assert "a itself, in every folder" in done["notes"][0]
    document(capsys, "disconnect", "cursor", "--project")
    assert servers("cursor", brought) == ["b"]


def test_what_is_imported_later_moves_with_the_next_connection_and_all_of_it_comes_back(user, capsys):
    path = before("cursor", user)
    original = path.read_bytes()
    connected("cursor", capsys, imported=["--only", "git"])
    assert servers("cursor", path) == ["pml", "gh"]
    assert connected("cursor", capsys)["moved"] == ["git", "gh"]
    assert servers("cursor", path) == ["pml"]
    document(capsys, "disconnect", "cursor")
    assert path.read_bytes() == original


@pytest.mark.parametrize(("url", "moves"), [("http://127.0.0.1:8808/mcp", True), ("https://gate.example/mcp", False)])
def test_of_a_gateway_elsewhere_nobody_knows_what_it_has(user, url, moves, capsys):
    path = before("cursor", user)
    connected("cursor", capsys, "--url", url)
    assert (servers("cursor", path) == ["pml"]) is moves


def test_a_dry_run_shows_what_would_move_and_writes_nothing(user, place, capsys):
    path = before("cursor", user)
    original = path.read_bytes()
    document(capsys, "import", "--from", "cursor")
    assert main(["connect", "cursor", "--dry-run"]) == 0
    assert '-    "git": {' in capsys.readouterr().out
    assert path.read_bytes() == original
    assert not (place.home / "connected").exists()
    assert main(["connect", "cursor"]) == 0
    assert "PML runs git, gh now, and Cursor no longer does" in capsys.readouterr().out


def test_what_is_kept_of_it_is_readable_by_nobody_else(user, place, capsys):
    before("cursor", user)
    connected("cursor", capsys)
    (kept,) = (place.home / "connected").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_text("{")
    assert main(["disconnect", "cursor"]) == 2
    assert "Mend or remove it" in capsys.readouterr().err


def test_a_connection_that_nothing_is_known_of_is_taken_out_and_said(user, place, capsys):
    path = before("cursor", user)
    connected("cursor", capsys)
    (kept,) = (place.home / "connected").iterdir()
    kept.unlink()
    done = document(capsys, "disconnect", "cursor")
    assert (done["action"], servers("cursor", path)) == ("removed", [])
    assert str(edited_file.backups(path)[-1]) in done["notes"][1]


@given(st.lists(st.sampled_from(["a", "b", "{", "}", ",", "\n", "x"]), max_size=30), st.data())
def test_a_change_is_taken_out_of_what_was_changed_elsewhere(pieces, data):
    text = "".join(pieces)
    at = data.draw(st.integers(0, len(text)))
    head, tail = text[:at] + "\n--\n", text[at:]
    cut = data.draw(st.integers(0, len(head) - 4))
    changed = head[:cut] + "\nq\n" + head[cut:]
    before, after = head + tail, head + "\np\n"
    assert text_merge.without_change(before, after, after) == before
    assert text_merge.without_change(before, after, before) == before
    merged = text_merge.without_change(before, after, changed + "\np\n")
    assert merged in (None, changed + tail)
