from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pml_core.cli import main
from pml_testing.commands import HOOKS, SETTINGS, installed, printed

NEVER = {"mcp", "mcp_types", "starlette", "uvicorn", "httpx"}


# plugins


def test_list_shows_every_plugin_without_importing_it(place, installation, capsys):
    for name, state in (("fine", "found"), ("old", "incompatible"), ("off", "blocked")):
        needs = ["pml-hookspecs>=99"] if name == "old" else ["pml-hookspecs>=0.2"]
        installation.add(
            name, {"pml.store": {name: f"boom_{name}:S"}}, requires=needs, modules={f"boom_{name}": "raise SystemExit"}
        )
        assert state
    shown = {r["name"]: r for r in printed(capsys, "plugins", "list", "--json", "--set", "gateway.block=['off']")}
    expected = {"admin": "found", "fine": "found", "old": "incompatible", "off": "blocked"}
    assert {n: r["state"] for n, r in shown.items()} == expected
    assert shown["old"]["distribution"] == "old"
    assert "upgrade" in shown["old"]["remedy"]
    assert shown["fine"]["requires_api"] == ">=0.2"
    assert not any(name.startswith("boom_") for name in sys.modules)
    assert main(["plugins", "list"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["KIND", "NAME", "STATE", "DISTRIBUTION", "PROBLEM"]
    assert len(rows) == 4


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
