"""Set values in a configuration file: which file, how it changes, whether it still fits, what was done."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_clients import edited_file, toml_edit, yaml_edit
from pml_clients.configuration.files import PROJECT_FILES, home, read_file
from pml_clients.configuration.trust import follow, in_force, projects_files
from pml_clients.trees import KeyPath, at, flat
from pml_kit.errors import OperatorError
from pml_kit.terminal import print_json

if TYPE_CHECKING:
    from pml_clients.configuration.view import Configuration, ConfigurationFiles

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


def make(
    path: Path, values: Mapping[KeyPath, Any], files: ConfigurationFiles, *, gone: Sequence[KeyPath] = ()
) -> Change:  # fmt: skip
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
    _check(path, text, files, existed=file.raw is not None)
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


def _check(path: Path, text: str, files: ConfigurationFiles, *, existed: bool) -> None:
    """Refuse a change that brings a mistake with it.

    Raises:
        OperatorError: Names the mistakes.
    """

    def found(file: Path, without: Path | None = None) -> list[str]:
        return [line.replace(str(file), str(path)) for line in files.problems(file, without)]

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.touch()
        before = found(path) if existed else found(copy, path)
        copy.write_text(text, encoding="utf-8")
        new = [problem for problem in found(copy, path) if problem not in before]
    if new:
        raise OperatorError("\n".join((f"{path}: nothing is written, because it would not fit:", *new)))


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
    backup = edited_file.replace(change.file, change.file.encoded(change.text)) if write else None
    if write and (why := follow(path, change.file.raw, change.file.encoded(change.text))):
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
