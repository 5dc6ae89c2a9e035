"""What ``pml connect`` did to a client's files, kept so that ``pml disconnect`` can take it back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pml_clients import json_edit, jsonc, text_merge
from pml_clients.configuration.files import home
from pml_clients.configuration.private_files import write_json
from pml_clients.edited_file import FileText, read
from pml_clients.trees import KeyPath, at, with_value, without
from pml_kit.errors import OperatorError

from . import client_text
from .connect_places import Place

FOLDER = "connected"
"""In the user's PML folder; readable by nobody else, because clients' files may hold secrets."""

NOTHING = {"json": "{}", "toml": ""}
"""A file that says nothing."""
How: TypeAlias = Literal["restored", "merged", "removed", "unchanged"]
"""The file becomes what it was; that, with what was changed since; as near as it can; or there is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file."""

    path: Path
    before: str | None
    """What stood there; None for no file."""
    after: str
    """What ``pml connect`` made of it."""
    moved: tuple[KeyPath, ...] = ()
    """The servers that it took out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """One file without what ``pml connect`` did."""

    raw: bytes | None
    how: How
    notes: tuple[str, ...] = ()


def file_changes(where: Place, name: str) -> list[FileChange]:
    """The files that were changed for the connection ``name`` in a client's file; empty when none is known.

    Raises:
        OperatorError: What is kept cannot be read.
    """
    path = _record(where, name)
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        return [
            FileChange(
                path=Path(one["path"]),
                before=one["before"],
                after=one["after"],
                moved=tuple(tuple(keys) for keys in one["moved"]),
            )
            for one in tree["files"]
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise OperatorError(f"{path}: cannot be read: {exc}", "Mend or remove it.") from None


def keep(where: Place, name: str, changed: Sequence[FileChange]) -> None:
    """Keep what was changed, in the place of what was kept before; nothing when nothing was changed.

    Raises:
        OperatorError: It cannot be written.
    """
    path = _record(where, name)
    files = [
        {"path": str(one.path), "before": one.before, "after": one.after, "moved": [list(keys) for keys in one.moved]}
        for one in changed
    ]
    try:
        if not files:
            path.unlink(missing_ok=True)
            return
        write_json(path, {"name": name, "files": files})
    except OSError as exc:
        raise OperatorError(f"{path}: cannot be written: {exc.strerror}", "Make the folder writable.") from None


def restoration(where: Place, name: str, file: FileText, changed: FileChange) -> Restoration:
    """What becomes of a file when what was done to it is taken back.

    Args:
        where: The file; of one that only servers were moved out of, ``servers`` is empty.
        name: What PML is called there.
        file: As it is now.
        changed: What was done.

    Raises:
        OperatorError: It cannot be parsed.
    """
    if file.raw is None:
        lost = f"{where.path} is gone, and stays so; it had {_listed(changed.moved)}." if changed.moved else ""
        return Restoration(raw=None, how="unchanged", notes=(lost,) if lost else ())
    if file.raw == changed.after.encode():
        return Restoration(raw=None if changed.before is None else changed.before.encode(), how="restored")
    now, before = client_text.tree_of(where, file.text), _tree(where, changed.before)
    wanted = _wanted(where, name, now, before, changed.moved)
    texts = (_unmarked(changed.before), _unmarked(changed.after), file.text)
    containers = dict.fromkeys((*([where.servers] if where.servers else []), *(keys[:-1] for keys in changed.moved)))
    for merged in (_with_containers(where, *texts, tuple(containers)), text_merge.without_change(*texts)):
        if merged is not None and _is(where, merged, wanted):
            gone = changed.before is None and not merged.strip()
            return Restoration(raw=None if gone else file.encoded(merged), how="merged")
    return _by_value(where, name, file, now, before, changed.moved)


def _with_containers(where: Place, before: str, after: str, now: str, containers: Sequence[KeyPath]) -> str | None:
    """``now`` with the objects of servers that nobody has changed since as they were; None where somebody has."""
    if where.format != "json":
        return None
    places = []
    for path in containers:
        try:
            was, made, found = (json_edit.span(text, path) for text in (before, after, now))
        except json_edit.JsonEditError:
            return None
        if was is None or made is None or found is None or not _reads_the_same(after[slice(*made)], now[slice(*found)]):
            return None
        places.append((found, before[slice(*was)]))
    for (start, end), text in sorted(places, reverse=True):
        now = now[:start] + text + now[end:]
    return now


def _reads_the_same(one: str, other: str) -> bool:
    """Whether only a program that writes no comments wrote it anew since."""
    try:
        return one == other or bool(jsonc.loads(one) == json.loads(other))
    except ValueError:
        return False


def texts_without(where: Place, name: str) -> dict[Path, str]:
    """What the files that were changed for a connection would say without it.

    Raises:
        OperatorError: One cannot be read or parsed.
    """
    texts = {}
    for one in file_changes(where, name):
        place = where if one.path == where.path.absolute() else other_place(where, one.path)
        raw = restoration(place, name, read(one.path), one).raw
        texts[one.path] = raw.decode("utf-8-sig") if raw else NOTHING[place.format]
    return texts


def other_place(where: Place, path: Path) -> Place:
    """Another file of the client's, that PML itself does not stand in."""
    return Place(where.client, path, (), "toml" if path.suffix == ".toml" else "json")


def _by_value(
    where: Place, name: str, file: FileText, now: Any, before: Any, moved: Sequence[KeyPath]
) -> Restoration:  # fmt: skip
    """The servers put back as they read, in whatever way they were written."""
    text, notes = file.text, []
    if _is_pml(where, name, now):
        text = client_text.without_server(where, text, name)
    back = [keys for keys in moved if at(now, keys) is None]
    taken = [keys for keys in moved if at(now, keys) not in (None, at(before, keys))]
    for keys in back:
        place = Place(where.client, where.path, keys[:-1], where.format)
        text = client_text.with_server(place, text, keys[-1], at(before, keys))
    if back:
        notes.append(f"{_listed(back)} is put back as it read, because what stands around it was changed since.")
    if taken:
        notes.append(f"{_listed(taken)} stays as it is: there is one of this name now that differs.")
    return Restoration(raw=file.encoded(text), how="removed", notes=tuple(notes))


def _wanted(where: Place, name: str, now: Any, before: Any, moved: Sequence[KeyPath]) -> Any:
    tree = without(now, (*where.servers, name)) if _is_pml(where, name, now) else now
    for keys in moved:
        if at(tree, keys) is None:
            tree = with_value(tree, keys, at(before, keys))
    return tree


def _is_pml(where: Place, name: str, tree: Any) -> bool:
    return bool(where.servers) and client_text.is_pml(at(tree, (*where.servers, name)))


def _is(where: Place, text: str, wanted: Any) -> bool:
    try:
        return bool(_bare(_tree(where, text)) == _bare(wanted))
    except OperatorError:
        return False


def _tree(where: Place, text: str | None) -> Any:
    return client_text.tree_of(where, _unmarked(text))


def _unmarked(text: str | None) -> str:
    """Without the byte order mark."""
    return (text or "").removeprefix("\ufeff")


def _bare(tree: Any) -> Any:
    """``tree`` without mappings that hold nothing."""
    if not isinstance(tree, Mapping):
        return tree
    inner = {name: _bare(value) for name, value in tree.items()}
    return {name: value for name, value in inner.items() if value != {}}


def _listed(servers: Sequence[KeyPath]) -> str:
    return ", ".join(keys[-1] for keys in servers)


def _record(where: Place, name: str) -> Path:
    known = json.dumps([where.client, str(where.path.absolute()), name])
    return home() / FOLDER / f"{where.client}-{hashlib.sha256(known.encode()).hexdigest()[:16]}.json"
