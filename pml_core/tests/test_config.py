from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pml_core import config
from pml_core.config import GatewaySettings, ServerSettings, load
from pml_core.errors import OperatorError
from pml_hookspecs import setting

HARMLESS = "gateway.log_level='info'"
"""An override that says the default: takes the long way through pydantic and changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """Settings of a plugin of the tests."""

    max_underlying_tools: int = setting(50, "Most tools.", ge=0)
    whitelisted_tools: tuple[str, ...] = setting((), "Always shown.")
    label: str = setting("", "Text.")
    blank: dict[str, str] = setting(dict, "A table.")


def refusal(*arguments, **options) -> str:
    with pytest.raises(OperatorError) as caught:
        load(*arguments, **options)
    return str(caught.value)


# Each source, and which wins


def test_nothing_said_gives_the_defaults(place):
    loaded = load()
    assert (loaded.gateway, dict(loaded.servers), dict(loaded.tables)) == (GatewaySettings(), {}, {})
    assert (loaded.sources, loaded.notes) == ((), ())


@pytest.mark.seed("EXP-2")
def test_the_default_mode_is_meta_only(place):
    assert load().gateway.tools_exposure == "meta_only"


@pytest.mark.seed("DRY-2")
def test_the_default_execution_mode_is_real_and_only_two_values_are_accepted(place):
    assert load().gateway.execution_mode == "real"
    assert load(overrides=["gateway.execution_mode=dry_run"]).gateway.execution_mode == "dry_run"
    assert "gateway.execution_mode (--set)" in refusal(overrides=["gateway.execution_mode=pretend"])


@pytest.mark.seed("EXP-37")
def test_each_source_wins_over_those_after_it(place, monkeypatch):
    place.users("config.yaml", "gateway: {intent: user}")
    assert load().gateway.intent == "user"
    place.write("pml.toml", '[gateway]\nintent = "project"')
    assert load().gateway.intent == "project"
    monkeypatch.setenv("PML_GATEWAY__INTENT", "environment")
    assert load().gateway.intent == "environment"
    place.write("other.toml", '[gateway]\nintent = "given"\nlog_level = "error"')
    assert load(place.project / "other.toml").gateway.intent == "environment"
    assert load(place.project / "other.toml").gateway.log_level == "error"
    assert load(overrides=["gateway.intent=set"]).gateway.intent == "set"
    assert load(overrides=["gateway.tools_exposure=set"], mode="mode").gateway.tools_exposure == "set"
    monkeypatch.setenv("PML_GATEWAY__TOOLS_EXPOSURE", "environment")
    assert load(mode="mode").gateway.tools_exposure == "mode"


def test_a_file_that_is_given_takes_the_place_of_the_projects_and_not_of_the_users(place):
    place.write("pml.toml", '[gateway]\nintent = "project"')
    place.users("config.toml", '[gateway]\nlog_level = "error"')
    given_file = place.write("given.toml", "[gateway]\nstrict = true")
    gateway = load(given_file).gateway
    assert (gateway.intent, gateway.log_level, gateway.strict) == ("", "error", True)


def test_the_project_can_be_another_folder_than_the_current_one(place, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "pml.yaml").write_text("gateway: {intent: there}")
    assert load(project=other).gateway.intent == "there"


@pytest.mark.parametrize("name", ["pml.toml", "pml.yaml", "pml.yml"])
def test_the_project_may_write_toml_or_yaml(place, name):
    text = '[servers.git]\ncommand = "git-mcp"\nargs = ["-x"]'
    place.write(
        name, text if name == "pml.toml" else "servers: {git: {command: git-mcp, args: [-x]}}".replace("-x", "'-x'")
    )
    assert load().servers["git"] == ServerSettings(command="git-mcp", args=("-x",))


@pytest.mark.seed("EXP-26")
@pytest.mark.parametrize("name", ["config.yaml", "config.yml", "config.toml"])
def test_the_users_file_is_read_from_the_folder_that_pml_home_names(place, name):
    toml = '[gateway]\ntools_exposure = "hybrid"'
    place.users(name, toml if name.endswith("toml") else "gateway:\n  tools_exposure: hybrid\n")
    assert load().gateway.tools_exposure == "hybrid"


def test_without_pml_home_the_folder_is_in_the_users_home(place, monkeypatch):
    monkeypatch.delenv("PML_HOME")
    assert config.home() == Path.home() / ".pml"


def test_tables_of_several_files_are_merged_key_by_key(place):
    place.users("config.yaml", "servers: {git: {command: git-mcp, env: {A: a, B: b}}}\nplugins: {p: {x: 1, y: 2}}")
    place.write("pml.toml", '[servers.git.env]\nB = "mine"\n[plugins.p]\ny = 3')
    loaded = load()
    assert loaded.servers["git"].env == {"A": "a", "B": "mine"}
    assert loaded.tables["p"] == {"x": 1, "y": 3}


def test_environment_variables_name_nested_tables_and_hold_json_lists(place, monkeypatch):
    monkeypatch.setenv("PML_GATEWAY__TRACERS", '["log"]')
    monkeypatch.setenv("PML_GATEWAY__CALL_TIMEOUT_S", "2.5")
    monkeypatch.setenv("PML_GATEWAY__STRICT", "true")
    monkeypatch.setenv("PML_SERVERS__GIT__COMMAND", "git-mcp")
    monkeypatch.setenv("PML_SERVERS__GIT__ARGS", '["-x", "1"]')
    monkeypatch.setenv("PML_SERVERS__GIT__ENV", '{"GIT_TOKEN": "t"}')
    monkeypatch.setenv("PML_PLUGINS__HYBRID__MAX_UNDERLYING_TOOLS", "7")
    monkeypatch.setenv("PML_PLUGINS__HYBRID__WHITELISTED_TOOLS", '["a:b"]')
    loaded = load()
    assert (loaded.gateway.tracers, loaded.gateway.call_timeout_s, loaded.gateway.strict) == (("log",), 2.5, True)
    assert loaded.servers == {"git": ServerSettings(command="git-mcp", args=("-x", "1"), env={"GIT_TOKEN": "t"})}
    assert loaded.plugin("hybrid", Hybrid) == Hybrid(max_underlying_tools=7, whitelisted_tools=("a:b",))


def test_a_plugins_text_from_the_environment_stays_text_even_when_it_looks_like_a_number(place, monkeypatch):
    monkeypatch.setenv("PML_PLUGINS__HYBRID__LABEL", "123456")
    assert load().plugin("hybrid", Hybrid) == Hybrid(label="123456")


@pytest.mark.parametrize("variable", ["PML_GATEWAY__TRACERS", "PML_GATEWAY", "PML_SERVERS", "PML_PLUGINS"])
def test_an_environment_variable_that_is_not_json_is_a_message_that_names_it(place, monkeypatch, variable):
    monkeypatch.setenv(variable, "log")
    assert variable.partition("__")[0].removeprefix("PML_").lower() in refusal(overrides=[HARMLESS]).lower()


def test_overrides_are_toml_or_else_text(place):
    overrides = [
        "gateway.intent=file access",
        "gateway.tracers=['log']",
        "gateway.strict=true",
        "gateway.call_timeout_s=2",
        "servers.git.command=git-mcp",
        "servers.git.env.A=b=c",
        "plugins.hybrid.max_underlying_tools=3",
    ]
    loaded = load(overrides=overrides)
    assert (loaded.gateway.intent, loaded.gateway.tracers, loaded.gateway.strict) == ("file access", ("log",), True)
    assert loaded.servers["git"].env == {"A": "b=c"}
    assert loaded.plugin("hybrid", Hybrid) == Hybrid(max_underlying_tools=3)


@pytest.mark.parametrize("text", ["gateway.intent", "=x", "gateway..intent=x", ".=x"])
def test_an_override_without_path_or_value_is_refused(place, text):
    assert f"--set {text}: expected PATH=VALUE" in refusal(overrides=[text])


# MCP clients' files, as they are


CLIENT = {"mcpServers": {"git": {"command": "git-mcp", "args": ["-x"], "env": {"A": "b"}, "autoApprove": ["x"]}}}


def test_a_clients_file_is_taken_as_it_is_and_what_is_not_used_is_noted(place):
    path = place.write("mcp.json", json.dumps(CLIENT))
    loaded = load(path)
    assert loaded.servers == {"git": ServerSettings(command="git-mcp", args=("-x",), env={"A": "b"})}
    (note,) = loaded.notes
    assert note.startswith(f"{path}: git: autoApprove")


def test_comments_in_a_clients_file_are_no_mistake(place):
    path = place.write("settings.json", '// mine\n{"mcpServers": {"git": {"command": "git-mcp",},},}')
    assert load(path).servers == {"git": ServerSettings(command="git-mcp")}


def test_json_with_a_gateway_table_is_a_configuration_of_our_own(place):
    tree = {"gateway": {"intent": "x"}, "servers": {"git": {"command": "git-mcp", "timeout_s": 3}}}
    loaded = load(place.write("pml.json", json.dumps(tree)))
    assert (loaded.gateway.intent, loaded.servers["git"].timeout_s) == ("x", 3)


def test_json_with_servers_in_our_own_terms_needs_no_other_table(place):
    path = place.write("pml.json", json.dumps({"servers": {"git": {"command": "git-mcp", "timeout_s": 3}}}))
    assert load(path).servers == {"git": ServerSettings(command="git-mcp", timeout_s=3)}


def test_a_broken_clients_file_is_a_message_with_its_place(place):
    path = place.write("mcp.json", '{"mcpServers": {"git": {"command": 5}}}')
    assert f"{path}: 1 mistake" in refusal(path)


NAMES = st.text("abz09._- é", min_size=1, max_size=6) | st.just("pml")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
SERVERS = st.fixed_dictionaries(
    {"command": st.text("abc/.", min_size=1, max_size=5)} | {},
    optional={
        "args": st.lists(TEXTS, max_size=3),
        "env": st.dictionaries(st.text("ABC_", min_size=1, max_size=4), TEXTS, max_size=3),
        "cwd": TEXTS,
        "timeout": st.integers(1, 600_000) | st.floats(0.5, 900),
        "disabled": st.booleans(),
        "alwaysAllow": st.just([]),
    },
) | st.fixed_dictionaries(
    {"url": st.just("https://host/mcp")},
    optional={"headers": st.dictionaries(st.text("ABC-", min_size=1, max_size=4), TEXTS, max_size=2)},
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(NAMES, SERVERS, max_size=4), st.sampled_from([None, "hybrid", "full_proxy"]))
def test_the_short_way_comes_to_the_same_as_the_long_one(place, servers, mode):
    path = place.write("mcp.json", json.dumps({"mcpServers": servers}))
    short, long = load(path, mode=mode), load(path, mode=mode, overrides=[HARMLESS])
    assert (short.gateway, short.servers, short.tables) == (long.gateway, long.servers, long.tables)
    assert short.notes == long.notes
    labels = [s.label for s in long.sources if s.label not in ("--set", "environment")]
    assert [s.label for s in short.sources] == labels


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PML_GATEWAY__INTENT", "said"),
        ("PML_GATEWAY", '{"intent": "said"}'),
        ("pml_gateway__intent", "said"),
    ],
)
def test_the_environment_counts_beside_a_clients_file_however_it_is_spelt(place, monkeypatch, variable, value):
    path = place.write("mcp.json", json.dumps(CLIENT))
    monkeypatch.setenv(variable, value)
    assert load(path, overrides=[HARMLESS]).gateway.intent == "said"
    assert load(path).gateway.intent == "said"


def test_the_short_way_does_not_import_pydantic(place):
    import subprocess
    import sys

    path = place.write("mcp.json", json.dumps(CLIENT))
    code = (
        "import sys; from pathlib import Path; from pml_core.config import load; "
        "load(Path(sys.argv[1]), mode='hybrid'); assert not {'pydantic', 'yaml'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=30)


# The older spelling


@pytest.mark.seed("EXP-26")
def test_a_plugins_table_inside_gateway_is_an_alias(place):
    place.users("config.yaml", "gateway:\n  tools_exposure: hybrid\n  hybrid: {max_underlying_tools: 7, label: old}")
    place.write("pml.toml", '[plugins.hybrid]\nlabel = "new"')
    loaded = load()
    assert loaded.tables["hybrid"] == {"max_underlying_tools": 7, "label": "new"}
    assert loaded.gateway == GatewaySettings(tools_exposure="hybrid")


def test_in_one_file_the_newer_spelling_wins(place):
    place.write("pml.yaml", "gateway: {hybrid: {label: old, max_underlying_tools: 1}}\nplugins: {hybrid: {label: new}}")
    assert load().tables["hybrid"] == {"label": "new", "max_underlying_tools": 1}


def test_the_alias_counts_in_every_source(place, monkeypatch):
    monkeypatch.setenv("PML_GATEWAY__HYBRID__LABEL", "environment")
    loaded = load(overrides=["gateway.hybrid.max_underlying_tools=3"])
    assert loaded.plugin("hybrid", Hybrid) == Hybrid(max_underlying_tools=3, label="environment")


def test_executors_is_a_setting_of_the_gateway_and_no_alias(place):
    place.write("pml.toml", '[gateway.executors]\nworkflow = "dag"')
    assert load().gateway.executors == {"workflow": "dag"}
    assert load().tables == {}


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
    path = place.write("pml.toml", "[gateway]\nstrict = 'perhaps'\n[servers.git]\ncommand = 5\nargs = ['a', 1]")
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


@pytest.mark.seed("EXP-6")
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
        "gateway.intent": str(project),
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
        "[servers.far]\nurl = 'https://h'\nheaders = { Authorization = 'Bearer abcdefgh', Accept = 'text/plain' }",
    )
    found = set(load().secrets())
    assert {"key-in-file", "from-the-environment", "Bearer abcdefgh", "abcdefgh"} <= found
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
