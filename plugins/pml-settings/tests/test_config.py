from __future__ import annotations

import json
from pathlib import Path

import pytest
from config_loading import HARMLESS, Hybrid, refusal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pml_clients.configuration import files, trust
from pml_settings.config import GatewaySettings, ServerSettings, load

# Each source, and which wins


def test_nothing_said_gives_the_defaults(place):
    loaded = load()
    assert (loaded.gateway, dict(loaded.servers), dict(loaded.tables)) == (GatewaySettings(), {}, {})
    assert (loaded.sources, loaded.notes) == ((), ())


def test_the_default_mode_is_meta_only(place):
    assert load().gateway.tools_exposure == "meta_only"


def test_the_default_execution_mode_is_real_and_only_two_values_are_accepted(place):
    assert load().gateway.execution_mode == "real"
    assert load(overrides=["gateway.execution_mode=dry_run"]).gateway.execution_mode == "dry_run"
    assert "gateway.execution_mode (--set)" in refusal(overrides=["gateway.execution_mode=pretend"])


def test_each_source_wins_over_those_after_it(place, monkeypatch):
    place.users("config.yaml", "gateway: {intent: user}")
    assert load().gateway.intent == "user"
    place.write("pml.toml", '[gateway]\nintent = "project"\npage_size = 7')
    assert (load().gateway.intent, load().gateway.page_size) == ("user", 7)
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
    assert load(project=other).gateway.intent == ""
    trust.keep({other / "pml.yaml": trust.agreement_to(other / "pml.yaml", (other / "pml.yaml").read_bytes())})
    assert load(project=other).gateway.intent == "there"


@pytest.mark.parametrize("name", ["pml.toml", "pml.yaml", "pml.yml"])
def test_the_project_may_write_toml_or_yaml(place, name):
    text = '[servers.git]\ncommand = "git-mcp"\nargs = ["-x"]'
    place.write(
        name, text if name == "pml.toml" else "servers: {git: {command: git-mcp, args: [-x]}}".replace("-x", "'-x'")
    )
    assert load().servers["git"] == ServerSettings(command="git-mcp", args=("-x",))


@pytest.mark.parametrize("name", ["config.yaml", "config.yml", "config.toml"])
def test_the_users_file_is_read_from_the_folder_that_pml_home_names(place, name):
    toml = '[gateway]\ntools_exposure = "hybrid"'
    place.users(name, toml if name.endswith("toml") else "gateway:\n  tools_exposure: hybrid\n")
    assert load().gateway.tools_exposure == "hybrid"


def test_without_pml_home_the_folder_is_in_the_users_home(place, monkeypatch):
    monkeypatch.delenv("PML_HOME")
    assert files.home() == Path.home() / ".pml"


def test_tables_of_several_files_are_merged_key_by_key(place):
    place.users("config.yaml", "servers: {git: {command: git-mcp, env: {A: a, B: b}}}\nplugins: {p: {x: 1, y: 2}}")
    loaded = load(place.write("given.toml", '[servers.git.env]\nB = "mine"\n[plugins.p]\ny = 3'))
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


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
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
        "import sys; from pathlib import Path; from pml_settings.config import load; "
        "load(Path(sys.argv[1]), mode='hybrid'); assert not {'pydantic', 'yaml'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=30)


# The older spelling


def test_a_plugins_table_inside_gateway_is_an_alias(place):
    place.users("config.yaml", "gateway:\n  tools_exposure: hybrid\n  hybrid: {max_underlying_tools: 7, label: old}")
    loaded = load(place.write("given.toml", '[plugins.hybrid]\nlabel = "new"'))
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
    place.users("config.toml", '[gateway.executors]\nworkflow = "dag"')
    assert load().gateway.executors == {"workflow": "dag"}
    assert load().tables == {}
