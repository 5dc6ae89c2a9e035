"""``pml disconnect``: take PML out of the configuration of an MCP client again."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from pml_clients import edited_file
from pml_kit.errors import OperatorError

from . import client_text, connect, connections
from .connect import Edit
from .connect_places import CLIENTS, Place


def add(subcommands: Any) -> None:
    """Add the command."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "disconnect",
        help="take PML out of the configuration of an MCP client",
        description=(
            "Take back what pml connect did. A file in which nothing else has changed since becomes what it was, byte "
            "by byte; one that was changed elsewhere becomes that with these changes; otherwise PML is taken out, the "
            "servers that moved are put back as they read, and that is said."
        ),
    )
    connect.add_target(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Disconnect the client; the exit status."""
    return connect.finish(disconnecting(connect.place_of(arguments), arguments.name), arguments)


def disconnecting(where: Place, name: str) -> connect.Work:
    """What takes the server ``name`` out, and puts back what moved when it was connected.

    Raises:
        OperatorError: A file cannot be read or changed, or what is called so is not PML.
    """
    file = edited_file.read(where.path)
    servers = client_text.servers_in(where, file)
    if name in servers and not client_text.is_pml(servers[name]):
        raise OperatorError(
            f"{where.path}: the server {name!r} is not PML", "Give the name that PML has there with --name."
        )
    if done := connections.file_changes(where, name):
        return _taken_back(where, name, done)
    if name not in servers:
        client = CLIENTS[where.client]
        note = f"{client} is not connected under the name {name}; there are: {', '.join(servers) or 'no servers'}."
        return connect.Work(edits=(Edit(place=where, file=file, raw=file.raw, action="unchanged"),), notes=(note,))
    raw = file.encoded(client_text.without_server(where, file.text, name))
    notes = ["Nothing is known of how it was connected, so that PML is taken out and nothing is put back."]
    if copies := edited_file.backups(where.path):
        notes.append(f"What was there before is in {', '.join(map(str, copies))}.")
    return connect.Work(edits=(Edit(place=where, file=file, raw=raw, action="removed"),), notes=tuple(notes))


def _taken_back(where: Place, name: str, done: Sequence[connections.FileChange]) -> connect.Work:
    edits: list[Edit] = []
    notes: list[str] = []
    for one in done:
        place = where if one.path == where.path.absolute() else connections.other_place(where, one.path)
        file = edited_file.read(one.path)
        undone = connections.restoration(place, name, file, one)
        action = "unchanged" if undone.raw == file.raw else undone.how
        edits.append(Edit(place=place, file=file, raw=undone.raw, action=action))
        notes += undone.notes
    edits.sort(key=lambda edit: edit.place is not where)
    return connect.Work(edits=tuple(edits), changed=(), notes=tuple(notes))
