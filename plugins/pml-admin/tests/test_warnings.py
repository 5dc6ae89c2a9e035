"""What is legal in a configuration and hardly meant."""

from __future__ import annotations

import json

import pytest

from pml_core.cli import main
from pml_testing.commands import installed


@pytest.fixture
def gateway(place, installation):
    """A place with the core alone."""
    installed(installation, place)
    return place


WARNS = """
from dataclasses import dataclass
from pml_hookspecs import hookimpl, setting
@hookimpl
def pml_checks(services): return []
@dataclass(frozen=True)
class Settings:
    loud: bool = setting(False, "Whether it is.", project="set")
settings_type = Settings
def settings_warnings(settings, views, servers):
    if settings.loud:
        yield f"plugins.horn.loud: is on for {[view.mode for view in views]} and {sorted(servers)}. Turn it off."
        raise ValueError("and it broke")
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["No servers are configured"]),
        (
            '[gateway]\nlocal = ["horn.py"]\n[plugins.horn]\nloud = true\n[servers.git]\ncommand = "git"\n',
            ["cannot say what is doubtful in its settings: ValueError: and it broke"],
        ),
    ],
)
def test_what_is_legal_and_doubtful_is_a_warning_and_no_mistake(gateway, capsys, text, said):
    gateway.write("horn.py", WARNS)
    gateway.write("pml.toml", text)
    assert main(["config", "check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    assert [any(one in line for line in found["warnings"]) for one in said] == [True] * len(said)
    assert main(["config", "check", "--strict"]) == 1
    assert "Warning: " in capsys.readouterr().out


def test_a_plugin_says_what_is_hardly_meant_in_its_settings(gateway, capsys):
    gateway.write("horn.py", WARNS.replace('        raise ValueError("and it broke")\n', ""))
    text = '[gateway]\nlocal = ["horn.py"]\n[plugins.horn]\nloud = true\n[endpoints.ops]\n'
    gateway.write("pml.toml", text + '[servers.git]\ncommand = "x"\n[servers.off]\ncommand = "x"\nenabled = false\n')
    assert main(["config", "check", "--json"]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert "plugins.horn.loud: is on for ['meta_only', 'meta_only'] and ['git']. Turn it off." in warnings


def test_a_configuration_that_is_meant_so_has_no_warnings(gateway, capsys):
    gateway.write("pml.toml", '[gateway]\nintent = "mail"\n[servers.git]\ncommand = "git"\n')
    assert main(["config", "check", "--strict"]) == 0
    assert capsys.readouterr().out == "The configuration fits.\n"
