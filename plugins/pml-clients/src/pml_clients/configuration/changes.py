"""A configuration file as it is to be: what changes in it, and whether it still fits."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_clients import edited_file, toml_edit, yaml_edit
from pml_clients.trees import KeyPath, at
from pml_kit.errors import OperatorError

from .files import read_file
from .trust import follow

if TYPE_CHECKING:
    from .view import ConfigurationFiles


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

    def write(self) -> tuple[Path | None, str]:
        """Write it, and go on trusting a project's file that was trusted.

        Returns:
            The copy of what was there, None for nothing; why the file does not count, ``""`` when it does.

        Raises:
            FileError: It cannot be written, or somebody else has changed it since it was read.
        """
        raw = self.file.encoded(self.text)
        return edited_file.replace(self.file, raw), follow(self.file.path, self.file.raw, raw)


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
