"""Commands: which distribution brings which, options that several have, and verbs that others add to a command."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BROUGHT: Mapping[str, Mapping[str, Sequence[str]]] = {
    "pml-admin": {
        "plugins": (),
        "auth": (),
        "lock": (),
        "config": ("", "explain", "schema", "check"),
        "servers": ("list", "tools", "accept"),
    },
    "pml-setup": {
        "connect": (),
        "disconnect": (),
        "import": (),
        "trust": (),
        "untrust": (),
        "config": ("presets", "--preset", "--wizard"),
        "servers": ("add", "remove", "enable", "disable", "restart"),
    },
}
"""By distribution, its commands: what to import for one, and what to install where there is none. Of commands that
several have, the verbs and options of each; ``""`` stands for the command without any of them."""

JSON = "one JSON document"


def distributions_of(command: str) -> list[str]:
    """Those that bring a command, or add to it; none for one that nothing is known of."""
    return [name for name, commands in BROUGHT.items() if command in commands]


def missing(words: Sequence[str], installed: Sequence[str]) -> str:
    """What to install for a command line, as one sentence; ``""`` when nothing that is known is missing."""
    command, rest = (words[0], [word.partition("=")[0] for word in words[1:]]) if words else ("", [])
    names = distributions_of(command)
    owners = {word: name for name in names for word in BROUGHT[name][command]}
    wanted = next((word for word in rest if word in owners), "")
    if not names or (not wanted and {*names} & {*installed}):
        return ""  # what a command can do without the others is known to the one that is there
    name = owners.get(wanted, names[0])
    if name in installed:
        return ""
    return f"pml {f'{command} {wanted}'.strip()} comes with {name}, which is not installed: pip install {name}"


def verbs_of(parser: argparse.ArgumentParser) -> Any:
    """What a command's verbs are added to; None when it has none."""
    actions = parser._actions  # noqa: SLF001 - argparse has no other way to it
    return next((one for one in actions if isinstance(one, argparse._SubParsersAction)), None)  # noqa: SLF001


class ProgramParser(argparse.ArgumentParser):
    """Leaves what stands behind ``--`` alone where ``command`` has a default: a program to start has own options."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(args or ())
        if self.get_default("command") is None or "--" not in words:
            return super().parse_known_args(words, namespace)
        place = words.index("--")
        found, rest = super().parse_known_args(words[:place], namespace)
        found.command = words[place + 1 :]
        return found, rest


def add_sources(parser: argparse.ArgumentParser, *, below: bool = False) -> None:
    """The options that say where the configuration comes from.

    Args:
        parser: Gets them.
        below: It is a verb's, whose command has them too: what stands before the verb is kept.
    """
    if below:
        parser.argument_default = argparse.SUPPRESS
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration, or an MCP client's own file")
    parser.add_argument("--mode", metavar="NAME", help="exposure mode (as --set gateway.tools_exposure=NAME)")
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=argparse.SUPPRESS if below else [],
        metavar="PATH=VALUE",
        help="set one value; may be repeated",
    )


def config_command(subcommands: Any) -> argparse.ArgumentParser:
    """``pml config``, which several add verbs and options to; the first who asks makes it."""
    found: argparse.ArgumentParser | None = subcommands.choices.get("config")
    if found is None:
        found = subcommands.add_parser(
            "config", help="show, explain, check and change the configuration", description=""
        )
        add_sources(found)
        found.add_argument("--json", action="store_true", help=JSON)
        found.add_subparsers(metavar="VERB")
    return found


def servers_command(subcommands: Any) -> argparse.ArgumentParser:
    """``pml servers``, as :func:`config_command`."""
    found: argparse.ArgumentParser | None = subcommands.choices.get("servers")
    if found is None:
        found = subcommands.add_parser("servers", help="list, add, change, restart and look into servers")
        found.add_subparsers(metavar="VERB", required=True, parser_class=ProgramParser)
    return found


def add_verb(verbs: Any, name: str, text: str, *, server: bool = True, many: bool = False) -> argparse.ArgumentParser:
    """A verb of ``pml servers``, with the options that all of them have.

    Args:
        verbs: What it is added to.
        server: Whether it takes the name of a server, of ``many`` several.
    """
    one: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_sources(one)
    one.add_argument("--json", action="store_true", help=JSON)
    if server:
        of = "the server, as in [servers.NAME]"
        one.add_argument("server", metavar="NAME", help=of, nargs="+" if many else None)
    return one
