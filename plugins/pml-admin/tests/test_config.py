from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from pml_core.cli import main
from pml_testing.commands import installed, printed

# The command itself


# config


def test_config_shows_every_value_with_its_source(place, installation, capsys):
    path = place.write("pml.toml", "[gateway]\nintent = 'x'\n[servers.git]\ncommand = 'git-mcp'\n[plugins.p]\nx = 1")
    shown = printed(capsys, "config", "--json", "--mode", "hybrid", "--set", "gateway.strict=true")
    assert shown["gateway.intent"] == {"value": "x", "source": str(path)}
    assert shown["gateway.tools_exposure"] == {"value": "hybrid", "source": "--mode"}
    assert shown["gateway.strict"] == {"value": True, "source": "--set"}
    assert shown["gateway.store"] == {"value": "sqlite", "source": "default of acme-pack"}
    assert shown["servers.git.command"] == {"value": "git-mcp", "source": str(path)}
    assert shown["plugins.p.x"] == {"value": 1, "source": str(path)}
    assert "servers.git.url" not in shown
    assert main(["config"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["SETTING", "VALUE", "SOURCE"]
    assert any(line.split() == ["gateway.intent", "'x'", str(path)] for line in lines)


def test_a_server_with_a_dot_in_its_name_has_a_source_too(place, installation, capsys):
    path = place.write("pml.toml", "[servers.'my.git']\ncommand = 'git-mcp'")
    assert printed(capsys, "config", "--json")["servers.my.git.command"]["source"] == str(path)


SECRETS = (
    "[servers.git]\ncommand = 'x'\n"
    "args = ['--api-key', 'sk-live-0123456789abcdef', '--token=ghp_0123456789abcdefghij0123456789']\n"
    "env = { API_TOKEN = 'env-secret-1', KEPT = '${API}', MY_TOKEN = '${TOKEN}' }\n"
    "[servers.far]\nurl = 'https://user:url-secret-2@host/mcp?token=url-secret-3'\n"
    "headers = { Authorization = 'Bearer header-secret-4' }\n"
    "[plugins.sqlite]\npin = 'plugin-secret-5'\n[plugins.other]\napi_key = 'plugin-secret-6'\n"
)


@pytest.mark.parametrize(
    "words",
    [
        ("config",),
        ("config", "--json"),
        ("config", "explain", "servers.git"),
        ("config", "explain", "servers.far", "--json"),
        ("config", "explain", "plugins.sqlite"),
    ],
)
@pytest.mark.parametrize(
    "secret",
    [
        "env-secret-1",
        "header-secret-4",
        "plugin-secret-5",
        "plugin-secret-6",
        "sk-live-0123456789abcdef",
        "ghp_0123456789abcdefghij0123456789",
        "url-secret-2",
        "url-secret-3",
    ],
)
def test_secrets_are_never_shown(place, installation, capsys, words, secret):
    installed(installation, place)
    place.write("pml.toml", SECRETS)
    assert main(words) == 0
    assert secret not in capsys.readouterr().out


def test_a_reference_to_a_secret_is_shown_because_it_is_none(place, installation, capsys):
    place.write("pml.toml", SECRETS)
    assert printed(capsys, "config", "--json")["servers.git.env"]["value"]["MY_TOKEN"] == "${TOKEN}"


def test_explain_tells_meaning_type_default_and_every_layer(place, installation, capsys):
    users = place.users("config.yaml", "gateway: {call_timeout_s: 5}")
    place.write("pml.toml", "[gateway]\ncall_timeout_s = 7")
    (about,) = printed(capsys, "config", "explain", "gateway.call_timeout_s", "--json")
    assert (about["path"], about["value"], about["default"], about["source"]) == (
        "gateway.call_timeout_s",
        5.0,
        60.0,
        str(users),
    )
    assert "[s]" in about["description"]
    assert about["type"] == "float"
    assert about["layers"] == [{"source": str(users), "value": 5}]
    assert main(["config", "explain", "gateway.call_timeout_s"]) == 0
    assert "gateway.call_timeout_s = 5.0" in capsys.readouterr().out


def test_explain_knows_tables_servers_and_installed_plugins(place, installation, capsys):
    installed(installation, place)
    place.write("pml.toml", "[servers.git]\ncommand = 'x'\n[plugins.sqlite]\nlimit = 3")
    assert len(printed(capsys, "config", "explain", "gateway", "--json")) > 10
    by_path = {a["path"]: a for a in printed(capsys, "config", "explain", "servers.git", "--json")}
    assert by_path["servers.git.command"]["value"] == "x"
    (about,) = printed(capsys, "config", "explain", "plugins.sqlite.limit", "--json")
    assert (about["value"], about["default"], about["description"]) == (3, 10, "Most tools [tools].")


@pytest.mark.parametrize("path", ["nonsense", "gateway.nonsense", "plugins.nonsense", "servers.git.nonsense", ""])
def test_explain_refuses_what_is_no_setting(place, installation, capsys, path):
    assert main(["config", "explain", path]) == 2
    assert capsys.readouterr().err.startswith("pml: ")


def test_explain_says_the_kind_of_table_that_lacks_the_setting(place, installation, capsys):
    assert main(["config", "explain", "gateway.nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_the_schema_is_valid_and_accepts_a_good_file_of_this_installation(place, installation, capsys):
    installed(installation, place)
    schema = printed(capsys, "config", "schema")
    Draft202012Validator.check_schema(schema)
    check = Draft202012Validator(schema)
    good = {
        "gateway": {"intent": "x"},
        "servers": {"git": {"command": "y", "args": ["z"]}},
        "plugins": {"sqlite": {"limit": 3}},
    }
    check.validate(good)
    assert not check.is_valid({"plugins": {"sqlite": {"limit": 0}}})
    assert not check.is_valid({"plugins": {"nonsense": {}}})


def test_check_is_content_with_a_good_configuration(place, installation, capsys):
    installed(installation, place)
    place.write("pml.toml", "[servers.git]\ncommand = 'x'\n[plugins.sqlite]\nlimit = 3")
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out == "The configuration fits.\n"
    assert printed(capsys, "config", "check", "--json") == {"ok": True, "problems": [], "warnings": []}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[gateway]\ntols_exposure = 'x'", "did you mean 'tools_exposure'"),
        ("[plugins.sqlite]\nlimit = 0", "plugins.sqlite.limit"),
        ("[plugins.sqlit]\nlimit = 1", "did you mean 'sqlite'"),
        ("[gateway]\ntools_exposure = 'meta_onli'", "did you mean 'meta_only'"),
        ("[gateway]\nstore = 'nothing'", "no store named 'nothing'; installed: sqlite"),
        ("[gateway", "not valid TOML"),
    ],
)
def test_check_names_what_is_wrong_with_status_1(place, installation, capsys, text, problem):
    installed(installation, place)
    place.users("config.toml", text)
    assert main(["config", "check"]) == 1
    assert problem in capsys.readouterr().out
    assert main(["config", "check", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], problem in "\n".join(found["problems"])) == (False, True)


@pytest.mark.parametrize("order", ["before", "after"])
def test_options_count_before_and_after_the_verb(place, installation, capsys, order):
    path = place.write("given.toml", "[gateway]\nintent = 'given'")
    options = ("--config", str(path), "--mode", "hybrid", "--set", "gateway.strict=true", "--json")
    words = (
        ("config", *options, "explain", "gateway") if order == "before" else ("config", "explain", "gateway", *options)
    )
    shown = {a["path"]: a["value"] for a in printed(capsys, *words)}
    assert (shown["gateway.intent"], shown["gateway.tools_exposure"], shown["gateway.strict"]) == (
        "given",
        "hybrid",
        True,
    )
