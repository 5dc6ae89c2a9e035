"""``pml connect``: write PML into the configuration of an MCP client."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pml_core.errors import OperatorError

from . import client_text, edited_file
from .connect_places import CLIENTS, IMPORTED_AS, Place, place
from .output import print_json

NAME = "pml"
ADDRESS = ("type", "command", "args", "url", "serverUrl", "httpUrl")
"""What PML writes of a server; other keys are the user's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What is to become of one file of a client's."""

    place: Place
    file: edited_file.FileText
    raw: bytes | None
    """The file as it is to be; None: it goes away."""
    action: str
    """``"added"``, ``"replaced"``, ``"unchanged"``, ``"removed"`` or ``"restored"``."""
    notes: tuple[str, ...] = ()
    spent: Path | None = None
    """A copy that the file will be the same as again, and that is not needed then."""

    @property
    def diff(self) -> str:
        """What changes, without secrets."""
        text = "" if self.raw is None else self.raw.decode("utf-8-sig")
        return client_text.without_secrets(edited_file.difference(self.file, text, context=0), self.file.text, text)


def add(subcommands: Any) -> None:
    """Add the command."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "connect",
        help="write PML into the configuration of an MCP client",
        description=(
            "Add PML to the servers of an MCP client. What changes is shown; the file as it was is kept beside it; "
            "pml disconnect takes it back."
        ),
    )
    add_target(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration that PML is to be started with")
    parser.add_argument("--mode", metavar="MODE", help="exposure mode that PML is to be started with")
    parser.add_argument("--url", default="", metavar="URL", help="connect to pml serve --http, which runs already")
    parser.set_defaults(run=run)


def add_target(parser: argparse.ArgumentParser) -> None:
    """The options that say which file, and how to go about it."""
    parser.add_argument("client", choices=[*CLIENTS, *IMPORTED_AS.values()], metavar="CLIENT", help=", ".join(CLIENTS))
    parser.add_argument("--project", action="store_true", help="this folder's file of the client, not the user's")
    parser.add_argument("--file", type=Path, metavar="FILE", help="another file, in the client's format")
    parser.add_argument("--name", default=NAME, metavar="NAME", help=f"what PML is called there (default: {NAME})")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show the change, write nothing")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Connect the client; the exit status."""
    where = place_of(arguments)
    entry = where.entry([*pml_command(shared=arguments.project), "serve", *_options(arguments)], arguments.url)
    return finish(connecting(where, arguments.name, entry), arguments)


def place_of(arguments: argparse.Namespace) -> Place:
    """The file that is meant.

    Raises:
        OperatorError: The client has no such file.
    """
    client = {imported: own for own, imported in IMPORTED_AS.items()}.get(arguments.client, arguments.client)
    found = place(client, Path.home(), Path.cwd(), of_project=arguments.project)
    return found if arguments.file is None else Place(client, arguments.file, found.servers, found.format)


def pml_command(*, shared: bool) -> list[str]:
    """What starts PML: the full path, because clients search elsewhere; by name in a file that others share."""
    if shared:
        return ["pml"]
    for candidate in (Path(sys.argv[0]), Path(sys.executable).with_name("pml")):
        if candidate.stem == "pml" and candidate.is_file():
            return [str(candidate.absolute())]
    return [sys.executable, "-P", "-m", "pml_core"]


def _options(arguments: argparse.Namespace) -> list[str]:
    """Options of ``pml serve``. Clients start servers in any folder, so the configuration in force here is named."""
    from pml_core.trust import in_force

    here = Path.cwd()
    config = arguments.config
    if config is not None and not config.is_file():
        raise OperatorError(f"--config {config}: there is no such file", "Give the path of a file that exists.")
    if config is None and not arguments.project and not arguments.url:
        config = next(iter(in_force(here)), None)
    options = [] if config is None else ["--config", str(config if arguments.project else config.absolute())]
    options += [] if arguments.mode is None else ["--mode", arguments.mode]
    if options and arguments.url:
        raise OperatorError("--url: PML runs already, so --config and --mode mean nothing", "Leave them out.")
    return options


def connecting(where: Place, name: str, entry: Mapping[str, Any]) -> Edit:
    """The edit that makes ``entry`` the server ``name`` of a client.

    Raises:
        OperatorError: The file cannot be read or changed; says what to write by hand.
    """
    file = edited_file.read(where.path)
    servers = client_text.servers_in(where, file)
    if name in servers and client_text.is_pml(servers[name]):
        entry = {**{key: value for key, value in servers[name].items() if key not in ADDRESS}, **entry}
    if servers.get(name) == entry:
        return Edit(place=where, file=file, raw=file.raw, action="unchanged", notes=tuple(_notes(where, servers, name)))
    if name in servers and not client_text.is_pml(servers[name]):
        raise OperatorError(
            f"{where.path}: has a server {name!r} that is not PML", "Give PML another name there with --name."
        )
    text = client_text.with_server(where, file.text, name, entry)
    notes = list(_notes(where, servers, name))
    if not where.path.parent.is_dir():
        notes.append(f"{where.path.parent} did not exist; is {CLIENTS[where.client]} installed?")
    action = "replaced" if name in servers else "added"
    return Edit(place=where, file=file, raw=file.encoded(text), action=action, notes=tuple(notes))


def _notes(where: Place, servers: Mapping[str, Any], name: str) -> Iterator[str]:
    others = [other for other in servers if other != name]
    if others:
        have = f"{CLIENTS[where.client]} still starts {', '.join(others)} itself"
        imported = IMPORTED_AS.get(where.client, where.client)
        yield f"{have}; pml import --from {imported} takes them over, then take them out there."


def finish(edit: Edit, arguments: argparse.Namespace) -> int:
    """Show, ask, write, say what was done; the exit status."""
    path, machine, diff = edit.place.path, arguments.json, edit.diff
    if diff and not machine:
        print(diff, end="")
    write = edit.action != "unchanged" and not arguments.dry_run
    if write and not edited_file.agreed(f"Write {path}?", yes=arguments.yes or machine):
        print("Nothing is written.")
        return 1
    backup = edited_file.replace(edit.file, edit.raw) if write else None
    if write and edit.action == "restored":  # what is taken back is PML's alone: no copy of it is needed
        for copy in filter(None, (edit.spent, backup)):
            copy.unlink(missing_ok=True)
        backup = None
    if machine:
        done = {"client": edit.place.client, "file": str(path), "action": edit.action, "written": write, "diff": diff}
        print_json({**done, "backup": str(backup) if backup else None, "notes": list(edit.notes)})
        return 0
    print(_said(edit, arguments, backup, write=write))
    for note in edit.notes:
        print(f"Note: {note}")
    return 0


def _said(edit: Edit, arguments: argparse.Namespace, backup: Path | None, *, write: bool) -> str:
    client, path = CLIENTS[edit.place.client], edit.place.path
    if edit.action == "unchanged":
        return f"{path} is as it should be already."
    if not write:
        return f"Dry run: {path} stays as it is."
    kept = f" What was there before is in {backup}." if backup else ""
    if edit.action in ("added", "replaced"):
        named = [] if arguments.name == NAME else ["--name", arguments.name]
        where = ["--project"] if arguments.project else [] if arguments.file is None else ["--file", str(path)]
        undo = shlex.join(["pml", "disconnect", edit.place.client, *where, *named])
        return f"{client} is connected: {path}.{kept} Restart {client}; {undo} takes it back."
    if edit.action == "removed":
        return f"{client} is disconnected: PML is taken out of {path}.{kept} Restart {client}."
    now = "is gone again" if edit.raw is None else "is what it was, byte by byte"
    return f"{client} is disconnected: {path} {now}. Restart {client}."
