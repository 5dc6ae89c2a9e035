"""``pml servers add``, ``remove``, ``enable``, ``disable`` and ``restart``: the user's own file, never a project's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_clients import edited_file, secret_values
from pml_clients.configuration import changes, server_changes
from pml_clients.configuration.files import parsed
from pml_clients.trees import at
from pml_kit.command_line.commands import add_verb, servers_command, verbs_of
from pml_kit.errors import OperatorError
from pml_kit.terminal import print_json

if TYPE_CHECKING:
    import argparse

    from pml_clients.configuration.changes import Change
    from pml_clients.configuration.view import ConfigurationFiles

TAKEN_OVER = "A running gateway takes it over within seconds."


def add(subcommands: Any) -> None:
    """Add to ``pml servers``."""
    verbs = verbs_of(servers_command(subcommands))
    for name, run, text in (
        ("add", run_add, "write a section for a server into your own configuration"),
        ("remove", run_remove, "take a server out of your own configuration"),
        ("enable", run_enable, "have a server started again"),
        ("disable", run_enable, "have a server neither started nor listed"),
    ):
        one = add_verb(verbs, name, text)
        one.set_defaults(run_on_files=run, verb=name)
        if name == "add":
            _add_options(one)
        one.add_argument("--dry-run", action="store_true", help="show the change, write nothing")
        one.add_argument("--yes", action="store_true", help="do not ask")
    again = add_verb(verbs, "restart", "have running gateways of yours start servers anew", many=True)
    again.set_defaults(run_on_files=run_restart, verb="restart")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "pml servers add NAME [OPTION]… (--url URL | -- COMMAND [ARGUMENT]…)"
    parser.set_defaults(command=[])
    parser.add_argument("--url", help="address of a server that runs already")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="a variable for the program")
    parser.add_argument("--env-file", metavar="FILE", help="file of variables, relative to the configuration")
    parser.add_argument("--header", metavar="NAME:VALUE", action="append", default=[], help="an HTTP header")
    parser.add_argument("--cwd", metavar="FOLDER", help="working directory of the program")
    parser.add_argument("--lazy", action="store_true", help="start it at its first call")
    for option, text in (("--allow", "the only tools that may be had"), ("--deny", "tools that may not be had")):
        parser.add_argument(option, metavar="PATTERN", action="append", help=f"{text}; may be repeated")
    parser.add_argument("--replace", action="store_true", help="replace the section that is there")


def run_add(arguments: argparse.Namespace, files: ConfigurationFiles) -> int:
    """Write a section for a server."""
    name, path = arguments.server, server_changes.target(files)
    table = _table(arguments)
    if (known := server_changes.section(path, name)) is not None and not arguments.replace:
        remedy = f"Give another name, or --replace; to change one key, edit {path}."
        raise OperatorError(f"{path}: [servers.{name}] is there already", remedy)
    gone = [] if known is None else [("servers", name)]
    changed = changes.make(path, {("servers", name, key): value for key, value in table.items()}, files, gone=gone)
    literal = [secret.name or secret.place for secret in secret_values.found_in(table)]
    notes = [
        f"{one} is written down as it is; ${{NAME}}, ${{keyring:NAME}} or --env-file keep it out" for one in literal
    ]
    return _apply(changed, arguments, "added", notes)


def run_remove(arguments: argparse.Namespace, files: ConfigurationFiles) -> int:
    """Take the section of a server out."""
    path = server_changes.file_of(arguments.server, files, arguments.verb)
    return _apply(changes.make(path, {}, files, gone=[("servers", arguments.server)]), arguments, "removed")


def run_enable(arguments: argparse.Namespace, files: ConfigurationFiles) -> int:
    """Have a server started, or not."""
    enabled = arguments.verb == "enable"
    changed = server_changes.switched(arguments.server, files, enabled=enabled)
    return _apply(changed, arguments, f"{arguments.verb}d")


def run_restart(arguments: argparse.Namespace, files: ConfigurationFiles) -> int:
    """Have every running gateway of this user start a server anew."""
    server_changes.restart(arguments.server, files)
    if arguments.json:
        print_json({"servers": arguments.server, "asked": True})
    else:
        print(f"Asked: every running gateway of yours starts {', '.join(arguments.server)} anew within seconds.")
    return 0


def _table(arguments: argparse.Namespace) -> dict[str, Any]:
    """The section that the options describe.

    Raises:
        OperatorError: They describe none.
    """
    if bool(arguments.url) == bool(arguments.command):
        remedy = "pml servers add NAME -- COMMAND ARGUMENT…, or: pml servers add NAME --url https://host/mcp"
        raise OperatorError("give either a command or --url", remedy)
    tools = {key: value for key in ("allow", "deny") if (value := getattr(arguments, key))}
    table = {
        "command": arguments.command[0] if arguments.command else "",
        "args": arguments.command[1:],
        "url": arguments.url or "",
        "env": _pairs(arguments.env, "--env", "="),
        "env_file": arguments.env_file or "",
        "headers": _pairs(arguments.header, "--header", ":"),
        "cwd": arguments.cwd or "",
        "start": "lazy" if arguments.lazy else "",
        "tools": tools,
    }
    return {key: value for key, value in table.items() if value}


def _pairs(texts: list[str], option: str, sign: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, separator, value = text.partition(sign)
        if not separator or not name.strip():
            raise OperatorError(f"{option}: {name.strip()!r} is not NAME{sign}VALUE", "Write it so.")
        found[name.strip()] = value.strip() if sign == ":" else value
    return found


def _apply(change: Change, arguments: argparse.Namespace, done: str, notes: list[str] | None = None) -> int:
    """Show, ask, write, say what was done; the exit status."""
    path, machine = change.file.path, arguments.json
    diff = edited_file.difference(change.file, change.text) if change.needed else ""
    if diff and not machine:
        print(diff, end="")
    write = bool(diff) and not arguments.dry_run
    if write and not edited_file.agreed(f"Write {path}?", yes=arguments.yes or machine):
        print("Nothing is written.")
        return 1
    if write and (why := change.write()[1]):
        print(f"pml: {why}", file=sys.stderr)
    if machine:
        print_json(
            {
                "server": arguments.server,
                "file": str(path),
                "changed": bool(diff),
                "written": write,
                **_after(change, arguments),
            }
        )
        return 0
    said = TAKEN_OVER if write else "Nothing is written." if diff else f"{path} says so already."
    print(f"{arguments.server} is {done}. {said}" if write else said)
    for note in notes or ():
        print(f"Note: {note}")
    return 0


def _after(change: Change, arguments: argparse.Namespace) -> Mapping[str, Any]:
    """The section as it is now, without secrets; nothing where it is gone."""
    table = at(parsed(change.text.encode(), change.file.path)[0], ("servers", arguments.server))
    return {"table": secret_values.masked(table)} if isinstance(table, dict) else {}
