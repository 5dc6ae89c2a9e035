"""Which projects' files the user has agreed to, as they were then.

A folder is a stranger's until its user says otherwise: its configuration names commands to start and code to run. The
user agrees to what stands in a file and in the files of Python that it names (``pml trust``); of anything else, not
even the mistakes are told.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pml_clients.trees import at
from pml_kit.errors import OperatorError

from .files import PRESETS, PROJECT_FILES, home, parsed, raw_of
from .private_files import write_json

FILE = "trusted.json"
NOT_YET, CHANGED, TAKEN_BACK = "is not trusted yet", "has changed since it was trusted", "is not trusted any more"
LOCAL = ("gateway", "local")


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the user agreed to about one file."""

    digest: str
    """Of the file; ``""``: it was taken back."""
    runs: Mapping[str, str]
    """Digests of the files of Python that it names, by absolute path."""


@dataclass(frozen=True, slots=True)
class FileTree:
    """A configuration file that counts."""

    path: Path
    tree: dict[str, Any]
    is_clients: bool
    """It is an MCP client's, and gives servers only."""
    is_projects: bool
    """It may add and narrow, never loosen."""


@dataclass(frozen=True, slots=True)
class FileSet:
    """All configuration files that count, and those that do not."""

    files: tuple[FileTree, ...]
    """First wins."""
    ignored: Mapping[Path, str]
    """Projects' files that the user has not agreed to, and what to do about each."""
    runs: Mapping[str, str]
    """Digests of the files of Python that trusted files name, by absolute path."""


def store() -> Path:
    """The file of agreements; it need not exist."""
    return home() / FILE


def candidates(project: Path, config: Path | None = None) -> list[Path]:
    """Every file that counts if it exists, the project's or ``config`` before the user's."""
    mine = [project / name for name in PROJECT_FILES] if config is None else [config]
    users = [home() / name for name in ("config.toml", "config.yaml", "config.yml")]
    return list(dict.fromkeys([*mine, *users]))


def read(project: Path, config: Path | None = None, without: Path | None = None) -> FileSet:
    """Read every file that counts.

    A file given by name is its user's own, unless it was agreed to as a project's: that it stays, so that a client
    that was connected once does not run what the file says by now.

    Args:
        project: Folder whose files count.
        config: Takes the place of the project's; is there or it is a mistake.
        without: A file that does not count.

    Raises:
        OperatorError: A file that counts cannot be read or parsed, or ``config`` was trusted as something else.
    """
    kept = agreements()
    ignored: dict[Path, str] = {}
    files: list[FileTree] = []
    runs: dict[str, str] = {}
    for path in candidates(project, config):
        if path == without or (path != config and not path.is_file()):
            continue
        place = place_of(path)
        is_projects = str(place) in kept or (path != config and place.parent != home().resolve())
        if not is_projects:
            files.append(FileTree(path, *parsed(raw_of(path), path), is_projects=False))
            continue
        why, raw = _examined(path, kept.get(str(place)))
        if raw is None and path == config:
            raise OperatorError(f"{path}: {why}", f"Read it, then: pml trust {path}")
        if raw is None:
            ignored[path] = f"{path} is ignored: it {why}; read it, then: pml trust {path}"
            continue
        files.append(FileTree(path, *parsed(raw, path), is_projects=True))
        runs.update(kept[str(place)].runs)
    return FileSet(tuple(files), ignored, runs)


def _examined(path: Path, agreement: Agreement | None) -> tuple[str, bytes | None]:
    """Why a file does not count, or what stands in it: the same bytes that were compared."""
    if agreement is None:
        return NOT_YET, None
    if not agreement.digest:
        return TAKEN_BACK, None
    raw = raw_of(path)
    why = _examined_raw(raw, agreement)
    return why, None if why else raw


def _examined_raw(raw: bytes, agreement: Agreement) -> str:
    if digest_of(raw) != agreement.digest:
        return CHANGED
    other = [name for name, digest in agreement.runs.items() if _digest_of_file(Path(name)) != digest]
    return f"names {other[0]}, which {CHANGED}" if other else ""


def state_of(path: Path) -> str:
    """``"trusted"`` for a file that counts as it is now, or why it does not."""
    try:
        return _examined(path, agreements().get(str(place_of(path))))[0] or "trusted"
    except OperatorError:
        return "cannot be read"


def is_trusted(path: Path) -> bool:
    """Whether the user agreed to a file as it is now."""
    return state_of(path) == "trusted"


def raw_if_trusted(path: Path) -> bytes | None:
    """What stands in a project's file; None when the user has not agreed to that."""
    return _examined(path, agreements().get(str(place_of(path))))[1]


def in_force(project: Path) -> list[Path]:
    """The configuration files that count here, the project's before the user's."""
    mine = [path for path in candidates(project) if path.is_file()]
    return [path for path in mine if place_of(path).parent == home().resolve() or is_trusted(path)]


def place_of(path: Path) -> Path:
    """The one name of a file: its folder without links. What it names is looked for there, wherever it is linked to."""
    return path.absolute().parent.resolve() / path.name


def digest_of(raw: bytes) -> str:
    """What two contents have in common only if they are the same."""
    return hashlib.sha256(raw).hexdigest()


def _digest_of_file(path: Path) -> str:
    try:
        return digest_of(path.read_bytes())
    except OSError:
        return "none"


def runs_of(tree: Mapping[str, Any], folder: Path) -> list[Path]:
    """The files of Python that a configuration in ``folder`` names, each as an absolute path."""
    value = at(tree, LOCAL)
    names = [name for name in value if isinstance(name, str)] if isinstance(value, (list, tuple)) else []
    return [Path(os.path.normpath(folder / Path(name).expanduser())) for name in dict.fromkeys(names)]


def projects_files(folder: Path) -> list[Path]:
    """The files of a folder that can be agreed to."""
    return [path for name in (*PROJECT_FILES, PRESETS) if (path := folder / name).is_file()]


def agreement_to(path: Path, raw: bytes) -> Agreement:
    """What agreeing to a file with these contents comes to.

    Raises:
        OperatorError: It cannot be parsed, or names a file that cannot be read.
    """
    tree, _ = parsed(raw, path)
    named = runs_of(tree, place_of(path).parent)
    return Agreement(digest_of(raw), {str(one): digest_of(raw_of(one)) for one in named})


def agreements() -> dict[str, Agreement]:
    """All that the user has agreed to, by absolute path.

    Raises:
        OperatorError: The file of agreements cannot be read, or somebody else could have written it.
    """
    try:
        with store().open("rb") as file:
            _check(os.fstat(file.fileno()))
            said = json.load(file)["files"]
        return {path: Agreement(one["sha256"], dict(one["runs"])) for path, one in said.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise OperatorError(f"{store()}: cannot be read: {exc}", "Remove it, and trust anew what you trust.") from exc


def _check(found: os.stat_result) -> None:
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if hasattr(os, "getuid") and (found.st_uid not in (os.getuid(), 0) or others_write):
        raise OperatorError(f"{store()}: others can write it", f"See whether it is yours, then: chmod 600 {store()}")


def keep(made: Mapping[Path, Agreement | None]) -> None:
    """Write agreements down, None for one that is taken back; the others stay.

    Raises:
        OperatorError: They cannot be written.
    """
    try:
        home().mkdir(parents=True, exist_ok=True)
        with _alone():
            kept = agreements()
            kept |= {str(place_of(path)): one or Agreement("", {}) for path, one in made.items()}
            files = {path: {"sha256": one.digest, "runs": dict(one.runs)} for path, one in sorted(kept.items())}
            write_json(store(), {"files": files})
    except OSError as exc:
        raise OperatorError(f"{store()}: cannot be written: {exc.strerror}", "Make the folder writable.") from exc


@contextlib.contextmanager
def _alone() -> Any:
    """One at a time changes the file."""
    with store().with_suffix(".lock").open("a") as lock:
        try:
            import fcntl
        except ImportError:
            yield
            return
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def follow(path: Path, before: bytes | None, raw: bytes) -> str:
    """Agree to a project's file that a command of its user's writes, if what stood there was agreed to.

    Args:
        path: The file.
        before: What stood there; None for no file.
        raw: What stands there now.

    Returns:
        Why it does not count, and what to do; ``""`` when it does.
    """
    if path.name not in PROJECT_FILES:
        return ""
    kept = agreements().get(str(place_of(path)))
    if before is not None and (kept is None or _examined_raw(before, kept)):
        return f"{path} does not count: it {NOT_YET}; read it, then: pml trust {path}"
    keep({path: agreement_to(path, raw)})
    return ""
