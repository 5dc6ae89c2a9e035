"""``pml servers add``, ``remove``, ``enable``, ``disable`` and ``restart``: the user's own file, never a project's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_clients import secret_values
from pml_core.errors import OperatorError
from pml_core.settings import restarts
from pml_core.settings.config_files import home
from pml_kit.terminal import print_json

if TYPE_CHECKING:
    import argparse

    from .config_change import Change

USERS_FILES = ("config.toml", "config.yaml", "config.yml")
TAKEN_OVER = "A running gateway takes it over within seconds."


def target(arguments: argparse.Namespace) -> Path:
    """The file to change: the one that was given, else the user's."""
    if arguments.config is not None:
        return Path(arguments.config)
    found = [path for name in USERS_FILES if (path := home() / name).is_file()]
    return found[0] if found else home() / USERS_FILES[0]


def run_add(arguments: argparse.Namespace) -> int:
    """Write a section for a server."""
    name, path = arguments.server, target(arguments)
    table = _table(arguments)
    if (known := _section(path, name)) is not None and not arguments.replace:
        remedy = f"Give another name, or --replace; to change one key, edit {path}."
        raise OperatorError(f"{path}: [servers.{name}] is there already", remedy)
    from . import config_change

    changed = config_change.make(path, {("servers", name, key): value for key, value in table.items()}, gone=(
        [] if known is None else [("servers", name)]
    ))  # fmt: skip
    literal = [secret.name or secret.place for secret in secret_values.found_in(table)]
    notes = [
        f"{one} is written down as it is; ${{NAME}}, ${{keyring:NAME}} or --env-file keep it out" for one in literal
    ]
    return _apply(changed, arguments, "added", notes)


def run_remove(arguments: argparse.Namespace) -> int:
    """Take the section of a server out."""
    from . import config_change

    path = _having(arguments)
    return _apply(config_change.make(path, {}, gone=[("servers", arguments.server)]), arguments, "removed")


def run_enable(arguments: argparse.Namespace) -> int:
    """Have a server started, or not."""
    from . import config_change

    enabled = arguments.verb == "enable"
    changed = config_change.make(_having(arguments), {("servers", arguments.server, "enabled"): enabled})
    return _apply(changed, arguments, f"{arguments.verb}d")


def run_restart(arguments: argparse.Namespace) -> int:
    """Have every running gateway of this user start a server anew."""
    from pml_core.cli.servers_view import settings_of
    from pml_core.cli.sources import load_as_told

    for name in arguments.server:
        if not settings_of(load_as_told(arguments), name).enabled:
            raise OperatorError(f"server {name!r} is disabled", f"First: pml servers enable {name}")
    restarts.ask(arguments.server)
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


def _section(path: Path, name: str) -> Any:
    """What a file says of a server; None for nothing."""
    from pml_core.settings.config_files import dig, read_file

    return dig(read_file(path)[0], ("servers", name)) if path.is_file() else None


def _having(arguments: argparse.Namespace) -> Path:
    """The file to change, which has the server.

    Raises:
        OperatorError: It does not; the message says which one has.
    """
    from pml_core.cli.servers_view import settings_of
    from pml_core.settings.config import load

    path, name = target(arguments), arguments.server
    if _section(path, name) is not None:
        return path
    config = load(arguments.config)
    settings_of(config, name)
    where = config.says(("servers", name))
    raise OperatorError(
        f"{path} has no [servers.{name}]; it is in {where}",
        f"Have that file changed: pml servers {arguments.verb} {name} --config {where}",
    )


def _apply(change: Change, arguments: argparse.Namespace, done: str, notes: list[str] | None = None) -> int:
    """Show, ask, write, say what was done; the exit status."""
    from pml_clients import edited_file
    from pml_core.settings.trust import follow

    path, machine = change.file.path, arguments.json
    diff = edited_file.difference(change.file, change.text) if change.needed else ""
    if diff and not machine:
        print(diff, end="")
    write = bool(diff) and not arguments.dry_run
    if write and not edited_file.agreed(f"Write {path}?", yes=arguments.yes or machine):
        print("Nothing is written.")
        return 1
    if write:
        edited_file.replace(change.file, change.file.encoded(change.text))
        if why := follow(path, change.file.raw, change.file.encoded(change.text)):
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
    from pml_core.settings.config_files import dig, parsed

    table = dig(parsed(change.text.encode(), change.file.path)[0], ("servers", arguments.server))
    return {"table": secret_values.masked(table)} if isinstance(table, dict) else {}
