"""Plugins that are files: ``[gateway] local``."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from pml_core.cli import main
from pml_core.gateway import Gateway
from pml_core.plugins import local_plugins
from pml_settings.config import load

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_local_modules")]


async def health_of_policy():
    async with Gateway(load()) as gateway:
        return gateway.supervisor.health["policy"]


def doctor(capsys, *words):
    status = main(["plugins", "doctor", "--json", *words])
    return status, {line["subject"]: line for line in json.loads(capsys.readouterr().out)}


def test_it_is_not_run_by_looking(place, policy, capsys):
    policy.write_text("raise AssertionError('it was run')", encoding="utf-8")
    assert main(["plugins", "list", "--json"]) == 0
    (shown,) = [one for one in json.loads(capsys.readouterr().out) if one["name"] != "admin"]
    assert (shown["name"], shown["state"], shown["file"]) == ("policy", "found", str(policy))


@pytest.mark.parametrize(
    ("source", "cause", "line"),
    [
        ("x = 1\n\ndef broken(:\n", "SyntaxError: invalid syntax", 3),
        ("x = 1\nprint(undefined)\n", "NameError: name 'undefined' is not defined", 2),
        ("import sys\nsys.exit('no')\n", "SystemExit: no", 2),
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named 'nothing_of_that_name'", 1),
        ("import json\n\njson.loads('{')\n", "JSONDecodeError: Expecting property name", 3),
    ],
)
def test_a_file_that_fails_is_named_with_the_line(policy, capsys, source, cause, line):
    policy.write_text(source, encoding="utf-8")
    status, lines = doctor(capsys)
    found = lines["hooks policy"]
    assert (status, found["ok"]) == (1, False)
    assert found["detail"].startswith(f"{policy}: {cause}")
    assert found["detail"].endswith(f"({policy}:{line})")
    assert found["remedy"] == f"Mend {policy}, or take it out of [gateway] local."
    health = asyncio.run(health_of_policy())
    assert health.startswith("quarantined: ")
    assert cause in health
    assert not [name for name in sys.modules if name.startswith(local_plugins.MODULE)]


@pytest.mark.parametrize(
    ("source", "problem", "remedy"),
    [
        ("x = 1", "has no hooks", "with @hookimpl"),
        (
            "from pml_hookspecs import hookimpl\n@hookimpl\ndef pml_commands(subcommands): ...",
            "has pml_commands",
            "pml plugin new hooks policy",
        ),
        ("from pml_hookspecs import hookimpl\n@hookimpl\ndef pml_mete_tools(services): ...", "unknown hook", "Mend"),
    ],
)
def test_a_file_that_is_no_hook_plugin_is_told_what_it_lacks(policy, capsys, source, problem, remedy):
    policy.write_text(source, encoding="utf-8")
    line = doctor(capsys)[1]["hooks policy"]
    assert problem in line["detail"]
    assert remedy in line["remedy"]


def test_a_missing_file_is_told_with_the_path_that_was_looked_at(place, installation, capsys):
    place.users("config.toml", "[gateway]\nlocal = ['lost.py']\n")
    status, lines = doctor(capsys)
    assert status == 1
    assert lines["hooks lost"]["detail"] == f"{place.home / 'lost.py'}: cannot be read: No such file or directory"
    assert "relative to the file that says it" in lines["hooks lost"]["remedy"]


def test_settings_that_do_not_fit_are_told_with_path_and_file(place, policy, capsys):
    file = place.users("config.toml", "[gateway]\nlocal = ['policy.py']\n[plugins.policy]\ntimez = 2\n")
    status, lines = doctor(capsys)
    assert status == 1
    assert f"plugins.policy.timez ({file}): unknown key; did you mean 'times'?" in lines["hooks policy"]["detail"]
    assert main(["config", "check"]) == 1
    assert "did you mean 'times'?" in capsys.readouterr().out


def test_the_commands_about_settings_know_it(place, policy, capsys):
    assert main(["config", "explain", "plugins.policy.greeting"]) == 0
    assert "What it says." in capsys.readouterr().out
    assert main(["config", "schema"]) == 0
    plugins = json.loads(capsys.readouterr().out)["$defs"]["Plugins"]
    assert "policy" in plugins["properties"]
