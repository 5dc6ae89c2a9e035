from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

import pytest

from pml_core.cli import main
from pml_testing.commands import HOOKS, installed, status

# The command itself


def test_the_version_is_printed(place, installation, capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pml {metadata.version('pml-core')}\n"


def test_help_names_every_command_those_of_plugins_too(place, installation, capsys):
    installed(installation, place)
    assert status("--help") == 0
    out = capsys.readouterr().out
    for command in ("serve", "guard"):
        assert command in out


def test_nothing_said_is_help_on_standard_error_and_status_2(place, installation, capsys):
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: pml" in captured.err


def test_an_unknown_command_is_refused_with_those_there_are(place, installation, capsys):
    assert status("nonsense") == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "wanted", "name"),
    [
        ("import --all", "import", "pml-setup"),
        ("connect cursor", "connect", "pml-setup"),
        ("trust", "trust", "pml-setup"),
        ("config presets --json", "config presets", "pml-setup"),
        ("config --preset=balanced", "config --preset", "pml-setup"),
        ("servers add x -- y", "servers add", "pml-setup"),
        ("config --help", "config", "pml-admin"),
        ("config --json check", "config check", "pml-admin"),
        ("servers list --connect", "servers list", "pml-admin"),
        ("plugins doctor", "plugins", "pml-admin"),
        ("auth login far", "auth", "pml-admin"),
    ],
)
def test_a_command_that_is_not_installed_says_in_one_line_what_to_install(
    place, installation, capsys, words, wanted, name
):  # fmt: skip
    assert status(*words.split()) == 2
    said = f"pml: pml {wanted} comes with {name}, which is not installed: pip install {name}\n"
    assert capsys.readouterr() == ("", said)


def test_a_command_that_is_known_imports_its_own_plugin_only_and_is_told_why_not(place, installation, capsys):
    modules = {"acme_setup": "no_such_name", "acme_other": "raise SystemExit(3)"}
    installation.add("pml-setup", {"pml.plugins": {"setup": "acme_setup"}}, modules=modules)
    installation.add("acme-other", {"pml.plugins": {"other": "acme_other"}})
    assert status("trust") == 2
    said = capsys.readouterr().err
    assert "hook plugin 'setup' (pml-setup 1.0): NameError: name 'no_such_name' is not defined" in said
    assert "acme" not in said.replace("acme_setup.py", "")


def test_another_plugin_may_bring_a_command_of_that_name(place, installation):
    source = """
from pml_hookspecs import hookimpl
@hookimpl
def pml_commands(subcommands):
    subcommands.add_parser("import").set_defaults(run=lambda arguments: 9)
"""
    installation.add("acme-import", {"pml.plugins": {"imports": "acme_import"}}, modules={"acme_import": source})
    assert main(["import"]) == 9


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
    assert main(["serve", "--config", "nothing.toml"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "pml: nothing.toml: cannot be read: No such file or directory\n     Give the path of a file that exists.\n"
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenPipeError])
def test_being_interrupted_is_no_traceback(place, installation, monkeypatch, capsys, error):
    from pml_core.cli import serve

    def raises(arguments):
        raise error

    monkeypatch.setattr(serve, "run", raises)
    monkeypatch.setattr(sys, "stderr", Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - closed by what is tested
    assert main(["serve"]) == (130 if error is KeyboardInterrupt else 0)
    sys.stderr.close()


ADDING = (
    HOOKS
    + """
import argparse
from pml_kit.command_line.commands import add_sources, config_command, verbs_of
def show(arguments, installation):
    print(installation.config.gateway.tools_exposure, arguments.overrides)
    return 4
def change(arguments, files):
    return 5 if arguments.change else None
@hookimpl
def pml_commands(subcommands):
    parser = config_command(subcommands)
"""
)
SHOWS = (
    ADDING
    + """
    parser.set_defaults(run_on_installation=show)
    more = verbs_of(parser).add_parser("more")
    add_sources(more, below=True)
    more.set_defaults(run_on_installation=show)
"""
)
CHANGES = (
    ADDING
    + """
    parser.add_argument("--change", action="store_true")
    parser.set_defaults(run_on_files=change)
"""
)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_command_of_two_plugins_does_what_either_does_whichever_is_first(place, installation, capsys, names):
    for name, source in zip(names, (SHOWS, CHANGES), strict=True):
        installation.add(f"acme-{name}", {"pml.plugins": {name: f"acme_{name}"}}, modules={f"acme_{name}": source})
    for words in (["config"], ["config", "more"]):
        assert main([*words, "--mode", "hybrid", "--set", "gateway.intent=x"]) == 4
        assert capsys.readouterr().out == "hybrid ['gateway.intent=x']\n"
    assert main(["config", "--change"]) == 5


def test_what_no_installed_plugin_does_is_said(place, installation, capsys):
    installation.add("acme-a", {"pml.plugins": {"a": "acme_a"}}, modules={"acme_a": CHANGES})
    assert main(["config"]) == 2
    assert capsys.readouterr().err == (
        "pml: pml config comes with pml-admin, which is not installed: pip install pml-admin\n"
    )
