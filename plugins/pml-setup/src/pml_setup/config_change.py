"""Values set in a configuration file, as commands do it: which file, whether it is to be, what was done."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_clients import edited_file
from pml_clients.configuration.changes import snippet
from pml_clients.configuration.files import PROJECT_FILES, home
from pml_clients.configuration.trust import in_force, projects_files
from pml_clients.trees import KeyPath, at, flat
from pml_kit.errors import OperatorError
from pml_kit.terminal import print_json

if TYPE_CHECKING:
    from pml_clients.configuration.changes import Change
    from pml_clients.configuration.view import Configuration, ConfigurationFiles

USERS_FILE = "config.yaml"
"""Made below ``~/.pml`` when there is no configuration at all."""
PROJECTS_FILE = "pml.toml"


def target(arguments: argparse.Namespace) -> Path:
    """The file to write: as asked, or the one that counts most here, or the user's."""
    project, users = Path.cwd(), home()
    found = in_force(project)
    if (asked := arguments.to or arguments.config) is not None:
        return Path(asked)
    if arguments.project:
        return next((path for path in projects_files(project) if path.name in PROJECT_FILES), project / PROJECTS_FILE)
    if arguments.user:
        return next((path for path in found if path.parent == users), users / USERS_FILE)
    return found[0] if found else users / USERS_FILE


def apply(
    change: Change, arguments: argparse.Namespace, about: Mapping[str, Any], files: ConfigurationFiles
) -> int:  # fmt: skip
    """Show, ask, write, say what was done; the exit status.

    Args:
        about: What the JSON document says besides.
    """
    path, machine = change.file.path, arguments.json
    diff = edited_file.difference(change.file, change.text) if change.needed else ""
    if arguments.print:
        print(snippet(path, change.values), end="")
        return 0
    if diff and not machine:
        print(diff, end="")
    write = bool(diff) and not arguments.dry_run
    if write and not edited_file.agreed(f"Write {path}?", yes=arguments.yes or machine):
        print("Nothing is written.")
        return 1
    backup, why = change.write() if write else (None, "")
    if why:
        print(f"pml: {why}", file=sys.stderr)
    notes = [*change.notes, *overruled(change.values, path, files)] if write or not diff else list(change.notes)
    if machine:
        values = {".".join(keys): value for keys, value in change.values.items()}
        written = {"file": str(path), "changed": bool(diff), "written": write, "values": values, "diff": diff}
        print_json({**about, **written, "backup": str(backup) if backup else None, "notes": notes})
        return 0
    print(_said(path, backup, diff=bool(diff), write=write))
    for note in notes:
        print(f"Note: {note}")
    return 0


def _said(path: Path, backup: Path | None, *, diff: bool, write: bool) -> str:
    if not diff:
        return f"{path} says so already."
    if not write:
        return f"Dry run: {path} stays as it is."
    kept = f" What was there before is in {backup}." if backup else ""
    return f"Wrote {path}.{kept} Restart pml serve for it to count."


def overruled(values: Mapping[KeyPath, Any], path: Path, files: ConfigurationFiles) -> list[str]:
    """One sentence for each value that a source which comes first says otherwise."""
    try:
        config = files.load(path if path.parent != home() and path not in in_force(Path.cwd()) else None)
    except OperatorError as exc:
        return [str(exc)]
    return [line for keys, value in values.items() if (line := _overruled(files, config, keys, value, path))]


def _overruled(files: ConfigurationFiles, config: Configuration, keys: KeyPath, value: Any, path: Path) -> str:
    effective = next(iter(flat(files.normalise({keys[0]: _nested(keys[1:], value)}))))
    for source in config.sources:
        said = at(source.tree, effective)
        if said is None:
            continue
        if source.label == str(path):
            return ""
        return f"{'.'.join(keys)} is {said!r} in {source.label}, which comes first" if said != value else ""
    return ""


def _nested(keys: KeyPath, value: Any) -> Any:
    for name in reversed(keys):
        value = {name: value}
    return value
