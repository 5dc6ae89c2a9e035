"""The commands' options. Imported by every ``pml --help``, so nothing heavy is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_kit.command_line.commands import (
    JSON,
    add_sources,
    add_verb,
    config_command,
    servers_command,
    verbs_of,
)

if TYPE_CHECKING:
    from pml_settings.installation import Installation

Run = Callable[[argparse.Namespace, "Installation"], int]


def add(subcommands: Any) -> None:
    """Add all of them."""
    _add_plugins(subcommands)
    _add_config(subcommands)
    _add_servers(subcommands)
    _add_auth(subcommands)
    _add_lock(subcommands)


def _function(module: str, name: str) -> Run:
    """A function whose module is imported once it is called."""

    def run(arguments: argparse.Namespace, installation: Installation) -> int:
        status: int = getattr(import_module(f"{__package__}.{module}"), name)(arguments, installation)
        return status

    return run


def _add_plugins(subcommands: Any) -> None:
    text = "list, check and order the installed plugins"
    parser: argparse.ArgumentParser = subcommands.add_parser("plugins", help=text)
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for verb, text in (
        ("list", "every installed plugin; imports none of them"),
        (
            "doctor",
            "import every plugin, check settings and servers; exit status 1 if anything is wrong, 2 if it cannot look",
        ),
        ("chain", "the wrappers around every call, outermost first"),
    ):
        one: argparse.ArgumentParser = verbs.add_parser(verb, help=text, description=text)
        add_sources(one)
        one.add_argument("--json", action="store_true", help=JSON)
        if verb == "doctor":
            connect = "also start every server and list its tools, and say how the store is"
            one.add_argument("--connect", action="store_true", help=connect)
        one.set_defaults(run_on_installation=_function("plugins", f"run_{verb}"))


def _add_config(subcommands: Any) -> None:
    parser = config_command(subcommands)
    parser.description = f"Without a verb: every value and its source. {parser.description or ''}".strip()
    parser.set_defaults(run_on_installation=_function("config", "run"))
    for verb, text in (
        ("explain", "description, type, default and every source of one setting or table"),
        ("schema", "JSON Schema of the configuration of this installation"),
        ("check", "validate without starting anything; exit status 1 if anything is wrong"),
    ):
        one: argparse.ArgumentParser = verbs_of(parser).add_parser(verb, help=text, description=text)
        if verb == "explain":
            one.add_argument("path", help="such as gateway.tools_exposure, plugins.hybrid or servers.git")
        add_sources(one, below=True)
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=JSON)
        if verb == "check":
            one.add_argument("--strict", action="store_true", default=False, help="exit status 1 for warnings, too")
        one.set_defaults(run_on_installation=_function("config", f"run_{verb}"))


def _add_servers(subcommands: Any) -> None:
    verbs = verbs_of(servers_command(subcommands))
    for name, module, text in (
        ("list", "servers_view", "what is configured, and how it was when last seen"),
        ("tools", "servers_view", "the tools of a server, and which of them may be had"),
        ("accept", "definitions", "show how definitions of tools have changed, and accept that"),
    ):
        one = add_verb(verbs, name, text, server=name != "list")
        one.set_defaults(run_on_installation=_function(module, f"run_{name}"))
        if name == "accept":
            one.add_argument("tool", metavar="TOOL", nargs="?", help="one tool, by the server's own name; all without")
            one.add_argument("--yes", action="store_true", help="accept without asking")
        else:
            one.add_argument("--connect", action="store_true", help="start it instead of using what is remembered")


def _add_auth(subcommands: Any) -> None:
    parser: argparse.ArgumentParser = subcommands.add_parser("auth", help="log in to remote servers")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for verb, text in (
        ("login", "log in to a server in the browser, and keep the tokens for the gateway"),
        ("logout", "forget a server's tokens"),
    ):
        one: argparse.ArgumentParser = verbs.add_parser(verb, help=text, description=text)
        add_sources(one)
        one.add_argument("server", metavar="NAME", help="the server, as in [servers.NAME]")
        whose = 'whose login it is, where sharing = "per_principal"'
        one.add_argument("--principal", metavar="NAME", default="", help=whose)
        one.set_defaults(run_on_installation=_function("logins", f"run_{verb}"))
    for verb, text in (
        ("list", "show which principals have a login of their own at which servers"),
        ("rotate", "encrypt all logins with a new key"),
    ):
        one = verbs.add_parser(verb, help=text, description=text)
        add_sources(one)
        one.set_defaults(run_on_installation=_function("logins", f"run_{verb}"))


def _add_lock(subcommands: Any) -> None:
    text = "keep what servers say of their tools in a file to commit, and compare"
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "lock", help=text, description="Without a verb: start the servers, and write what may be taken unseen."
    )
    add_sources(parser)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a tool would be blocked")
    recordings = "with --check: the calls in FILE (pml recordings export) that would not be valid any more"
    parser.add_argument("--recordings", type=Path, metavar="FILE", help=recordings)
    parser.add_argument("--json", action="store_true", help=JSON)
    parser.set_defaults(run_on_installation=_function("lock.command", "run"))
    verbs = parser.add_subparsers(metavar="VERB")
    text = "show what has changed of each tool that waits for it, and take it"
    review: argparse.ArgumentParser = verbs.add_parser("review", help=text, description=text)
    add_sources(review, below=True)
    accept = "take these, by server:tool, '*' for any part; asked for one by one without, on a terminal"
    review.add_argument("--accept", nargs="+", metavar="TOOL", default=[], help=accept)
    review.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=JSON)
    review.set_defaults(run_on_installation=_function("lock.command", "run_review"))
