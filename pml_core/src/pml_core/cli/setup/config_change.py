"""Set values in a configuration file: which file, how it changes, whether it still fits, what was done."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pml_clients import edited_file, toml_edit, yaml_edit
from pml_clients.trees import KeyPath, at, flat
from pml_core.errors import OperatorError
from pml_core.settings.config import Config, load, normalise
from pml_core.settings.config_files import PROJECT_FILES, home, read_file
from pml_core.settings.trust import follow, in_force, projects_files
from pml_kit.terminal import print_json

USERS_FILE = "config.yaml"
"""Made below ``~/.pml`` when there is no configuration at all."""
PROJECTS_FILE = "pml.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be written."""

    file: edited_file.FileText
    text: str
    """The file as it is to be."""
    values: Mapping[KeyPath, Any]
    """By path in the file."""
    notes: tuple[str, ...] = ()

    @property
    def needed(self) -> bool:
        """False when the file says it already."""
        return self.file.raw is None or self.text != self.file.text


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that say where to write, and how."""
    group = parser.add_argument_group("with --preset or --wizard")
    where = group.add_mutually_exclusive_group()
    where.add_argument("--to", type=Path, metavar="FILE", help="write this file")
    where.add_argument("--user", action="store_true", help="write the user's file")
    where.add_argument("--project", action="store_true", help="write the project's file")
    group.add_argument("--print", action="store_true", help="print the values, write nothing")
    group.add_argument("--dry-run", action="store_true", help="show the change, write nothing")
    group.add_argument("--yes", action="store_true", help="do not ask")


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


def make(path: Path, values: Mapping[KeyPath, Any], *, gone: Sequence[KeyPath] = ()) -> Change:
    """The change of a file that makes it say ``values``, and nothing else below ``gone``; checked but not written.

    Raises:
        OperatorError: The file cannot be read or changed, or would not fit any more.
    """
    file = edited_file.read(path)
    if path.suffix not in (".toml", ".yaml", ".yml"):
        raise OperatorError(f"{path}: only TOML and YAML are written", "Give such a file with --to.")
    tree = read_file(path)[0] if file.raw is not None else {}
    placed = {_place(tree, keys, yaml=path.suffix != ".toml"): value for keys, value in values.items()}
    try:
        toml, text = path.suffix == ".toml", file.text
        for keys in gone:
            text = toml_edit.without_table(text, keys) if toml else yaml_edit.without(text, keys)
        text = toml_edit.with_values(text, placed) if toml else yaml_edit.with_values(text, placed)
    except (toml_edit.TomlEditError, yaml_edit.YamlEditError) as exc:
        raise OperatorError(f"{path}: {exc}", f"Write this there by hand:\n{snippet(path, placed)}") from None
    _check(path, text, existed=file.raw is not None)
    return Change(file=file, text=text, values=placed)


def snippet(path: Path, values: Mapping[KeyPath, Any]) -> str:
    """The values alone, in the format of ``path``."""
    edit = toml_edit.with_values if path.suffix == ".toml" else yaml_edit.with_values
    return edit("", values)


def _place(tree: Mapping[str, Any], keys: KeyPath, *, yaml: bool) -> KeyPath:
    """Where the file has, or should have, what belongs at ``keys``: ``gateway.hybrid`` is the older spelling."""
    if keys[0] != "plugins":
        return keys
    older = ("gateway", *keys[1:])
    if at(tree, keys) is not None or at(tree, keys[:2]) is not None:
        return keys
    return older if yaml or at(tree, older[:2]) is not None else keys


def _check(path: Path, text: str, *, existed: bool) -> None:
    """Refuse a change that brings a mistake with it.

    Raises:
        OperatorError: Names the mistakes.
    """
    from pml_core.admin.check import problems
    from pml_core.cli.sources import settings_types

    def found(file: Path, without: Path | None = None) -> list[str]:
        lines = problems(lambda: load(file, without=without), settings_types)
        return [line.replace(str(file), str(path)) for line in lines]

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.touch()
        before = found(path) if existed else found(copy, path)
        copy.write_text(text, encoding="utf-8")
        new = [problem for problem in found(copy, path) if problem not in before]
    if new:
        raise OperatorError("\n".join((f"{path}: nothing is written, because it would not fit:", *new)))


def apply(change: Change, arguments: argparse.Namespace, about: Mapping[str, Any]) -> int:
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
    backup = edited_file.replace(change.file, change.file.encoded(change.text)) if write else None
    if write and (why := follow(path, change.file.raw, change.file.encoded(change.text))):
        print(f"pml: {why}", file=sys.stderr)
    notes = [*change.notes, *overruled(change.values, path)] if write or not diff else list(change.notes)
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


def overruled(values: Mapping[KeyPath, Any], path: Path) -> list[str]:
    """One sentence for each value that a source which comes first says otherwise."""
    try:
        config = load(path if path.parent != home() and path not in in_force(Path.cwd()) else None)
    except OperatorError as exc:
        return [str(exc)]
    return [line for keys, value in values.items() if (line := _overruled(config, keys, value, path))]


def _overruled(config: Config, keys: KeyPath, value: Any, path: Path) -> str:
    effective = next(iter(flat(normalise({keys[0]: _nested(keys[1:], value)}))))
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
