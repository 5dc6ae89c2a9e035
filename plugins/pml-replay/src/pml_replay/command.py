"""``pml replay FILE``: a gateway whose only servers are recorded ones."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments

if TYPE_CHECKING:
    import argparse

    from .session import Session


def add(subcommands: Any) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "replay",
        help="serve a recorded session as an MCP server, on standard input and output",
        description="Serve the recorded tools of a file that pml recordings export wrote. Nothing of your own "
        "configuration counts, no server is started, and a call that is not recorded is an error.",
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="say what is in the file, and serve nothing")
    parser.add_argument("--http", metavar="HOST:PORT", help="serve over HTTP instead; needs pml-transport-http")
    parser.add_argument("--mode", default="full_proxy", metavar="NAME", help="exposure mode")
    parser.add_argument("--prefix", action="store_true", help="names of tools as behind a gateway: server__tool")
    parser.add_argument("--strict", action="store_true", help="refuse calls made more often than they were recorded")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the file, then become the gateway; the exit status, where it does not."""
    from .session import SessionError, load

    try:
        session = load(arguments.file)
    except SessionError as exc:
        raise InvalidArguments(str(exc)) from exc
    if not arguments.check:
        command = serving(session, arguments)
        os.execve(command[0], command, environment())  # noqa: S606 - this interpreter, and no shell
    for server in session.servers:
        sys.stdout.write(f"{server}: {', '.join(str(tool['name']) for tool in session.tools(server))}\n")
    return 0


def serving(session: Session, arguments: argparse.Namespace) -> list[str]:
    """The command line of the gateway."""
    settings: list[tuple[str, Any]] = [
        # Nothing is kept, and what was kept by others is not looked at.
        ("gateway.block", ["sqlite", "postgres"]),
        ("gateway.log_level", "warning"),
        ("plugins.replay.after_last", "refuse" if arguments.strict else "repeat"),
    ]
    address = f"replay:{arguments.file.resolve()}"
    for name, server in _names(session).items():
        settings += [(f"servers.{name}.address", address), (f"servers.{name}.server", server)]
        if not arguments.prefix:
            settings.append((f"servers.{name}.prefix", ""))
    overrides = [word for path, value in settings for word in ("--set", f"{path}={json.dumps(value)}")]
    http = [] if arguments.http is None else ["--http", arguments.http]
    where = ["--config", os.devnull, "--mode", arguments.mode]
    return [sys.executable, "-m", "pml_core", "serve", *where, *http, *overrides]


def environment() -> dict[str, str]:
    """This process's, without what would configure a gateway."""
    mine = {name: value for name, value in os.environ.items() if not name.upper().startswith("PML_")}
    return {**mine, "PML_HOME": os.path.join(os.devnull, "replay")}  # noqa: PTH118 - there is no such folder


def _names(session: Session) -> dict[str, str]:
    """Names for the gateway's servers, which may not have dots here, to those recorded."""
    names: dict[str, str] = {}
    for server in session.servers:
        plain = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]", "-", server)).strip("-_") or "server"
        name, number = plain, 2
        while name in names or name == "pml":
            name, number = f"{plain}-{number}", number + 1
        names[name] = server
    return names
