from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from config_loading import Hybrid, refusal

from pml_hookspecs import setting
from pml_kit.errors import OperatorError
from pml_settings.config import GatewaySettings, declared_secrets, load

# Mistakes


def test_an_unknown_key_is_named_with_its_source_and_the_nearest_one(place):
    path = place.write("pml.toml", "[gateway]\ntols_exposure = 'x'")
    assert f"gateway.tols_exposure ({path}): unknown key; did you mean 'tools_exposure'?" in refusal()
    place.write("pml.toml", "[gatway]\nintent = 'x'")
    assert "gatway" in refusal()
    assert "did you mean 'gateway'?" in refusal()


def test_an_unknown_key_unlike_any_other_comes_with_those_there_are(place):
    assert "unknown key; known: endpoints, gateway, plugins, servers" in refusal(overrides=["zzz=1"])


def test_a_top_level_key_notes_is_as_unknown_as_any_other(place):
    for value in ("5", "'text'"):
        place.write("pml.toml", f"notes = {value}")
        assert "notes" in refusal()


def test_every_mistake_is_named_at_once(place, monkeypatch):
    path = place.users("config.toml", "[gateway]\nstrict = 'perhaps'\n[servers.git]\ncommand = 5\nargs = ['a', 1]")
    monkeypatch.setenv("PML_GATEWAY__CALL_TIMEOUT_S", "soon")
    message = refusal(overrides=["gateway.record_bytes=1"])
    assert f"gateway.strict ({path})" in message
    assert f"servers.git.command ({path})" in message
    assert f"servers.git.args.1 ({path})" in message
    assert "gateway.call_timeout_s (environment)" in message
    assert "gateway.record_bytes (--set)" in message
    assert "256" in message


def test_a_value_out_of_range_is_refused(place):
    assert "gateway.call_timeout_s (--set)" in refusal(overrides=["gateway.call_timeout_s=0"])
    assert "servers.git.timeout_s" in refusal(overrides=["servers.git.command=x", "servers.git.timeout_s=-1"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "servers.git: says neither command nor url"),
        ({"command": "x", "url": "https://h"}, "servers.git: says command and url"),
        ({"command": "x", "address": "stdio:y"}, "servers.git: says command and address"),
        ({"url": "https://h", "args": ["x"]}, "servers.git.args: makes sense only with a command"),
    ],
)
def test_a_server_says_exactly_one_way_to_reach_it(place, table, message):
    place.write("pml.yaml", json.dumps({"gateway": {}, "servers": {"git": table}}))
    assert message in refusal()


@pytest.mark.parametrize("name", ["pml", "a__b", "-a", "a b", "ä", "a:b", ""])
def test_a_servers_name_must_be_usable_in_tool_names(place, name):
    path = place.write("pml.json", json.dumps({"gateway": {}, "servers": {name: {"command": "x"}}}))
    message = refusal(path)
    assert f"servers.{name}: " in message
    assert "choose another" in message


def test_the_name_pml_is_refused_because_it_is_the_gateways_own(place):
    path = place.write("pml.json", json.dumps({"gateway": {}, "servers": {"pml": {"command": "x"}}}))
    assert "belongs to the gateway itself" in refusal(path)


def test_other_keys_of_a_server_are_options_of_its_transport(place):
    place.write("pml.toml", "[servers.git]\ncommand = 'x'\nmax_line_bytes = 9\n[servers.git.options]\nshell = true")
    assert load().servers["git"].options == {"max_line_bytes": 9, "shell": True}


def test_files_that_cannot_be_read_are_a_message(place):
    assert "cannot be read" in refusal(place.project / "nothing.toml")
    assert "cannot be read" in refusal(place.project)
    (place.project / "latin.toml").write_bytes(b"intent = '\xe9'")
    assert "not UTF-8 text (byte 10)" in refusal(place.project / "latin.toml")
    assert "not valid TOML" in refusal(place.write("bad.toml", "[gateway"))
    assert "not valid YAML" in refusal(place.write("bad.yaml", "gateway: [x"))
    assert "not valid JSON" in refusal(place.write("bad.json", "{"))
    assert "expected a mapping" in refusal(place.write("list.yaml", "- gateway"))


@pytest.mark.parametrize(
    "text",
    [
        "plugins: 5\ngateway: {hybrid: {label: x}}",
        "plugins: {hybrid: 5}\ngateway: {hybrid: {label: x}}",
        "gateway: 5",
        "servers: []",
        "plugins: {hybrid: 5}",
        "1: 2",
        "gateway: {1: 2}",
    ],
)
def test_a_table_of_the_wrong_shape_is_a_message_and_no_traceback(place, text):
    place.write("pml.yaml", text)
    assert "does not fit" in refusal()


def test_an_empty_yaml_file_says_nothing(place):
    place.write("pml.yaml", "# nothing yet\n")
    assert load().gateway == GatewaySettings()


def test_yaml_may_be_written_in_braces(place):
    place.write("pml.yaml", "{gateway: {intent: x}}")
    assert load().gateway.intent == "x"


def test_a_byte_order_mark_does_no_harm(place):
    place.write("pml.toml", "\ufeff[gateway]\nintent = 'x'")
    assert load().gateway.intent == "x"


# Plugins' tables


def test_a_plugin_without_settings_or_table_gets_nothing_or_its_defaults(place):
    loaded = load(overrides=["plugins.other.x=1"])
    assert loaded.plugin("hybrid", None) is None
    assert loaded.plugin("hybrid", Hybrid) == Hybrid()


def test_a_plugins_mistakes_are_named_with_their_source(place):
    path = place.write("pml.toml", "[plugins.hybrid]\nmax_underlying_tols = 1\nmax_underlying_tools = -1")
    with pytest.raises(OperatorError) as caught:
        load().plugin("hybrid", Hybrid)
    message = str(caught.value)
    assert f"plugins.hybrid.max_underlying_tols ({path}): unknown key; did you mean 'max_underlying_tools'?" in message
    assert f"plugins.hybrid.max_underlying_tools ({path})" in message
    assert "pml config explain plugins.hybrid" in message


def test_a_plugin_can_inherit_what_another_table_says(place):
    place.write("pml.toml", "[plugins.hybrid]\nmax_underlying_tools = 7\nother = 1\n[plugins.semantic]\nlabel = 'mine'")
    assert load().plugin("semantic", Hybrid, "hybrid") == Hybrid(max_underlying_tools=7, label="mine")
    loaded = load(overrides=["plugins.semantic.max_underlying_tools=3"])
    assert loaded.plugin("semantic", Hybrid, "hybrid") == Hybrid(max_underlying_tools=3, label="mine")


# Where a value comes from


def test_each_value_knows_its_source(place, monkeypatch):
    users = place.users("config.yaml", "gateway: {intent: user, strict: true}")
    project = place.write("pml.toml", "[gateway]\nintent = 'x'\n[servers.git]\ncommand = 'x'")
    monkeypatch.setenv("PML_GATEWAY__LOG_LEVEL", "error")
    loaded = load(overrides=["plugins.p.x=1"], mode="hybrid")
    said = {
        "gateway.tools_exposure": "--mode",
        "plugins.p.x": "--set",
        "gateway.log_level": "environment",
        "gateway.intent": str(users),
        "gateway.strict": str(users),
        "servers.git.command": str(project),
        "gateway.store": None,
        "servers.git.url": None,
        "servers.other.command": None,
    }
    assert {path: loaded.says(path) for path in said} == said


def test_a_value_that_is_false_or_empty_has_a_source_too(place):
    loaded = load(overrides=["gateway.strict=false", "gateway.intent=", "gateway.list_wait_s=0"])
    assert [loaded.says(f"gateway.{k}") for k in ("strict", "intent", "list_wait_s")] == ["--set"] * 3


# Secrets


def test_secrets_are_what_is_called_so_with_variables_filled_in(place, monkeypatch):
    monkeypatch.setenv("REAL_TOKEN", "from-the-environment")
    place.write(
        "pml.toml",
        "[servers.git]\ncommand = 'x'\n"
        "env = { API_KEY = 'key-in-file', TOKEN = '${REAL_TOKEN}', LEVEL = 'debugging' }\n"
        "[servers.far]\nurl = 'https://h'\nheaders = { Authorization = 'Bearer abcdefgh', Accept = 'text/plain' }\n"
        "bearer = '${REAL_TOKEN}'\noauth = { client_secret = 'deep-in-options' }",
    )
    found = set(load().secrets())
    assert {"deep-in-options", "key-in-file", "from-the-environment", "Bearer abcdefgh", "abcdefgh"} <= found
    assert not {"debugging", "text/plain", "${REAL_TOKEN}"} & found


def test_secrets_in_arguments_and_addresses_are_known_too(place):
    place.write(
        "pml.toml",
        "[servers.git]\ncommand = 'x'\n"
        "args = ['--api-key', 'sk-live-0123456789abcdef', '--token=ghp_0123456789abcdefghij']\n"
        "[servers.far]\nurl = 'https://user:hunter2hunter2@host/mcp?token=abcdef0123456789'",
    )
    known = " ".join(load().secrets())
    for secret in ("sk-live-0123456789abcdef", "ghp_0123456789abcdefghij", "hunter2hunter2", "abcdef0123456789"):
        assert secret in known


# Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    tokens: dict[str, str] = setting(dict, "Tokens.", secret=True)
    names: tuple[str, ...] = setting((), "Names.")


def test_variables_in_a_plugins_table_are_filled_in_however_deep(place, monkeypatch):
    monkeypatch.setenv("ALICE_TOKEN", "s3cret")
    place.write("pml.toml", "[plugins.http]\nnames = ['${ALICE_TOKEN}', 'x']\ntokens = { alice = '${ALICE_TOKEN}' }")
    settings = load().plugin("http", Keys)
    assert (settings.tokens, settings.names) == ({"alice": "s3cret"}, ("s3cret", "x"))
    assert {"s3cret"} == set(declared_secrets(settings))


def test_a_variable_that_is_not_set_never_becomes_a_token_of_its_own_name(place, monkeypatch):
    monkeypatch.delenv("ALICE_TOKEN", raising=False)
    place.write("pml.toml", "[plugins.http]\ntokens = { alice = '${ALICE_TOKEN}' }")
    with pytest.raises(
        OperatorError, match=r"environment variable ALICE_TOKEN is not set; plugins\.http \(.*pml\.toml"
    ):
        load().plugin("http", Keys)


def test_a_prefix_that_clients_would_not_take_is_refused(place):
    assert "servers.fs.prefix: letters, digits" in refusal(
        overrides=["servers.fs.command=x", "servers.fs.prefix=my tools/"]
    )
