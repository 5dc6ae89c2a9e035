"""``pml disconnect``: take PML out of the configuration of an MCP client again."""

from __future__ import annotations

import argparse
from typing import Any

from pml_core.errors import OperatorError

from . import client_text, connect, edited_file
from .connect_places import CLIENTS, Place


def add(subcommands: Any) -> None:
    """Add the command."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "disconnect",
        help="take PML out of the configuration of an MCP client",
        description=(
            "Take back what pml connect did. If nothing else has changed since, the file becomes what it was, byte by "
            "byte; otherwise only PML is taken out of it."
        ),
    )
    connect.add_target(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Disconnect the client; the exit status."""
    return connect.finish(disconnecting(connect.place_of(arguments), arguments.name), arguments)


def disconnecting(where: Place, name: str) -> connect.Edit:
    """The edit that takes the server ``name`` out.

    Raises:
        OperatorError: The file cannot be read or changed, or what is called so is not PML.
    """
    file = edited_file.read(where.path)
    servers = client_text.servers_in(where, file)
    if name not in servers:
        client = CLIENTS[where.client]
        note = f"{client} is not connected under the name {name}; there are: {', '.join(servers) or 'no servers'}."
        return connect.Edit(place=where, file=file, raw=file.raw, action="unchanged", notes=(note,))
    if not client_text.is_pml(servers[name]):
        raise OperatorError(
            f"{where.path}: the server {name!r} is not PML", "Give the name that PML has there with --name."
        )
    for copy in edited_file.backups(where.path):
        before = edited_file.FileText(where.path, copy.read_bytes())
        if _is_all_that_changed(where, before, file, name, servers[name]):
            return connect.Edit(place=where, file=file, raw=before.raw, action="restored", spent=copy)
    if _is_all_that_changed(where, edited_file.FileText(where.path, None), file, name, servers[name]):
        return connect.Edit(place=where, file=file, raw=None, action="restored")
    raw = file.encoded(client_text.without_server(where, file.text, name))
    return connect.Edit(place=where, file=file, raw=raw, action="removed")


def _is_all_that_changed(
    where: Place, before: edited_file.FileText, now: edited_file.FileText, name: str, entry: Any
) -> bool:
    """Whether connecting ``before`` gives what stands there now."""
    try:
        if name in client_text.servers_in(where, before):
            return False
        return before.encoded(client_text.with_server(where, before.text, name, entry)) == now.raw
    except OperatorError:
        return False
