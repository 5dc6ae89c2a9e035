"""``pml servers``: the user's own file is changed, with its comments, and never a project's unless it is given."""

from __future__ import annotations

import json
import tomllib

import pytest
import yaml

from pml_clients.configuration import restarts
from pml_core.cli import main
from pml_settings.config import load

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


@pytest.fixture
def mine(place):
    return place.users("config.toml", FILE)


def told(capsys, *words, status=0):
    """The JSON that a command prints, or what it says where it refuses."""
    assert main(["servers", words[0], "--json", *words[1:]]) == status
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return json.loads(captured.out) if status == 0 else captured.err


def test_a_server_is_added_to_the_users_file_and_all_else_in_it_stays(mine, place, capsys):
    place.write("pml.toml", '[servers.other]\ncommand = "x"\n')
    answer = told(
        capsys, "add", "crm", "--env", "TOKEN=${CRM}", "--env-file", "crm.env", "--allow", "get_*", "--deny", "get_x",
        "--cwd", "/srv", "--lazy", "--", "npx", "-y", "crm-mcp",
    )  # fmt: skip
    assert (answer["file"], answer["written"]) == (str(mine), True)
    assert mine.read_text().startswith(FILE.rstrip())
    assert tomllib.loads(mine.read_text())["servers"]["crm"] == {
        "command": "npx", "args": ["-y", "crm-mcp"], "env": {"TOKEN": "${CRM}"}, "env_file": "crm.env",
        "cwd": "/srv", "start": "lazy", "tools": {"allow": ["get_*"], "deny": ["get_x"]},
    }  # fmt: skip
    assert load().servers["crm"].tools.allows("get_y")
    assert "crm" not in (place.project / "pml.toml").read_text()


def test_without_a_file_one_is_made_and_a_remote_server_is_its_address(place, capsys):
    told(capsys, "add", "far", "--url", "https://far/mcp", "--header", "Authorization: Bearer ${T}")
    assert load().servers["far"].headers == {"Authorization": "Bearer ${T}"}
    assert (place.home / "config.toml").is_file()


def test_a_literal_secret_is_noted_and_not_repeated(mine, capsys):
    secret = "sk-0123456789abcdef0123"
    assert secret not in json.dumps(told(capsys, "add", "crm", "--env", f"API_KEY={secret}", "--", "x"))
    assert main(["servers", "add", "crm2", "--env", f"API_KEY={secret}", "--yes", "--", "x"]) == 0
    assert "Note: API_KEY is written down as it is" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "crm"), "give either a command or --url"),
        (("add", "crm", "--url", "https://x", "--", "y"), "give either a command or --url"),
        (("add", "git", "--", "x"), "[servers.git] is there already"),
        (("add", "a__b", "--", "x"), "nothing is written, because it would not fit"),
        (("add", "crm", "--env", "nothing", "--", "x"), "--env: 'nothing' is not NAME=VALUE"),
        (("remove", "gti"), "there is no server 'gti'; did you mean 'git'?"),
        (("disable", "other"), "it is in "),
        (("tools", "gti"), "did you mean 'git'?"),
        (("restart", "git", "gone"), "there is no server 'gone'"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(mine, place, capsys, words, said):
    place.write("pml.toml", '[servers.other]\ncommand = "x"\n')
    before = [path.read_bytes() for path in (mine, place.project / "pml.toml")]
    assert said in told(capsys, *words, status=2)
    assert [path.read_bytes() for path in (mine, place.project / "pml.toml")] == before
    assert not restarts.file().exists()


def test_a_servers_section_is_replaced_or_taken_out_whole(mine, capsys):
    told(capsys, "add", "git", "--replace", "--url", "https://git/mcp")
    assert load().servers["git"].url == "https://git/mcp"
    assert load().servers["git"].env == {}
    told(capsys, "remove", "git")
    assert tomllib.loads(mine.read_text()) == {"gateway": {"tools_exposure": "meta_only"}}
    assert "# mine" in mine.read_text()
    assert "# for now" in mine.read_text()
    assert "# at the end" in mine.read_text()


def test_a_server_is_disabled_and_enabled_again(mine, capsys):
    for verb, enabled in (("disable", False), ("enable", True)):
        assert told(capsys, verb, "git")["changed"] is True
        assert load().servers["git"].enabled is enabled
        assert told(capsys, verb, "git")["changed"] is False
    assert "# from npm" in mine.read_text()


def test_a_projects_file_is_changed_only_when_it_is_given_and_stays_trusted(mine, place, capsys):
    project = place.write("pml.toml", '[servers.other]\ncommand = "x"  # theirs\n')
    told(capsys, "disable", "other", "--config", str(project))
    assert "# theirs" in project.read_text()
    assert load().servers["other"].enabled is False


def test_the_users_file_may_be_yaml(place, capsys):
    path = place.users(
        "config.yaml", "# mine\ngateway:\n  page_size: 5  # few\nservers:\n  git:\n    command: x\n    args: [a]\n"
    )
    told(capsys, "add", "crm", "--", "y", "z")
    told(capsys, "remove", "git")
    assert yaml.safe_load(path.read_text()) == {
        "gateway": {"page_size": 5}, "servers": {"crm": {"command": "y", "args": ["z"]}},
    }  # fmt: skip
    told(capsys, "remove", "crm")
    assert yaml.safe_load(path.read_text()) == {"gateway": {"page_size": 5}}
    assert "# mine" in path.read_text()
    assert "# few" in path.read_text()


def test_a_dry_run_and_a_no_write_nothing(mine, capsys, monkeypatch):
    assert told(capsys, "remove", "git", "--dry-run")["written"] is False
    monkeypatch.setattr("pml_clients.edited_file.agreed", lambda question, yes: False)
    assert main(["servers", "remove", "git"]) == 1
    assert mine.read_text() == FILE


def test_nothing_configured_says_what_to_do(place, capsys):
    assert main(["servers", "list"]) == 0
    assert "pml servers add NAME" in capsys.readouterr().out


def test_a_restart_is_asked_for_by_a_mark_of_its_own_each_time(mine, capsys):
    told(capsys, "restart", "git")
    first = restarts.asked()
    told(capsys, "restart", "git")
    assert first.keys() == restarts.asked().keys() == {"git"}
    assert first != restarts.asked()
    restarts.file().write_text("no json")
    assert restarts.asked() == {}
