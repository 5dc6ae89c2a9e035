"""Servers of the configuration enabled, disabled and started anew: the user's own file, never a project's."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_clients.trees import at
from pml_kit.errors import OperatorError

from . import changes, restarts
from .files import home, read_file
from .view import source_of

if TYPE_CHECKING:
    from .view import ConfigurationFiles

USERS_FILES = ("config.toml", "config.yaml", "config.yml")


def target(files: ConfigurationFiles) -> Path:
    """The file to change: the one that was given, else the user's."""
    if files.given is not None:
        return files.given
    found = [path for name in USERS_FILES if (path := home() / name).is_file()]
    return found[0] if found else home() / USERS_FILES[0]


def section(path: Path, server: str) -> Any:
    """What a file says of a server; None for nothing.

    Raises:
        OperatorError: It cannot be read.
    """
    return at(read_file(path)[0], ("servers", server)) if path.is_file() else None


def file_of(server: str, files: ConfigurationFiles, verb: str) -> Path:
    """The file to change, which has the server.

    Args:
        verb: Of ``pml servers``: what is to be done.

    Raises:
        OperatorError: It does not; the message says which one has.
    """
    path = target(files)
    if section(path, server) is not None:
        return path
    configuration = files.load(files.given)
    configuration.server(server)
    where = source_of(configuration.sources, ("servers", server))
    raise OperatorError(
        f"{path} has no [servers.{server}]; it is in {where}",
        f"Have that file changed: pml servers {verb} {server} --config {where}",
    )


def switched(server: str, files: ConfigurationFiles, *, enabled: bool) -> changes.Change:
    """The change by which a server is started, or neither started nor listed; not written.

    Raises:
        OperatorError: The file has no such server, cannot be read or changed, or would not fit any more.
    """
    path = file_of(server, files, "enable" if enabled else "disable")
    return changes.make(path, {("servers", server, "enabled"): enabled}, files)


def tool_switched(server: str, tool: str, files: ConfigurationFiles, *, enabled: bool) -> changes.Change:
    """The change by which nobody can have a tool of a server, or whomever nothing else keeps from it; not written.

    Args:
        server: Its name.
        tool: The server's own name for the tool.
        files: Where to look for the server.
        enabled: Whether it can be had.

    Raises:
        OperatorError: The file has no such server, does not name the tool that is to be had again, cannot be read or
            changed, or would not fit any more.
    """
    path, pattern = target(files), glob.escape(tool)
    said = section(path, server)
    if said is None:
        raise OperatorError(
            f"{path} has no [servers.{server}]", f"Where it is, write this: [servers.{server}.tools] deny = [{tool!r}]"
        )
    before = [str(one) for one in at(said, ("tools", "deny")) or ()]
    if enabled and pattern not in before:
        raise OperatorError(
            f"{path}: no word of [servers.{server}] tools is {tool!r}, so one of its patterns, or allow, keeps it away",
            "Change that by hand.",
        )
    without = [one for one in before if one != pattern]
    return changes.make(
        path, {("servers", server, "tools", "deny"): without if enabled else [*without, pattern]}, files
    )


def restart(servers: Sequence[str], files: ConfigurationFiles) -> None:
    """Have every running gateway of this user start servers anew, within seconds.

    Raises:
        OperatorError: There is no such server, it is disabled, or gateways cannot be told.
    """
    configuration = files.from_options()
    for name in servers:
        if not configuration.server(name)["enabled"]:
            raise OperatorError(f"server {name!r} is disabled", f"First: pml servers enable {name}")
    restarts.ask(servers)
