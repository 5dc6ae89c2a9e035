"""``pml connect``: write PML into the configuration of an MCP client."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pml_clients import edited_file
from pml_clients.client_configs import ClientConfigError
from pml_clients.configuration.trust import in_force
from pml_clients.trees import KeyPath
from pml_kit.errors import OperatorError
from pml_kit.terminal import print_json

from . import client_text, connections, takeover
from .connect_places import CLIENTS, IMPORTED_AS, Place, place
from .takeover import Takeover

if TYPE_CHECKING:
    from pml_clients.configuration.view import ConfigurationFiles

NAME = "pml"
ADDRESS = ("type", "command", "args", "url", "serverUrl", "httpUrl")
"""What PML writes of a server; other keys are the user's."""
UVX_ENVIRONMENTS = "archive-v0"
"""Folder of uv's cache in which environments that ``uvx`` makes lie."""
OWN_HOSTS = ("127.0.0.1", "localhost", "::1")
"""Where a gateway that runs already has this machine's configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What is to become of one file of a client's."""

    place: Place
    file: edited_file.FileText
    raw: bytes | None
    """The file as it is to be; None: it goes away."""
    action: str
    """``"added"``, ``"replaced"``, ``"moved"``, ``"unchanged"``, ``"removed"``, ``"merged"`` or ``"restored"``."""
    moved: tuple[KeyPath, ...] = ()
    """The servers that are taken out of it."""
    before: bytes | None = None
    """What it was without PML."""

    @property
    def diff(self) -> str:
        """What changes, without secrets."""
        text = "" if self.raw is None else self.raw.decode("utf-8-sig")
        return client_text.without_secrets(edited_file.difference(self.file, text, context=0), self.file.text, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be done for one connection."""

    edits: tuple[Edit, ...]
    """The client's file first, then others that servers move out of or back to."""
    changed: tuple[connections.FileChange, ...] | None = None
    """What is to be remembered of it; None when there is nothing new."""
    notes: tuple[str, ...] = ()


def add(subcommands: Any) -> None:
    """Add the command."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "connect",
        help="write PML into the configuration of an MCP client",
        description=(
            "Add PML to the servers of an MCP client, and move those out of the client's files that PML has taken over "
            "(pml import). What changes is shown; the files as they were are kept beside them; pml disconnect takes "
            "it back."
        ),
    )
    add_target(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration that PML is to be started with")
    parser.add_argument("--mode", metavar="MODE", help="exposure mode that PML is to be started with")
    parser.add_argument("--url", default="", metavar="URL", help="connect to pml serve --http, which runs already")
    parser.add_argument("--keep", action="store_true", help="leave the client's own servers where they are")
    parser.set_defaults(run_on_files=run)


def add_target(parser: argparse.ArgumentParser) -> None:
    """The options that say which file, and how to go about it."""
    parser.add_argument("client", choices=[*CLIENTS, *IMPORTED_AS.values()], metavar="CLIENT", help=", ".join(CLIENTS))
    parser.add_argument("--project", action="store_true", help="this folder's file of the client, not the user's")
    parser.add_argument("--file", type=Path, metavar="FILE", help="another file, in the client's format")
    parser.add_argument("--name", default=NAME, metavar="NAME", help=f"what PML is called there (default: {NAME})")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show the change, write nothing")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace, files: ConfigurationFiles) -> int:
    """Connect the client; the exit status."""
    where = place_of(arguments)
    config = _config(arguments)
    entry = where.entry([*pml_command(shared=arguments.project), "serve", *_options(arguments, config)], arguments.url)
    return finish(connecting(where, arguments.name, entry, _taken(where, arguments, config, files)), arguments)


def _taken(
    where: Place, arguments: argparse.Namespace, config: Path | None, files: ConfigurationFiles
) -> Takeover:  # fmt: skip
    if arguments.url and urlsplit(arguments.url).hostname not in OWN_HOSTS:
        return Takeover(notes=("The client's own servers stay: what PML has at that address is not known here.",))
    only = where.path.absolute() if arguments.file is not None else None
    try:
        texts = connections.texts_without(where, arguments.name)
        taken = takeover.by_pml(where.client, files.load(config), only=only, folders=arguments.project, texts=texts)
    except ClientConfigError as exc:
        return Takeover(notes=(f"The client's own servers stay. {exc}",))
    if not arguments.keep or not taken.moves:
        return taken
    names = ", ".join(sorted({keys[-1] for moved in taken.moves.values() for keys in moved}))
    return Takeover(notes=(*taken.notes, f"{CLIENTS[where.client]} still starts {names} itself, and PML does, too."))


def place_of(arguments: argparse.Namespace) -> Place:
    """The file that is meant.

    Raises:
        OperatorError: The client has no such file.
    """
    client = {imported: own for own, imported in IMPORTED_AS.items()}.get(arguments.client, arguments.client)
    found = place(client, Path.home(), Path.cwd(), of_project=arguments.project)
    return found if arguments.file is None else Place(client, arguments.file, found.servers, found.format)


def pml_command(*, shared: bool) -> list[str]:
    """What starts PML: the full path, because clients search elsewhere; by name in a file that others share.

    What ``uvx`` runs lies in a cache that is cleared now and then, so it is started by ``uvx`` again.
    """
    if shared:
        return ["pml"]
    if UVX_ENVIRONMENTS in Path(sys.prefix).parts:
        return [shutil.which("uvx") or "uvx", "--from", "pml-gateway", "pml"]
    for candidate in (Path(sys.argv[0]), Path(sys.executable).with_name("pml")):
        if candidate.stem == "pml" and candidate.is_file():
            return [str(candidate.absolute())]
    return [sys.executable, "-P", "-m", "pml_core"]


def _config(arguments: argparse.Namespace) -> Path | None:
    """The configuration that is in force here; None where PML finds it itself, or runs already."""
    config: Path | None = arguments.config
    if config is not None and not config.is_file():
        raise OperatorError(f"--config {config}: there is no such file", "Give the path of a file that exists.")
    if config is None and not arguments.project and not arguments.url:
        return next(iter(in_force(Path.cwd())), None)
    return config


def _options(arguments: argparse.Namespace, config: Path | None) -> list[str]:
    """Options of ``pml serve``. Clients start servers in any folder, so the configuration in force here is named."""
    options = [] if config is None else ["--config", str(config if arguments.project else config.absolute())]
    options += [] if arguments.mode is None else ["--mode", arguments.mode]
    if options and arguments.url:
        raise OperatorError("--url: PML runs already, so --config and --mode mean nothing", "Leave them out.")
    return options


def connecting(where: Place, name: str, entry: Mapping[str, Any], taken: Takeover) -> Work:
    """What makes ``entry`` the server ``name`` of a client, and moves what PML has taken over out of its files.

    What was done when it was connected before is taken back first.

    Raises:
        OperatorError: A file cannot be read or changed; says what to write by hand.
    """
    file = edited_file.read(where.path)
    servers = client_text.servers_in(where, file)
    if name in servers and not client_text.is_pml(servers[name]):
        raise OperatorError(
            f"{where.path}: has a server {name!r} that is not PML", "Give PML another name there with --name."
        )
    if name in servers:
        entry = {**{key: value for key, value in servers[name].items() if key not in ADDRESS}, **entry}
    done = {one.path: one for one in connections.file_changes(where, name)}
    moves = {path.absolute(): keys for path, keys in taken.moves.items()}
    notes = list(taken.notes)
    if not where.path.parent.is_dir():
        notes.append(f"{where.path.parent} did not exist; is {CLIENTS[where.client]} installed?")
    edits = []
    for path in dict.fromkeys((where.path.absolute(), *moves, *done)):
        place = where if path == where.path.absolute() else connections.other_place(where, path)
        edit = _edit(place, name, done.get(path), moves.get(path, ()), notes)
        if place is where:
            text = client_text.with_server(where, _text(edit), name, entry)
            edit = replace(edit, raw=edit.file.encoded(text), action="replaced" if name in servers else "added")
        edits.append(replace(edit, action="unchanged") if edit.raw == edit.file.raw else edit)
    notes += _shared(where, edits)
    changed = [
        connections.FileChange(
            path=edit.file.path.absolute(),
            before=None if edit.before is None else edit.before.decode(),
            after=(edit.raw or b"").decode(),
            moved=edit.moved,
        )
        for edit in edits
        if edit.raw != edit.before
    ]
    shown = [edit for edit in edits if edit is edits[0] or edit.action != "unchanged"]
    return Work(edits=tuple(shown), changed=tuple(changed), notes=tuple(notes))


def _edit(
    place: Place, name: str, done: connections.FileChange | None, moves: Sequence[KeyPath], notes: list[str]
) -> Edit:  # fmt: skip
    """The file without what was done to it before, and without the servers that move out of it now."""
    file = edited_file.read(place.path)
    before = file.raw if done is None else connections.restoration(place, name, file, done).raw
    text, moved = _text(Edit(place=place, file=file, raw=before, action="")), []
    for keys in moves:
        try:
            text = client_text.without_server(replace(place, servers=keys[:-1]), text, keys[-1])
            moved.append(keys)
        except OperatorError as exc:
            notes.append(f"{keys[-1]} stays: {exc.message}. {exc.remedy}")
    raw = before if before is None and not moved else file.encoded(text)
    return Edit(place=place, file=file, raw=raw, action="moved", moved=tuple(moved), before=before)


def _text(edit: Edit) -> str:
    return (edit.raw or b"").decode("utf-8-sig")


def _shared(where: Place, edits: Sequence[Edit]) -> Iterator[str]:
    for edit in edits:
        if edit.moved and edit.file.path.is_relative_to(Path.cwd()) and edit.place is not where:
            yield f"{edit.file.path} comes with this folder: whoever shares it has it as it is now. --keep leaves it."


def finish(work: Work, arguments: argparse.Namespace) -> int:
    """Show, ask, write, say what was done; the exit status."""
    machine, diffs = arguments.json, [edit.diff for edit in work.edits]
    if not machine:
        print("".join(diffs), end="")
    edits = [edit for edit in work.edits if edit.action != "unchanged"]
    write = bool(edits) and not arguments.dry_run
    paths = ", ".join(str(edit.place.path) for edit in edits)
    if write and not edited_file.agreed(f"Write {paths}?", yes=arguments.yes or machine):
        print("Nothing is written.")
        return 1
    backups = _written(work, arguments.name) if write else {}
    if machine:
        print_json(_document(work, diffs, backups, write=write))
        return 0
    print(_said(work, arguments, backups, write=write))
    for note in work.notes:
        print(f"Note: {note}")
    return 0


def _written(work: Work, name: str) -> dict[Path, Path]:
    """Write the files; the copies of what was there, by file."""
    where = work.edits[0].place
    if work.changed:
        connections.keep(where, name, work.changed)
    backups = {}
    for edit in work.edits:
        if edit.action == "unchanged":
            continue
        backup = edited_file.replace(edit.file, edit.raw)
        if edit.action == "restored":  # what is taken back is PML's alone: no copy of it is needed
            for copy in edited_file.backups(edit.file.path):
                if copy == backup or copy.read_bytes() == edit.raw:
                    copy.unlink(missing_ok=True)
        elif backup is not None:
            backups[edit.place.path] = backup
    if work.changed is not None and not work.changed:
        connections.keep(where, name, ())
    return backups


def _document(work: Work, diffs: Sequence[str], backups: Mapping[Path, Path], *, write: bool) -> dict[str, Any]:
    target, *others = [
        {
            "file": str(edit.place.path),
            "action": edit.action,
            "moved": [keys[-1] for keys in edit.moved],
            "diff": diff,
            "backup": str(backups[edit.place.path]) if edit.place.path in backups else None,
        }
        for edit, diff in zip(work.edits, diffs, strict=True)
    ]
    client = work.edits[0].place.client
    return {"client": client, **target, "written": write, "others": others, "notes": list(work.notes)}


def _said(work: Work, arguments: argparse.Namespace, backups: Mapping[Path, Path], *, write: bool) -> str:
    edit = work.edits[0]
    client, path = CLIENTS[edit.place.client], edit.place.path
    if all(one.action == "unchanged" for one in work.edits):
        return f"{path} is as it should be already."
    if not write:
        return f"Dry run: {path} stays as it is."
    kept = f" What was there before is in {', '.join(map(str, backups.values()))}." if backups else ""
    moved = ", ".join(dict.fromkeys(keys[-1] for one in work.edits for keys in one.moved))
    if work.changed:
        named = [] if arguments.name == NAME else ["--name", arguments.name]
        where = ["--project"] if arguments.project else [] if arguments.file is None else ["--file", str(path)]
        undo = shlex.join(["pml", "disconnect", edit.place.client, *where, *named])
        taken = f" PML runs {moved} now, and {client} no longer does." if moved else ""
        return f"{client} is connected: {path}.{taken}{kept} Restart {client}; {undo} takes it back."
    others = "".join(f" {one.place.path} {_BECAME[one.action]}." for one in work.edits[1:])
    now = "is gone again" if edit.raw is None and edit.action != "unchanged" else _BECAME[edit.action]
    return f"{client} is disconnected: {path} {now}.{others}{kept} Restart {client}."


_BECAME = {
    "restored": "is what it was, byte by byte",
    "merged": "is what it was, with what was changed since",
    "removed": "has PML no more",
    "unchanged": "stays as it is",
}
