from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from pml_core.cli import main

HOOKS = "from pml_hookspecs import hookimpl\n"
SETTINGS = """
from dataclasses import dataclass
from pml_hookspecs import setting
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    limit: int = setting(10, "Most tools [tools].", ge=1)
    pin: str = setting("", "What opens the door.", secret=True)
"""
STORE = (
    SETTINGS
    + """
class Store:
    settings_type = Settings
    def __init__(self, settings, services): pass
"""
)
WRAPPER = (
    HOOKS
    + """
from pml_hookspecs import Check, Phase
class Guard:
    phase = Phase.VALIDATE
    async def __call__(self, task, run, call_next): return await call_next(task, run)
@hookimpl
def pml_wrap_executor(services): return [Guard()]
@hookimpl
def pml_checks(services): return [Check("the door", False, "is open", "Close it.")]
@hookimpl
def pml_commands(subcommands):
    parser = subcommands.add_parser("guard", help="stands guard")
    parser.set_defaults(run=lambda arguments: 7)
"""
)
NEVER = {"mcp", "mcp_types", "starlette", "uvicorn", "httpx"}


def installed(installation, place) -> None:
    """A store, a hook plugin, and the drivers that the defaults name."""
    installation.add("acme-store", {"pml.store": {"sqlite": "acme_store:Store"}}, modules={"acme_store": STORE})
    installation.add("acme-guard", {"pml.plugins": {"guard": "acme_guard"}}, modules={"acme_guard": WRAPPER})
    driver = "class D:\n    def __init__(self, settings, services): pass\n"
    points = {
        "pml.tracer": {"log": "acme_rest:D", "store": "acme_rest:D"},
        "pml.exposure_mode": {"meta_only": "acme_rest:D"},
    }
    installation.add("acme-rest", points, modules={"acme_rest": driver})


def status(*words: str) -> int:
    try:
        return main(words)
    except SystemExit as exc:  # argparse's own way out
        return int(exc.code or 0)


def printed(capsys, *words: str):
    assert main(words) == 0
    return json.loads(capsys.readouterr().out)


# The command itself


def test_the_version_is_printed(place, installation, capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pml {metadata.version('pml-core')}\n"


def test_help_names_every_command_those_of_plugins_too(place, installation, capsys):
    installed(installation, place)
    assert status("--help") == 0
    out = capsys.readouterr().out
    for command in ("serve", "import", "config", "plugins", "guard"):
        assert command in out


def test_nothing_said_is_help_on_standard_error_and_status_2(place, installation, capsys):
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: pml" in captured.err


def test_an_unknown_command_is_refused_with_those_there_are(place, installation, capsys):
    assert status("nonsense") == 2
    assert "nonsense" in capsys.readouterr().err


def test_a_plugins_command_runs_and_gives_its_status(place, installation):
    installed(installation, place)
    assert main(["guard"]) == 7


def test_a_plugin_that_adds_no_command_for_a_fault_does_not_stop_the_others(place, installation, capsys):
    installed(installation, place)
    bad = HOOKS + "@hookimpl\ndef pml_commands(subcommands): raise ValueError('no')\n"
    installation.add("bad", {"pml.plugins": {"aaa": "bad_module"}}, modules={"bad_module": bad})
    assert main(["guard"]) == 7
    assert "plugin 'aaa' adds no commands: ValueError('no')" in capsys.readouterr().err


def test_a_mistake_is_a_message_with_what_to_do_and_no_traceback(place, installation, capsys):
    assert main(["config", "--config", "nothing.toml"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "pml: nothing.toml: cannot be read: No such file or directory\n     Give the path of a file that exists.\n"
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenPipeError])
def test_being_interrupted_is_no_traceback(place, installation, monkeypatch, capsys, error):
    from pml_core.cli import plugins

    def raises(arguments):
        raise error

    monkeypatch.setattr(plugins, "run_list", raises)
    monkeypatch.setattr(sys, "stderr", Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - closed by what is tested
    assert main(["plugins", "list"]) == (130 if error is KeyboardInterrupt else 0)
    sys.stderr.close()


# config


def test_config_shows_every_value_with_its_source(place, installation, capsys):
    path = place.write("pml.toml", "[gateway]\nintent = 'x'\n[servers.git]\ncommand = 'git-mcp'\n[plugins.p]\nx = 1")
    shown = printed(capsys, "config", "--json", "--mode", "hybrid", "--set", "gateway.strict=true")
    assert shown["gateway.intent"] == {"value": "x", "source": str(path)}
    assert shown["gateway.tools_exposure"] == {"value": "hybrid", "source": "--mode"}
    assert shown["gateway.strict"] == {"value": True, "source": "--set"}
    assert shown["gateway.store"] == {"value": "sqlite", "source": "default"}
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
    path = place.write("pml.toml", "[gateway]\ncall_timeout_s = 7")
    (about,) = printed(capsys, "config", "explain", "gateway.call_timeout_s", "--json")
    assert (about["path"], about["value"], about["default"], about["source"]) == (
        "gateway.call_timeout_s",
        7.0,
        60.0,
        str(path),
    )
    assert "[s]" in about["description"]
    assert about["type"] == "float"
    assert about["layers"] == [{"source": str(path), "value": 7}, {"source": str(users), "value": 5}]
    assert main(["config", "explain", "gateway.call_timeout_s"]) == 0
    assert "gateway.call_timeout_s = 7.0" in capsys.readouterr().out


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


@pytest.mark.seed("EXP-35")
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
    assert printed(capsys, "config", "check", "--json") == {"ok": True, "problems": []}


@pytest.mark.seed("EXP-35")
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
    place.write("pml.toml", text)
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


# plugins


def test_list_shows_every_plugin_without_importing_it(place, installation, capsys):
    for name, state in (("fine", "found"), ("old", "incompatible"), ("off", "blocked")):
        needs = ["pml-hookspecs>=99"] if name == "old" else ["pml-hookspecs>=0.1"]
        installation.add(
            name, {"pml.store": {name: f"boom_{name}:S"}}, requires=needs, modules={f"boom_{name}": "raise SystemExit"}
        )
        assert state
    shown = {r["name"]: r for r in printed(capsys, "plugins", "list", "--json", "--set", "gateway.block=['off']")}
    assert {n: r["state"] for n, r in shown.items()} == {"fine": "found", "old": "incompatible", "off": "blocked"}
    assert shown["old"]["distribution"] == "old"
    assert "upgrade" in shown["old"]["remedy"]
    assert shown["fine"]["requires_api"] == ">=0.1"
    assert not any(name.startswith("boom_") for name in sys.modules)
    assert main(["plugins", "list"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["KIND", "NAME", "STATE", "DISTRIBUTION", "PROBLEM"]
    assert len(rows) == 3


def test_chain_shows_the_wrappers_outermost_first(place, installation, capsys):
    installed(installation, place)
    assert printed(capsys, "plugins", "chain", "--json") == [
        {"phase": "AUTHORIZE", "plugin": "core", "wrapper": "Admission"},
        {"phase": "VALIDATE", "plugin": "guard", "wrapper": "Guard"},
    ]
    assert main(["plugins", "chain"]) == 0
    assert "the executor of the task's kind" in capsys.readouterr().out.splitlines()[-1]


def test_the_doctor_reports_plugins_their_own_checks_and_servers(place, installation, capsys):
    installed(installation, place)
    installation.add(
        "broken", {"pml.executor": {"broken": "broken_module:E"}}, modules={"broken_module": "import nothing_there"}
    )
    place.write(
        "pml.toml", "[servers.git]\ncommand = 'no-such-program-here'\n[servers.off]\ncommand = 'x'\nenabled = false"
    )
    assert main(["plugins", "doctor", "--json"]) == 1
    lines = {line["subject"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["store sqlite"]["ok"] is True
    assert lines["hooks guard"]["ok"] is True
    assert (lines["executor broken"]["ok"], "nothing_there" in lines["executor broken"]["detail"]) == (False, True)
    assert (lines["guard: the door"]["ok"], lines["guard: the door"]["remedy"]) == (False, "Close it.")
    assert lines["server git"]["ok"] is False
    assert lines["server off"] == {"subject": "server off", "ok": True, "detail": "disabled", "remedy": ""}
    assert main(["plugins", "doctor"]) == 1
    out = capsys.readouterr().out
    assert "FAIL  guard: the door: is open\n      Close it." in out


def test_the_doctor_is_content_when_all_is_well(place, installation, capsys):
    installed(installation, place)
    assert main(["plugins", "doctor", "--set", "gateway.block=['guard']"]) == 0


def test_the_doctor_names_one_plugins_bad_settings_and_nothing_that_is_well(place, installation, capsys):
    installed(installation, place)
    source = HOOKS + SETTINGS + "settings_type = Settings\n@hookimpl\ndef pml_checks(services): return []\n"
    installation.add("aaa", {"pml.plugins": {"aaa": "aaa_module"}}, modules={"aaa_module": source})
    place.write("pml.toml", "[plugins.aaa]\nlimit = 0")
    assert main(["plugins", "doctor", "--json"]) == 1
    lines = json.loads(capsys.readouterr().out)
    assert any("plugins.aaa.limit" in line["detail"] for line in lines if not line["ok"])
    assert not any("KeyError" in line["detail"] for line in lines)
    assert any(line["subject"] == "guard: the door" for line in lines)


# What each command imports


def imported(words: list[str], cwd: Path, home: Path) -> set[str]:
    code = (
        "import json, sys, contextlib, io\nfrom pml_core.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    try:\n        main(sys.argv[1:])\n    except SystemExit:\n        pass\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    environment = {k: v for k, v in os.environ.items() if not k.upper().startswith("PML_")} | {"PML_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        timeout=60,
        check=True,
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("words", "also_not"),
    [
        ("--version", set()),
        ("plugins list", {"pydantic", "pydantic_settings", "stevedore", "rich", "structlog", "yaml"}),
        ("plugins chain", {"pydantic_settings", "rich"}),
        ("config", {"pydantic", "rich", "stevedore"}),
        ("config explain gateway.intent", {"pydantic", "rich", "stevedore"}),
        ("config schema", {"rich"}),
        ("config check", {"rich"}),
        ("plugins doctor", set()),
    ],
)
def test_a_command_imports_nothing_heavy_that_it_does_not_need(place, words, also_not):
    assert imported(words.split(), place.project, place.home) & (NEVER | also_not) == set()


@pytest.mark.parametrize("words", ["--version", "--help", "config", "plugins list --json", "config schema"])
def test_the_module_runs_as_a_program(place, words):
    environment = {k: v for k, v in os.environ.items() if not k.upper().startswith("PML_")} | {
        "PML_HOME": str(place.home)
    }
    done = subprocess.run(
        [sys.executable, "-m", "pml_core", *words.split()],
        check=False,
        capture_output=True, text=True, cwd=place.project, env=environment, timeout=60,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert done.stdout


def test_serving_without_a_transport_for_clients_is_a_message(place, installation, capsys):
    assert main(["serve"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "stdio" in err


def test_serving_by_hand_says_what_it_is_for(place, monkeypatch, capsys):
    class Terminal:
        def isatty(self):
            return True

    async def served(_config, _address, **_options):
        return 0

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("pml_core.cli.serve._serve", served)
    assert main(["serve"]) == 0
    assert "your MCP client starts it" in capsys.readouterr().err
