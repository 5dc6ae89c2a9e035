from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pml_setup import importer

TOKEN = "ghp_" + "a1B2" * 9
CURSOR = {
    "mcpServers": {
        "github": {
            "command": "npx",
            "args": ["-y", "server-github", "--header", "X-Key: sesame77"],
            "env": {"GITHUB_TOKEN": TOKEN, "LOG": "info"},
            "autoApprove": ["x"],
        },
        "far away": {"url": "https://h/mcp?api_key=sesame88", "headers": {"Authorization": "Bearer sesame99"}},
    }
}
SECRETS = (TOKEN, "sesame77", "sesame88", "sesame99")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project, with a home that has Cursor's file in it."""
    home, folder = tmp_path / "home", tmp_path / "project"
    (home / ".cursor").mkdir(parents=True)
    (home / ".cursor" / "mcp.json").write_text(json.dumps(CURSOR))
    folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(folder)
    return folder


def pml_import(*words: object) -> int:
    parser = argparse.ArgumentParser(prog="pml")
    importer.add(parser.add_subparsers(required=True))
    arguments = parser.parse_args(["import", *map(str, words)])
    return arguments.run(arguments)


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert pml_import(*words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("pml import: ")
    return captured.err


def document(capsys: pytest.CaptureFixture[str], *words: object) -> dict:
    assert pml_import(*words, "--json") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert not any(secret in captured.out for secret in SECRETS)
    answer = json.loads(captured.out)
    assert list(answer) == ["servers", "skipped", "written", "notes"]
    return answer


def client_file(folder: Path, servers: object, name: str = "mcp.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def servers_in(project: Path) -> dict:
    return tomllib.loads((project / "pml.toml").read_text())["servers"]


def test_without_a_file_it_shows_what_clients_have_and_how_to_import_it(project, capsys):
    client_file(project, {"here": {"command": "uvx"}}, ".vscode/mcp.json")
    assert pml_import() == 0
    shown = capsys.readouterr().out
    assert "npx -y server-github --header 'X-Key: ********'" in shown
    assert "https://h/mcp?api_key=********" in shown
    assert "~/.cursor/mcp.json" in shown
    assert ".vscode/mcp.json" in shown
    assert "pml import --from cursor" in shown
    assert "pml import --from vscode" in shown
    assert not any(secret in shown for secret in SECRETS)
    assert list(project.iterdir()) == [project / ".vscode"]


def test_without_a_file_the_document_lists_what_was_found(project, capsys):
    answer = document(capsys)
    assert [(s["client"], s["name"], s["action"], s["secrets"]) for s in answer["servers"]] == [
        ("cursor", "github", "found", 2),
        ("cursor", "far-away", "found", 2),
    ]
    assert answer["written"] is None


def test_a_broken_file_of_one_client_does_not_hide_the_others(project, capsys):
    (project / ".mcp.json").write_text("{")
    (project / ".gemini").mkdir()
    (project / ".gemini" / "settings.json").write_text('{"theme": "dark"}')
    answer = document(capsys)
    assert len(answer["servers"]) == 2
    assert [(s["name"], "not valid JSON" in s["reason"]) for s in answer["skipped"]] == [(None, True)]
    assert pml_import() == 0
    assert ".mcp.json:1:2: not valid JSON" in capsys.readouterr().out


def test_when_no_client_has_servers_it_says_so(project, capsys):
    (Path.home() / ".cursor" / "mcp.json").unlink()
    assert pml_import() == 0
    assert "pml import FILE" in capsys.readouterr().out


def test_importing_writes_tables_and_says_what_comes_next(project, capsys):
    assert pml_import("--from", "cursor") == 0
    shown = capsys.readouterr().out
    assert servers_in(project) == {
        "github": {
            "command": "npx",
            "args": ["-y", "server-github", "--header", "X-Key: sesame77"],
            "env": {"GITHUB_TOKEN": TOKEN, "LOG": "info"},
        },
        "far-away": {
            "url": "https://h/mcp?api_key=sesame88",
            "headers": {"Authorization": "Bearer sesame99"},
            "protocol": "auto",
        },
    }
    assert "pml.toml: 2 added." in shown
    assert "github: autoApprove is not used by PML" in shown
    assert 'far-away: is called "far away" there' in shown
    assert shown.rstrip().endswith("Next: pml config check, then pml connect cursor")
    assert not any(secret in shown for secret in SECRETS)


def test_secrets_in_clear_are_warned_of_and_the_file_is_private(project, capsys):
    (project / "pml.toml").write_text("[gateway]\n")
    (project / "pml.toml").chmod(0o644)
    answer = document(capsys, "--from", "cursor")
    assert "--secrets references" in answer["notes"][0]
    assert (project / "pml.toml").stat().st_mode & 0o777 == 0o600


def test_a_file_without_secrets_keeps_its_permissions(project):
    source = client_file(project, {"a": {"command": "x"}})
    (project / "pml.toml").write_text("")
    (project / "pml.toml").chmod(0o640)
    assert pml_import(source) == 0
    assert (project / "pml.toml").stat().st_mode & 0o777 == 0o640


def test_references_take_the_place_of_secrets_and_only_names_are_printed(project, capsys):
    assert pml_import("--from", "cursor", "--secrets", "references") == 0
    shown = capsys.readouterr().out
    text = (project / "pml.toml").read_text()
    assert not any(secret in shown + text for secret in SECRETS)
    servers = servers_in(project)
    assert servers["github"]["env"] == {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LOG": "info"}
    assert servers["github"]["args"][-1] == "X-Key: ${GITHUB_X_KEY}"
    assert servers["far-away"]["headers"] == {"Authorization": "Bearer ${FAR_AWAY_AUTHORIZATION}"}
    assert servers["far-away"]["url"] == "https://h/mcp?api_key=${FAR_AWAY_API_KEY}"
    exports = [line.partition("=")[0] for line in shown.splitlines() if line.startswith("export ")]
    assert exports == [
        "export GITHUB_TOKEN",
        "export GITHUB_X_KEY",
        "export FAR_AWAY_AUTHORIZATION",
        "export FAR_AWAY_API_KEY",
    ]
    assert "Warning" not in shown
    assert (project / "pml.toml").stat().st_mode & 0o077 != 0


def test_two_secrets_never_share_a_variable_and_one_secret_has_one(project):
    source = client_file(
        project,
        {
            "a": {"command": "x", "env": {"B_TOKEN": "one-1", "TOKEN": "three-3"}},
            "a-b": {"command": "x", "env": {"TOKEN": "two-2"}},
            "9": {"command": "x", "env": {"TOKEN": "t"}},
            "c": {"command": "x", "args": ["--token", "same-4", "--token", "same-4"]},
        },
    )
    assert pml_import(source, "--secrets", "references") == 0
    servers = servers_in(project)
    assert servers["a"]["env"] == {"B_TOKEN": "${A_B_TOKEN}", "TOKEN": "${A_TOKEN}"}
    assert servers["a-b"]["env"] == {"TOKEN": "${A_B_TOKEN_2}"}
    assert servers["9"]["env"] == {"TOKEN": "${_9_TOKEN}"}
    assert servers["c"]["args"] == ["--token", "${C_TOKEN}", "--token", "${C_TOKEN}"]


@pytest.mark.parametrize("secrets", ["keep", "references"])
def test_importing_twice_changes_nothing_the_second_time(project, capsys, secrets):
    words = ("--from", "cursor", "--secrets", secrets)
    document(capsys, *words)
    before = (project / "pml.toml").read_bytes(), (project / "pml.toml").stat().st_ino
    for more in ((), ("--force",)):
        answer = document(capsys, *words, *more)
        assert [s["action"] for s in answer["servers"]] == ["unchanged", "unchanged"]
        assert answer["written"] is None
    assert ((project / "pml.toml").read_bytes(), (project / "pml.toml").stat().st_ino) == before


MINE = """\
# my own words
[gateway]
tools_exposure = "hybrid"   # aligned

[servers.git]   # by hand
command = "mine"
# why
args = [
  "a",
]
[servers.git.env]
A = "b"

# about the plugins
[plugins.hybrid]
max_underlying_tools = 3
"""


def test_what_is_in_the_file_stays_and_a_server_of_the_same_name_is_left_alone(project, capsys):
    (project / "pml.toml").write_text(MINE)
    source = client_file(project, {"git": {"command": "theirs"}, "new": {"command": "x"}})
    answer = document(capsys, source)
    assert (project / "pml.toml").read_text() == f'{MINE}\n[servers.new]\ncommand = "x"\n'
    assert [s["name"] for s in answer["servers"]] == ["new"]
    assert answer["skipped"] == [
        {"name": "git", "from": str(source), "reason": "there is a different server of this name; --force replaces it"}
    ]


def test_force_replaces_the_table_and_nothing_else(project, capsys):
    (project / "pml.toml").write_text(MINE)
    source = client_file(project, {"git": {"command": "theirs"}})
    assert [s["action"] for s in document(capsys, source, "--force")["servers"]] == ["replaced"]
    start, end = MINE.index("[servers.git]"), MINE.index("\n# about")
    assert (project / "pml.toml").read_text() == f'{MINE[:start]}[servers.git]\ncommand = "theirs"\n{MINE[end:]}'


def test_a_table_it_cannot_replace_is_refused_and_kept(project, capsys):
    text = '[servers]\ngit.command = "mine"\n'
    (project / "pml.toml").write_text(text)
    source = client_file(project, {"git": {"command": "theirs"}})
    assert "pml.toml: servers.git is written in a way that" in refusal(capsys, source, "--force")
    assert (project / "pml.toml").read_text() == text


def test_a_server_can_be_added_beside_servers_written_in_another_way(project):
    (project / "pml.toml").write_text('[servers]\ngit = { command = "mine" }')
    assert pml_import(client_file(project, {"new": {"command": "x"}})) == 0
    assert servers_in(project) == {"git": {"command": "mine"}, "new": {"command": "x"}}


def test_line_ends_of_the_file_are_kept(project):
    (project / "pml.toml").write_bytes(b'[servers.a]\r\ncommand = "x"\r\n')
    assert pml_import(client_file(project, {"b": {"command": "y"}})) == 0
    raw = (project / "pml.toml").read_bytes()
    assert raw == b'[servers.a]\r\ncommand = "x"\r\n\r\n[servers.b]\r\ncommand = "y"\r\n'


def test_a_dry_run_shows_the_same_and_writes_nothing(project, capsys):
    answer = document(capsys, "--from", "cursor", "--dry-run")
    assert [s["action"] for s in answer["servers"]] == ["added", "added"]
    assert answer["written"] is None
    assert pml_import("--from", "cursor", "--dry-run") == 0
    assert "Dry run, nothing is written. pml.toml: 2 added." in capsys.readouterr().out
    assert list(project.iterdir()) == []


def test_only_the_servers_named_are_imported(project, capsys):
    answer = document(capsys, "--from", "cursor", "--only", "far-away")
    assert [s["name"] for s in answer["servers"]] == ["far-away"]
    assert list(servers_in(project)) == ["far-away"]


def test_another_file_can_be_written_and_the_next_step_names_it(project, capsys):
    assert pml_import("--from", "cursor", "--to", "other.toml") == 0
    assert "then pml connect cursor --config other.toml" in capsys.readouterr().out
    assert not (project / "pml.toml").exists()


def test_a_link_to_the_file_stays_a_link(project):
    (project / "real.toml").write_text("")
    (project / "pml.toml").symlink_to("real.toml")
    assert pml_import(client_file(project, {"a": {"command": "x"}})) == 0
    assert (project / "pml.toml").is_symlink()
    assert "servers.a" in (project / "real.toml").read_text()


def test_standard_input_is_read(project, capsys, monkeypatch):
    raw = b'\xef\xbb\xbf{"mcpServers": {"a": {"command": "x"},},} // as VS Code writes'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
    answer = document(capsys, "-")
    assert [(s["name"], s["from"]) for s in answer["servers"]] == [("a", "standard input")]
    assert answer["written"] == "pml.toml"


def test_pml_itself_is_not_imported(project, capsys):
    source = client_file(project, {"gateway": {"command": "uvx", "args": ["pml", "serve"]}, "a": {"command": "x"}})
    answer = document(capsys, source)
    assert [s["name"] for s in answer["skipped"]] == ["gateway"]
    assert list(servers_in(project)) == ["a"]


def test_a_folders_file_takes_no_place_of_what_is_the_users_own(project, capsys):
    client_file(project, {"github": {"command": "here"}, "x": {"command": "x"}}, ".cursor/mcp.json")
    answer = document(capsys, "--from", "cursor")
    assert servers_in(project)["github"]["command"] == "npx"
    assert set(servers_in(project)) == {"github", "x", "far-away"}
    assert [(s["name"], "comes first" in s["reason"]) for s in answer["skipped"]] == [("github", True)]


def test_claude_codes_servers_of_other_projects_are_not_imported(project):
    state = {
        "mcpServers": {"all": {"command": "x"}},
        "projects": {
            str(project): {"mcpServers": {"mine": {"command": "y"}}},
            "/other": {"mcpServers": {"no": {"command": "z"}}},
        },
    }
    (Path.home() / ".claude.json").write_text(json.dumps(state))
    assert pml_import("--from", "claude-code") == 0
    assert set(servers_in(project)) == {"all", "mine"}


def test_a_client_file_that_names_a_terminal_control_is_shown_harmlessly(project, capsys):
    assert pml_import(client_file(project, {"a": {"command": "\x1b[2Jx", "\x1b[31m": 1}})) == 0
    assert "\x1b[2J" not in capsys.readouterr().out
    assert servers_in(project)["a"]["command"] == "\x1b[2Jx"


def test_mistakes_in_the_clients_file_are_all_told(project, capsys):
    source = client_file(project, {"a": {"command": 5}, "b": {}})
    told = refusal(capsys, source)
    assert "mcpServers.a.command" in told
    assert "mcpServers.b" in told
    assert not (project / "pml.toml").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("missing.json",), "missing.json: cannot be read"),
        ((".",), "cannot be read"),
        (("--from", "windsurf"), ".codeium"),
        (("x.json", "--from", "cursor"), "exclude each other"),
        (("--only", "git"), "--from CLIENT"),
        (("--from", "cursor", "--only", "nope"), "there are: github, far-away"),
        (("--from", "cursor", "--to", "pml.yaml"), ".toml"),
        (("--from", "cursor", "--to", "no/such/pml.toml"), "cannot be written"),
    ],
)
def test_a_mistake_gets_a_message_and_status_2(project, capsys, words, part):
    assert part in refusal(capsys, *words)


@pytest.mark.parametrize(
    ("raw", "part"),
    [
        (b"[servers", "not valid TOML"),
        (b"\xff", "not UTF-8"),
        (b"servers = 5", "servers is not a table"),
        (b"[[servers]]\na = 1", "servers is not a table"),
    ],
)
def test_a_target_that_is_broken_is_left_as_it_is(project, capsys, raw, part):
    (project / "pml.toml").write_bytes(raw)
    told = refusal(capsys, "--from", "cursor")
    assert told.startswith("pml import: pml.toml: ")
    assert part in told
    assert (project / "pml.toml").read_bytes() == raw


def test_a_client_file_that_is_not_utf_8_gets_a_message(project, capsys):
    (project / "x.json").write_bytes('{"mcpServers": {}}'.encode("utf-16"))
    assert "not UTF-8" in refusal(capsys, "x.json")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(project, capsys, monkeypatch):
    (project / "pml.toml").write_text("# mine\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in refusal(capsys, "--from", "cursor")
    assert (project / "pml.toml").read_text() == "# mine\n"
    assert [path.name for path in project.iterdir()] == ["pml.toml"]


def test_declaring_the_command_imports_nothing_heavy():
    code = "import sys, pml_setup.importer; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "rich", "mcp", "yaml", "structlog"} & set(loaded)
